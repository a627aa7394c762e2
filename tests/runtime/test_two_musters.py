"""Two musters on one cluster: each leaves alone what is the other's, whatever crashes.

They have Leases and scheduler names of their own, and the same definitions. Each has a gang; the pods of the
other's gang are foreign pods to it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from muster.api import kinds
from muster.core.cycle import Scheduler
from muster.runtime.leader import LONGEST_SLEEP
from muster.runtime.plan_record import found
from tests.runtime.model import Cluster, Kind, Running
from tests.runtime.server import AnyKind, ServerClient

SIZE, ROOM = 3, 7
#: By gang, whose it is: epochs of different Leases mean nothing to each other.
NAMES = {"ann": "one", "bob": "two"}
EPOCHS = {"ann": 2, "bob": 90}
#: Seconds without a change, after which none is expected.
QUIET = 2 * LONGEST_SLEEP


@dataclass
class Muster:
    """A muster that schedules the pods of one gang."""

    cluster: Cluster
    gang: str
    #: what it has written to
    keys: set[tuple[AnyKind, str]] = field(default_factory=set)
    lease: str | None = None

    def leader(self, terms: int = 0) -> Running:
        """A new leader, after so many others of this Lease."""
        name = NAMES[self.gang]
        return Running(
            self.cluster,
            EPOCHS[self.gang] + terms,
            core=Scheduler(),
            wrap=self._wrap,
            schedulers=frozenset({name}),
            lease=f"muster-{name}/scheduler" if self.lease is None else self.lease,
        )

    def _wrap(self, client: ServerClient) -> ServerClient:
        def note(verb: str, kind: AnyKind, key: str) -> None:
            self.keys.add((kind, key))

        return ServerClient(client.server, note)


def cluster(kind: Kind, room: int = ROOM) -> Cluster:
    made = Cluster()
    made.schedulers.update(NAMES)
    made.node("n", room)
    return made


def rest(cluster: Cluster, leaders: Iterable[Running]) -> None:
    """All act in turn, until nothing changes any more."""
    server, leaders = cluster.server, [*leaders]
    changed_at, revision = server.time, server.revision
    while server.time - changed_at <= QUIET:
        for leader in leaders:
            leader.go()
        cluster.settle()
        for leader in leaders:
            leader.look()
        if server.revision != revision:
            changed_at, revision = server.time, server.revision
        elif not any(leader.mirror.changed.is_set() for leader in leaders):
            server.time += max(min(leader.leader.idle() for leader in leaders), 0.01)


def strangers(muster: Muster) -> list[str]:
    """What it has written to that is the other's."""
    (other,) = NAMES.keys() - {muster.gang}
    return sorted(key for _, key in muster.keys if other in key)


@pytest.mark.parametrize("dies", [True, False], ids=["killed", "paused"])
@pytest.mark.parametrize("kind", ["job", "free job", "bare", "remade"])
def test_whatever_one_has_written_the_other_leaves_it_alone(kind: Kind, dies: bool) -> None:
    """After each write of the first, the second comes to rest. Then the first goes on, or its successor."""
    writes, over = 0, False
    while not over:
        made = cluster(kind)
        for gang in NAMES:
            made.gang(gang, SIZE, kind)
        made.settle()
        ann, bob = Muster(made, "ann"), Muster(made, "bob")
        first, second = ann.leader(), bob.leader()
        over = not first.quiesce(writes)
        rest(made, [second])
        assert made.outcome("bob", SIZE) == "whole"
        if dies:
            first.stop()
            first = ann.leader(1)
        else:
            first.look()
        rest(made, [first, second])
        assert [made.outcome(gang, SIZE) for gang in NAMES] == ["whole", "whole"]
        assert made.plans() == []
        assert (strangers(ann), strangers(bob)) == ([], [])
        assert second.mirror.groups.keys() == {"default/bob"}, "a PodGroup of the other is no gang"
        writes += 1
    assert writes > SIZE


def test_the_pods_of_the_other_take_room() -> None:
    made = cluster("job", room=SIZE + 1)
    made.gang("ann", SIZE, "job")
    made.settle()
    ann, bob = Muster(made, "ann"), Muster(made, "bob")
    first, second = ann.leader(), bob.leader()
    rest(made, [first, second])
    made.gang("bob", SIZE, "free job")
    rest(made, [first, second])
    assert [made.outcome(gang, SIZE) for gang in NAMES] == ["whole", "waiting"]
    record = made.record("bob")
    assert record is not None
    assert record.status.reason is not None
    assert record.status.reason.code == "InsufficientCapacity"


@pytest.mark.parametrize("kind", ["job", "free job", "bare", "remade"])
def test_of_two_with_the_same_scheduler_name_the_second_keeps_off_and_says_why(kind: Kind) -> None:
    made = cluster(kind)
    made.gang("ann", SIZE, kind)
    made.settle()
    ann, other = Muster(made, "ann"), Muster(made, "ann", lease="elsewhere/scheduler")
    first = ann.leader()
    while not made.plans():
        assert first.quiesce(first.writes + 1)
    second = other.leader(50)
    told = _failures(second)
    rest(made, [second])
    assert other.keys == set(), "not even a fence"
    rest(made, [first, second])
    assert made.outcome("ann", SIZE) == "whole"
    assert not {each for each in other.keys if each[0] is not kinds.POD}
    assert all("belongs to the scheduler of lease muster-one/scheduler" in each for each in told)


def _failures(running: Running) -> list[str]:
    """The messages of starts that fail, as they come."""
    told: list[str] = []
    apply = running.leader._core.apply

    def noted(event: Any) -> None:
        if (message := getattr(event, "message", None)) is not None:
            told.append(message)
        apply(event)

    running.leader._core.apply = noted  # type: ignore[method-assign]
    return told


@pytest.mark.parametrize("kind", ["job", "free job", "bare", "remade"])
def test_what_an_earlier_version_has_recorded_without_a_lease_is_taken_over(kind: Kind) -> None:
    writes, over = 0, False
    while not over:
        made = cluster(kind)
        made.gang("ann", SIZE, kind)
        made.settle()
        old, new = Muster(made, "ann", lease=""), Muster(made, "ann")
        first = old.leader()
        over = not first.quiesce(writes)
        first.stop()
        rest(made, [new.leader(1)])
        assert made.outcome("ann", SIZE) == "whole"
        assert made.plans() == []
        record = made.record("ann")
        assert record is not None
        assert record.spec.lease == "muster-one/scheduler"
        writes += 1


def test_a_plan_of_its_own_object_is_of_its_lease_too() -> None:
    made = cluster("job")
    made.gang("ann", SIZE, "job")
    made.settle()
    leader = Muster(made, "ann").leader()
    leader.leader.committer.limits = replace(leader.leader.committer.limits, held_plan=0)
    while not made.server.all(kinds.GANG_PLAN):
        assert leader.quiesce(leader.writes + 1)
    (plan,) = made.server.all(kinds.GANG_PLAN)
    assert plan.spec.lease == "muster-one/scheduler"
    assert found(plan) is not None
