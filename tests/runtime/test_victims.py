"""How victims are ended: noted first, as a whole or not at all, and by one write where there is one."""

from dataclasses import replace

import msgspec
import pytest

from muster.api import kinds
from muster.api.base import Object, ObjectMeta
from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.core.words.gang import GangId, PodId
from muster.effects import Evict
from muster.kube.errors import Forbidden
from muster.runtime.commit.outcomes import learn
from muster.runtime.commit.step import step
from muster.runtime.commit.victims import begun, end_victims
from muster.runtime.commit.view import RetryState, Victim
from muster.runtime.consent import entry
from muster.runtime.plan_record import PodRef, VictimRef
from muster.runtime.writes import delete_plan, without_nulls
from muster.translate.disclosure import EVERYTHING, Disclosure
from muster.translate.group import Owner
from tests.runtime.brief import brief, status_in
from tests.runtime.test_commit import LIMITS, TWO, G, group, pod, view
from tests.runtime.test_commit import plan as plan_of

V = GangId("ns/v")
OWNER = Owner(kinds.JOB, "v", "owner", "7", suspended=False, admission=True)
BOUND = (pod(0, "a"), pod(1, "b"))
GOING = msgspec.convert(
    {
        "metadata": {
            "name": "p0",
            "namespace": "ns",
            "uid": "u0",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"nodeName": "a"},
    },
    Pod,
)
LEAVING = VictimRef(V, None, tuple(PodRef("ns", f"p{i}", PodId(f"u{i}")) for i in range(2)), at=100.0)


def record(*preemptions: object) -> GangRecord:
    body: Object = {"metadata": {"name": "job-v", "namespace": "ns"}, "status": {"preemptions": preemptions}}
    return msgspec.convert(body, GangRecord)


NOTED = record(entry(LEAVING, G))
ITS_PLAN = plan_of(TWO)
BY = view(group(2, []), {})
OF_ITS_OWN = replace(group(2, list(BOUND)), record="job-v")

CASES = {
    "pod by pod": (Victim(LEAVING, None, BOUND, (), NOTED), ["evict", "evict"]),
    "by one write": (Victim(LEAVING, OWNER, BOUND, (), NOTED), ["suspend Job"]),
    "noted first": (Victim(LEAVING, OWNER, BOUND, (), record()), ["patch Gang", "suspend Job"]),
    "its own start ends with it": (
        Victim(LEAVING, OWNER, BOUND, (ITS_PLAN,), NOTED),
        ["delete GangPlan", "suspend Job"],
    ),
    "its own start goes on if only some pods leave": (
        Victim(replace(LEAVING, whole=False), None, BOUND, (ITS_PLAN,), None),
        ["evict", "evict"],
    ),
    "what leaves already is left alone": (Victim(LEAVING, None, (GOING,), (), NOTED), []),
    "the rest of it follows": (Victim(LEAVING, None, (GOING, BOUND[1]), (), NOTED), ["evict"]),
    "what is suspended is left alone": (
        Victim(LEAVING, replace(OWNER, suspended=True), BOUND, (), NOTED),
        [],
    ),
    "a record is made to note it in": (Victim(LEAVING, OWNER, BOUND, (), None, OF_ITS_OWN), ["create Gang"]),
}


@pytest.mark.parametrize(("victim", "writes"), CASES.values(), ids=CASES)
def test_how_a_victim_is_ended(victim: Victim, writes: list[str]) -> None:
    assert [brief(write) for write in end_victims([victim], BY, 100.0)] == writes


@pytest.mark.parametrize(
    ("names", "reclaimed", "message"),
    [
        (
            EVERYTHING,
            False,
            "muster: preempting to accommodate higher priority pods, preemptor: ns/g, triggerPod: ns/p0",
        ),
        (
            Disclosure(),
            False,
            "muster: preempting to accommodate higher priority pods, preemptor: another namespace's gang",
        ),
        (
            EVERYTHING,
            True,
            "muster: reclaiming what its queue has above its share, preemptor: ns/g, triggerPod: ns/p0",
        ),
    ],
    ids=["preempted", "for another namespace", "reclaimed"],
)
def test_a_pod_that_is_evicted_says_for_whom(names: Disclosure, reclaimed: bool, message: str) -> None:
    by = view(group(2, [pod(0, ""), pod(1, "")]), {})
    elsewhere = msgspec.structs.replace(pod(7, "a"), metadata=ObjectMeta(name="v", namespace="theirs"))
    victim = Victim(replace(LEAVING, reclaimed=reclaimed), None, (elsewhere,), (), NOTED)
    *_, evict = end_victims([victim], replace(by, names=names), 100.0)
    assert isinstance(evict, Evict)
    assert evict.disruption == message


def test_the_end_is_noted_with_its_cause_and_loss_and_once() -> None:
    victim = Victim(replace(LEAVING, work_lost=12.5, reclaimed=True), OWNER, BOUND, (), record())
    noted, _ = end_victims([victim], BY, 100.0)
    assert status_in(noted)["preemptions"][0]["lostResourceSeconds"] == 12.5, "as when it was decided"
    since = {"costLost": "1.00", "lostResourceSeconds": 2.0}  # its checkpoint is younger than the decision
    noted, _ = end_victims([victim], replace(BY, lost=lambda victim: since), 100.0)
    (told,) = status_in(noted)["preemptions"]
    assert (told["by"], told["lostResourceSeconds"], told["kind"]) == ("ns/g", 2.0, "reclaim")
    assert told["costLost"] == "1.00"
    dearer = replace(BY, lost=lambda victim: {"costLost": "2.00"})
    again = end_victims([replace(victim, record=record(told))], dearer, 500.0)
    assert [brief(write) for write in again] == ["suspend Job"]


def test_a_note_has_the_epoch_of_its_leader() -> None:
    """A plan of an earlier leader in the victim's Gang is refused once the note is there (`writes`)."""
    noted, _ = end_victims([Victim(LEAVING, OWNER, BOUND, (), record())], replace(BY, epoch=7), 100.0)
    assert status_in(noted)["epoch"] == 7


def test_the_oldest_preemptions_go_first() -> None:
    old = record(*({"by": f"ns/{i}"} for i in range(30)))
    noted, _ = end_victims([Victim(LEAVING, OWNER, BOUND, (), old)], BY, 100.0)
    kept = status_in(noted)["preemptions"]
    assert [one["by"] for one in kept] == [*(f"ns/{i}" for i in range(11, 30)), "ns/g"]


BEGUN = {
    "untouched": (BOUND, False),
    "one is leaving": ((GOING, BOUND[1]), True),
    "one has gone": (BOUND[1:], True),
    "all leave": ((GOING,), False),
    "all have gone": ((), False),
}


@pytest.mark.parametrize(("pods", "is_begun"), BEGUN.values(), ids=BEGUN)
def test_a_victim_of_which_something_has_gone_must_go_on(pods: tuple[Pod, ...], is_begun: bool) -> None:
    victim = Victim(LEAVING, None, pods, ())
    assert list(begun([victim])) == ([victim] if is_begun else [])


PLAN = replace(plan_of(TWO), victims=(LEAVING,))
MAIN = group(2, [pod(3), pod(4)])


def test_nothing_is_bound_or_resumed_while_victims_are_there() -> None:
    waiting = Victim(LEAVING, None, (GOING,), (), NOTED)
    for of in (MAIN, replace(MAIN, owner=replace(OWNER, suspended=True))):
        writes = step(view(of, TWO, PLAN, victims=(waiting,)), RetryState(), 0.0, LIMITS).writes
        assert not [write for write in writes if brief(write) in ("bind", "resume Job")]


def test_a_departing_victim_still_ends_though_its_gang_is_gone_or_given_up() -> None:
    half = Victim(LEAVING, None, (BOUND[1],), (), NOTED)
    whole = Victim(LEAVING, None, BOUND, (), NOTED)
    finished = replace(MAIN, finished=True)
    given_up = RetryState(giving_up="why")
    for of, state in ((finished, RetryState()), (MAIN, given_up)):
        (evicted,) = step(view(of, {}, PLAN, victims=(half,)), state, 0.0, LIMITS).writes
        assert brief(evicted) == "evict"
        spared = step(view(of, {}, PLAN, victims=(whole,)), state, 0.0, LIMITS).writes
        assert "evict" not in map(brief, spared)
        assert delete_plan(PLAN) in spared


def test_victims_that_stay_are_given_up() -> None:
    waiting = Victim(LEAVING, None, (GOING,), (), NOTED)
    seen = view(MAIN, TWO, PLAN, victims=(waiting,))
    state = RetryState(progress=(-1, 2), since=0.0)
    assert not step(seen, state, LIMITS.victim_timeout - 1.0, LIMITS).events
    (failed,) = step(seen, state, LIMITS.victim_timeout, LIMITS).events
    assert "victims did not leave" in str(failed)


def test_evictions_that_are_refused_are_told_with_the_servers_words_and_given_up() -> None:
    waiting = Victim(LEAVING, None, BOUND, (), NOTED)
    seen = view(MAIN, TWO, PLAN, victims=(waiting,), record=record())
    state = step(seen, RetryState(), 0.0, LIMITS).state
    evicted = Evict(BOUND[0])
    state, _ = learn(G, state, evicted, Forbidden("no right to delete pods"), 0.0, LIMITS)
    told = step(seen, state, 10.0, LIMITS)
    assert "no right to delete pods" in status_in(told.writes[0])["reason"]["message"]
    status = without_nulls(status_in(told.writes[0]))
    shown = replace(seen, record=msgspec.convert({"status": status}, GangRecord))
    assert [brief(write) for write in step(shown, told.state, 10.0, LIMITS).writes] == ["evict", "evict"]
    (failed, *_) = step(shown, told.state, LIMITS.victim_timeout, LIMITS).events
    assert "victims did not leave; the last error: no right to delete pods" in str(failed)


GRACE = {
    "asked first": ({}, None, 100.0, ["patch Pod", "patch Pod"]),
    "asked once": ({"muster.dev/checkpoint-requested": "1970-01-01T00:01:40Z"}, None, 399.0, []),
    "has saved": ({}, 130.0, 131.0, ["patch Gang", "suspend Job"]),
    "saved before it was asked": ({}, 99.0, 131.0, ["patch Pod", "patch Pod"]),
    "is late": ({}, None, 400.0, ["patch Gang", "suspend Job"]),
}


@pytest.mark.parametrize(("annotations", "saved", "now", "writes"), GRACE.values(), ids=GRACE)
def test_a_victim_may_save_its_work_first(
    annotations: dict[str, str], saved: float | None, now: float, writes: list[str]
) -> None:
    asked = [
        msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, annotations=annotations))
        for one in BOUND
    ]
    made = replace(OF_ITS_OWN, gang=replace(OF_ITS_OWN.gang, checkpoint_grace=300.0, checkpointed=saved))
    victim = Victim(LEAVING, OWNER, tuple(asked), (), record(), made)
    assert [brief(write) for write in end_victims([victim], BY, now)] == writes


def test_a_victim_of_which_a_pod_has_gone_is_not_asked() -> None:
    made = replace(OF_ITS_OWN, gang=replace(OF_ITS_OWN.gang, checkpoint_grace=300.0))
    victim = Victim(LEAVING, None, BOUND[1:], (), NOTED, made)
    assert [brief(write) for write in end_victims([victim], BY, 100.0)] == ["evict"]
