"""Which changes make the committer look at a gang again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import pytest

from muster.api import kinds
from muster.api.base import AnyKind, Resource
from muster.api.core_v1 import Pod
from muster.api.rates import Rates
from muster.core.words.decisions import Assign
from muster.core.words.devices import Allocation, DeviceId
from muster.core.words.events import NodeRemoved
from muster.core.words.gang import GangId, NodeName, Place
from muster.effects import Evict, Patch
from muster.effects.execute import Outcome
from muster.kube.errors import Conflict
from muster.runtime.committer import LONGEST_WAIT, Committer
from muster.runtime.plan_record import Plan
from muster.translate.group import Group
from tests.unwalked import Unwalked

GANG, OTHER = GangId("ns/g"), GangId("ns/other")


@dataclass
class Seen:
    """A mirror that shows one pod."""

    pod: Pod
    groups: dict[GangId, Group] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()
    present: frozenset[str] = frozenset()
    rates: Rates = field(default_factory=Rates)

    def plans(self, gang: GangId) -> Sequence[Plan]:
        return ()

    def planned(self) -> Sequence[GangId]:
        return ()

    def gangs_of(self, owner_uid: str) -> Sequence[GangId]:
        return ()

    def others(self, record: Resource | None) -> str:
        return ""

    @property
    def by_number(self) -> Mapping[str, str]:
        return {}

    def holders(self, device: DeviceId) -> Sequence[str]:
        return ()

    def find(self, kind: AnyKind, key: str) -> Resource | None:
        return self.pod


def pod(version: str) -> Pod:
    return msgspec.convert(
        {"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": version}}, Pod
    )


@pytest.mark.parametrize("error", [None, Conflict("its status has changed")])
def test_a_change_that_decides_nothing_may_be_the_one_that_a_write_waits_for(error: Exception | None) -> None:
    seen = Seen(pod("1"))
    committer = Committer(seen, epoch=1)
    committer.done(GANG, [Outcome(Evict(seen.pod), error)], now=0.0)
    assert committer.due(0.0) == [], "the mirror does not show the write"
    committer.renewed(OTHER)
    committer.renewed(GANG)
    assert committer.due(1.0) == [], "it still does not"
    seen.pod = pod("2")
    committer.renewed(GANG)
    assert committer.due(1.0) == [GANG]
    committer.renewed(GANG)
    assert committer.due(LONGEST_WAIT - 1) == [], "nothing waits for it any more"


def test_a_patch_waits_for_its_own_revision_and_not_for_the_change_of_another_writer() -> None:
    seen = Seen(pod("1"))
    committer = Committer(seen, epoch=1)
    patch = Patch(kinds.POD, "ns", "a", {"status": {}}, seen="1")
    committer.done(GANG, [Outcome(patch, revision=3)], now=0.0)
    for version, due in (("2", []), ("3", [GANG])):
        seen.pod = pod(version)
        committer.renewed(GANG)
        assert committer.due(1.0) == due


def test_a_removed_node_concerns_the_gangs_that_are_assigned_to_it() -> None:
    committer = Committer(Seen(pod("1")), epoch=1)
    for gang, node in ((GANG, "n"), (OTHER, "m")):
        committer.decided(Assign(gang, {Place("main", 0): NodeName(node)}))
    assert committer.due(0.0) == [GANG, OTHER]
    for node in ("n", "elsewhere"):
        committer.observe(NodeRemoved(NodeName(node)))
    assert committer.due(0.0) == [GANG]
    assert committer.due(0.0) == []


def test_the_step_of_one_gang_visits_no_victims_of_others() -> None:
    committer = Committer(Seen(pod("1")), epoch=1)
    committer._awaited_by = Unwalked({OTHER: {GangId("ns/beneficiary")}})
    committer._ending = Unwalked({OTHER: GangId("ns/beneficiary")})
    assert committer.work(GANG, 0.0) == ((), ())


def test_a_place_that_is_assigned_again_has_the_devices_of_the_later_assignment() -> None:
    one, other = Place("w", 0), Place("w", 1)

    def given(device: str) -> tuple[Allocation, ...]:
        return (Allocation("gpu", (("r", DeviceId(device)),)),)

    committer = Committer(Seen(pod("1")), epoch=1)
    node = NodeName("n")
    committer.decided(
        Assign(GANG, {one: node, other: node}, claims={one: given("d/p/a"), other: given("d/p/b")})
    )
    committer.decided(Assign(GANG, {one: node}, claims={one: given("d/p/c")}))
    assert committer.view(GANG, 0.0).allocations == {one: given("d/p/c"), other: given("d/p/b")}
    committer.decided(Assign(GANG, {one: node}))
    assert committer.view(GANG, 0.0).allocations == {other: given("d/p/b")}
