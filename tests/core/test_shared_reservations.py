"""Reservations of shares of GPUs: what is promised can be put on devices, and is kept."""

from collections import defaultdict
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.backfill import Backfill
from muster.core.backfill.timetable import Timetable
from muster.core.gang import Gang, GangId, NodeName, PodSet, Shape
from muster.core.scheduler import Config
from tests.core.test_backfill import Cluster, reserves
from tests.core.words import GPU, assigns, gang, node, shape, started

SHAPES = [shape(gpu=1), shape(gpu=2), *(shape(share=share) for share in (300, 450, 550, 700))]
#: arrival, shape, pods, limit
rows = st.lists(
    st.tuples(
        st.integers(0, 20),
        st.sampled_from(SHAPES),
        st.integers(1, 4),
        st.sampled_from([10.0, 20.0, 30.0]),
    ),
    min_size=2,
    max_size=8,
)
sizes = st.lists(st.integers(1, 3), min_size=1, max_size=3)


class Line(Cluster):
    """Gangs come, run for as long as they may, and go. What was promised is noted."""

    def __init__(self, sizes: list[int], backfill: Backfill) -> None:
        nodes = {f"n{i}": gpu for i, gpu in enumerate(sizes)}
        super().__init__(*(node(name, gpu) for name, gpu in nodes.items()), config=Config(backfill=backfill))
        self.gpus = {NodeName(name): gpu for name, gpu in nodes.items()}
        #: until when, and on which nodes and devices: those that run
        self.runs: dict[GangId, tuple[float, list[tuple[NodeName, int | None]]]] = {}
        self.promised: dict[GangId, float] = {}
        self.late: list[str] = []

    def play(self, gangs: list[Gang]) -> None:
        coming = sorted(gangs, key=lambda each: (each.submitted, each.id))
        of = {each.id: each for each in coming}
        while coming or self.runs:
            now = min([each.submitted for each in coming[:1]] + [end for end, _ in self.runs.values()])
            for name in sorted(name for name, (end, _) in self.runs.items() if end <= now):
                del self.runs[name]
                self.end(name, now)
            while coming and coming[0].submitted <= now:
                self.submit(coming.pop(0))
            self.cycle(of, now)

    def cycle(self, of: dict[GangId, Gang], now: float) -> None:
        decisions = self.decide(now)
        for assign in assigns(decisions):
            where = [(name, assign.devices.get(place)) for place, name in assign.nodes.items()]
            self.runs[assign.gang] = now + (of[assign.gang].limit or inf), where
        for name, start, _ in reserves(decisions):
            if start > self.promised.get(GangId(name), inf):
                self.late.append(f"{name} was to start at {self.promised[GangId(name)]}, now at {start}")
            self.promised[GangId(name)] = start
        for name, start in self.promised.items():
            if name not in self.runs and name in self.core.gangs and start <= now:
                self.late.append(f"{name} was to start at {start}, and waits")
        for at in sorted({each.at for each in self.core.reservations.made}):
            for name in self.gpus:
                self.check(of, name, at)
        timetable = self.core.reservations._timetable
        kept = spared(timetable)
        timetable.reckon(now)
        assert spared(timetable) == kept

    def check(self, of: dict[GangId, Gang], name: NodeName, at: float) -> None:
        """Who is there at this time has room there."""
        whole, fixed, shares = 0, defaultdict[int, int](int), list[int]()
        for gang_, (end, where) in self.runs.items():
            for on, device in where if end > at else ():
                if on == name:
                    requests = dict(of[gang_].pod_sets[0].shape.requests)
                    whole += requests.get(GPU, 0)
                    if device is not None:
                        fixed[device] += of[gang_].pod_sets[0].shape.gpu_share
        for each in self.core.reservations.made:
            if each.at <= at < each.until:
                (part,) = each.want.parts
                pods = [*each.nodes.values()].count(name)
                whole += pods * dict(part.shape.requests).get(GPU, 0)
                shares += [part.shape.gpu_share] * (pods if part.shape.gpu_share else 0)
        assert packs([*fixed.values()], sorted(shares, reverse=True), self.gpus[name] - whole)


def spared(timetable: Timetable) -> dict[GangId, tuple[object, object]]:
    return {each.gang: (timetable._spare(each).tolist(), each.shared) for each in timetable}


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


def line(rows: list[tuple[int, Shape, int, float]]) -> list[Gang]:
    return [
        replace(gang(f"g{i}", count=count, of=of, submitted=float(at)), limit=limit)
        for i, (at, of, count, limit) in enumerate(rows)
    ]


@settings(max_examples=150, deadline=None)
@given(sizes, rows, st.sampled_from([Backfill.CONSERVATIVE, Backfill.EASY]))
def test_reserved_shares_can_be_put_on_devices_and_start_when_they_are_to(
    sizes: list[int], rows: list[tuple[int, Shape, int, float]], backfill: Backfill
) -> None:
    cluster = Line(sizes, backfill)
    cluster.play(line(rows))
    assert not cluster.late


@pytest.mark.parametrize("early", [False, True], ids=["when somebody ends", "when nothing happens"])
def test_who_is_not_found_a_place_again_starts_in_those_that_are_reserved(early: bool) -> None:
    """Of shares of two sizes not every order of placing them finds a way."""
    config = Config(backfill=Backfill.CONSERVATIVE)
    cluster = Cluster(node("a", gpu=1), node("b", gpu=1), node("c", gpu=3), config=config)
    sets = [PodSet("large", shape(share=700), 3, 3), PodSet("small", shape(share=400, cpu=30_000), 3, 3)]
    mixed = replace(gang("mixed", *sets), limit=10.0)
    cluster.submit(replace(gang("first"), limit=10.0), mixed)
    assert reserves(cluster.decide(0.0)) == [("mixed", 10.0, {"a", "b", "c"})]
    cluster.submit(replace(gang("passer", of=shape(share=300), submitted=1.0), limit=20.0))
    assert started(cluster.decide(1.0)) == ["passer"]
    if early:
        cluster.end("first", 5.0)
        assert started(cluster.decide(5.0)) == []
    else:
        cluster.end("first", 10.0)
    assert started(cluster.decide(10.0)) == ["mixed"]
