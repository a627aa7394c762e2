"""Work of a cycle in steps: who asks for much is decided later, and changes nothing for others."""

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.explain import question
from muster.core.placement import greedy
from muster.core.preemption import victims
from muster.core.words.decisions import Assign, Decision, Evict, Wait
from muster.core.words.events import GangRemoved, GangSubmitted, LayersChanged, QuotaChanged
from muster.core.words.gang import (
    Code,
    Gang,
    GangId,
    Gate,
    Gather,
    Layer,
    NodeTerm,
    Operator,
    PodSet,
    PodTerm,
    Requirement,
    Spread,
    Strategy,
)
from muster.core.work import WorkBudget
from tests.core.words import bind, gang, node, shape
from tests.tiers import examples, sample

HOST, ZONE = "kubernetes.io/hostname", "zone"
NODES = 24
APP = (Requirement("app", Operator.EXISTS),)
STEPS = Config().steps or 0
#: Steps that one attempt of the gangs below takes at most, with its explanation and remedies.
ATTEMPT = 6 * greedy.VECTORS
#: Steps of one question for remedies, with the last of its trials.
QUESTION = question.PATIENCE + greedy.VECTORS


# The budget alone


@given(
    costs=st.lists(st.integers(1, 400), min_size=1, max_size=20),
    others=st.lists(st.integers(0, 3), max_size=12),
)
def test_every_demand_that_keeps_asking_is_served_before_any_is_served_twice(
    costs: list[int], others: list[int]
) -> None:
    budget, served = WorkBudget(100), [0] * len(costs)
    cycles = 2 * ceil(sum(costs) / (100 // 16)) + 2 * len(costs)
    for cycle in range(cycles):
        budget.next_cycle()
        for other in others[cycle : cycle + 1]:
            if budget.takes("other", other):
                budget.charge("other", 50, 1)
        for demand, cost in enumerate(costs):
            if budget.takes("ns", demand):
                budget.charge("ns", cost, 1)
                served[demand] += 1
        assert max(served) <= min(served) + 2
        if min(served):
            return
    pytest.fail(f"some have not been served: {served}")


@given(hostile=st.lists(st.integers(1, 10_000), max_size=50), cost=st.integers(0, 90))
def test_a_namespace_without_debts_is_served_at_once_beside_one_that_asks_for_much(
    hostile: list[int], cost: int
) -> None:
    budget = WorkBudget(1000)
    for cycle in range(6):
        budget.next_cycle()
        used = 0
        for demand, steps in enumerate(hostile):
            if used < 1000 and budget.takes("evil", demand):
                budget.charge("evil", min(steps, 900), 1)
                used += min(steps, 900)
        assert used <= 1900  # its share, and what the last of them exceeds it by
        assert budget.takes("good", cycle)
        budget.charge("good", min(cost, 1000 // 16 - 1), 1)


def test_a_namespace_pays_in_later_cycles_for_what_exceeds_its_share() -> None:
    budget, used = WorkBudget(100), 0
    for _ in range(50):
        budget.next_cycle()
        for demand in range(20):
            if budget.takes("ns", demand):
                budget.charge("ns", 700, 1)
                used += 700
    assert 40 * 100 <= used <= 50 * 100 + 700


def test_many_namespaces_together_are_bounded_too() -> None:
    budget, used = WorkBudget(1000), []
    for _ in range(40):
        budget.next_cycle()
        used.append(0)
        for n in range(50):
            if budget.takes(f"ns{n}", "demand"):
                budget.charge(f"ns{n}", 600, 1)
                used[-1] += 600
    assert max(used) <= 3 * 1000 + 600
    assert sum(used) <= 40 * 2 * 1000 + 50 * 600
    assert sum(used) >= 50 * 600, "each has had its turn"


@given(namespaces=st.integers(1, 40), steps=st.integers(1, 8), demands=st.integers(1, 6))
def test_each_of_many_namespaces_has_its_turns(namespaces: int, steps: int, demands: int) -> None:
    budget, served = WorkBudget(steps), Counter[str]()
    cycles = 2 * namespaces * demands
    for _ in range(cycles):
        budget.next_cycle()
        for n in range(namespaces):
            for demand in range(demands):
                if budget.takes(f"ns{n}", demand):
                    budget.charge(f"ns{n}", 1)
                    served[f"ns{n}"] += 1
    least = min(cycles * min(steps, 2 * steps / namespaces) / 2, cycles * demands)
    assert min(served[f"ns{n}"] for n in range(namespaces)) >= least // 2


def test_debts_and_demands_are_forgotten_once_they_are_paid_and_gone() -> None:
    budget = WorkBudget(10)
    for demand in range(100):
        if budget.takes("ns", demand):
            budget.charge("ns", 50, 1)
    assert budget.behind
    for _ in range(30):
        budget.next_cycle()
    assert not budget.tenants
    assert not budget.behind


def test_over_more_nodes_a_step_counts_more() -> None:
    small, large = WorkBudget(100), WorkBudget(100)
    small.charge("ns", 50, 2_000)
    large.charge("ns", 50, 10_000)
    assert small.takes("ns", 1)
    assert not large.takes("ns", 1)


# Searches, each of which counts as one step


def served(budget: WorkBudget, demands: Sequence[Hashable], namespace: str = "ns") -> list[Hashable]:
    """The demands that are served, in the next cycle, if these ask."""
    budget.next_cycle()
    taken = []
    for each in demands:
        if budget.takes(namespace, each):
            budget.charge(namespace, 1)
            taken.append(each)
    return taken


def test_each_demand_that_goes_on_asking_is_searched() -> None:
    budget = WorkBudget(2)
    assert [served(budget, range(7)) for _ in range(4)] == [[0, 1], [2, 3], [4, 5], [6]]


def test_a_demand_that_asks_no_longer_gives_up_its_turn() -> None:
    budget = WorkBudget(1)
    assert served(budget, "abcd") == ["a"]
    assert served(budget, "cd") == ["c"]
    assert served(budget, "d") == ["d"]
    assert served(budget, "e") == ["e"]
    budget.next_cycle()
    budget.next_cycle()
    assert not budget.behind


def test_a_demand_that_asks_again_in_a_cycle_needs_another_turn() -> None:
    budget = WorkBudget(2)
    assert served(budget, "aaa") == ["a", "a"]
    assert budget.behind


def test_what_a_namespace_searches_for_takes_no_turn_of_another() -> None:
    budget = WorkBudget(2)
    for _ in range(5):
        assert len(served(budget, range(100), "evil")) == 2
        for demand in "ab":
            assert budget.takes("good", demand)
            budget.charge("good", 1)


# In a scheduler


def cluster(steps: int | None = STEPS) -> Scheduler:
    muster = Scheduler(Config(steps=steps))
    muster.apply(LayersChanged((Layer("zone", (ZONE,)),)))
    for i in range(NODES):
        muster.apply(node(f"n{i:02}", labels={HOST: f"n{i:02}", ZONE: f"z{i % 4}"}))
    muster.decide(0.0)
    return muster


def of(namespace: str, name: str, *sets: PodSet, **fields: object) -> Gang:
    return replace(gang(f"{namespace}/{name}", *sets), namespace=namespace, **fields)  # type: ignore[arg-type]


def spread_apart(i: int, count: int = NODES + 6) -> Gang:
    """It does not fit: more pods than nodes, one per node, evenly."""
    terms = {"pod_anti_affinity": (PodTerm(HOST, APP, None),), "spread": (Spread(ZONE, 1, APP),)}
    asked = replace(shape(cpu=100 + i), **terms)  # type: ignore[arg-type]
    return of("evil", f"a{i:03}", PodSet("main", asked, count, count, labels=(("app", f"a{i}"),)))


def many_terms(i: int) -> Gang:
    near = tuple((1, PodTerm(ZONE, (Requirement(f"y{j}", Operator.EXISTS),), None)) for j in range(8))
    apart = tuple(PodTerm(ZONE, (Requirement(f"x{j}", Operator.EXISTS),), None) for j in range(7))
    asked = replace(
        shape(cpu=100 + i),
        pod_anti_affinity=(*apart, PodTerm(HOST, APP, None)),
        preferred_pod_affinity=near,
        spread=(Spread(ZONE, 1, APP), Spread(HOST, 1, APP)),
    )
    return of("evil", f"t{i:03}", PodSet("main", asked, NODES + 1, NODES + 1, labels=(("app", f"t{i}"),)))


def many_sets(i: int) -> Gang:
    sets = [PodSet(f"s{j}", shape(cpu=30_000 + i + 7 * j, gpu=1 + (i + j) % 5), 6, 6) for j in range(8)]
    return of("evil", f"x{i:03}", *sets)


def gathered(i: int) -> Gang:
    asked = PodSet("main", shape(cpu=3_000 + i, gpu=5), 9, 9)
    return of("evil", f"g{i:03}", asked, gather=(Gather("zone", Strategy.MUST_GATHER, 3),))


def picky(i: int) -> Gang:
    terms = tuple(NodeTerm((Requirement(f"k{k}", Operator.NOT_IN, (f"v{i}",)),)) for k in range(100))
    asked = shape(cpu=64_000, gpu=8, memory=i, affinity=terms)
    return of("evil", f"n{i:03}", PodSet("main", asked, NODES + 1, NODES + 1))


KINDS = [spread_apart, many_terms, many_sets, gathered, picky]


def plain(cycle: int) -> Gang:
    return of("good", f"p{cycle}", PodSet("main", shape(cpu=1), 1, 1), submitted=1e6 + cycle)


def cycles(muster: Scheduler, count: int, first: int = 1) -> Iterator[tuple[Gang, list[Decision], int]]:
    """By cycle: the plain gang of another namespace that has just arrived, the decisions, and the steps."""
    for cycle in range(first, first + count):
        fresh = plain(cycle)
        muster.apply(GangSubmitted(fresh))
        before = muster.world.nodes.steps
        decisions = muster.decide(float(cycle))
        yield fresh, decisions, muster.world.nodes.steps - before
        muster.apply(GangRemoved(fresh.id))


def starts(decisions: list[Decision]) -> set[GangId]:
    return {each.gang for each in decisions if isinstance(each, Assign)}


@pytest.mark.parametrize("kind", KINDS)
def test_heavy_gangs_of_a_tenant_delay_no_plain_gang_of_another(kind: type) -> None:
    muster = cluster()
    for i in range(examples(60)):
        muster.apply(GangSubmitted(kind(i)))
    total = 0
    for fresh, decisions, steps in cycles(muster, 8):
        assert fresh.id in starts(decisions), "in the cycle in which it arrives"
        assert steps <= 4 * STEPS + ATTEMPT
        total += steps
    assert total <= 8 * 4 * STEPS + ATTEMPT


@pytest.mark.parametrize("kind", KINDS)
def test_what_heavy_gangs_wait_for_does_not_change_another_tenants_nodes(kind: type) -> None:
    beside, alone = cluster(), cluster()
    for i in range(examples(40)):
        beside.apply(GangSubmitted(kind(i)))
        beside.decide(0.5)
        started = [state.id for state in beside.world.gangs.values() if state.holds]
        for gang_id in started:
            beside.apply(GangRemoved(gang_id))  # it uses no capacity
    for (_, mine, _), (_, others, _) in zip(cycles(beside, 4), cycles(alone, 4), strict=True):
        good = [each for each in mine if isinstance(each, Assign) and each.gang.startswith("good/")]
        assert good == [each for each in others if isinstance(each, Assign)]


def test_postponed_gangs_are_told_so_and_each_has_its_turn() -> None:
    muster = cluster(steps=300)
    heavy = [spread_apart(i) for i in range(12)]
    for each in heavy:
        muster.apply(GangSubmitted(each))
    first = {each.gang: each.explanation.code for each in muster.decide(1.0) if isinstance(each, Wait)}
    assert Code.POSTPONED in first.values()
    assert set(first.values()) <= {Code.POSTPONED, Code.CONSTRAINT_UNSATISFIED}
    wake = muster.wake_at()
    assert wake is not None
    assert 1.0 < wake < 1.0 + muster.config.turn
    for _ in range(12 * ATTEMPT // (300 // 16)):
        muster.decide(muster.wake_at() or 0.0)
        told = {each.id: muster.world.gangs[each.id].explanation for each in heavy}
        codes = [None if each is None else each.code for each in told.values()]
        if codes == [Code.CONSTRAINT_UNSATISFIED] * len(heavy):
            return
    pytest.fail(f"still {codes}")


@settings(max_examples=examples(20))
@given(
    steps=st.sampled_from([20, 100, 400]),
    heavy=st.integers(1, 4),
    cycle=st.integers(1, 4),
    alike=st.booleans(),
)
def test_a_gang_is_told_why_it_waits_when_it_comes_whatever_its_namespace_owes(
    steps: int, heavy: int, cycle: int, alike: bool
) -> None:
    muster = cluster(steps=steps)
    for i in range(heavy):
        muster.apply(GangSubmitted(spread_apart(i)))
    for now in range(cycle):
        muster.decide(float(now))
    told = {each.id: each.explanation for each in muster.world.gangs.values()}
    assert None not in told.values()
    left = (("pods", 1),)
    muster.apply(QuotaChanged("evil", "few", left))
    more = PodSet("main", shape(cpu=1), 2, 2, uncreated=2, quotas=(("few", left),))
    short = of("evil", "short", more)
    large = of("evil", "large", PodSet("main", shape(gpu=9), 1, 1))
    # before the others of its class
    again = replace(spread_apart(0), id=GangId("evil/again"), submitted=-1.0) if alike else large
    for each in (short, large, again):
        muster.apply(GangSubmitted(each))
    waits = {each.gang: each.explanation for each in muster.decide(10.0) if isinstance(each, Wait)}
    assert waits[short.id].code is Code.QUOTA_EXCEEDED
    assert waits[large.id].code in (Code.POSTPONED, Code.NOTHING_MATCHES)
    assert again.id in waits
    for gang_id, before in told.items():
        now_told = muster.world.gangs[gang_id].explanation
        assert now_told is not None, "what it was told is not forgotten"
        assert now_told.code is not Code.POSTPONED or now_told == before
    for _ in range(500):
        if not muster.behind and not muster._explainer.postponed:
            break
        muster.decide(muster.wake_at() or 0.0)
    last = muster.world.gangs[large.id].explanation
    assert last is not None
    assert last.code is Code.NOTHING_MATCHES


@settings(max_examples=examples(20))
@given(
    steps=st.sampled_from([20, 100, 400]),
    heavy=st.integers(1, 6),
    cycle=st.integers(0, 4),
    which=st.integers(0, 5),
    code=st.sampled_from([Code.GATED, Code.INVALID, Code.MEMBERS_MISSING]),
)
def test_a_gang_is_told_of_its_gate_at_once_whatever_its_namespace_owes(
    steps: int, heavy: int, cycle: int, which: int, code: Code
) -> None:
    muster = cluster(steps=steps)
    gangs = [spread_apart(i) for i in range(heavy)]
    for each in gangs:
        muster.apply(GangSubmitted(each))
    for now in range(cycle):
        muster.decide(float(now))
    one = gangs[which % heavy]
    muster.apply(GangSubmitted(replace(one, gate=Gate(code, "held"))))
    waits = {each.gang: each.explanation for each in muster.decide(10.0) if isinstance(each, Wait)}
    assert (waits[one.id].code, waits[one.id].message) == (code, "held")
    muster.apply(GangSubmitted(one))
    waits = {each.gang: each.explanation for each in muster.decide(11.0) if isinstance(each, Wait)}
    assert waits[one.id].code in (Code.POSTPONED, Code.CONSTRAINT_UNSATISFIED)


def test_heavy_gangs_that_fit_all_start_one_after_the_other() -> None:
    muster, left = cluster(steps=30), {GangId(f"evil/a{i:03}") for i in range(12)}
    for i in range(12):
        asked = replace(shape(cpu=100 + i), spread=(Spread(ZONE, 1, APP),))
        one = of("evil", f"a{i:03}", PodSet("main", asked, 8, 8, labels=(("app", f"a{i}"),)))
        muster.apply(GangSubmitted(one))
    now, turns = 1.0, 0
    while left:
        found = [each for each in muster.decide(now) if isinstance(each, Assign)]
        left -= {each.gang for each in found}
        for each in found:
            bind(muster, each)
        turns += 1
        assert turns < 200
        now = muster.wake_at() or now + 1
    assert turns > 2, "no cycle has done it all"


def test_without_a_limit_all_gangs_are_tried_in_each_cycle() -> None:
    muster = cluster(steps=None)
    for i in range(6):
        muster.apply(GangSubmitted(spread_apart(i)))
    told = [each.explanation.code for each in muster.decide(1.0) if isinstance(each, Wait)]
    assert told == [Code.CONSTRAINT_UNSATISFIED] * 6


def test_a_large_plain_gang_is_not_postponed_whatever_its_namespace_asks_for() -> None:
    muster = cluster(steps=100)
    for i in range(12):
        muster.apply(GangSubmitted(spread_apart(i)))
    muster.decide(1.0)
    muster.apply(GangSubmitted(of("evil", "plain", PodSet("main", shape(gpu=1), NODES * 8, 8))))
    assert GangId("evil/plain") in starts(muster.decide(2.0))


# One gang


def full(limit: float | None = None, priority: int = 0) -> Scheduler:
    """A cluster full of gangs of one pod."""
    muster = cluster()
    for i in range(4 * NODES):
        sets = PodSet("main", shape(cpu=16_000), 1, 1, labels=(("app", "x"),))
        end = None if limit is None else limit + i
        muster.apply(GangSubmitted(of("busy", f"b{i}", sets, limit=end, priority=priority and i % priority)))
    for each in muster.decide(0.5):
        if isinstance(each, Assign):
            bind(muster, each)
    return muster


def steps_of(muster: Scheduler, heavy: Gang, cycles: int = 3) -> int:
    muster.apply(GangSubmitted(heavy))
    before = muster.world.nodes.steps
    for cycle in range(1, 1 + cycles):
        muster.decide(float(cycle))
    return muster.world.nodes.steps - before


def test_a_gang_of_hundreds_of_pod_sets_costs_a_bounded_number_of_steps() -> None:
    sets = [PodSet(f"s{j}", shape(cpu=16_000 + 7 * j), 4, 4) for j in range(300)]
    assert steps_of(cluster(), of("evil", "x", *sets)) <= 15_000


@pytest.mark.parametrize("kind", [spread_apart, many_terms])
def test_the_search_for_a_heavy_gangs_reservation_is_bounded(kind: type) -> None:
    muster = full(limit=1000.0)
    assert steps_of(muster, kind(0), cycles=1) <= 2 * STEPS + greedy.VECTORS + QUESTION


def test_a_reservation_is_found_by_a_search_that_used_up_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    muster = full(limit=1000.0)
    monkeypatch.setattr(muster.reservations._search, "_steps", 100)
    muster.apply(GangSubmitted(replace(spread_apart(0, NODES), limit=10.0)))
    muster.decide(1.0)
    (reserved,) = muster.reservations.made
    assert 1000.0 + NODES < reserved.start < 1000.0 + 4 * NODES, "each node takes one of its pods"


@pytest.mark.parametrize("sets", sample([0, victims.SETS], 1))
@pytest.mark.parametrize("kind", [spread_apart, many_terms, pytest.param(many_sets, marks=pytest.mark.full)])
def test_the_search_for_a_heavy_gangs_victims_is_interrupted_and_goes_on(
    kind: type, sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(victims, "SETS", sets)
    muster, heavy = full(priority=12), replace(kind(0), priority=1000)
    muster.apply(GangSubmitted(heavy))
    now, cycles = 1.0, 0
    while True:
        before, cycles = muster.world.nodes.steps, cycles + 1
        decisions = muster.decide(now)
        assert muster.world.nodes.steps - before <= 2 * STEPS + greedy.VECTORS + QUESTION
        if any(isinstance(each, Evict) for each in decisions) or not muster.behind:
            break
        assert cycles < 500
        due = muster.wake_at()
        assert due is not None
        now = due
    evicts = any(isinstance(each, Evict) for each in decisions)
    assert evicts == (kind is many_sets)
    assert evicts or cycles > 3, "no cycle has searched it all"
