"""What an attempt records: all that is filled, all that is assigned, and all that has to leave."""

from dataclasses import replace

import msgspec
import pytest

from muster.api.base import Object, ObjectMeta
from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.api.muster_v1alpha1 import GangStatus, OpenPlan
from muster.core.words.gang import GangId, PodId
from muster.effects import Create, Patch
from muster.runtime.commit.step import step
from muster.runtime.commit.view import GangView, Limits, RetryState, Victim
from muster.runtime.plan_record import PlacementPlan, PodRef, VictimRef, found
from muster.runtime.writes import Write, without_nulls
from tests.runtime.brief import brief
from tests.runtime.test_commit import LIMITS, A, B, G, group, place, plan, pod, view

#: One of three is bound; the core has moved another since.
MOVED = view(group(3, [pod(0, "a"), pod(1), pod(2)]), {1: B, 2: A}, plan({0: A, 1: A, 2: A}))
LEAVES = VictimRef(GangId("ns/v"), None, (PodRef("ns", "v-0", PodId("v0")),))
GONE = VictimRef(GangId("ns/w"), None, (PodRef("ns", "w-0", PodId("w0")),))
CALLED = VictimRef(GangId("ns/x"), None, (PodRef("ns", "x-0", PodId("x0")),))


def recorded(seen: GangView, state: RetryState | None = None) -> PlacementPlan:
    *_, create = step(seen, state or RetryState(), 0.0, LIMITS).writes
    return read(create)


def read(write: Write) -> PlacementPlan:
    assert isinstance(write, (Create, Patch))
    assert isinstance(write.body, dict)
    name = {"metadata": {"name": "job-g", "namespace": "ns", "uid": "u", "resourceVersion": "1"}}
    plan = found(msgspec.convert(without_nulls({**write.body, **name}), GangRecord))
    assert isinstance(plan, PlacementPlan)
    return plan


def test_the_next_attempt_carries_over_what_is_filled() -> None:
    again = recorded(MOVED)
    assert again.nodes == {place(0): A, place(1): B, place(2): A}
    assert again.pods == {place(i): PodId(f"u{i}") for i in range(3)}
    assert (again.gang, again.record, again.namespace, again.epoch, again.attempt) == (G, "job-g", "ns", 1, 2)


def test_the_next_attempt_carries_over_victims_that_have_not_gone_and_adds_later_ones() -> None:
    victims = (Victim(LEAVES, None, (pod(7, "a"),), ()), Victim(GONE, None, (), ()))
    plans = (replace(plan({0: A, 1: A, 2: A}), victims=(LEAVES, GONE)),)
    seen = replace(MOVED, plans=plans, victims=victims, chosen=(LEAVES, CALLED))
    assert recorded(seen).victims == (LEAVES, CALLED)


@pytest.mark.parametrize(
    ("state", "status", "attempt"),
    [(0, 0, 2), (5, 0, 6), (0, 7, 8), (5, 7, 8)],
    ids=["after the open plan", "after what this leader made", "after what the Gang says", "after all"],
)
def test_attempts_only_grow(state: int, status: int, attempt: int) -> None:
    record = msgspec.convert({"status": {"attempt": status}}, GangRecord)
    assert recorded(replace(MOVED, record=record), RetryState(attempt=state)).attempt == attempt


RECORDED = replace(MOVED, record=GangRecord(metadata=ObjectMeta(resource_version="7")))
LARGE = replace(LIMITS, held_plan=0)


@pytest.mark.parametrize(
    ("seen", "limits", "writes"),
    [
        (MOVED, LIMITS, ["create Gang with plan"]),
        (RECORDED, LIMITS, ["record plan"]),
        (MOVED, LARGE, ["create Gang", "create GangPlan"]),
        (RECORDED, LARGE, ["create GangPlan"]),
    ],
    ids=["small", "small, recorded", "large", "large, recorded"],
)
def test_a_small_plan_is_recorded_in_its_gang_and_a_large_one_after_it(
    seen: GangView, limits: Limits, writes: list[str]
) -> None:
    assert list(map(brief, step(seen, RetryState(), 0.0, limits).writes)) == writes


NEW = ObjectMeta(uid="u", resource_version="7")
LAST = GangStatus(epoch=3, attempt=4)
TOLD = {"/metadata/uid": "u", "/status/epoch": 3, "/status/attempt": 4}


@pytest.mark.parametrize(
    ("record", "tests"),
    [
        (GangRecord(metadata=NEW), {}),
        (GangRecord(metadata=NEW, status=LAST), TOLD),
        (
            GangRecord(metadata=NEW, status=LAST, plan=OpenPlan(epoch=3, attempt=4)),
            TOLD | {"/plan/epoch": 3, "/plan/attempt": 4},
        ),
    ],
    ids=["as a whole", "by its last attempt", "by its plan"],
)
def test_a_plan_in_its_gang_is_recorded_only_over_the_gang_as_it_was_seen(
    record: GangRecord, tests: Object
) -> None:
    (write,) = step(replace(MOVED, record=record), RetryState(), 0.0, LIMITS).writes
    assert isinstance(write, Patch)
    assert isinstance(write.body, dict)
    assert write.tests == tests
    assert write.body.get("metadata") == (None if tests else {"resourceVersion": "7"})
    assert write.body["status"]["phase"] == "Starting"
