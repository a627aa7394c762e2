"""A gang with a reservation starts by its time, whatever other gangs there are and request.

What the calendar says that a reservation can spare is compared with what follows from all ends.
"""

import random
from collections.abc import Iterable, Set
from dataclasses import replace
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.reservations import Backfill
from muster.core.words.events import GangRemoved, GangSubmitted, LayersChanged, PodsEnded
from muster.core.words.gang import (
    Gang,
    GangId,
    Gather,
    HostPort,
    Layer,
    Operator,
    PodId,
    PodSet,
    PodTerm,
    Requirement,
    Shape,
    Spread,
    Strategy,
)
from tests.core.words import assigns, bind, gang, node, shape
from tests.tiers import examples

LAYERS = (Layer("zone", ("zone",)), Layer("rack", ("rack",)))
#: Seconds that are no delay where ends are told late: times are whole numbers but for that.
LATENESS = 0.5


def app(name: str) -> tuple[Requirement, ...]:
    return (Requirement("app", Operator.IN, (name,)),)


def draw_shape(rng: random.Random, kinds: Set[str], own: str) -> Shape:
    """Of whole GPUs or shares; some have anti-affinity, use a port of the node, or have affinity."""
    one = shape(gpu=rng.choice([1, 1, 2, 4]))
    if "shares" in kinds and rng.random() < 0.4:
        one = shape(share=rng.choice([250, 400, 500, 700]))
    key = rng.choice(["host", "rack", "zone"])
    if "apart" in kinds and rng.random() < 0.25:
        one = replace(one, pod_anti_affinity=(PodTerm(key, app(rng.choice("pq")), ("ml",)),))
    if "ports" in kinds and rng.random() < 0.3:
        one = replace(one, ports=(HostPort(80),))
    if "affinity" in kinds and rng.random() < 0.2:
        one = replace(one, pod_affinity=(PodTerm(key, app(own), ("ml",)),))
    if "affinity" in kinds and rng.random() < 0.2:
        one = replace(one, spread=(Spread(key, rng.choice([1, 1, 2]), app(own)),))
    return one


def draw(rng: random.Random, kinds: Set[str], number: int, at: float) -> Gang:
    """One or two shapes, with a limit but for some; of the kinds that there may be."""
    own = rng.choice("pq")
    labels = (("app", own),)
    count = rng.randint(1, 4)
    least = rng.randint(1, count) if "elastic" in kinds and rng.random() < 0.3 else count
    sets = [PodSet("main", draw_shape(rng, kinds, own), count, least, labels=labels)]
    if rng.random() < 0.3:
        other = rng.randint(1, 2)
        sets.append(PodSet("other", shape(gpu=rng.choice([1, 2])), other, other, labels=labels))
    one = gang(f"g{number:02}", *sets, minimum=sum(s.min_count for s in sets), submitted=at)
    one = replace(one, namespace="ml", limit=float(rng.choice([5, 10, 20, 40])), preempts=False)
    if "gather" in kinds and rng.random() < 0.4:
        strategy = rng.choice([Strategy.MUST_GATHER, Strategy.PREFER_GATHER])
        one = replace(one, gather=(Gather(rng.choice(["rack", "zone"]), strategy),))
    if "exclusive" in kinds and rng.random() < 0.2:
        one = replace(one, exclusive=rng.choice(["rack", "NodeTopologyLayer"]))
    if "endless" in kinds and rng.random() < 0.1:
        one = replace(one, limit=None)
    return one


def firm(one: Gang) -> bool:
    """Whether its time is a promise: it needs no other pods, which could end early."""
    return not any(s.shape.pod_affinity or s.shape.spread for s in one.pod_sets)


def outlives_its_time(core: Scheduler, name: GangId) -> bool:
    state = core.world.gangs[name]
    if state.bound is None or state.gang is None:
        return False
    return state.bound + core.world.completions.duration(state.gang) <= core.world.now


def assert_spare_is_exact(core: Scheduler, started: Iterable[GangId]) -> None:
    """What each reservation can spare is what running and reserved gangs leave at its time.

    It is less in a cycle in which a gang gets more pods that outlives its time: it may end at any moment, but
    to pass a reservation these pods count as if they ran as long as new ones.
    """
    reservations = core.reservations._calendar.values()
    grown = any(outlives_its_time(core, name) for name in started)
    for each in reservations:
        with core.world.ledger.log.trial():
            core.world.completions.give(
                [state for end, state in core.world.completions.after(core.world.now) if end <= each.at]
            )
            used = core.world.nodes.used.copy()
        for other in reservations:
            if other.at <= each.at < other.until:
                used[: len(other.use), other.columns] += other.use
        spare = core.world.nodes.capacities(each.columns) - used.take(each.columns, axis=1)
        less = spare[: len(each.spare)] - each.spare
        assert (less >= 0).all() if grown else not less.any()


@pytest.mark.parametrize(
    ("backfill", "kinds"),
    [
        (Backfill.EASY, {"gather", "exclusive"}),
        (Backfill.CONSERVATIVE, {"late", "elastic", "endless"}),
        (Backfill.CONSERVATIVE, {"gather", "exclusive", "shares", "elastic"}),
        (Backfill.CONSERVATIVE, {"apart", "ports", "exclusive", "elastic", "late"}),
        (Backfill.CONSERVATIVE, {"apart", "ports", "affinity", "gather", "exclusive", "late", "endless"}),
    ],
)
@settings(max_examples=examples(50), deadline=None)
@example(seed=5454851)  # a gang that outlives its time grows where a reservation begins
@example(seed=516803)  # it starts late in its reserved places, and stays into the time of another reservation
@given(seed=st.integers(0, 2**32))
def test_a_reserved_time_is_kept(backfill: Backfill, kinds: Set[str], seed: int) -> None:
    rng = random.Random(seed)
    core = Scheduler(Config(backfill=backfill, explain=False, drain_after=None))
    for i in range(rng.randint(2, 6)):
        labels = {"host": f"n{i}", "rack": f"r{i // 2}", "zone": rng.choice("ab")}
        core.apply(node(f"n{i}", gpu=rng.choice([2, 4, 8]), labels=labels))
    core.apply(LayersChanged(LAYERS))
    at, arrivals, ends = 0.0, list[Gang](), list[tuple[float, GangId, list[PodId]]]()
    for number in range(rng.randint(6, 16)):
        at += rng.choice([0, 0, 1, 3, 10])
        arrivals.append(draw(rng, kinds, number, at))
    slack = LATENESS if "late" in kinds else 0.0
    promised: dict[GangId, float] = {}
    now = 0.0
    while now < inf:
        while arrivals and arrivals[0].submitted <= now:
            core.apply(GangSubmitted(arrivals.pop(0)))
        for _, name, pods in sorted(end for end in ends if end[0] <= now):
            core.apply(PodsEnded(tuple(pods), now))
            core.apply(GangRemoved(name))
        ends = [end for end in ends if end[0] > now]
        before = set(promised) & {end[1] for end in ends}
        decisions = core.decide(now)
        if "shares" not in kinds:
            assert_spare_is_exact(core, [assign.gang for assign in assigns(decisions)])
        for assign in assigns(decisions):
            known = core.world.gangs[assign.gang].gang
            assert known is not None
            if firm(known) and assign.gang not in before:
                assert now <= promised.get(assign.gang, inf) + slack
            bound = bind(core, assign)
            for event in bound:
                core.apply(replace(event, at=now))
            started = [pod for event in bound for pod in event.pods]
            running = [each for each in ends if each[1] == assign.gang]
            for _, _, pods in running:
                pods += started
            if not running:
                lasts = (known.limit or 60.0) * rng.choice([1, 1, 0.5, 0.2])
                late = rng.choice([0.001, 0.002, 0.004]) if "late" in kinds else 0.0
                ends.append((now + lasts + late, assign.gang, started))
        for each in core.reservations.made:
            known = core.world.gangs[each.gang].gang
            assert known is not None
            assert not firm(known) or each.at <= promised.get(each.gang, inf) + slack
            promised[each.gang] = each.at
        woken = core.wake_at()
        times = [end for end, _, _ in ends] + [one.submitted for one in arrivals[:1]]
        times += [woken] if woken is not None and woken > now else []
        now = min((time for time in times if time > now), default=inf)
