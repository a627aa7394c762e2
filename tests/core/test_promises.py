"""Who has been told a time starts by then: gangs that gather, or want domains to themselves."""

import random
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.backfill import Backfill
from muster.core.events import GangRemoved, GangSubmitted, LayersChanged, PodsEnded
from muster.core.gang import Gang, GangId, Gather, Layer, PodId, PodSet, Strategy
from muster.core.scheduler import Config, Scheduler
from tests.core.words import assigns, bind, gang, node, shape

LAYERS = (Layer("zone", ("zone",)), Layer("rack", ("rack",)))


def draw(rng: random.Random, number: int, at: float, *, exclusive: bool) -> Gang:
    """One or two shapes, with a limit; some must gather, some should, some want domains to themselves."""
    sets = [PodSet("main", shape(gpu=rng.choice([1, 1, 2, 4])), count := rng.randint(1, 4), count)]
    if rng.random() < 0.3:
        sets.append(PodSet("other", shape(gpu=rng.choice([1, 2])), count := rng.randint(1, 2), count))
    one = replace(gang(f"g{number:02}", *sets, submitted=at), limit=float(rng.choice([5, 10, 20, 40])))
    if rng.random() < 0.4:
        strategy = rng.choice([Strategy.MUST_GATHER, Strategy.PREFER_GATHER])
        one = replace(one, gather=(Gather(rng.choice(["rack", "zone"]), strategy),))
    if exclusive and rng.random() < 0.2:
        one = replace(one, exclusive=rng.choice(["rack", "NodeTopologyLayer"]))
    return one


# Under `conservative` domains of their own move a time in one such run of 150 still (docs/backfill.md).
@pytest.mark.parametrize(("backfill", "exclusive"), [(Backfill.EASY, True), (Backfill.CONSERVATIVE, False)])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_time_that_was_told_is_kept_with_topology_included(
    backfill: Backfill, exclusive: bool, seed: int
) -> None:
    rng = random.Random(seed)
    core = Scheduler(Config(backfill=backfill, explain=False))
    for i in range(rng.randint(2, 6)):
        labels = {"rack": f"r{i // 2}", "zone": rng.choice("ab")}
        core.apply(node(f"n{i}", gpu=rng.choice([2, 4, 8]), labels=labels))
    core.apply(LayersChanged(LAYERS))
    at, arrivals, ends = 0.0, list[Gang](), list[tuple[float, GangId, list[PodId]]]()
    for number in range(rng.randint(6, 16)):
        at += rng.choice([0, 0, 1, 3, 10])
        arrivals.append(draw(rng, number, at, exclusive=exclusive))
    promised: dict[GangId, float] = {}
    now = 0.0
    while now < inf:
        while arrivals and arrivals[0].submitted <= now:
            core.apply(GangSubmitted(arrivals.pop(0)))
        for _, name, pods in sorted(end for end in ends if end[0] <= now):
            core.apply(PodsEnded(tuple(pods), now))
            core.apply(GangRemoved(name))
        ends = [end for end in ends if end[0] > now]
        for assign in assigns(core.decide(now)):
            assert now <= promised.get(assign.gang, inf)
            bound = bind(core, assign)
            for event in bound:
                core.apply(replace(event, at=now))
            known = core.gangs[assign.gang].gang
            assert known is not None
            assert known.limit is not None
            lasts = known.limit * rng.choice([1, 1, 0.5, 0.2])
            ends.append((now + lasts, assign.gang, [pod for event in bound for pod in event.pods]))
        for each in core.reservations.made:
            assert each.at <= promised.get(each.gang, inf)
            promised[each.gang] = each.at
        woken = core.wake_at()
        times = [end for end, _, _ in ends] + [one.submitted for one in arrivals[:1]]
        times += [woken] if woken is not None and woken > now else []
        now = min((time for time in times if time > now), default=inf)
