"""Queues as the core is told of them, and what it says of them."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api.base import AnyKind, Condition
from muster.api.kinds import QUEUE, QUEUE_VOLCANO
from muster.api.muster_v1alpha1 import Queue
from muster.api.volcano_v1beta1 import Queue as VolcanoQueue
from muster.core.cycle import Scheduler
from muster.core.words.events import GangSubmitted
from muster.core.words.gang import PodSet, QueueOrder
from muster.core.words.gang import Queue as Rules
from muster.kube.decode import decode
from muster.translate.queues import (
    QueueObjects,
    conditions,
    counting,
    effective,
    queue_changed,
    status_of,
)
from tests.core.words import GPU, gang, node, shape

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def queue(**spec: Any) -> Queue:  # Any: JSON
    return msgspec.convert({"metadata": {"name": "a"}, "spec": spec}, Queue)


def test_an_empty_queue_has_the_default_rules() -> None:
    assert queue_changed(queue()).queue == Rules("a")


def test_everything() -> None:
    written = queue(
        parent="research",
        weight=3,
        guarantee={"cpu": "0.0005", "memory": "1.5"},
        deserved={"memory": "1.5"},
        capability={GPU: "32"},
        order="fifo",
        reclaimable=False,
        closed=True,
        allow={"namespaces": ["ml", "cv"], "users": ["eve"]},
        maxGangs=7,
    )
    assert queue_changed(written).queue == Rules(
        "a",
        parent="research",
        weight=3,
        guarantee=(("cpu", 1), ("memory", 2)),
        deserved=(("memory", 1),),
        capability=((GPU, 32),),
        order=QueueOrder.FIFO,
        reclaimable=False,
        closed=True,
        namespaces=("cv", "ml"),
        users=("eve",),
        max_gangs=7,
    ), "guarantees are rounded up, limits down"


def test_objects_that_no_server_should_have_accepted() -> None:
    rules = queue_changed(queue(order="lifo", guarantee={"cpu": "lots"}, capability={"cpu": "-1"})).queue
    assert (
        rules.fault
        == (
            "spec.guarantee.cpu: 'lots' is not a quantity; write a number such as 500m, 2 or 1.5Gi; "
            "spec.capability.cpu is -1; write 0 or more"
        )
        or "spec.order is 'lifo'; write priority, fifo, fair" in rules.fault
    )


def test_status() -> None:
    muster = Scheduler()
    muster.apply(node("n", gpu=8, pods=None))
    muster.apply(queue_changed(queue()))
    muster.apply(GangSubmitted(gang("g", PodSet("main", shape(gpu=2, cpu=500), 4, 4), minimum=4)))
    muster.decide(0.0)
    account = muster.world.queues.find("default")
    assert account is not None
    assert status_of(account, muster.world.queues) == {
        "used": {"cpu": "2", GPU: "8", "pods": "4"},
        "entitled": {"cpu": "2", GPU: "8", "memory": "0", "pods": "4"},
        "borrowed": {},
        "waiting": 0,
        "standing": 1,
    }


def test_parts_of_gpus_are_written_as_parts_of_cpus_are() -> None:
    muster = Scheduler()
    muster.apply(node("n", gpu=8, pods=None))
    shared = PodSet("main", shape(share=250, cpu=250), 5, 5)
    muster.apply(GangSubmitted(gang("g", shared, minimum=5)))
    muster.decide(0.0)
    account = muster.world.queues.find("default")
    assert account is not None
    assert status_of(account, muster.world.queues)["used"] == {"cpu": "1.25", GPU: "1.25", "pods": "5"}


def test_a_condition_keeps_its_time() -> None:
    muster = Scheduler()
    muster.apply(queue_changed(queue(parent="nowhere")))
    account = muster.world.queues.find("a")
    assert account is not None
    (told,) = conditions(account, [], NOW)
    assert told == Condition("Ready", "False", "Invalid", "its parent nowhere does not exist", NOW)
    assert conditions(account, [told], datetime(2027, 1, 1, tzinfo=UTC)) == [told]
    muster.apply(queue_changed(queue()))
    account = muster.world.queues.find("a")
    assert account is not None
    assert conditions(account, [told], NOW)[0].status == "True"


def volcano(name: str = "a", state: str = "", **spec: Any) -> VolcanoQueue:  # Any: JSON
    body = {"metadata": {"name": name}, "spec": spec, "status": {"state": state}}
    return msgspec.convert(body, VolcanoQueue)


def test_a_queue_of_volcano_is_read_as_one_of_muster() -> None:
    theirs = volcano(
        parent="dept",
        weight=3,
        capability={"cpu": 8},
        deserved={"cpu": "4"},
        guarantee={"resource": {"cpu": "500m"}},
        reclaimable=False,
    )
    found = effective(None, theirs)
    assert found is not None
    assert queue_changed(found).queue == Rules(
        "a",
        parent="dept",
        weight=3,
        capability=(("cpu", 8000),),
        deserved=(("cpu", 4000),),
        guarantee=(("cpu", 500),),
        reclaimable=False,
        adopted=True,
    )


@pytest.mark.parametrize("state", ["Closed", "Closing", "Open", "Unknown", ""])
def test_its_state_closes_it(state: str) -> None:
    found = effective(None, volcano(state=state))
    assert found is not None
    assert queue_changed(found).queue.closed == state.startswith("Clos")
    assert found.spec.reclaimable
    assert found.spec.parent == "root"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("affinity", {"nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["g"]}}),
        ("extendClusters", [{"name": "c"}]),
        ("priority", 5),
    ],
)
def test_a_field_that_is_not_read_makes_it_unusable_and_is_named(field: str, value: Any) -> None:
    found = effective(None, volcano(**{field: value}))
    assert found is not None
    assert f"spec.{field} of a Queue of Volcano is not read" in queue_changed(found).queue.fault


@pytest.mark.parametrize("kind", [QUEUE, QUEUE_VOLCANO])
@pytest.mark.parametrize(
    ("field", "value"),
    [("weight", 10**30), ("capability", {"cpu": {"a": 1}}), ("reclaimable", "perhaps"), ("deserved", [1])],
)
def test_a_queue_that_cannot_be_read_whole_is_unusable(kind: AnyKind, field: str, value: Any) -> None:
    body = {"metadata": {"name": "a", "uid": "u"}, "spec": {field: value}}
    found = QueueObjects().change(kind, "a", decode(kind, msgspec.json.encode(body)))[1]
    assert found is not None
    assert queue_changed(found).queue.fault.startswith(f"cannot be read: spec.{field}: ")


def test_muster_s_own_queue_counts_and_root_is_no_queue() -> None:
    own = queue(weight=2)
    assert effective(own, volcano(weight=9)) is own
    assert effective(None, volcano("root")) is None
    assert [each.spec.weight for each in counting([volcano(weight=9), own, volcano("root")])] == [2]


def test_of_two_queues_of_a_name_the_other_counts_once_the_first_is_gone() -> None:
    known, own, theirs = QueueObjects(), queue(weight=2), volcano(weight=9)
    assert known.change(QUEUE_VOLCANO, "a", theirs)[0] is None
    before, now = known.change(QUEUE, "a", own)
    assert before is not None
    assert (before.spec.weight, now) == (9, own)
    assert known.change(QUEUE_VOLCANO, "a", volcano(weight=5)) == (own, own), "it decides nothing"
    before, now = known.change(QUEUE, "a", None)
    assert before is own
    assert now is not None
    assert now.spec.weight == 5
    assert known.change(QUEUE_VOLCANO, "a", None)[1] is None


def test_a_queue_that_hides_one_of_volcano_says_so() -> None:
    core = Scheduler()
    core.apply(queue_changed(queue()))
    account = core.world.queues.find("a")
    assert account is not None
    (told,) = conditions(account, [], NOW, covers=True)
    assert (told.status, told.message) == (
        "True",
        "it counts, and the Queue of Volcano of this name does not",
    )
