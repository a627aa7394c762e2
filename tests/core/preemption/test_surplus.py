"""Of the surplus of an elastic gang, only the pods that are in the way are evicted."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from muster.core.cycle import Scheduler
from muster.core.demand import Request
from muster.core.preemption.candidates import OTHERS, Candidates
from muster.core.preemption.eviction_units import Quota, UnitTable
from muster.core.preemption.slot_bounds import SlotBounds
from muster.core.words.events import GangSubmitted, LayersChanged
from muster.core.words.gang import Gather, Layer, PodId, PodSet, Strategy
from muster.core.world.nodes import Bools
from tests.core.preemption.crowded import NOW, SHAPES, TOPOLOGY, draw
from tests.core.preemption.test_preemption import evicts, running
from tests.core.words import gang, node, scheduler, shape
from tests.tiers import FULL


def spread(pods: int, minimum: int) -> Scheduler:
    """One pod on each node, in order of index; two nodes in a rack."""
    made = scheduler(
        node(f"n{i}", gpu=1, labels={"host": f"n{i}", "rack": f"r{i // 2}"}) for i in range(pods)
    )
    made.apply(LayersChanged((Layer("rack", ("rack",)),)))
    running(made, gang("elastic", count=pods, minimum=minimum))
    return made


def victims(made: Scheduler, *sets: PodSet, rack: bool = False) -> list[str]:
    demands = gang("wants", *sets, priority=1)
    if rack:
        demands = replace(demands, gather=(Gather("rack", Strategy.MUST_GATHER),))
    made.apply(GangSubmitted(demands))
    return sorted(pod for evict in evicts(made.decide(10.0)) for v in evict.victims for pod in v.pods)


def on(*hosts: str) -> list[PodSet]:
    return [PodSet(host, shape(gpu=1, selector={"host": host}), 1, 1) for host in hosts]


@pytest.mark.parametrize(
    ("hosts", "expected"), [(["n1"], [1]), (["n5"], [5]), (["n1", "n4"], [1, 4]), (["n2", "n3"], [2, 3])]
)
def test_pods_that_are_not_in_the_way_stay(hosts: list[str], expected: list[int]) -> None:
    assert victims(spread(6, 1), *on(*hosts)) == [f"elastic:main/{i}" for i in expected]


@pytest.mark.parametrize(
    ("spare", "hosts", "expected"),
    [
        (1, ["n0"], [0]),
        (1, ["n3"], [3]),
        (2, ["n1", "n4"], [1, 4]),
        (2, ["n0", "n1"], [0, 1]),
        (3, ["n2"], [2]),
        (0, ["n0"], []),
        (1, ["n0", "n1"], []),
    ],
)
def test_any_pods_are_evicted_as_many_as_the_gang_can_spare(
    spare: int, hosts: list[str], expected: list[int]
) -> None:
    """Empty: the gang is evicted as a whole."""
    assert victims(spread(6, 6 - spare), *on(*hosts)) == [f"elastic:main/{i}" for i in expected]


@pytest.mark.parametrize(
    ("minimum", "wanted", "surplus"),
    [
        (2, ["one/0", "two/0"], True),
        (2, ["one/0", "one/1"], False),
        (3, ["one/0"], True),
        (3, ["one/0", "two/0"], False),
    ],
)
def test_neither_gang_nor_pod_set_gives_up_more_than_it_can_spare(
    minimum: int, wanted: list[str], surplus: bool
) -> None:
    made = scheduler(node(f"n{i}", gpu=1, labels={"host": f"n{i}"}) for i in range(4))
    one, two = PodSet("one", shape(gpu=1), 2, 1), PodSet("two", shape(gpu=1), 2, 1)
    running(made, gang("elastic", one, two, minimum=minimum))
    pods = [PodId(f"elastic:{pod}") for pod in wanted]
    hosts = [made.world.pods[pod].node for pod in pods]
    assert victims(made, *on(*hosts)) == (pods if surplus else [])


def test_pods_of_one_domain_go() -> None:
    made = spread(6, 2)
    made.apply(node("n5", gpu=0, labels={"host": "n5", "rack": "r2"}))
    assert victims(made, PodSet("w", shape(gpu=1), 2, 2), rack=True) == ["elastic:main/2", "elastic:main/3"]


def test_of_pods_that_do_as_well_those_of_the_highest_index_go() -> None:
    assert victims(spread(6, 1), PodSet("w", shape(gpu=1), 2, 2)) == ["elastic:main/4", "elastic:main/5"]


@pytest.mark.parametrize(
    ("spare", "index", "expected"),
    [(1, OTHERS + 1, [OTHERS + 1]), (1, 1, [1]), (1, 0, []), (2, 0, [0])],
)
def test_of_a_large_gang_a_bounded_number_of_pods_is_considered(
    spare: int, index: int, expected: list[int]
) -> None:
    """Empty: the gang is evicted as a whole."""
    made = spread(OTHERS + 2, OTHERS + 2 - spare)
    [elastic], _ = Candidates(made.world.nodes, made.world.gangs, made.world.pods).of(10.0, lambda _: True)
    assert sum(not unit.core for unit in elastic.units) == spare + OTHERS
    host = made.world.pods[PodId(f"elastic:main/{index}")].node
    assert victims(made, *on(host)) == [f"elastic:main/{i}" for i in expected]


def test_a_pod_set_gives_up_its_highest_indices_beside_a_large_one() -> None:
    """The units that a gang can spare together are all considered, however many others there are."""
    made = scheduler(node(f"n{i}", gpu=1, labels={"host": f"n{i}"}) for i in range(OTHERS + 12))
    large, small = PodSet("large", shape(gpu=1), OTHERS + 10, OTHERS + 9), PodSet("small", shape(gpu=1), 2, 1)
    running(made, gang("elastic", large, small, minimum=OTHERS + 10))
    host = made.world.pods[PodId("elastic:small/1")].node
    assert victims(made, *on(host)) == ["elastic:small/1"]


@pytest.mark.parametrize("wanted", [1, 5])
def test_the_search_among_many_pods_of_one_gang_is_short(
    wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, asked, enough = spread(1_000, 500), list[Bools](), SlotBounds.enough

    def counted(self: SlotBounds, taken: Bools) -> bool:
        asked.append(taken)
        return enough(self, taken)

    monkeypatch.setattr(SlotBounds, "enough", counted)
    expected = sorted(f"elastic:main/{999 - i}" for i in range(wanted))
    assert victims(made, PodSet("w", shape(gpu=1), wanted, wanted)) == expected
    assert len(asked) < 200


def test_surplus_that_cannot_suffice_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two gangs can spare half of their pods: too few for one node more than half."""
    made, picked, picks = scheduler(node(f"n{i}", gpu=2) for i in range(8)), list[Bools](), SlotBounds.picks

    def counted(self: SlotBounds, usable: Bools, *others: Any) -> Iterator[Bools]:
        picked.append(usable)
        return picks(self, usable, *others)

    monkeypatch.setattr(SlotBounds, "picks", counted)
    running(made, gang("one", count=8, minimum=4), gang("two", count=8, minimum=4))
    assert victims(made, PodSet("w", shape(gpu=2), 5, 5))
    assert picked[0].all()


@pytest.mark.parametrize("about", [(), (SHAPES,), (TOPOLOGY,)], ids=str)
def test_capacity_that_some_set_of_victims_frees_counts_as_attainable(about: tuple[str, ...]) -> None:
    tried = 0
    seeds = range(60 if FULL else 15)
    for case in (draw(seed, *about) for seed in seeds):
        made = case.made
        made.apply(GangSubmitted(replace(case.preemptor, preempts=False)))
        made.decide(NOW)
        demand = made.world.gangs[case.preemptor.id].demand
        candidates, _ = Candidates(made.world.nodes, made.world.gangs, made.world.pods).of(
            NOW, lambda _: True
        )
        if demand is None or not candidates:
            continue
        request, table = (
            Request(demand, [()] * len(demand.parts)),
            UnitTable(candidates, len(made.world.nodes)),
        )
        quota = Quota(np.zeros(0, np.int64), np.zeros((0, len(table)), np.int64))
        count = SlotBounds(
            request, made.world.nodes, made.world.eligibility, table, quota, made.fit.grounds(request), None
        )
        for usable in (~table.core, table.priority <= 1, table.lost < 2_000):
            sets = table.sets(usable, 300)
            if sets is not None and any(map(count.enough, sets)):
                tried += not table.holds(usable)
                assert count.attainable(usable)
    assert tried > len(seeds) // 20


def test_all_sets_of_units_are_in_the_order_of_their_cost() -> None:
    made = scheduler(node(f"n{i}", gpu=1) for i in range(8))
    running(made, gang("one", count=4, minimum=2), gang("two", count=4, minimum=2))
    candidates, _ = Candidates(made.world.nodes, made.world.gangs, made.world.pods).of(10.0, lambda _: True)
    table = UnitTable(candidates, len(made.world.nodes))
    sets = table.sets(np.ones(len(table), np.bool_), 1_000)
    assert sets is not None
    costs = [table.cost(chosen) for chosen in sets]
    assert costs == sorted(costs)
    assert len(costs) == (1 + 4 + 6 + 1) ** 2 - 1  # of each gang none, one, two or all
