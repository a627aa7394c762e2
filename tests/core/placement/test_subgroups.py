"""Gangs whose subgroups have minima over several pod sets, against an exhaustive search."""

import itertools
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.demand import Demand, Part
from muster.core.placement import exact
from muster.core.placement.exact.problem import Problem
from muster.core.words.decisions import Decision
from muster.core.words.events import GangSubmitted, LayersChanged, PodsEnded
from muster.core.words.gang import Gang, GangId, Gather, Layer, PodSet, Strategy, Subgroup
from tests.core.placement.test_greedy import Cluster, exactly_fits
from tests.core.words import assigns, bind, node, shape
from tests.tiers import examples

#: Pod sets (request in CPUs and GPUs, count, minimum), and the minimum of all of them together.
Told = tuple[list[tuple[tuple[int, int], int, int]], int]


@st.composite
def parts(draw: st.DrawFn) -> Told:
    sets = []
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(1, 3))
        request = draw(st.integers(0, 2)), draw(st.integers(1, 5))
        sets.append((request, count, draw(st.sampled_from([0, 0, 0, 1, count]))))
    low, high = sum(least for *_, least in sets), sum(count for _, count, _ in sets)
    return sets, draw(st.integers(low, min(high, low + 3)))


def made(groups: list[Told], more: int = 0, **rules: object) -> Gang:
    """A gang with a subgroup for each; it needs `more` places than these."""
    sets = tuple(
        PodSet(f"s{g}{i}", shape(gpu=gpu, cpu=1000 * cpu), count, least, subgroup=f"g{g}")
        for g, (drawn, _) in enumerate(groups)
        for i, ((gpu, cpu), count, least) in enumerate(drawn)
    )
    subgroups = tuple(Subgroup(f"g{g}", least) for g, (_, least) in enumerate(groups))
    need = min(max(sum(least for _, least in groups) + more, 1), sum(p.count for p in sets))
    return replace(Gang(GangId("x"), sets, need, 0.0, subgroups=subgroups), **rules)  # type: ignore[arg-type]


def fits(free: list[tuple[int, int]], gang: Gang) -> bool:
    """Exhaustive: some numbers of places that satisfy all minima fit."""
    sets = gang.pod_sets
    requests = [
        (dict(p.shape.requests).get("nvidia.com/gpu", 0), dict(p.shape.requests)["cpu"] // 1000) for p in sets
    ]
    choices = itertools.product(*(range(p.min_count, p.count + 1) for p in sets))
    return any(
        exactly_fits(tuple(free), tuple(zip(requests, counts, strict=True)))
        for counts in choices
        if sum(counts) == gang.min_count and gang.met(dict(zip((p.name for p in sets), counts, strict=True)))
    )


def settled(core: Scheduler, now: float = 0.0) -> list[Decision]:
    """The decisions of now, once whatever was put off has had its turn."""
    decisions = [*core.decide(now)]
    for _ in range(8):
        if core.behind:
            decisions += core.decide(now)
    return decisions


FREE = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 10)), min_size=1, max_size=4)


@given(FREE, st.lists(parts(), min_size=1, max_size=3), st.integers(0, 2))
@settings(max_examples=examples(300), deadline=None)
def test_a_gang_starts_if_and_only_if_all_of_its_minima_fit(
    free: list[tuple[int, int]], groups: list[Told], more: int
) -> None:
    gang = made(groups, more)
    core = Scheduler(Config())
    for i, (gpu, cpu) in enumerate(free):
        core.apply(node(f"n{i}", gpu=gpu, cpu=1000 * cpu))
    core.apply(GangSubmitted(gang))
    started = assigns(settled(core))
    able = fits(free, gang)
    event("fits" if able else "does not")
    assert bool(started) == able
    if started:
        assert gang.met(Counter(place.pod_set for place in started[0].nodes))


@pytest.mark.parametrize("helpless", [False, True])
def test_the_smallest_pods_of_a_subgroup_make_up_its_minimum(
    monkeypatch: pytest.MonkeyPatch, helpless: bool
) -> None:
    """As reported: a pod of 4 and a part with minimum 2 of {2, 2, 2, 8} on a node of 8."""
    if helpless:
        monkeypatch.setattr(exact, "rounded", lambda *_: None)
    master: Told = ([((0, 4), 1, 1)], 1)
    workers: Told = ([((0, 2), 3, 0), ((0, 8), 1, 0)], 2)
    core = Scheduler()
    core.apply(node("n", cpu=8000))
    core.apply(GangSubmitted(made([master, workers])))
    (start,) = assigns(core.decide(0.0))
    assert Counter(place.pod_set for place in start.nodes) == {"s00": 1, "s10": 2}


def test_another_subgroup_does_not_make_up_for_what_one_lacks() -> None:
    core = Scheduler()
    core.apply(node("n", cpu=8000))
    gang = made([([((0, 1), 6, 0)], 1), ([((0, 4), 2, 0), ((0, 5), 2, 0)], 2)])
    assert gang.met({"s00": 1, "s10": 1, "s11": 1})
    assert not gang.met({"s00": 6, "s10": 1})
    core.apply(GangSubmitted(gang))
    assert not assigns(core.decide(0.0))
    core.apply(node("n", cpu=9000))
    (start,) = assigns(core.decide(1.0))
    assert Counter(place.pod_set for place in start.nodes) == {"s00": 1, "s10": 2}


@given(st.lists(parts(), min_size=2, max_size=3), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_of_a_gang_that_runs_only_so_many_places_are_needed_as_the_minima_lack(
    groups: list[Told], data: st.DataObject
) -> None:
    """Some pods end on a node that is then too small: it waits exactly if the minima are no longer met."""
    gang = made(groups)
    core = Scheduler()
    core.apply(node("n", gpu=40, cpu=200_000))
    core.apply(GangSubmitted(gang))
    (start,) = assigns(core.decide(0.0))
    bound = [pod for each in bind(core, start) for pod in each.pods.items()]
    gone = data.draw(st.sets(st.sampled_from(bound)))
    core.apply(node("n", gpu=40, cpu=200_000, cordoned=True))
    for pod, _ in sorted(gone):
        core.apply(PodsEnded((pod,), 1.0))
    core.decide(100.0)
    core.decide(1000.0)  # holds have run out
    left = Counter(place.pod_set for pod, place in bound if (pod, place) not in gone and place is not None)
    state = core.world.gangs[gang.id]
    assert state.waits == (not gang.met(left))
    if state.demand is not None and state.waits:
        lacking = state.demand.short([0] * len(state.demand.parts))
        assert lacking == state.demand.need >= gang.min_count - left.total()


@pytest.mark.parametrize("rule", [(), (Gather("rack", Strategy.MUST_GATHER),)])
def test_pods_of_one_shape_are_dealt_to_each_subgroup_first(rule: tuple[Gather, ...]) -> None:
    one: Told = ([((1, 1), 4, 0), ((1, 1), 1, 0)], 1)
    core = Scheduler()
    core.apply(LayersChanged((Layer("rack", ("rack",)),)))
    core.apply(node("n", gpu=4, labels={"rack": "a"}))
    core.apply(GangSubmitted(made([one, one, one], gather=rule)))
    (start,) = assigns(core.decide(0.0))
    found = Counter(place.pod_set[:2] for place in start.nodes)
    assert found.total() == 4
    assert set(found) == {"s0", "s1", "s2"}


def test_an_exact_problem_keeps_the_minimum_of_a_subgroup() -> None:
    """Three places are needed, two of them of the subgroup; a place of another part is worth least."""
    cluster = Cluster((8, 64))
    parts = [Part("other", shape(cpu=1000), 3, 0)]
    parts += [Part(f"s{gpu}", shape(gpu=gpu), 2, 0, subgroup="j") for gpu in (1, 2)]
    problem = Problem.of(Demand(tuple(parts), 3, minima=(("j", 2),)), [0, 0, 0], cluster.slots)
    order = [group.parts[0] for group in problem.groups]

    def by_group(values: tuple[int, int, int]) -> list[int]:
        return [values[p] for p in order]

    assert problem.size == 3
    assert problem.least(by_group((1, 10, 20))) == 21
    assert problem.least(by_group((30, 10, 20))) == 40
    assert problem.targets(by_group((3, 1, 0))) is None
    assert problem.targets(by_group((3, 2, 2))) == {0: 1, 1: 2, 2: 0}
    assert problem.without(by_group((1, 1, 0))).size == 1
