"""`commit.step` and `commit.learn`: what is written next, in tables that need no cluster."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from muster.api import kinds
from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.api.muster_v1alpha1 import GangStatus, Source
from muster.core.words.decisions import Explanation
from muster.core.words.events import CommitFailed, PlacesLost
from muster.core.words.gang import Code, Gang, GangId, NodeName, Place, PodId, PodSet, Shape
from muster.effects import Bind, Create, Patch
from muster.kube.errors import Conflict, Invalid, ServerError, TooManyRequests, Unanswered
from muster.runtime.commit.outcomes import learn
from muster.runtime.commit.places import minimum_met
from muster.runtime.commit.refreshes import Refresh
from muster.runtime.commit.step import step
from muster.runtime.commit.view import NEVER, GangView, Limits, RetryState
from muster.runtime.plan_record import (
    PlacementPlan,
    Plan,
    PlanTooLarge,
    PodRef,
    RecordedPod,
    RecreationPlan,
    VictimRef,
)
from muster.runtime.writes import delete_plan
from muster.translate.group import Group, Members, Owner
from muster.translate.status import gang_record
from tests.runtime.brief import brief, status_in

LIMITS = Limits()
G = GangId("ns/g")
A, B = NodeName("a"), NodeName("b")
SHAPE = Shape((("cpu", 1000),))


def place(index: int) -> Place:
    return Place("w", index)


def pod(index: int, node: str = "", gates: Sequence[str] = ()) -> Pod:
    metadata = {"name": f"p{index}", "namespace": "ns", "uid": f"u{index}", "resourceVersion": "1"}
    spec = {"nodeName": node, "schedulingGates": [{"name": gate} for gate in gates]}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


def group(size: int, pods: list[Pod], *, suspended: bool = False, **changes: Any) -> Group:
    members = Members()
    for p in pods:
        members.put(p, None if p.spec.scheduling_gates else place(int(p.metadata.uid[1:])))
    made = Group(
        gang=Gang(G, (PodSet("w", SHAPE, size, size),), size, 0.0),
        namespace="ns",
        record="job-g",
        source=Source("batch/v1", "Job", "g", "uid"),
        owner=Owner(kinds.JOB, "g", "uid", "5", suspended, admission=True),
        members=members,
        retired=frozenset(),
        finished=False,
        controlled=True,
    )
    return replace(made, **changes)


def view(of: Group, assigned: dict[int, NodeName], *plans: Plan, **changes: Any) -> GangView:
    made = GangView(
        id=G,
        epoch=1,
        group=of,
        record=None,
        plans=plans,
        assigned={place(index): node for index, node in assigned.items()},
        nodes={"a", "b"},
    )
    return replace(made, **changes)


def plan(nodes: dict[int, NodeName], attempt: int = 1, epoch: int = 1) -> PlacementPlan:
    named = {place(index): node for index, node in nodes.items()}
    return PlacementPlan(G, "job-g", "ns", epoch, attempt, named, uid=f"plan-{epoch}-{attempt}")


def kinds_of(view: GangView, state: RetryState | None = None, now: float = 0.0) -> list[str]:
    return [brief(write) for write in step(view, state or RetryState(), now, LIMITS).writes]


TWO = {0: A, 1: B}
BOTH = [pod(0), pod(1)]

NEXT = {
    "a suspended gang with places is planned": (
        view(group(2, [], suspended=True), TWO),
        ["create Gang with plan"],
    ),
    "a plan resumes its owner": (view(group(2, [], suspended=True), TWO, plan(TWO)), ["resume Job"]),
    "no bind before the minimum can be reached": (view(group(2, BOTH[:1]), TWO, plan(TWO)), []),
    "all that are there are bound": (view(group(2, BOTH), TWO, plan(TWO)), ["bind", "bind"]),
    "no bind of a pod that has a scheduling gate": (
        view(group(2, [pod(0), pod(1, gates=["held"])]), TWO, plan(TWO)),
        [],
    ),
    "a whole gang's plan is deleted": (
        view(group(2, [pod(0, "a"), pod(1, "b")]), {}, plan(TWO)),
        ["delete GangPlan"],
    ),
    "one lost member is bound without a plan": (view(group(2, [pod(0, "a"), pod(1)]), {1: B}), ["bind"]),
    "two lost members are a new attempt": (view(group(2, BOTH), TWO), ["create Gang with plan"]),
    "no plan for less than the minimum": (view(group(3, BOTH), TWO), []),
    "where plan and core differ, the next attempt comes first": (
        view(group(2, BOTH), {0: B, 1: A}, plan(TWO)),
        ["create Gang with plan"],
    ),
    "of two plans the lower goes first": (
        view(group(2, BOTH), TWO, plan(TWO), plan(TWO, 2)),
        ["delete GangPlan"],
    ),
    "a late plan of an earlier leader goes": (
        view(group(2, BOTH), TWO, plan(TWO, epoch=1), epoch=2),
        ["delete GangPlan"],
    ),
    "a plan of an epoch that has not been goes": (
        view(group(2, BOTH), TWO, plan(TWO, epoch=999_999), epoch=2),
        ["delete GangPlan"],
    ),
    "a suspended gang that is not ours stays": (
        view(
            group(2, [], suspended=True, owner=Owner(kinds.JOB, "g", "uid", "5", True, admission=False)), TWO
        ),
        [],
    ),
}


@pytest.mark.parametrize(("seen", "writes"), NEXT.values(), ids=NEXT.keys())
def test_each_state_of_a_gang_leads_to_its_next_write(seen: GangView, writes: list[str]) -> None:
    assert kinds_of(seen) == writes


GIVEN_UP = RetryState(progress=(0, 3), since=0.0)
LATE = LIMITS.progress_timeout + 1
UNDONE = {
    "by one write, if the owner is ours": (
        view(group(3, [pod(0, "a")]), {}, plan(TWO)),
        ["suspend Job", "delete GangPlan"],
    ),
    "pod by pod, if another stage of the owner runs": (
        view(group(3, [pod(0, "a")]), {}, plan(TWO), owner_shared=True),
        ["evict"],
    ),
    "pod by pod, if the owner is not ours": (
        view(group(3, [pod(0, "a")], owner=None), {}, plan(TWO)),
        ["evict"],
    ),
    "not at all, without a controller": (
        view(group(3, [pod(0, "a")], owner=None, controlled=False), {}, plan(TWO)),
        ["delete GangPlan"],
    ),
    "by recreating them, if that is allowed": (
        view(group(3, [pod(0, "a")], owner=None, controlled=False, recreate=True), {}, plan(TWO)),
        ["record pods"],
    ),
    "not again, if the record could not be read": (
        view(
            group(3, [pod(0, "a")], owner=None, controlled=False, recreate=True),
            {},
            replace(plan(TWO), unreadable="not JSON"),
        ),
        ["delete GangPlan"],
    ),
    "by forgetting it, if nothing is bound": (
        view(group(3, [], owner=None), {}, plan(TWO)),
        ["delete GangPlan"],
    ),
}


@pytest.mark.parametrize(("seen", "writes"), UNDONE.values(), ids=UNDONE.keys())
def test_a_start_that_gets_nowhere_is_undone(seen: GangView, writes: list[str]) -> None:
    taken = step(seen, GIVEN_UP, LATE, LIMITS)
    assert [brief(write) for write in taken.writes] == writes
    (failed,) = taken.events
    assert isinstance(failed, CommitFailed)
    assert failed.until == LATE + LIMITS.back_off[0]


#: A gang of three that stood and of which one pod is left, with its plan if an attempt is under way.
SURVIVOR = [pod(0, "a")]
LOST = {1: B, 2: B}
SURVIVES: dict[str, tuple[list[Pod], dict[int, NodeName], float, list[str], list[str]]] = {
    "its replacements do not exist": (SURVIVOR, LOST, 0.0, [], []),
    "one of its replacements does not exist": ([*SURVIVOR, pod(1)], LOST, 0.0, [], []),
    "there are no places for them": ([*SURVIVOR, pod(1), pod(2)], {}, 0.0, [], []),
    "they start again together": ([*SURVIVOR, pod(1), pod(2)], LOST, 0.0, ["bind", "bind"], ["bind", "bind"]),
    "they get nowhere": ([*SURVIVOR, pod(1)], LOST, LATE, ["suspend Job", "delete GangPlan"], ["evict"]),
}


@pytest.mark.parametrize("case", SURVIVES)
@pytest.mark.parametrize("of_muster", [True, False])
def test_a_survivor_of_a_gang_below_its_minimum_is_ended_only_with_an_attempt_that_gets_nowhere(
    case: str, of_muster: bool
) -> None:
    """Until its replacements can start, nothing ends it: it may have work to save."""
    pods, places, now, ours, others = SURVIVES[case]
    plans = [plan(LOST, 2)] if ours else []  # an attempt is under way
    made = group(3, pods) if of_muster else group(3, pods, owner=None)
    seen = view(made, places, *plans)
    assert kinds_of(seen, GIVEN_UP if now else None, now) == (ours if of_muster else others)


@pytest.mark.parametrize(("pods", "writes"), [([], []), ([pod(1), pod(2)], ["create Gang with plan"])])
def test_victims_for_replacements_are_ended_once_these_exist(pods: list[Pod], writes: list[str]) -> None:
    victim = VictimRef(GangId("ns/victim"), None, (PodRef("ns", "v", PodId("uv")),))
    seen = view(group(3, [*SURVIVOR, *pods]), LOST, chosen=(victim,))
    assert kinds_of(seen) == writes


@pytest.mark.parametrize("of_muster", [True, False])
def test_a_survivor_is_left_alone_while_a_single_pod_is_lost(of_muster: bool) -> None:
    """Its replacement is bound alone, however long that takes: there is no plan that could be undone."""
    made = group(2, [pod(0, "a"), pod(1)]) if of_muster else group(2, [pod(0, "a"), pod(1)], owner=None)
    for places, writes in (({}, []), ({1: B}, ["bind"])):
        assert kinds_of(view(made, places), GIVEN_UP, LATE) == writes


def test_a_minute_without_progress_is_too_long_and_less_is_not() -> None:
    seen = view(group(3, [pod(0, "a")]), {}, plan(TWO))
    state = RetryState(progress=(0, 1), since=0.0)
    assert not step(seen, state, 59.0, Limits()).events
    assert step(seen, state, 60.0, Limits()).events


ALONE = group(2, [pod(0, "a"), pod(1)], owner=None, controlled=False, recreate=True)
RECORDED = RecreationPlan(
    G,
    "job-g",
    "ns",
    1,
    1,
    (RecordedPod(PodId("u0"), {"metadata": {"name": "p0"}}),),
    why="refused",
    uid="plan-1-1",
)
GOING = msgspec.convert(
    {"metadata": {"name": "p0", "uid": "u0", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, Pod
)
REMADE = {
    "a pod that is recorded is deleted": (pod(0, "a"), ["evict"]),
    "it is not recreated while it is still there": (GOING, []),
    "it is recreated when it has gone": (None, ["create Pod"]),
}


@pytest.mark.parametrize(("found", "writes"), REMADE.values(), ids=REMADE.keys())
def test_recorded_pods_are_recreated(found: Pod | None, writes: list[str]) -> None:
    assert kinds_of(view(ALONE, {}, RECORDED, namesakes=(found,))) == writes


def test_when_all_are_there_again_the_gang_backs_off_and_says_why() -> None:
    again = group(2, [pod(2), pod(1)], owner=None, controlled=False, recreate=True)
    taken = step(view(again, TWO, RECORDED, namesakes=(pod(2),)), RetryState(until=50.0), 10.0, LIMITS)
    assert taken.writes == (delete_plan(RECORDED),)
    assert taken.events == (CommitFailed(G, 50.0, "refused"),)


def test_pods_of_a_deleted_group_are_not_recreated() -> None:
    gone = replace(ALONE, source=Source("scheduling.x-k8s.io/v1alpha1", "PodGroup", "g", ""))
    assert kinds_of(view(gone, {}, RECORDED, namesakes=(None,))) == ["delete GangPlan"]


def test_pods_that_cannot_be_recorded_stay_and_the_gang_says_so() -> None:
    lone = view(ALONE, {}, plan(TWO), record=GangRecord())
    state = replace(GIVEN_UP, giving_up="2 of 3 pods were bound")
    (write,) = step(lone, state, LATE, LIMITS).writes
    state, (failed,) = learn(G, state, write, PlanTooLarge("9 pods", 2_000_000), LATE, LIMITS)
    assert isinstance(failed, CommitFailed)
    status, delete = step(lone, state, LATE, LIMITS).writes
    assert status_in(status)["phase"] == "Degraded"
    assert "2 of 3 pods were bound; its pods cannot be re-created: the plan for 9 pods" in failed.message
    assert failed.message in status_in(status)["reason"]["message"]
    assert brief(delete) == "delete GangPlan"


def test_a_plan_that_cannot_be_read_is_replaced_once() -> None:
    """By the next leader; what this one has written and cannot read it does not write again."""
    unreadable = replace(plan({}), unreadable="GangPlan ns/job-g-1: not JSON")
    inherited = view(group(2, BOTH), TWO, unreadable, epoch=2)
    assert kinds_of(inherited, RetryState(adopted=frozenset({unreadable.uid}))) == ["create Gang with plan"]
    own = step(view(group(2, BOTH), TWO, unreadable), RetryState(), 0.0, LIMITS)
    (failed,) = own.events
    assert isinstance(failed, CommitFailed)
    assert failed.message == unreadable.unreadable


def test_a_group_whose_lost_member_is_awaited_says_where_its_place_is_held() -> None:
    lacking = group(2, [pod(0, "a")], owner=None, controlled=False)
    seen = view(lacking, {1: B}, record=msgspec.convert(gang_record(lacking), GangRecord))
    (told,) = step(seen, RetryState(), 100.0, LIMITS).writes
    assert status_in(told)["phase"] == "Degraded"
    assert status_in(told)["reason"] == {
        "code": "MembersMissing",
        "message": "1 of its pods is gone, with no controller to re-create them; places for "
        "equal pods are held on b",
    }


def test_a_gang_in_part_reports_why_its_other_places_are_unfilled() -> None:
    """Its old pods still leave, one after the other."""
    coming = group(2, BOTH)
    why = Explanation(Code.INSUFFICIENT_CAPACITY, "placement", "1 CPU asked; 0 are free")
    record = msgspec.convert(gang_record(coming), GangRecord)
    (told,) = step(view(coming, {0: A}, record=record, explanation=why), RetryState(), 100.0, LIMITS).writes
    assert (status_in(told)["phase"], status_in(told)["reason"]["message"]) == ("Nominated", why.message)


def test_a_running_gang_says_why_pods_above_its_minimum_wait_as_long_as_they_do() -> None:
    elastic = Gang(G, (PodSet("w", SHAPE, 2, 1),), 1, 0.0)
    grows = group(2, [pod(0, "a"), pod(1)], gang=elastic)
    why = Explanation(Code.INSUFFICIENT_CAPACITY, "placement", "1 more pod waits")
    record = msgspec.convert(gang_record(grows), GangRecord)
    seen = view(grows, {}, record=record, explanation=why)
    (told,) = step(seen, RetryState(), 100.0, LIMITS).writes
    assert (status_in(told)["phase"], status_in(told)["reason"]["message"]) == (
        "Standing",
        why.message,
    )
    gone = group(2, [pod(0, "a")], gang=elastic)
    (told,) = step(replace(seen, group=gone), RetryState(), 100.0, LIMITS).writes
    assert (status_in(told)["phase"], status_in(told)["reason"]) == ("Standing", None)


def test_a_gang_is_recorded_with_its_first_reason_and_changes_are_written_at_intervals() -> None:
    waiting = view(
        group(2, [], suspended=True), {}, explanation=Explanation(Code.FRAGMENTED, "placement", "why")
    )
    made = step(waiting, RetryState(), 100.0, LIMITS)
    (create,) = made.writes
    assert isinstance(create, Create)
    assert create.body["status"]["reason"]["message"] == "why"
    recorded = replace(waiting, record=msgspec.convert(create.body, GangRecord))
    assert not step(recorded, made.state, 100.1, LIMITS).writes
    figures = replace(recorded, explanation=Explanation(Code.FRAGMENTED, "placement", "why else"))
    reason = replace(recorded, explanation=Explanation(Code.OVER_SHARE, "share", "why else"))
    for changed, pause, refresh in (
        (figures, LIMITS.figures, Refresh.FIGURES),
        (reason, LIMITS.report, Refresh.REASON),
    ):
        early = step(replace(changed, refreshes=True), made.state, 100.2, LIMITS)
        assert (early.writes, early.wake) == ((), 100.0 + pause)
        waits = step(changed, made.state, 100.0 + pause, LIMITS)
        assert (waits.writes, waits.wants) == ((), refresh), "it is not the gang's turn"
        assert kinds_of(replace(changed, refreshes=True), made.state, 100.0 + pause) == ["patch Gang"]
    freed = replace(recorded, group=group(2, []), explanation=reason.explanation)
    assert recorded.record is not None
    record = msgspec.structs.replace(recorded.record, status=GangStatus(phase="Waiting"))
    assert kinds_of(replace(freed, record=record), RetryState(), 100.0) == ["patch Gang"], "its first reason"


def test_a_gang_that_lacks_only_pods_is_reported_later_than_one_that_does_not_fit() -> None:
    missing = Explanation(Code.MEMBERS_MISSING, "gates", "1 of 3 pods exist")
    lacking = view(group(3, [pod(0)]), {}, explanation=missing)
    first = step(lacking, RetryState(), 100.0, LIMITS)
    assert (first.writes, first.wake) == ((), 101.0)
    assert kinds_of(lacking, first.state, 100.9) == []
    assert kinds_of(lacking, first.state, 101.0) == ["create Gang"]
    full = replace(lacking, explanation=Explanation(Code.FRAGMENTED, "placement", "no room"))
    assert kinds_of(full, first.state, 100.4) == []
    assert kinds_of(full, first.state, 100.5) == ["create Gang"]


HOLDING = msgspec.convert(
    {
        "metadata": {
            "name": "job-g",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "7",
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "g", "uid": "uid"}],
        },
        "status": {"epoch": 3, "attempt": 2},
        "plan": {"epoch": 1, "attempt": 2, "blob": ""},
    },
    GangRecord,
)
HELD = replace(plan(TWO, 2), held=HOLDING)
STANDING = view(group(2, [pod(0, "a"), pod(1, "b")]), {}, HELD, record=HOLDING)


def test_changes_of_counts_alone_are_reported_every_five_seconds() -> None:
    whole = group(2, [pod(0, "a"), pod(1, "b")])
    record = msgspec.convert({**gang_record(whole), "status": {"phase": "Standing", "bound": 1}}, GangRecord)
    seen, state = view(whole, {}, record=record), RetryState(reported_at=100.0)
    assert kinds_of(seen, state, 104.0) == []
    assert step(seen, state, 104.0, LIMITS).wake == 105.0
    assert kinds_of(seen, state, 105.0) == ["patch Gang"]


def test_a_plan_in_its_gang_is_closed_together_with_the_status() -> None:
    (write,) = step(STANDING, RetryState(), 0.0, LIMITS).writes
    assert brief(write) == "remove plan, write status"
    assert isinstance(write, Patch)
    assert isinstance(write.body, dict)
    assert (write.namespace, write.name, "metadata" in write.body) == ("ns", "job-g", False)
    assert write.tests == {
        "/metadata/uid": "u",
        "/status/epoch": 3,
        "/status/attempt": 2,
        "/plan/epoch": 1,
        "/plan/attempt": 2,
    }
    assert (write.body["status"]["phase"], write.body["status"]["bound"]) == ("Standing", 2)


def test_pauses_double_and_after_five_failures_it_waits_for_a_change() -> None:
    state, pauses = RetryState(), []
    seen = view(group(3, [], owner=None), {}, plan(TWO))
    for _ in range(LIMITS.attempts):
        taken = step(seen, replace(state, progress=(0, 3), since=0.0, giving_up=""), LATE, LIMITS)
        state = taken.state
        (failed,) = taken.events
        assert isinstance(failed, CommitFailed)
        pauses.append(failed.until - LATE)
    assert pauses == [5.0, 10.0, 20.0, 40.0, NEVER]


def bind(node: NodeName = A) -> Bind:
    return Bind(pod(0), place(0), node, "1.1/w/0")


NEVER_TOLD = "pod p0 (w/0) is refused by the API server: never"
STARTING = view(group(2, BOTH), TWO, plan(TWO))


def refused(times: int, now: float = 10.0) -> RetryState:
    state = RetryState()
    for node in [A, B][:times]:
        state, _ = learn(G, state, bind(node), Invalid("never"), now, LIMITS)
    return state


def test_the_first_refusal_excludes_the_node_for_a_second() -> None:
    state, events = learn(G, RetryState(), bind(A), Invalid("never"), 10.0, LIMITS)
    assert events == (PlacesLost(G, frozenset({place(0)}), frozenset({A}), 11.0),)
    assert kinds_of(STARTING, state, now=10.1) == ["bind"], "the refused one alone: no other is bound in vain"


def test_the_second_refusal_ends_the_start_with_the_servers_words() -> None:
    taken = step(replace(STARTING, group=group(2, BOTH, owner=None)), refused(2), 10.1, LIMITS)
    assert [brief(write) for write in taken.writes] == ["delete GangPlan"]
    assert taken.events == (CommitFailed(G, 11.1, NEVER_TOLD),)


def test_so_does_the_first_if_the_core_knows_no_other_node() -> None:
    why = Explanation(Code.COMMIT_FAILED, "commit", "a failed and must wait; nothing else fits")
    alone = view(group(2, [pod(0), pod(1, "b")], owner=None), {}, plan(TWO), explanation=why)
    taken = step(alone, refused(1), 10.1, LIMITS)
    assert [brief(write) for write in taken.writes] == ["evict"]
    assert taken.events == (CommitFailed(G, 11.1, NEVER_TOLD),)


def test_a_refused_member_is_tried_after_one_second_doubling_to_28_however_often() -> None:
    state, now, pauses = refused(1), 10.0, []
    for _ in range(8):
        state, _ = learn(G, state, bind(A), Invalid("never"), now, LIMITS)
        (failed,) = step(STARTING, state, now, LIMITS).events
        assert isinstance(failed, CommitFailed)
        pauses.append(failed.until - now)
        now = failed.until
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 28.0, 28.0, 28.0]
    state, _ = learn(G, state, bind(A), None, now, LIMITS)
    assert not state.refusals, "a success ends it"


def test_a_refused_member_that_its_user_changes_is_tried_at_once() -> None:
    state = refused(2)
    waits = view(group(2, BOTH), {})
    assert not step(waits, state, 10.2, LIMITS).events
    labelled = msgspec.structs.replace(BOTH[0].metadata, labels={"team": "research"}, resource_version="9")
    changed = view(group(2, [msgspec.structs.replace(BOTH[0], metadata=labelled), pod(1)]), {})
    taken = step(changed, state, 10.2, LIMITS)
    (event,) = taken.events
    assert isinstance(event, CommitFailed)
    assert event.until == 10.2
    assert not step(changed, taken.state, 10.2, LIMITS).events, "once"


def test_the_server_is_quoted_where_the_core_names_the_node_only() -> None:
    why = Explanation(Code.COMMIT_FAILED, "commit", "a failed and must wait; nothing else fits")
    waiting = group(2, BOTH)
    record = msgspec.convert(gang_record(waiting), GangRecord)
    (told,) = step(view(waiting, {}, record=record, explanation=why), refused(1), 100.0, LIMITS).writes
    assert status_in(told)["reason"]["message"] == NEVER_TOLD


def test_a_start_that_the_core_cannot_complete_is_undone_soon() -> None:
    why = Explanation(Code.INSUFFICIENT_CAPACITY, "placement", "2 CPU asked; 0 are free")
    seen = view(group(3, [pod(0, "a")], owner=None), {}, plan(TWO), explanation=why)
    state = RetryState(progress=(0, 1), since=0.0)
    assert not step(seen, state, LIMITS.unplaced - 0.1, LIMITS).events
    taken = step(seen, state, LIMITS.unplaced, LIMITS)
    (failed,) = taken.events
    assert isinstance(failed, CommitFailed)
    assert failed.message == f"1 of 2 pods were bound, and the rest does not start: {why.message}"
    assert [brief(write) for write in taken.writes] == ["evict"]


def test_a_start_that_times_out_tells_the_last_error_of_the_server() -> None:
    state, _ = learn(G, GIVEN_UP, bind(), ServerError("failed calling webhook"), 0.0, LIMITS)
    (failed,) = step(view(group(3, [pod(0, "a")]), {}, plan(TWO)), state, LATE, LIMITS).events
    assert isinstance(failed, CommitFailed)
    assert failed.message.endswith("the last error: failed calling webhook")


@pytest.mark.parametrize(
    ("error", "pause"),
    [(Unanswered("?"), 0.2), (TooManyRequests("busy", retry_after=3.0), 3.0), (Conflict("late"), 0.0)],
)
def test_an_error_that_is_not_the_gangs_is_only_retried(error: Exception, pause: float) -> None:
    state, events = learn(G, RetryState(), bind(), error, 10.0, LIMITS)
    assert not events
    assert state.retry_at == (10.0 + pause if pause else 0.0)


def test_a_record_that_fails_in_the_server_five_times_in_a_row_is_refused() -> None:
    first = step(view(group(2, BOTH), TWO, record=GangRecord()), RetryState(), 10.0, LIMITS)
    (record,) = first.writes
    state, told, now = first.state, list[CommitFailed](), 10.0
    for _ in range(6):
        state, events = learn(G, state, record, ServerError("failed calling webhook"), now, LIMITS)
        told += [event for event in events if isinstance(event, CommitFailed)]
        now = max(state.retry_at, state.until)
    assert len(told) == 2
    assert told[0].message == "the plan cannot be recorded: failed calling webhook"
    assert told[1].until - told[0].until <= 28.0


def test_a_start_counts_only_if_every_minimum_of_the_gang_is_met() -> None:
    gang = Gang(G, (PodSet("a", SHAPE, 2, 1), PodSet("b", SHAPE, 4, 0)), 3, 0.0)
    assert not minimum_met(gang, [Place("b", i) for i in range(4)])
    assert not minimum_met(gang, [Place("a", 0), Place("b", 0)])
    assert minimum_met(gang, [Place("a", 0), Place("b", 0), Place("b", 3)])
