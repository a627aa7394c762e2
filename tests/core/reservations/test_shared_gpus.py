"""Reservations of shares of GPUs: what is promised can be put on devices, and is kept."""

from collections import defaultdict
from dataclasses import replace
from math import inf
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config
from muster.core.demand import Request
from muster.core.placement import Infeasible, Placed, Reason
from muster.core.placement import greedy as placement
from muster.core.placement.exact import Exact
from muster.core.placement.slots import Slots
from muster.core.reservations import Backfill
from muster.core.reservations.calendar import Calendar
from muster.core.words.gang import Gang, GangId, NodeName, PodSet, Shape
from muster.core.world.ledger import Ledger
from tests.core.reservations.test_backfill import Cluster, reserves
from tests.core.words import GPU, assigns, gang, node, shape, started, where
from tests.tiers import examples

SHAPES = [shape(gpu=1), shape(gpu=2), *(shape(share=share) for share in (300, 450, 550, 700))]
#: arrival, pods by shape, limit, and the part of it that it runs
rows = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.lists(st.tuples(st.sampled_from(SHAPES), st.integers(1, 4)), min_size=1, max_size=2),
        st.sampled_from([10.0, 20.0, 30.0]),
        st.sampled_from([1.0, 1.0, 0.5]),
    ),
    min_size=2,
    max_size=8,
)
sizes = st.lists(st.integers(1, 3), min_size=1, max_size=3)


class Job(NamedTuple):
    gang: Gang
    lasts: float


class Run(NamedTuple):
    end: float
    #: by when it has to be over
    limit: float
    pods: list[tuple[NodeName, int | None, Shape]]


class Line(Cluster):
    """Gangs come, run for a while, and go. What was promised is noted."""

    def __init__(self, sizes: list[int], backfill: Backfill) -> None:
        nodes = {f"n{i}": gpu for i, gpu in enumerate(sizes)}
        super().__init__(*(node(name, gpu) for name, gpu in nodes.items()), config=Config(backfill=backfill))
        self.gpus = {NodeName(name): gpu for name, gpu in nodes.items()}
        self.runs: dict[GangId, Run] = {}
        self.promised: dict[GangId, float] = {}

    def play(self, jobs: list[Job]) -> None:
        coming = sorted(jobs, key=lambda job: (job.gang.submitted, job.gang.id))
        of = {job.gang.id: job for job in coming}
        while coming or self.runs:
            now = min([job.gang.submitted for job in coming[:1]] + [run.end for run in self.runs.values()])
            for name in sorted(name for name, run in self.runs.items() if run.end <= now):
                del self.runs[name]
                self.end(name, now)
            while coming and coming[0].gang.submitted <= now:
                self.submit(coming.pop(0).gang)
            self.cycle(of, now)

    def cycle(self, of: dict[GangId, Job], now: float) -> None:
        decisions = self.decide(now)
        for assign in assigns(decisions):
            gang_, lasts = of[assign.gang]
            shapes = {pod_set.name: pod_set.shape for pod_set in gang_.pod_sets}
            pods = [
                (name, assign.devices.get(place), shapes[place.pod_set])
                for place, name in assign.nodes.items()
            ]
            self.runs[assign.gang] = Run(now + lasts, now + (gang_.limit or inf), pods)
        for name, start, _ in reserves(decisions):
            assert start <= self.promised.get(GangId(name), inf), f"{name} was to start before {start}"
            self.promised[GangId(name)] = start
        for gang_id, start in self.promised.items():
            waits = gang_id not in self.runs and gang_id in self.core.world.gangs
            assert start > now or not waits, f"{gang_id} was to start at {start}, and waits"
        for at in sorted({each.at for each in self.core.reservations.made}):
            for on in self.gpus:
                self.check(on, at)
        calendar = self.core.reservations._calendar
        kept = spared(calendar)
        calendar.recompute(now)
        assert spared(calendar) == kept

    def check(self, name: NodeName, at: float) -> None:
        """The pods that are on the node at this time fit there."""
        whole, fixed, shares = 0, defaultdict[int, int](int), list[int]()
        for run in self.runs.values():
            for on, device, of in run.pods if run.limit > at else ():
                if on == name:
                    whole += dict(of.requests).get(GPU, 0)
                    if device is not None:
                        fixed[device] += of.gpu_share
        for each in self.core.reservations.made:
            of_set = {part.pod_set: part.shape for part in each.demand.parts}
            for place, on in each.nodes.items() if each.at <= at < each.until else ():
                if on == name:
                    whole += dict(of_set[place.pod_set].requests).get(GPU, 0)
                    shares += [share] if (share := of_set[place.pod_set].gpu_share) else []
        assert packs([*fixed.values()], sorted(shares, reverse=True), self.gpus[name] - whole)


def spared(calendar: Calendar) -> dict[GangId, tuple[object, object]]:
    return {each.gang: (calendar._spare(each).tolist(), each.shared) for each in calendar.values()}


def packs(used: list[int], shares: list[int], devices: int) -> bool:
    """Whether so many devices, some of them in use already, take these shares. Tries all ways."""
    if len(used) > devices:
        return False
    if not shares:
        return True
    share, *others = shares
    for there in {*used, 0}:
        if there + share <= 1000:
            rest = list(used)
            if there:
                rest.remove(there)
            if packs([*rest, there + share], others, devices):
                return True
    return False


@settings(max_examples=examples(150), deadline=None)
@given(sizes, rows, st.sampled_from([Backfill.CONSERVATIVE, Backfill.CONSERVATIVE, Backfill.EASY]))
def test_reserved_shares_can_be_put_on_devices_and_start_when_they_are_to(
    sizes: list[int],
    rows: list[tuple[int, list[tuple[Shape, int]], float, float]],
    backfill: Backfill,
) -> None:
    jobs = []
    for i, (at, sets, limit, part) in enumerate(rows):
        pod_sets = [PodSet(f"s{k}", of, count, count) for k, (of, count) in enumerate(sets)]
        jobs.append(Job(replace(gang(f"g{i}", *pod_sets, submitted=float(at)), limit=limit), part * limit))
    Line(sizes, backfill).play(jobs)


@pytest.mark.parametrize("early", [False, True], ids=["when a gang ends", "when nothing happens"])
def test_a_gang_without_new_places_starts_in_its_reserved_places(
    early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither greedy placement nor a search within its budget finds every way for shares of two sizes."""
    config = Config(backfill=Backfill.CONSERVATIVE)
    cluster = Cluster(node("a", gpu=1), node("b", gpu=1), node("c", gpu=3), config=config)
    sets = [PodSet("large", shape(share=700), 3, 3), PodSet("small", shape(share=400, cpu=30_000), 3, 3)]
    mixed = replace(gang("mixed", *sets), limit=10.0)
    cluster.submit(replace(gang("first"), limit=10.0), mixed)
    assert reserves(cluster.decide(0.0)) == [("mixed", 10.0, {"a", "b", "c"})]
    cluster.submit(replace(gang("passer", of=shape(share=300), submitted=1.0), limit=20.0))
    assert started(cluster.decide(1.0)) == ["passer"]

    def greedy(request: Request, ledger: Ledger, slots: Slots) -> Placed | None:
        several = len(request.demand.parts) > 1
        return placement.place(request, ledger, slots) if request.preferred or not several else None

    monkeypatch.setattr("muster.core.placement.place", greedy)
    monkeypatch.setattr(Exact, "place", lambda *_, **__: Infeasible(Reason.BUDGET))
    if early:
        cluster.end("first", 5.0)
        assert started(cluster.decide(5.0)) == []
    else:
        cluster.end("first", 10.0)
    assert started(cluster.decide(10.0)) == ["mixed"]


def test_a_reserved_gang_of_two_shares_starts_earlier_if_it_fits() -> None:
    config = Config(backfill=Backfill.CONSERVATIVE)
    cluster = Cluster(node("a", gpu=1), node("b", gpu=1), node("c", gpu=3), config=config)
    sets = [PodSet("large", shape(share=700), 3, 3), PodSet("small", shape(share=400, cpu=30_000), 3, 3)]
    cluster.submit(replace(gang("first"), limit=10.0), replace(gang("mixed", *sets), limit=10.0))
    assert reserves(cluster.decide(0.0)) == [("mixed", 10.0, {"a", "b", "c"})]
    cluster.submit(replace(gang("passer", of=shape(share=300), submitted=1.0), limit=20.0))
    assert started(cluster.decide(1.0)) == ["passer"]
    cluster.end("first", 5.0)
    assert started(cluster.decide(5.0)) == ["mixed"]


def test_a_gang_that_starts_in_reserved_places_takes_the_reserved_devices() -> None:
    """On the fullest that takes it, as else, the tiny one would leave too few to the large ones."""
    config = Config(backfill=Backfill.CONSERVATIVE)
    cluster = Cluster(node("a", gpu=1), node("b", gpu=1), node("c", gpu=3), config=config)
    wanted = {"a": (shape(share=300), 1), "b": (shape(share=700), 3), "c": (shape(share=400, cpu=30_000), 3)}
    sets = [PodSet(name, of, count, count) for name, (of, count) in wanted.items()]
    cluster.submit(
        replace(gang("first"), limit=10.0), replace(gang("mixed", *sets, submitted=0.5), limit=10.0)
    )
    assert reserves(cluster.decide(0.5)) == [("mixed", 10.5, {"a", "b", "c"})]
    cluster.submit(replace(gang("passer", of=shape(share=300), submitted=1.0), limit=20.0))
    (assign,) = assigns(cluster.decide(1.0))
    assert (where(assign), [*assign.devices.values()]) == (["c"], [1])
    cluster.end("first", 10.0)
    assert started(cluster.decide(10.5)) == ["mixed"]
    assert cluster.core.world.nodes.devices.used(NodeName("c")) == [1000, 1000, 700]
