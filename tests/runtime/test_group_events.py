"""What Events say, and which are left out."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Source
from muster.core.words.decisions import Evict, Explanation, Victim, Wait
from muster.core.words.events import CommitFailed
from muster.core.words.gang import Code, Gang, GangId, PodId
from muster.runtime.budget import WriteBudget
from muster.runtime.group_events import MOST, RATE, GroupEvents
from muster.runtime.starts import Decisions, Outcome, Start
from muster.translate.disclosure import Disclosure
from muster.translate.group import Group, Members

G = GangId("ns/g")
HIDDEN = Disclosure()


def group(name: str, source: Source) -> Group:
    gang = Gang(GangId(f"ns/{name}"), (), 1, 0.0)
    members = Members()
    members.put(msgspec.convert({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}, Pod), None)
    return Group(gang, "ns", f"podgroup-{name}", source, None, members, frozenset(), False, False)


@dataclass
class Observed:
    groups: dict[GangId, Group] = field(default_factory=dict)


@pytest.fixture
def events() -> GroupEvents:
    source = Source(api_version="v1", kind="PodGroup", name="g", uid="7")
    return GroupEvents(Observed({G: group("g", source)}), Decisions(), HIDDEN, WriteBudget())


def wait(code: Code, message: str = "why") -> Wait:
    return Wait(G, Explanation(code, "placement", message))


def started(pods: int, nodes: int, waited: float | None) -> Start:
    return Start("1-1", G, "q", 0.0, waited, pods, nodes, (), set())


def test_only_the_last_of_several_changes_within_a_moment_is_reported(events: GroupEvents) -> None:
    events.write(0.0, wait(Code.MEMBERS_MISSING))
    events.write(0.5, wait(Code.INSUFFICIENT_CAPACITY, "1 CPU is free"))
    events.write(1.0, wait(Code.INSUFFICIENT_CAPACITY, "2 CPUs are free"))
    assert events.settled(2.0) == []
    ((about, said),) = events.settled(2.5)
    assert about == {"apiVersion": "v1", "kind": "PodGroup", "namespace": "ns", "name": "g", "uid": "7"}
    assert (said.type, said.reason, said.message) == ("Normal", "InsufficientCapacity", "2 CPUs are free")
    events.write(9.0, wait(Code.INSUFFICIENT_CAPACITY, "3 CPUs are free"))
    assert events.settled(99.0) == [], "the state is the same"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (wait(Code.INVALID, "no such queue"), ("Warning", "Invalid", "no such queue")),
        (CommitFailed(G, 9.0, "refused"), ("Warning", "CommitFailed", "refused")),
        (
            Evict((Victim(G, work_lost=12.4),), GangId("ns/h"), 12.4),
            ("Warning", "Preempted", "it is evicted for ns/h; 12 resource-seconds are lost"),
        ),
        (
            Evict((Victim(G, frozenset({PodId("p")}), reclaimed=True),), GangId("ns/h")),
            ("Warning", "Reclaimed", "1 surplus pods are evicted for ns/h"),
        ),
        (started(6, 2, 12.2), ("Normal", "Started", "6 pods are bound to 2 nodes after it waited 12 s")),
        (started(1, 1, None), ("Normal", "Started", "1 pod is bound to 1 node")),
    ],
)
def test_events_have_the_reason_and_message_of_the_change(
    events: GroupEvents, what: Any, said: tuple[str, str, str]
) -> None:
    if isinstance(what, Start):
        events._ended(what, 0.0, Outcome.BOUND)
    else:
        events.write(0.0, what)
    ((_, found),) = events.settled(5.0)
    assert (found.type, found.reason, found.message) == said


def test_a_preemption_is_reported_beside_what_follows(events: GroupEvents) -> None:
    events.write(0.0, Evict((Victim(G),), GangId("ns/h")))
    events.write(0.1, wait(Code.INSUFFICIENT_CAPACITY))
    assert [said.reason for _, said in events.settled(5.0)] == ["Preempted", "InsufficientCapacity"]


def test_a_pod_without_a_group_says_why_it_waits_but_not_that_it_started() -> None:
    alone = GroupEvents(Observed({G: group("g", Source())}), Decisions(), HIDDEN, WriteBudget())
    alone.write(0.0, wait(Code.FRAGMENTED))
    ((about, _),) = alone.settled(5.0)
    assert (about["kind"], about["name"], about["uid"]) == ("Pod", "p", "u")
    alone.write(6.0, wait(Code.INSUFFICIENT_CAPACITY))
    alone._ended(started(1, 1, None), 6.5, Outcome.BOUND)
    assert alone.settled(99.0) == []


def test_pods_whose_group_does_not_exist_are_told_why_they_wait() -> None:
    absent = Source(api_version="v1", kind="PodGroup", name="g")
    events = GroupEvents(Observed({G: group("g", absent)}), Decisions(), HIDDEN, WriteBudget())
    events.write(0.0, wait(Code.MEMBERS_MISSING, "there is no PodGroup g"))
    ((about, said),) = events.settled(5.0)
    assert (about["kind"], about["name"]) == ("Pod", "p"), "an Event needs an object that exists"
    assert said.reason == "MembersMissing"


def test_changes_beyond_a_bound_are_not_kept(events: GroupEvents) -> None:
    events._observed = Observed()
    for number in range(MOST + 10):
        gang = GangId(f"ns/{number}")
        events.write(0.0, Wait(gang, Explanation(Code.FRAGMENTED, "placement", "why")))
    assert len(events._due) == MOST
    events.settled(5.0)
    assert (len(events._due), len(events._codes)) == (MOST - RATE, 0)
