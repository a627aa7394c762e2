"""Of an elastic gang's surplus only those pods go that are in the way."""

from dataclasses import replace

import pytest

from muster.core.events import GangSubmitted, LayersChanged
from muster.core.gang import Gather, Layer, PodSet, Strategy
from muster.core.scheduler import Scheduler
from tests.core.test_preemption import evicts, running
from tests.core.words import gang, node, scheduler, shape


def spread(pods: int, minimum: int) -> Scheduler:
    """One pod on each node, in order of index; two nodes in a rack."""
    made = scheduler(
        node(f"n{i}", gpu=1, labels={"host": f"n{i}", "rack": f"r{i // 2}"}) for i in range(pods)
    )
    made.apply(LayersChanged((Layer("rack", ("rack",)),)))
    running(made, gang("elastic", count=pods, minimum=minimum))
    return made


def victims(made: Scheduler, *sets: PodSet, rack: bool = False) -> list[str]:
    wants = gang("wants", *sets, priority=1)
    if rack:
        wants = replace(wants, gather=(Gather("rack", Strategy.MUST_GATHER),))
    made.apply(GangSubmitted(wants))
    return sorted(pod for evict in evicts(made.decide(10.0)) for v in evict.victims for pod in v.pods)


def on(*hosts: str) -> list[PodSet]:
    return [PodSet(host, shape(gpu=1, selector={"host": host}), 1, 1) for host in hosts]


@pytest.mark.parametrize(
    ("hosts", "expected"), [(["n1"], [1]), (["n5"], [5]), (["n1", "n4"], [1, 4]), (["n2", "n3"], [2, 3])]
)
def test_pods_that_are_not_in_the_way_stay(hosts: list[str], expected: list[int]) -> None:
    assert victims(spread(6, 1), *on(*hosts)) == [f"elastic:main/{i}" for i in expected]


def test_pods_of_one_domain_go() -> None:
    made = spread(6, 2)
    made.apply(node("n5", gpu=0, labels={"host": "n5", "rack": "r2"}))
    assert victims(made, PodSet("w", shape(gpu=1), 2, 2), rack=True) == ["elastic:main/2", "elastic:main/3"]


def test_of_pods_that_do_as_well_those_of_the_highest_index_go() -> None:
    assert victims(spread(6, 1), PodSet("w", shape(gpu=1), 2, 2)) == ["elastic:main/4", "elastic:main/5"]
