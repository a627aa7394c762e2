"""What an attempt records: all that is filled, all that is assigned, and all that has to leave."""

from dataclasses import replace

import msgspec
import pytest

from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.api.muster_v1alpha1 import GangPlan
from muster.core.words.gang import GangId, PodId
from muster.runtime.commit import step
from muster.runtime.commit.view import GangView, Memory, Victim
from muster.runtime.plan import Leaving, Plan, PodRef, decode
from muster.runtime.writes import CreateGang, CreatePlan
from tests.runtime.test_commit import LIMITS, A, B, G, group, place, plan, pod, view

#: One of three is bound; the core has moved another since.
MOVED = view(group(3, [pod(0, "a"), pod(1), pod(2)]), {1: B, 2: A}, plan({0: A, 1: A, 2: A}))
LEAVES = Leaving(GangId("ns/v"), None, (PodRef("ns", "v-0", PodId("v0")),))
GONE = Leaving(GangId("ns/w"), None, (PodRef("ns", "w-0", PodId("w0")),))
CALLED = Leaving(GangId("ns/x"), None, (PodRef("ns", "x-0", PodId("x0")),))


def recorded(seen: GangView, memory: Memory | None = None) -> Plan:
    *_, create = step(seen, memory or Memory(), 0.0, LIMITS).writes
    assert isinstance(create, CreatePlan)
    return create.plan


def test_the_next_attempt_carries_over_what_is_filled() -> None:
    anew = recorded(MOVED)
    assert anew.nodes == {place(0): A, place(1): B, place(2): A}
    assert anew.pods == {place(i): PodId(f"u{i}") for i in range(3)}
    assert (anew.gang, anew.record, anew.namespace, anew.epoch, anew.attempt) == (G, "job-g", "ns", 1, 2)


def test_the_next_attempt_carries_over_victims_that_have_not_gone_and_adds_those_called_since() -> None:
    victims = (Victim(LEAVES, None, (pod(7, "a"),), ()), Victim(GONE, None, (), ()))
    plans = (replace(MOVED.plans[0], victims=(LEAVES, GONE)),)
    seen = replace(MOVED, plans=plans, victims=victims, called=(LEAVES, CALLED))
    assert recorded(seen).victims == (LEAVES, CALLED)


@pytest.mark.parametrize(
    ("memory", "status", "attempt"),
    [(0, 0, 2), (5, 0, 6), (0, 7, 8), (5, 7, 8)],
    ids=["after the open plan", "after what this leader made", "after what the Gang says", "after all"],
)
def test_attempts_only_grow(memory: int, status: int, attempt: int) -> None:
    record = msgspec.convert({"status": {"attempt": status}}, GangRecord)
    assert recorded(replace(MOVED, record=record), Memory(attempt=memory)).attempt == attempt


def test_what_is_recorded_is_what_the_object_says_and_the_gang_comes_first() -> None:
    gang, create = step(MOVED, Memory(), 0.0, LIMITS).writes
    assert isinstance(gang, CreateGang)
    assert isinstance(create, CreatePlan)
    read = decode(msgspec.convert(create.body, GangPlan))
    assert (read.nodes, read.pods) == (create.plan.nodes, create.plan.pods)
    (alone,) = step(replace(MOVED, record=GangRecord()), Memory(), 0.0, LIMITS).writes
    assert isinstance(alone, CreatePlan)
