"""A leader that dies after any single write, and leaders that overlap: nothing is left half done.

Every history is run from its beginning: a gang is started (or takes the nodes of a victim), the leader
is stopped after its i-th write, and another takes over. docs/internals/committing.md says how many there are.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol

import pytest

from muster.api import kinds
from muster.kube.errors import Invalid
from muster.runtime.commit.view import Limits
from tests.runtime.model import Cluster, Kind, Running
from tests.runtime.planner import Planner
from tests.runtime.server import AnyKind, ServerClient

#: Writes of an earlier leader that are refused once another leads.
_FENCED = (("bind", kinds.POD), ("patch", kinds.JOB), ("patch", kinds.RESOURCE_CLAIM))
LEASE = 20.0  # seconds until another leader takes over


@dataclass(frozen=True)
class Case:
    size: int
    kind: Kind
    victim: Kind | None = None
    #: the victim's namespace
    home: str = "default"
    #: its plans are objects of their own, as those of large gangs are
    apart: bool = False
    #: each pod has a claim of a device, of which there are as many as pods
    claims: bool = False
    by_number: bool = False

    def __str__(self) -> str:
        of = "" if self.home == "default" else f" of {self.home}"
        over = f" over {self.victim}{of}" if self.victim else ""
        claims = ", by number" if self.by_number else ", claims" if self.claims else ""
        more = f"{', apart' if self.apart else ''}{claims}"
        return f"{self.size} {self.kind}{over}{more}"

    @property
    def limits(self) -> Limits:
        return Limits(held_plan=0) if self.apart else Limits()

    def cluster(self) -> Cluster:
        return _prepared(self).copy()

    def leader(
        self, cluster: Cluster, epoch: int, *, overlapping: bool = False, pods_seen: float = float("inf")
    ) -> Running:
        return Running(cluster, epoch, overlapping=overlapping, limits=self.limits, pods_seen=pods_seen)


@cache
def _prepared(case: Case) -> Cluster:
    """Exactly enough nodes; if there is to be a victim, it stands on all of them."""
    cluster = Cluster()
    for name, room in (("a", (case.size + 1) // 2), ("b", case.size // 2)):
        if room:
            cluster.node(name, room)
            if case.claims:
                cluster.devices(name, room)
                cluster.claiming |= {"main", "victim"}
                cluster.by_number |= {"main", "victim"} if case.by_number else set()
    if case.victim is not None:
        cluster.homes["victim"] = case.home
        cluster.gang("victim", case.size, case.victim)
        first = Running(cluster, 1)
        cluster.settle()
        assert not first.quiesce()
        assert cluster.outcome("victim", case.size) == "whole"
        first.stop()
        cluster.preempts["default/main"] = f"{case.home}/victim"
    cluster.gang("main", case.size, case.kind)
    cluster.settle()
    return cluster


VICTIMS: tuple[Kind, ...] = ("job", "free job", "bare")
CASES = [
    Case(size, kind, victim)
    for size in (1, 2, 3, 4)
    for kind in ("job", "bare")
    for victim in (None, *VICTIMS)
    if size <= 3 or victim != "bare"
] + [Case(1, "job", "bare", "other"), *(Case(2, "job", v, "other") for v in VICTIMS)]
CASES += [replace(case, apart=True) for case in CASES if case.size <= 2]
#: Kinds of gangs whose pods have claims, and of their victims, whose pods have claims as well.
CLAIMING = [
    *(Case(size, kind, claims=True) for size in (1, 2) for kind in ("job", "bare", "remade")),
    *(Case(size, "job", victim, claims=True) for size in (1, 2) for victim in VICTIMS),
    Case(2, "bare", "bare", claims=True),
    Case(2, "job", "free job", apart=True, claims=True),
    Case(3, "job", claims=True),
    *(Case(size, kind, claims=True, by_number=True) for size in (1, 2) for kind in ("job", "bare")),
    Case(1, "job", "bare", claims=True, by_number=True),
]
ALL = [*CASES, *CLAIMING]
#: Where each write of one leader meets each of another, those of them that are small.
MEETING = [
    *CASES,
    *(case for case in CLAIMING if case.size == 1 and case.victim != "free job" and case.kind != "remade"),
    *(case for case in CLAIMING if case.size == 2 and case.kind != "bare" and case.victim is None),
]


def of_one_leader(cases: Iterable[Case]) -> list[object]:
    """Where a leader dies after each write, the quick tier has gangs of at most two pods.

    Of gangs with claims it has those of one pod.
    """
    return in_both_tiers(
        cases, lambda case: case.size == 1 and not case.victim if case.claims else case.size <= 2
    )


def of_two_leaders(cases: Iterable[Case]) -> list[object]:
    """Where each write of one leader meets each of another, the quick tier has the small cases."""

    def small(case: Case) -> bool:
        if case.claims:
            return case == Case(1, "job", claims=True)
        if case.apart:
            return case.size == 1 and case.kind == "job" and case.victim == "job"
        return case.victim in (None, "job") and (case.size == 1 or (case.size == 2 and case.kind == "job"))

    return in_both_tiers(cases, small)


def in_both_tiers(cases: Iterable[Case], quick: Callable[[Case], bool]) -> list[object]:
    return [pytest.param(case, marks=[] if quick(case) else pytest.mark.full, id=str(case)) for case in cases]


def writes_of(case: Case) -> int:
    """How many writes a leader makes if nothing happens to it."""
    running = case.leader(case.cluster(), 2)
    assert not running.quiesce()
    assert running.cluster.outcome("main", case.size) == "whole"
    return running.writes


def check(case: Case, cluster: Cluster, epoch: int) -> None:
    """The gang is whole, its victim whole or waiting; and a new leader finds nothing to do."""
    assert cluster.outcome("main", case.size) == "whole"
    if case.victim:
        assert cluster.outcome("victim", case.size) == "waiting"
    cluster.check_freed()
    before = cluster.dump()
    again = case.leader(cluster, epoch)
    again.quiesce()
    again.stop()
    assert cluster.dump() == before


@pytest.mark.parametrize("case", of_one_leader(ALL))
def test_one_leader_dies_after_any_write(case: Case) -> None:
    for i in range(writes_of(case) + 1):
        for meanwhile in (False, True):
            cluster = case.cluster()
            first = case.leader(cluster, 2)
            assert first.quiesce(writes=i) or i == writes_of(case)
            first.stop()
            if meanwhile:  # controllers and nodes have gone on before anyone takes over
                cluster.settle()
            cluster.server.time += LEASE
            second = case.leader(cluster, 3)
            second.quiesce()
            second.stop()
            check(case, cluster, 4)


@pytest.mark.parametrize("case", of_two_leaders(MEETING))
def test_an_old_leader_goes_on_after_another_has_taken_over(case: Case) -> None:
    """It stops after write i, the new one takes over and makes j more, the old one all it had in mind."""
    for i in range(writes_of(case) + 1):
        j, more = -1, True
        while more:
            cluster = case.cluster()
            old = case.leader(cluster, 2)
            old.quiesce(writes=i)
            cluster.server.time += LEASE
            planned = bool(cluster.plans())
            new = case.leader(cluster, 3)
            if j < 0:
                new.take_over()
            else:
                more = new.quiesce(writes=j)
            old.sees = False  # what it does now it does on its stale view
            old.client.accepted.clear()
            old.go()
            if new.leads:
                evictions = [("patch", kinds.POD), ("delete", kinds.POD)]
                fenced = [*_FENCED, *(evictions if planned else [])]
                assert not [write for write in old.client.accepted if write[:2] in fenced]
            new.quiesce()
            old.sees = True  # now it learns, from whatever the new one has touched, that it is over
            old.look()
            old.fresh = False
            old.go()
            old.go()
            assert old.deposed
            new.quiesce()
            new.stop()
            check(case, cluster, 4)
            j += 1


LATE = [
    case
    for case in MEETING
    if case.size <= 2 and case.home == "default" and not (case.claims and (case.victim or case.size > 1))
]


@pytest.mark.parametrize("case", of_two_leaders(LATE))
def test_late_writes_of_a_leader_that_stopped_in_order_do_no_harm(case: Case) -> None:
    """It stops after write i, pods arrive, and a new one that fences none of these makes j writes.

    Then the old one makes all the writes that it had in mind.
    """
    for i in range(writes_of(case) + 1):
        j, more = -1, True
        while more:
            cluster = case.cluster()
            old = case.leader(cluster, 2)
            old.quiesce(writes=i)
            cluster.settle()  # the pods that have arrived meanwhile
            cluster.gang("next", 2, case.kind)
            cluster.settle()
            planned = bool(cluster.plans())
            new = case.leader(cluster, 3, pods_seen=old.version)
            if j < 0:
                new.take_over()
                fenced = {key for verb, kind, key in new.client.accepted if kind is kinds.POD}
                assert not any("next" in key for key in fenced)
            else:
                more = new.quiesce(writes=j)
            old.sees = False
            old.client.accepted.clear()
            old.go()
            if new.leads:
                evictions = [("patch", kinds.POD), ("delete", kinds.POD)]
                refused = [*_FENCED, *(evictions if planned else [])]
                assert not [write for write in old.client.accepted if write[:2] in refused]
            old.stop()
            new.quiesce()
            new.stop()
            assert cluster.outcome("next", 2) == "waiting"  # there is no room
            check(case, cluster, 4)
            j += 1


@pytest.mark.parametrize("case", of_two_leaders(case for case in MEETING if case.size <= 2))
def test_the_second_leader_dies_as_well(case: Case) -> None:
    """After write i, and the one that takes over after its write j."""
    for i in range(writes_of(case) + 1):
        j = 0
        while True:
            cluster = case.cluster()
            first = case.leader(cluster, 2)
            first.quiesce(writes=i)
            first.stop()
            cluster.server.time += LEASE
            second = case.leader(cluster, 3)
            more = second.quiesce(writes=j)
            second.stop()
            cluster.server.time += LEASE
            third = case.leader(cluster, 4)
            third.quiesce()
            third.stop()
            check(case, cluster, 5)
            j += 1
            if not more:
                break


@pytest.mark.parametrize("case", of_one_leader(case for case in ALL if case.victim or case.claims))
def test_its_owner_cancels_it_while_it_starts(case: Case) -> None:
    """A victim goes as a whole or stays as a whole, also if no gang needs its nodes any more."""
    for i in range(writes_of(case) + 1):
        for dies in (False, True):
            cluster = case.cluster()
            leader = case.leader(cluster, 2)
            leader.quiesce(writes=i)
            cluster.cancel("main")
            if dies:
                leader.stop()
                cluster.server.time += LEASE
                leader = case.leader(cluster, 3)
            leader.quiesce()
            leader.stop()
            assert cluster.bound("main") == 0
            assert not case.victim or cluster.outcome("victim", case.size) in ("whole", "waiting")
            assert not cluster.plans()
            cluster.check_freed()


@pytest.mark.parametrize("victim", ["job", "free job", "bare"])
@pytest.mark.parametrize("size", [2, 3])
def test_a_victim_may_be_starting_itself(size: int, victim: Kind) -> None:
    """The leader dies somewhere in the victim's start; the next one takes its nodes for another."""
    case = Case(size, "job")
    i, more = 0, True
    while more:
        cluster = case.cluster()
        cluster.cancel("main")
        cluster.gang("victim", size, victim)
        cluster.settle()
        first = case.leader(cluster, 2)
        more = first.quiesce(writes=i)
        first.stop()
        cluster.gang("main", size, "job")
        cluster.preempts["default/main"] = "default/victim"
        cluster.server.time += LEASE
        second = case.leader(cluster, 3)
        second.quiesce()
        second.stop()
        assert cluster.outcome("main", size) == "whole"
        assert cluster.outcome("victim", size) == "waiting"
        i += 1


@pytest.mark.parametrize("victim", ["job", "free job", "bare"])
@pytest.mark.parametrize("size", [2, 3])
def test_a_victim_may_be_in_the_middle_of_a_write(size: int, victim: Kind) -> None:
    """It is called while its own writes are under way: none of its pods is left behind."""
    case = Case(size, "job")
    i, more = 0, True
    while more:
        cluster = case.cluster()
        cluster.cancel("main")
        cluster.gang("victim", size, victim)
        cluster.settle()
        core = Planner()
        leader = Running(cluster, 2, core=core, overlapping=True)
        more = leader.quiesce(writes=i)
        cluster.gang("main", size, "job")
        core.preempts["default/main"] = "default/victim"
        leader.quiesce()
        leader.stop()
        assert cluster.outcome("main", size) == "whole"
        assert cluster.outcome("victim", size) == "waiting"
        i += 1


@dataclass
class Remaking:
    """A gang of which one member cannot be bound anywhere until the others have been recreated."""

    size: int

    def __post_init__(self) -> None:
        self.cluster = Case(self.size, "remade").cluster()
        self.first = {pod.metadata.uid for pod in self.cluster.server.all(kinds.POD)}

    def leader(self, epoch: int) -> Running:
        return Running(self.cluster, epoch, wrap=lambda client: ServerClient(client.server, self._fault))

    def _fault(self, verb: str, kind: AnyKind, key: str) -> tuple[Exception, bool] | None:
        refused = verb == "bind" and key == "default/main-0" and self.left() > 1
        return (Invalid("spec: this pod is never right"), False) if refused else None

    def left(self) -> int:
        """How many of the pods are those that the user made."""
        return len(self.first & {pod.metadata.uid for pod in self.cluster.server.all(kinds.POD)})

    def check(self, epoch: int) -> None:
        """All are there, once, and run; a new leader finds nothing to do."""
        assert self.left() == 1
        assert self.cluster.outcome("main", self.size) == "whole"
        assert len(self.cluster.server.all(kinds.POD)) == self.size
        finds_nothing_to_do(self, epoch)


class Recreating(Protocol):
    """A gang some of whose pods are recreated."""

    cluster: Cluster

    def leader(self, epoch: int) -> Running: ...

    def check(self, epoch: int) -> None: ...


def writes_while(make: Callable[[], Recreating]) -> int:
    running = make().leader(2)
    running.quiesce()
    return running.writes


def one_leader_dies(make: Callable[[], Recreating]) -> None:
    """The leader dies after any write; the model looks after each whether every pod is there or on record."""
    for i in range(writes_while(make) + 1):
        for meanwhile in (False, True):
            gang = make()
            first = gang.leader(2)
            first.quiesce(writes=i)
            first.stop()
            if meanwhile:
                gang.cluster.settle()
            gang.cluster.server.time += LEASE
            second = gang.leader(3)
            second.quiesce()
            second.stop()
            gang.check(4)


def two_leaders(make: Callable[[], Recreating], goes_on: bool) -> None:
    """The first leader goes on after any write of the second, or the second dies there as well."""
    for i in range(writes_while(make) + 1):
        j, more = 0, True
        while more:
            gang = make()
            first = gang.leader(2)
            first.quiesce(writes=i)
            gang.cluster.server.time += LEASE
            second = gang.leader(3)
            more = second.quiesce(writes=j)
            if goes_on:
                first.sees = False
                first.go()
                first.look()
            else:
                second.stop()
                gang.cluster.server.time += LEASE
                second = gang.leader(4)
            first.stop()
            second.quiesce()
            second.stop()
            gang.check(5)
            j += 1


def finds_nothing_to_do(gang: Recreating, epoch: int) -> None:
    before = gang.cluster.dump()
    again = gang.leader(epoch)
    again.quiesce()
    again.stop()
    assert gang.cluster.dump() == before


@pytest.mark.parametrize("size", [2, 3, 4])
def test_pods_that_are_recreated_are_neither_lost_nor_doubled(size: int) -> None:
    one_leader_dies(lambda: Remaking(size))


@pytest.mark.parametrize("goes_on", [False, True])
def test_pods_are_recreated_though_a_second_leader_dies_or_the_first_goes_on(goes_on: bool) -> None:
    two_leaders(lambda: Remaking(2), goes_on)


@dataclass
class Refused:
    """A gang of which some pods are refused by their nodes, after they have been bound."""

    size: int
    #: how often, of the first pod, the second, …
    times: tuple[int, ...]

    def __post_init__(self) -> None:
        self.cluster = Case(self.size, "remade").cluster()
        self.cluster.refuses.update({f"main-{index}": times for index, times in enumerate(self.times)})
        self.first = {pod.metadata.name: pod.metadata.uid for pod in self.cluster.server.all(kinds.POD)}

    def leader(self, epoch: int) -> Running:
        return Running(self.cluster, epoch)

    def check(self, epoch: int) -> None:
        """All run, the refused ones as other pods; a new leader finds nothing to do.

        If the start was still under way, it was undone, and the others are other pods as well.
        """
        assert self.cluster.outcome("main", self.size) == "whole"
        assert not self.cluster.plans()
        now = {pod.metadata.name: pod.metadata.uid for pod in self.cluster.server.all(kinds.POD)}
        assert now.keys() == self.first.keys()
        assert not +self.cluster.refuses
        others = {name for name in now if now[name] != self.first[name]}
        assert others >= {f"main-{index}" for index, times in enumerate(self.times) if times}
        finds_nothing_to_do(self, epoch)


REFUSED = [(2, (1,)), (2, (1, 1)), (2, (2,)), (3, (0, 1)), (3, (1, 0, 2))]


@pytest.mark.parametrize(("size", "times"), REFUSED)
def test_pods_that_nodes_refuse_are_neither_lost_nor_doubled(size: int, times: tuple[int, ...]) -> None:
    one_leader_dies(lambda: Refused(size, times))


@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize(("size", "times"), [REFUSED[0], pytest.param(*REFUSED[1], marks=pytest.mark.full)])
def test_pods_that_nodes_refuse_survive_a_second_leader_that_dies_and_a_first_that_goes_on(
    size: int, times: tuple[int, ...], goes_on: bool
) -> None:
    two_leaders(lambda: Refused(size, times), goes_on)


@pytest.mark.parametrize("size", [2, 3])
def test_its_owner_cancels_it_while_its_pods_are_recreated(size: int) -> None:
    """Group and pods are deleted: one that is just being created may come late, but none runs."""
    for i in range(writes_while(lambda: Remaking(size)) + 1):
        remaking = Remaking(size)
        leader = remaking.leader(2)
        leader.quiesce(writes=i)
        remaking.cluster.cancel("main")
        leader.quiesce()
        leader.stop()
        assert remaking.cluster.bound("main") == 0
        assert not remaking.cluster.plans()


@pytest.mark.full
@pytest.mark.full
def test_the_page_says_how_many_histories_there_are() -> None:
    """Counted from how many writes each leader makes, as the loops above go."""
    dies, overlap, twice = 0, 0, 0
    for case in CASES:
        for i in range(writes_of(case) + 1):
            after = _writes_after(case, i)
            dies += 2
            overlap += after + 3  # from the take-over on, after each write, and at its end
            twice += after + 2 if case.size <= 2 else 0
    cancelled = sum(2 * (writes_of(case) + 1) for case in CASES if case.victim)
    claiming = sum(4 * (writes_of(case) + 1) for case in CLAIMING)
    for case in MEETING[len(CASES) :]:
        claiming += sum(2 * _writes_after(case, i) + 5 for i in range(writes_of(case) + 1))
    page = (Path(__file__).parents[2] / "docs" / "internals" / "committing.md").read_text()
    told = [
        int(number.replace(",", "")) for number in re.findall(r"^\|.*\| ([\d,]+) \|$", page, re.MULTILINE)
    ]
    assert told == [dies, overlap, twice, cancelled, claiming]


def _writes_after(case: Case, i: int) -> int:
    """Writes of a second leader, touches among them, if the first stops after write i."""
    cluster = case.cluster()
    first = case.leader(cluster, 2)
    first.quiesce(writes=i)
    first.stop()
    cluster.server.time += LEASE
    second = case.leader(cluster, 3)
    second.quiesce()
    second.stop()
    return second.writes
