"""muster's own core preempts, and its leader dies after any write: nothing is left half done.

As `test_crashes.py`, where the test's planner names the victims; here the scheduler does.
"""

from dataclasses import dataclass

import pytest

from muster.core.cycle import Scheduler
from tests.runtime.model import Cluster, Kind, Running

LEASE = 20.0


@dataclass(frozen=True)
class Case:
    size: int
    kind: Kind
    victim: Kind

    def __str__(self) -> str:
        return f"{self.size} {self.kind} over {self.victim}"

    def cluster(self) -> Cluster:
        cluster = Cluster()
        cluster.priorities["main"] = 10
        for name, room in (("a", (self.size + 1) // 2), ("b", self.size // 2)):
            if room:
                cluster.node(name, room)
        cluster.gang("victim", self.size, self.victim)
        first = leader(cluster, 1)
        cluster.settle()
        assert not first.quiesce()
        assert cluster.outcome("victim", self.size) == "whole"
        first.stop()
        cluster.gang("main", self.size, self.kind)
        cluster.settle()
        return cluster


def leader(cluster: Cluster, epoch: int) -> Running:
    return Running(cluster, epoch, core=Scheduler())


CASES = [
    Case(size, kind, victim)
    for size in (1, 3)
    for kind in ("job", "bare")
    for victim in ("job", "free job", "bare")
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_one_leader_dies_after_any_write(case: Case) -> None:
    prepared = case.cluster()
    alone = leader(prepared.copy(), 2)
    assert not alone.quiesce()
    for i in range(alone.writes + 1):
        cluster = prepared.copy()
        first = leader(cluster, 2)
        first.quiesce(writes=i)
        first.stop()
        cluster.settle()
        cluster.server.time += LEASE
        second = leader(cluster, 3)
        second.quiesce()
        second.stop()
        assert cluster.outcome("main", case.size) == "whole"
        assert cluster.outcome("victim", case.size) == "waiting"
        record = cluster.record("victim")
        if record is not None:
            (entry,) = record.status.preemptions
            assert (entry["by"], entry["kind"]) == ("default/main", "preemption")


@pytest.mark.parametrize("kind", ["job", "free job"])
def test_the_victim_goes_on_when_there_is_room_again(kind: Kind) -> None:
    case = Case(2, "job", kind)
    cluster = case.cluster()
    running = leader(cluster, 2)
    running.quiesce()
    assert cluster.outcome("main", case.size) == "whole"
    cluster.cancel("main")
    cluster.settle()
    running.quiesce()
    assert cluster.outcome("victim", case.size) == "whole"
