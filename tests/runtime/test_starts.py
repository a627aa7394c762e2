"""Starts of gangs, followed from the decision to the outcome."""

import logging
from typing import Any

import pytest

from muster.core.words.decisions import Assign, Evict, Explanation, Release, Victim, Wait
from muster.core.words.events import (
    CommitFailed,
    Footprint,
    GangRemoved,
    GangSubmitted,
    PlacesLost,
    PodsBound,
)
from muster.core.words.gang import Code, Gang, GangId, NodeName, Place, PodId, PodSet, Shape
from muster.journal import Began
from muster.runtime.starts import COMMITTED, Decisions, InDecision, Outcome, Start

G, H = GangId("ns/g"), GangId("ns/h")
A, B = Place("main", 0), Place("main", 1)
NODE = NodeName("n")
SUBMITTED = GangSubmitted(Gang(G, (PodSet("main", Shape(()), 2, 2),), 2, submitted=5.0, queue="q"))
ASSIGNED = Assign(G, {A: NODE, B: NODE})


def bound(place: Place | None) -> PodsBound:
    return PodsBound({PodId(f"p{place}"): place}, NODE, (), G)


@pytest.mark.parametrize(
    ("then", "ended"),
    [
        ([bound(A)], []),
        ([bound(None), bound(A)], []),
        ([bound(A), bound(B)], [Outcome.BOUND]),
        ([bound(A), Release(G, frozenset({B}))], [Outcome.RELEASED]),
        ([bound(A), PlacesLost(G, frozenset({A}), frozenset(), 0.0), bound(B)], []),
        ([CommitFailed(G, 20.0, "no")], [Outcome.FAILED]),
        ([GangRemoved(G)], [Outcome.REMOVED]),
        ([Evict((Victim(G),), H)], [Outcome.PREEMPTED]),
        ([Evict((Victim(G, frozenset({PodId("p")})),), H)], []),
        ([ASSIGNED, bound(A), bound(B)], [Outcome.BOUND]),
        ([bound(A), bound(B), ASSIGNED, CommitFailed(G, 20.0, "no")], [Outcome.BOUND, Outcome.FAILED]),
    ],
)
def test_a_start_ends_once_its_places_are_filled_or_given_up(then: list[Any], ended: list[Outcome]) -> None:
    decisions, begun, ends = Decisions(), list[Start](), list[Outcome]()
    decisions.on_start.append(begun.append)
    decisions.on_end.append(lambda start, at, outcome: ends.append(outcome))
    for at, what in enumerate([Began(7), SUBMITTED, ASSIGNED, *then], 8):
        decisions.write(float(at), what)
    assert ends == ended
    assert (begun[0].id, begun[0].queue, begun[0].waited, begun[0].pods, begun[0].nodes) == (
        "7-1",
        "q",
        5.0,
        2,
        1,
    )
    assert all(later.waited is None for later in begun[1:] if ends[0] is Outcome.BOUND)
    assert [start.id for start in begun] == [f"7-{number}" for number in range(1, len(begun) + 1)]


WHOLE = [bound(A), bound(B)]
LEAVING = PodsBound({PodId("pa"): A}, NODE, (), G, Footprint(leaving=True))
PREEMPTED = Evict((Victim(G),), H)


@pytest.mark.parametrize(
    ("before", "waited"),
    [
        # submitted at 5; these happen at 10, 11 and so on; the assignment is at 100
        ([SUBMITTED], 95.0),
        ([SUBMITTED, SUBMITTED], 95.0),
        ([], None),
        # another leader started it
        ([SUBMITTED, *WHOLE], None),
        ([*WHOLE, SUBMITTED], None),
        ([SUBMITTED, *WHOLE, SUBMITTED], None),
        # it runs, and a pod of it is replaced
        ([SUBMITTED, ASSIGNED, *WHOLE], None),
        ([SUBMITTED, ASSIGNED, *WHOLE, ASSIGNED, CommitFailed(G, 0.0, "no")], None),
        # preempted, by this leader, when it was started by this one or the last
        ([SUBMITTED, ASSIGNED, *WHOLE, PREEMPTED], 86.0),
        ([SUBMITTED, *WHOLE, PREEMPTED, LEAVING], 87.0),
        ([SUBMITTED, *WHOLE, PREEMPTED, SUBMITTED], 87.0),
        ([SUBMITTED, *WHOLE, Evict((Victim(G, frozenset({PodId("p")})),), H)], None),
        # a start that came to nothing: it still waits
        ([SUBMITTED, ASSIGNED, CommitFailed(G, 0.0, "no")], 95.0),
        ([SUBMITTED, ASSIGNED, bound(A), CommitFailed(G, 0.0, "no"), LEAVING], 95.0),
        ([SUBMITTED, ASSIGNED, Release(G, frozenset({A, B}))], 95.0),
        # a namesake, submitted at 5 as well
        ([SUBMITTED, *WHOLE, GangRemoved(G), SUBMITTED], 95.0),
    ],
)
def test_a_gang_waits_from_its_submission_or_preemption_until_it_runs(
    before: list[Any], waited: float | None
) -> None:
    decisions, begun = Decisions(), list[Start]()
    decisions.on_start.append(begun.append)
    for at, what in enumerate(before, 10):
        decisions.write(float(at), what)
    decisions.write(100.0, ASSIGNED)
    assert begun[-1].waited == waited
    for gang in (G, H):
        decisions.write(101.0, GangRemoved(gang))
    assert not [kept for kept in vars(decisions).values() if isinstance(kept, dict | set) and kept]


def test_the_last_reason_is_kept_until_the_gang_starts_and_a_new_one_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    decisions = Decisions()
    decisions.write(1.0, SUBMITTED)
    for at, free in enumerate("110"):
        why = Explanation(Code.INSUFFICIENT_CAPACITY, "placement", f"{free} CPUs free")
        decisions.write(float(at), Wait(G, why))
    assert decisions.reasons == {G: Code.INSUFFICIENT_CAPACITY}
    assert caplog.messages == ["gang ns/g waits: InsufficientCapacity: 1 CPUs free"]
    decisions.write(9.0, ASSIGNED)
    assert decisions.reasons == {}


def test_log_lines_about_a_start_carry_its_decision() -> None:
    decisions = Decisions()
    for what in (Began(7), SUBMITTED, ASSIGNED):
        decisions.write(9.0, what)
    record = logging.makeLogRecord({"msg": "refused"})
    token = COMMITTED.set(G)
    try:
        assert InDecision(decisions).filter(record)
    finally:
        COMMITTED.reset(token)
    assert (vars(record)["gang"], vars(record)["decision"]) == (G, "7-1")
