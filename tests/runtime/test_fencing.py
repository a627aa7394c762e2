"""Which objects a new leader fences, and which gangs wait for a fence."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from muster.api import kinds
from muster.api.base import AnyKind, Resource
from muster.api.core_v1 import Pod, PodSpec
from muster.api.pod_claims import MOST_CLAIMS
from muster.api.resource_v1 import ResourceClaim
from muster.core.words.gang import GangId, PodId
from muster.kube.errors import Conflict, Forbidden, NotFound, TooManyRequests, Unreachable
from muster.names import EPOCH
from muster.runtime.fencing import TRIES, Fencing
from muster.runtime.plan_record import PlacementPlan, PodRef, VictimRef

G, V = GangId("ns/g"), GangId("ns/v")


def pod(name: str, uid: str = "", version: int = 10, node: str = "", epoch: str = "") -> Pod:
    annotations = {EPOCH: epoch} if epoch else {}
    metadata = {
        "namespace": "ns",
        "name": name,
        "uid": uid or name,
        "resourceVersion": str(version),
        "annotations": annotations,
    }
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": node, "containers": []}}, Pod)


def claim(name: str) -> ResourceClaim:
    metadata = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "3"}
    return msgspec.convert({"metadata": metadata}, ResourceClaim)


class Seen:
    """What a mirror shows: the members of a gang, the pods that a plan of it names, and its owner."""

    def __init__(self, members: Iterable[Pod], victims: Iterable[PodRef] = (), *others: Pod) -> None:
        self.show(*members)
        self.pods |= {f"ns/{each.metadata.name}": each for each in others}
        victim = VictimRef(V, None, tuple(victims))
        self._plans = [PlacementPlan(G, "job-g", "ns", 1, 1, {}, victims=(victim,))] if victim.pods else []

    def show(self, *members: Pod, owner: object = None, finished: bool = False) -> None:
        self.pods: dict[str, Resource] = {f"ns/{each.metadata.name}": each for each in members}
        shown = {each.metadata.name: SimpleNamespace(pod=each) for each in members}
        group: Any = SimpleNamespace(
            namespace="ns", record="g", owner=owner, finished=finished, members=shown
        )
        self.groups: Any = {G: group}

    def others(self, record: Resource | None) -> str:
        return ""

    def find(self, kind: AnyKind, key: str) -> Resource | None:
        return self.pods.get(key)

    def planned(self) -> list[GangId]:
        return [G] if self._plans else []

    def plans(self, gang: GangId) -> list[PlacementPlan]:
        return self._plans


def fenced(seen: Seen, known: float = float("inf")) -> list[str]:
    return [fence.name for fence in Fencing(seen, 2, known).first(0.0)]


def test_unbound_members_are_fenced_and_bound_ones_are_not() -> None:
    assert fenced(Seen([pod("a"), pod("b", node="n"), pod("c", epoch="2"), pod("d", epoch="1")])) == [
        "a",
        "d",
    ]


def test_an_unbound_pod_that_no_earlier_leader_has_seen_needs_no_fence() -> None:
    assert fenced(Seen([pod("a", version=10), pod("b", version=11)]), 10) == ["a"]


def test_the_claims_of_unbound_members_are_fenced_however_new_their_pods_are() -> None:
    """Versions of claims and pods cannot be compared. A claim that pods share is fenced once."""

    def claiming(name: str, claim: str, node: str = "") -> Pod:
        spec = {"nodeName": node, "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}]}
        metadata = {"namespace": "ns", "name": name, "uid": name, "resourceVersion": "11"}
        return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)

    seen = Seen(
        [claiming("a", "one"), claiming("b", "one"), claiming("c", "two", "n"), claiming("d", "none")]
    )
    seen.pods |= {f"ns/{name}": claim(name) for name in ("one", "two")}
    assert fenced(seen, 10) == ["one"]


def test_the_claims_of_a_pod_that_has_more_than_muster_reads_are_not_fenced() -> None:
    """No leader has written them."""
    named = [{"name": f"c{i}", "resourceClaimName": f"c{i}"} for i in range(MOST_CLAIMS + 1)]
    seen = Seen([msgspec.structs.replace(pod("a"), spec=msgspec.convert({"resourceClaims": named}, PodSpec))])
    seen.pods |= {f"ns/c{i}": claim(f"c{i}") for i in range(MOST_CLAIMS + 1)}
    assert fenced(seen) == ["a"]


def test_pods_that_an_open_plan_may_end_are_fenced_however_new_they_are() -> None:
    """Its leader's second write carries a version that nobody has seen."""
    ref = PodRef("ns", "v", PodId("v"))
    assert fenced(Seen([], [ref], pod("v", version=11, node="n")), 10) == ["v"]


def test_the_successor_of_a_pod_that_a_plan_names_is_not_fenced() -> None:
    assert fenced(Seen([], [PodRef("ns", "v", PodId("v"))], pod("v", uid="other", node="n"))) == []


@pytest.mark.parametrize(("admission", "finished"), [(True, False), (False, False), (True, True)])
def test_owners_that_muster_suspends_and_resumes_are_fenced(admission: bool, finished: bool) -> None:
    seen = Seen([])
    owner = SimpleNamespace(kind=kinds.JOB, name="j", admission=admission)
    seen.show(pod("j"), owner=owner, finished=finished)
    seen.groups[G].members.clear()
    assert fenced(seen) == (["j"] if admission and not finished else [])


def test_a_refused_fence_keeps_its_own_gang_waiting_until_the_object_is_another() -> None:
    seen = Seen([pod("a", uid="1")])
    fencing = Fencing(seen, 2)
    (fence,) = fencing.first(0.0)
    assert (fencing.complete, dict(fencing.unfenced)) == (False, {})
    fencing.learn(fence, Forbidden("no"), 0.0)
    assert fencing.complete
    assert "cannot be marked as taken over by this leader: no" in fencing.unfenced[G].message
    assert fencing.first(0.0) == []
    seen.show(pod("a", uid="2"))
    (again,) = fencing.first(0.0)
    assert (again.name, fencing.complete, dict(fencing.unfenced)) == ("a", False, {})


@pytest.mark.parametrize("error", [Conflict("changed"), TooManyRequests("busy")])
def test_a_server_that_is_busy_refuses_nothing_unless_it_stays_so(error: Exception) -> None:
    fencing = Fencing(Seen([pod("a")]), 2)
    (fence,) = fencing.first(0.0)
    for _ in range(TRIES - 1):
        fencing.learn(fence, error, 0.0)
        assert not fencing.complete
    fencing.learn(fence, error, 0.0)
    assert list(fencing.unfenced) == [G]


def test_a_server_that_cannot_be_reached_says_nothing_of_the_object() -> None:
    fencing = Fencing(Seen([pod("a")]), 2)
    (fence,) = fencing.first(0.0)
    for _ in range(3 * TRIES):
        fencing.learn(fence, Unreachable("no route"), 0.0)
    fencing.learn(fence, NotFound("gone"), 0.0)
    assert (fencing.complete, dict(fencing.unfenced)) == (False, {})
