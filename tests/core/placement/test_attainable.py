"""What could run at all, against all ways to put the pods of a minimum on empty nodes."""

from collections import Counter
from dataclasses import replace
from itertools import combinations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.events import Footprint, GangSubmitted, LayersChanged, NodeChanged
from muster.core.words.gang import (
    Effect,
    Gang,
    GangId,
    Gather,
    Layer,
    NodeName,
    Operator,
    PodSet,
    PodTerm,
    Requirement,
    Shape,
    Spread,
    Strategy,
    Taint,
)
from tests.core import constrained
from tests.core.affinity_rules import Pod
from tests.core.constrained import Case
from tests.core.words import node, shape
from tests.tiers import examples

GATHER = ((), (Gather("row", Strategy.MUST_GATHER),), (Gather("row", None, 2),))


def possible(gang: Gang, nodes: list[tuple[int, str]]) -> bool:
    """Whether some placement of at least the minimum exists. `nodes`: GPUs and row of each."""
    pods = [s for s in gang.pod_sets for _ in range(s.count)]
    for where in product(range(-1, len(nodes)), repeat=len(pods)):
        placed = [(pod, at) for pod, at in zip(pods, where, strict=True) if at >= 0]
        done = Counter(pod.name for pod, _ in placed)
        if len(placed) < gang.min_count or any(done[s.name] < s.min_count for s in gang.pod_sets):
            continue
        used, rows = Counter[int](), Counter(nodes[at][1] for _, at in placed)
        for pod, at in placed:
            used[at] += dict(pod.shape.requests).get("nvidia.com/gpu", 0)
        if any(
            count > 1
            for pod in gang.pod_sets
            for key in {term.key for term in pod.shape.pod_anti_affinity}
            for count in Counter(
                at if key == "host" else nodes[at][1] for one, at in placed if one.name == pod.name
            ).values()
        ):
            continue
        if any(used[at] > gpus for at, (gpus, _) in enumerate(nodes)):
            continue
        for rule in gang.gather:
            if (rule.strategy is Strategy.MUST_GATHER and len(rows) > 1) or any(
                count % rule.multiple for count in rows.values()
            ):
                break
        else:
            return True
    return False


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    sets = []
    for name in "ab"[: draw(st.integers(1, 2))]:
        count = draw(st.integers(1, 3))
        pod = shape(gpu=draw(st.integers(1, 5)))
        mine = (Requirement("app", Operator.IN, (name,)),)
        keys = draw(st.sampled_from([(), (), ("host",), ("row",), ("host", "row")]))
        pod = replace(pod, pod_anti_affinity=tuple(PodTerm(key, mine, None) for key in keys))
        sets.append(PodSet(name, pod, count, draw(st.integers(0, count)), (("app", name),)))
    least = max(sum(s.min_count for s in sets), 1)
    most = sum(s.count for s in sets)
    minimum, gather = draw(st.integers(least, most)), draw(st.sampled_from(GATHER))
    return Gang(GangId("g"), tuple(sets), minimum, 0.0, namespace="ns", gather=gather)


@given(gangs(), st.lists(st.tuples(st.integers(0, 5), st.sampled_from("xy")), min_size=1, max_size=3))
@settings(max_examples=examples(100), deadline=None)
def test_nothing_that_could_run_is_left_out(gang: Gang, nodes: list[tuple[int, str]]) -> None:
    muster = Scheduler()
    muster.apply(LayersChanged((Layer("row", ("row",)),)))
    for i, (gpus, row) in enumerate(nodes):
        muster.apply(node(f"n{i}", gpu=gpus, labels={"row": row, "host": f"n{i}"}))
    muster.apply(GangSubmitted(gang))
    muster.settle()
    demand, attainable = muster.world.gangs[gang.id].demand, muster.world.queues.attainable
    assert demand is not None
    assert attainable is not None
    found = attainable.of(demand)
    if possible(gang, nodes):
        assert found.get("pods", 0) >= gang.min_count
    elif len(gang.pod_sets) == 1 and len(gang.pod_sets[0].shape.pod_anti_affinity) * len(gang.gather) == 0:
        assert not found, "for pods of one shape the answer is exact"
    assert all(found[r] <= demand.most[r] for r in found)


@st.composite
def spreads(draw: st.DrawFn) -> Case:
    """A gang with one required spread on up to four nodes, perhaps with pods of others that it counts."""
    zones = draw(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=4))
    nodes = []
    for i, zone in enumerate(zones):
        labels = (("host", f"n{i}"), *((("zone", zone),) if zone else ()))
        taints = (Taint("t", "", Effect.NO_SCHEDULE),) if draw(st.integers(0, 5)) == 0 else ()
        nodes.append(NodeChanged(NodeName(f"n{i}"), (("cpu", draw(st.integers(0, 4))),), labels, taints))
    here = draw(
        st.lists(st.sampled_from([each.name for each in nodes]), max_size=draw(st.sampled_from([0, 2])))
    )
    there = [Pod(Footprint("ns", (("app", "a"),)), Shape(()), name) for name in here]
    spread = Spread(
        draw(st.sampled_from(["zone", "zone", "host"])),
        draw(st.integers(1, 2)),
        (Requirement("app", Operator.IN, ("a",)),),
        min_domains=draw(st.integers(1, 3)),
        honor_affinity=draw(st.booleans()),
        honor_taints=draw(st.booleans()),
    )
    sets, left = [], 5
    for name in "pq"[: draw(st.integers(1, 2))]:
        count = draw(st.integers(1, min(4, left)))
        left -= count
        selector = (("zone", "a"),) if draw(st.integers(0, 5)) == 0 else ()
        kept = (spread,) if name == "p" or draw(st.booleans()) else ()
        of = Shape((("cpu", draw(st.integers(1, 2))),), selector=selector, spread=kept)
        app = "a" if name == "p" else draw(st.sampled_from("ab"))
        sets.append(PodSet(name, of, count, count, labels=(("app", app),)))
        if not left:
            break
    gang = Gang(GangId("g"), tuple(sets), sum(each.count for each in sets), 0.0, namespace="ns")
    return Case(tuple(nodes), tuple(there), gang)


@given(spreads())
@settings(max_examples=examples(300), deadline=None)
def test_a_spread_that_could_even_out_is_not_left_out(case: Case) -> None:
    """Whichever of the other pods end. Without any, the answer for pods of one shape is exact."""
    muster = constrained.scheduler(case)
    muster.settle()
    state, queues = muster.world.gangs[case.gang.id], muster.world.queues
    assert state.demand is not None
    stay = [some for n in range(len(case.there) + 1) for some in combinations(case.there, n)]
    expected = any(constrained.possible(replace(case, there=some)) for some in stay)
    found = queues.could_run(state, state.demand)
    assert found or not expected
    if len(case.gang.pod_sets) == 1 and not case.there:
        assert found == expected
