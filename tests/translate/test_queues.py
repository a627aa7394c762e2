"""Queues as the core is told of them, and what it says of them."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from muster.api.base import Condition
from muster.api.muster_v1alpha1 import Queue
from muster.core.cycle import Scheduler
from muster.core.words.events import GangSubmitted
from muster.core.words.gang import PodSet, QueueOrder
from muster.core.words.gang import Queue as Rules
from muster.translate.queues import conditions, queue_changed, status_of
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


def test_a_queue_that_covers_an_adopted_one_says_so() -> None:
    core = Scheduler()
    core.apply(queue_changed(queue()))
    account = core.world.queues.find("a")
    assert account is not None
    (told,) = conditions(account, [], NOW, covers="Queue of Volcano")
    assert (told.status, told.message) == (
        "True",
        "it counts, and the Queue of Volcano of this name does not",
    )
