"""A tenant that asks for much takes no turn of another: not of searches, of proofs, of victims, of remedies.

Each tenant has its own nodes, so neither takes the other's capacity, and its own queue.
"""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.words.decisions import Assign, Decision, Evict, Explanation
from muster.core.words.events import GangSubmitted, LayersChanged
from muster.core.words.gang import Gang, GangId, Gather, Layer, PodSet, Shape, Spread, Strategy
from tests.core.queueing.test_queues import queue
from tests.core.test_work import APP, HOST
from tests.core.words import bind, gang, node, shape
from tests.tiers import examples

GOOD, EVIL = "good", "evil"
CYCLES = 4


def of(tenant: str, name: str, *sets: tuple[Shape, int], priority: int = 0) -> Gang:
    """A gang of a tenant, which fits on its nodes only."""
    pods = [
        PodSet(f"s{i}", replace(each, selector=(("pool", tenant),)), count, count)
        for i, (each, count) in enumerate(sets)
    ]
    made = gang(f"{tenant}/{name}", *pods)
    return replace(made, namespace=tenant, queue=tenant, priority=priority)


def searched(tenant: str, i: int) -> Gang:
    """Greedy placement misses it on a node of 4 and one of 5 GPUs; a search finds it."""
    return of(tenant, f"searched{i}", (shape(gpu=3, cpu=1 + i), 1), (shape(gpu=2, cpu=1), 3))


def refuted(tenant: str, i: int) -> Gang:
    """A relaxation proves that it does not fit on them."""
    return of(tenant, f"refuted{i}", (shape(gpu=3, cpu=1 + i), 2), (shape(gpu=2), 1))


def above(tenant: str, i: int) -> Gang:
    """It fits without gangs of lower priority."""
    return of(tenant, f"above{i}", (shape(cpu=500 + i, gpu=1), 1), priority=5 + i)


def spread(tenant: str, i: int) -> Gang:
    """It fits on no two nodes, whichever gangs leave."""
    asked = replace(shape(cpu=10 + i), spread=(Spread(HOST, 1, APP),))
    made = of(tenant, f"spread{i}", (asked, 3), priority=i)
    pods = [replace(each, labels=(("app", f"a{i}"),)) for each in made.pod_sets]
    return replace(made, pod_sets=tuple(pods))


def gathered(tenant: str, i: int) -> Gang:
    asked = of(tenant, f"gathered{i}", (shape(gpu=3, cpu=1 + i), 1), (shape(gpu=2, cpu=2), 3))
    return replace(asked, gather=(Gather("pool", Strategy.MUST_GATHER),))


def plain(tenant: str, i: int) -> Gang:
    return of(tenant, f"plain{i}", (shape(gpu=10 + i), 1))


KINDS = [searched, refuted, above, spread, gathered, plain]
some = st.sampled_from(KINDS)


class Cluster:
    """Two nodes of each tenant, on which gangs of low priority run."""

    def __init__(self, filled: list[str]) -> None:
        self.core, self.now = Scheduler(Config()), 0.0
        self.core.apply(LayersChanged((Layer("pool", ("pool",)),)))
        for tenant in (GOOD, EVIL):
            self.core.apply(queue(tenant))
            for name, gpu in (("a", 4), ("b", 5)):
                labels = {"pool": tenant, HOST: f"{tenant}-{name}"}
                self.core.apply(node(f"{tenant}-{name}", gpu=gpu, cpu=2000, labels=labels))
        self.core.apply(node("ample", gpu=400, cpu=400_000))  # for the queues' shares; no gang may use it
        self.decide()
        for tenant in filled:
            for i in range(9):
                self.core.apply(GangSubmitted(of(tenant, f"low{i}", (shape(cpu=400, gpu=1), 1))))
        self.decide()

    def decide(self) -> list[Decision]:
        """The decisions of a cycle; what starts, is bound."""
        self.now += 1.0
        made = self.core.decide(self.now)
        for each in made:
            if isinstance(each, Assign):
                bind(self.core, each)
        return made

    def submit(self, *gangs: Gang) -> None:
        for each in gangs:
            self.core.apply(GangSubmitted(each))

    def of_good(self) -> tuple[list[Assign | Evict], dict[GangId, Explanation | None]]:
        """What is decided about the gangs of one tenant, and what they are told."""
        mine = [each for each in self.decide() if isinstance(each, Assign | Evict) and _of_good(each)]
        gangs = self.core.world.gangs.items()
        return mine, {name: _reason(state.explanation) for name, state in gangs if name.startswith(GOOD)}


def _reason(told: Explanation | None) -> Explanation | None:
    """What a gang is told, less what a dry run of the next cycle finds, with all gangs that wait."""
    return None if told is None else replace(told, remedies=(), expected_start=None)


def _of_good(decision: Assign | Evict) -> bool:
    beneficiary = decision.gang if isinstance(decision, Assign) else decision.beneficiary
    return beneficiary is not None and beneficiary.startswith(GOOD)


@given(
    st.lists(st.tuples(some, st.integers(1, 12)), min_size=1, max_size=4),
    st.lists(some, min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=examples(60), deadline=None)
def test_what_a_tenant_asks_for_changes_nothing_for_another(
    evil: list[tuple[object, int]], good: list[object], filled: bool, first: bool
) -> None:
    both = [EVIL, *[GOOD] * filled]
    alone, beside = Cluster(both), Cluster(both)
    number = 0
    for kind, count in evil:
        for _ in range(count):
            number += 1
            beside.submit(kind(EVIL, number))  # type: ignore[operator]
    if first:
        beside.decide(), alone.decide()
    for i, kind in enumerate(good):
        for each in (alone, beside):
            each.submit(kind(GOOD, i))  # type: ignore[operator]
    for _ in range(CYCLES):
        (mine, told), (mine_alone, told_alone) = beside.of_good(), alone.of_good()
        assert mine == mine_alone
        assert told == told_alone


def test_a_demand_that_another_tenant_may_not_search_for_is_searched_for_this_one() -> None:
    made = Cluster([])
    sets = [((shape(gpu=3, cpu=1500 + i), 1), (shape(gpu=1, cpu=1200), 2)) for i in range(6)]
    made.submit(*[of(EVIL, f"x{i}", *each) for i, each in enumerate(sets)])
    last = made.core.world.gangs[GangId("evil/x5")].gang
    assert last is not None
    made.submit(replace(last, id=GangId("good/x"), namespace=GOOD, queue=GOOD))
    made.decide()
    demands = {name: made.core.world.gangs[GangId(name)].demand for name in ("evil/x5", "good/x")}
    assert demands["evil/x5"] is demands["good/x"]
    budget = made.core.fit.exact.budget
    assert budget.refused(EVIL, demands["evil/x5"])
    assert budget.taken(GOOD, demands["good/x"])
