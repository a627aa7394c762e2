"""Gangs and the topology: where they go, and that it is right whatever they ask."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.demand import Demand, Part, Request, Rules
from muster.core.placement import Infeasible, Placed
from muster.core.placement.topology.fill import fewest
from muster.core.words.decisions import Assign
from muster.core.words.events import GangSubmitted, LayersChanged, PodsBound, PodsEnded
from muster.core.words.gang import (
    Effect,
    Gang,
    GangId,
    Gather,
    Layer,
    NodeName,
    Operator,
    Place,
    PodId,
    PodSet,
    Requirement,
    Spread,
    Strategy,
    Taint,
)
from muster.core.world.topology import NODE
from tests.core.words import (
    assigns,
    bind,
    foreign,
    gang,
    node,
    pod,
    scheduler,
    shape,
    waits,
    where,
)
from tests.tiers import examples

LAYERS = (Layer("Spine", ("spine",)), Layer("Block", ("block",)))
MUST, PREFER = Strategy.MUST_GATHER, Strategy.PREFER_GATHER


def must(layer: str, multiple: int = 1) -> Gather:
    return Gather(layer, MUST, multiple)


def prefer(*layers: str) -> tuple[Gather, ...]:
    return tuple(Gather(layer, PREFER) for layer in layers)


def tree(**free: int) -> Scheduler:
    """Nodes called <spine>_<block>_<n> with so many GPUs of eight free."""
    made = scheduler()
    made.apply(LayersChanged(LAYERS))
    for name, gpus in free.items():
        spine, block, _ = name.split("_")
        made.apply(node(name, labels={"spine": spine, "block": block} if spine != "x" else {}))
        if gpus < 8:
            foreign(made, on=name, gpu=8 - gpus)
    return made


def ask(made: Scheduler, one: Gang, *rules: Gather) -> list[str] | str:
    """The nodes in order of place, or the reason."""
    made.apply(GangSubmitted(replace(one, gather=rules)))
    decisions = made.decide(0.0)
    if found := assigns(decisions):
        return where(found[0])
    told = waits(decisions)[0].explanation
    return f"{told.code.value}: {told.message}"


def test_all_in_one_domain() -> None:
    made = tree(s1_b1_1=4, s1_b1_2=2, s1_b2_1=3, s1_b2_2=4, s2_b1_1=4, s2_b1_2=1)
    assert ask(made, gang("x", count=7), must("Block")) == ["s1_b2_1"] * 3 + ["s1_b2_2"] * 4


def test_the_tightest_then_the_fullest_then_the_first() -> None:
    # one node holds it, so no block is asked; of the nodes the fullest that does
    assert ask(tree(s1_b1_1=8, s1_b1_2=4, s2_b1_1=3), gang("x", count=3), must("Spine")) == ["s2_b1_1"] * 3
    # two blocks of six: the one in the fuller spine
    made = tree(s1_b1_1=3, s1_b1_2=3, s1_b2_1=2, s2_b1_1=3, s2_b1_2=3, s2_b2_1=1)
    assert ask(made, gang("x", count=6), must("Spine")) == ["s2_b1_1"] * 3 + ["s2_b1_2"] * 3
    made = tree(s1_b1_1=3, s1_b1_2=3, s2_b1_1=3, s2_b1_2=3)
    assert ask(made, gang("x", count=6), must("Spine")) == ["s1_b1_1"] * 3 + ["s1_b1_2"] * 3


def test_as_few_nodes_as_go_then_the_tightest() -> None:
    free = {"s1_b1_1": 7, "s1_b1_2": 4, "s1_b1_3": 3, "s1_b1_4": 2, "s1_b1_5": 1}
    assert ask(tree(**free), gang("x", count=10), must("Block")) == ["s1_b1_1"] * 7 + ["s1_b1_3"] * 3
    assert ask(tree(**free), gang("x", count=9), must("Block")) == ["s1_b1_1"] * 7 + ["s1_b1_4"] * 2
    assert ask(tree(**free), gang("x", count=10), *prefer("Spine")) == ["s1_b1_1"] * 7 + ["s1_b1_3"] * 3
    assert ask(tree(**free), gang("x", count=10), must("Block", multiple=5)) == (
        ["s1_b1_1"] * 7 + ["s1_b1_3"] * 3
    )
    # in multiples of two on each node: 6 + 4, of which the second holds no more
    assert ask(tree(**free), gang("x", count=10), must("Block"), Gather(NODE, None, 2)) == (
        ["s1_b1_1"] * 6 + ["s1_b1_2"] * 4
    )
    assert ask(tree(**free), gang("x", count=8), must("Block"), Gather(NODE, None, 2)) == (
        ["s1_b1_1"] * 6 + ["s1_b1_3"] * 2
    )


def test_few_nodes_are_no_reason_to_use_what_is_kept_for_others() -> None:
    """Pods without GPUs keep off free ones, and nodes that a gang avoids come last."""
    made = tree(s1_b1_1=8, s1_b1_2=0, s1_b1_3=0)
    made.apply(PodsBound({PodId("p"): None}, NodeName("s1_b1_2"), (("cpu", 60_000),)))
    four = gang("x", count=12, of=shape(cpu=8000))
    assert Counter(ask(made, four, must("Block"))) == {"s1_b1_1": 4, "s1_b1_3": 8}
    made = tree(s1_b1_1=3, s1_b1_2=3)
    soft = Taint("old", "", Effect.PREFER_NO_SCHEDULE)
    made.apply(node("s1_b1_0", labels={"spine": "s1", "block": "b1"}, taints=(soft,)))
    foreign(made, on="s1_b1_0", gpu=2)
    assert ask(made, gang("x", count=8), must("Block")) == (
        ["s1_b1_0"] * 2 + ["s1_b1_1"] * 3 + ["s1_b1_2"] * 3
    )


@given(st.lists(st.integers(0, 6), min_size=1, max_size=7), st.data())
def test_no_fewer_hold_them(room: list[int], data: st.DataObject) -> None:
    size = data.draw(st.integers(0, sum(room)))
    chosen, shares = fewest(np.array(room), size)
    assert sum(shares.tolist()) == size
    assert len(set(chosen.tolist())) == len(chosen)
    assert all(0 < share <= room[i] for i, share in zip(chosen.tolist(), shares.tolist(), strict=True))
    least = next(n for n in range(len(room) + 1) if sum(sorted(room)[len(room) - n :]) >= size)
    assert len(chosen) == least


def test_preferences_are_tried_from_the_tightest_to_the_loosest() -> None:
    free = {"s1_b1_1": 2, "s1_b1_2": 2, "s1_b2_1": 2, "s2_b1_1": 2, "s2_b2_1": 1}
    chain = prefer("Spine", "Block")
    assert ask(tree(**free), gang("x", count=4), *chain) == ["s1_b1_1"] * 2 + ["s1_b1_2"] * 2
    assert ask(tree(**free), gang("x", count=3), *chain) == ["s1_b1_1"] * 2 + ["s1_b1_2"]
    assert ask(tree(**free), gang("x", count=6), *chain)[-1] == "s1_b2_1"
    assert len(ask(tree(**free), gang("x", count=9), *chain)) == 9


def test_a_domain_without_room_is_a_reason() -> None:
    made = tree(s1_b1_1=2, s1_b2_1=3, s2_b1_1=1)
    assert ask(made, gang("x", count=4), must("Block")) == (
        "TopologyUnsatisfied: 4 pods must be in one Block; of 3, Block s1/b2 has most room, for 3; "
        "without that they fit"
    )
    assert ask(made, gang("y", count=4), must("spine")) == ["s1_b1_1", "s1_b2_1", "s1_b2_1", "s1_b2_1"]
    assert str(ask(made, gang("z", count=1), must("Rack"))).startswith("Invalid: there is no topology layer")
    assert str(ask(made, gang("w", count=9), must("Block"))).startswith("InsufficientCapacity")


def test_a_node_without_a_label_serves_where_the_layer_is_not_required() -> None:
    made = tree(s1_b1_1=2, x_x_1=4)
    assert ask(made, gang("x", count=3)) == ["s1_b1_1"] * 2 + ["x_x_1"]
    made = tree(s1_b1_1=2, x_x_1=4)
    assert ask(made, gang("y", count=2), must("Block")) == ["s1_b1_1"] * 2
    assert ask(made, gang("z", count=1), *prefer("Block")) == ["x_x_1"]
    assert ask(made, gang("w", count=1), must("Block")) == (
        "TopologyUnsatisfied: 1 pod must be in one Block; Block s1/b1 has room for 0; without that they fit"
    )


def test_adjacent_ranks_are_placed_close_to_each_other() -> None:
    free = {"s1_b1_1": 1, "s1_b1_2": 1, "s2_b1_1": 1, "s2_b1_2": 1}
    four = Gang(GangId("x"), (PodSet("main", shape(gpu=1), 4, 4, ranks=(2, 0, 3, 1)),), 4, 0.0)
    assert ask(tree(**free), four, *prefer("Block")) == ["s2_b1_1", "s1_b1_1", "s2_b1_2", "s1_b1_2"]
    pair = (
        PodSet("a", shape(gpu=1), 2, 2, ranks=(0, 2)),
        PodSet("b", shape(gpu=1), 2, 2, ranks=(1, 3)),
    )
    both = Gang(GangId("x"), pair, 4, 0.0)
    assert ask(tree(**free), both, *prefer("Block")) == ["s1_b1_1", "s2_b1_1", "s1_b1_2", "s2_b1_2"]


def test_the_minimum_gathers_first_and_the_rest_joins() -> None:
    made = tree(s1_b1_1=3, s1_b2_1=2, s2_b1_1=2)
    assert ask(made, gang("x", count=6, minimum=2), must("Spine")) == ["s1_b1_1"] * 3 + ["s1_b2_1"] * 2
    # the fullest node that holds two, in the fullest spine; there is nothing around it; then the rest
    made = tree(s1_b1_1=3, s1_b2_1=2, s2_b1_1=2)
    assert Counter(ask(made, gang("x", count=6, minimum=2), *prefer("Block"))) == (
        {"s1_b1_1": 2, "s1_b2_1": 2, "s2_b1_1": 2}
    )


def test_replacements_stay_in_their_domain() -> None:
    made = tree(s1_b1_1=2, s1_b1_2=1, s1_b2_1=8, s2_b1_1=8, s2_b2_1=8)
    assert ask(made, gang("x", count=3), must("Block")) == ["s1_b2_1"] * 3
    assign = Assign(
        GangId("x"), {place: hold.node for place, hold in made.world.gangs[GangId("x")].holds.items()}
    )
    bind(made, assign)
    foreign(made, on="s1_b2_1", gpu=5)
    made.apply(node("s1_b2_2", gpu=1, labels={"spine": "s1", "block": "b2"}))
    made.decide(0.0)
    made.apply(node("s1_b2_1", labels={"spine": "s1", "block": "b2"}, cordoned=True))
    made.apply(PodsEnded((pod("x", Place("main", 0)),), 1.0))
    assert [where(found) for found in assigns(made.decide(2.0))] == [["s1_b2_2"]]
    made.apply(PodsEnded((pod("x", Place("main", 1)),), 3.0))
    assert not assigns(made.decide(4.0))


def test_multiples_in_any_domain() -> None:
    free = {"s1_b1_1": 3, "s1_b1_2": 3, "s1_b2_1": 3, "s2_b1_1": 8}
    one = gang("x", count=8)
    assert ask(tree(**free), one, Gather("Block", None, 4)) == ["s2_b1_1"] * 8
    free["s2_b1_1"] = 5
    assert Counter(ask(tree(**free), one, Gather("Block", None, 4))) == (
        {"s1_b1_1": 3, "s1_b1_2": 1, "s2_b1_1": 4}
    )
    told = ask(tree(**free), gang("x", count=6), Gather("Block", None, 4))
    assert told == (
        "TopologyUnsatisfied: 6 pods must be in multiples of 4 per Block; 6 is not a multiple of 4; "
        "without that they fit"
    )


def test_multiples_that_are_spread() -> None:
    """One by one they would go where most room is left: two, one and one."""
    asked = replace(shape(gpu=1), spread=(Spread("block", 2, (Requirement("app", Operator.IN, ("x",)),)),))
    pods = PodSet("main", asked, 4, 4, labels=(("app", "x"),))
    one = replace(gang("x", pods), namespace="ml")
    rooms = {"s1_b1_1": 2, "s1_b2_1": 1, "s1_b3_1": 1, "s1_b4_1": 2}
    assert ask(tree(**rooms), one, Gather("Block", None, 2)) == ["s1_b1_1", "s1_b1_1", "s1_b4_1", "s1_b4_1"]
    rooms["s1_b4_1"] = 1
    made = tree(**rooms, s2_b9_1=1)
    told = ask(made, one, Gather("Block", None, 2))
    assert told == (
        "TopologyUnsatisfied: 4 pods must be in multiples of 2 per Block; no such placement was found; "
        "without that they fit"
    )
    assert made.world.ledger.log.depth == 0


# Against an oracle that tries everything


@dataclass(frozen=True)
class Problem:
    #: per node: spine, block ("" = no label), free GPUs and CPUs
    nodes: tuple[tuple[str, str, int, int], ...]
    #: per set: GPUs and CPUs of a pod, count, minimum
    sets: tuple[tuple[int, int, int, int], ...]
    minimum: int
    rules: tuple[Gather, ...]
    #: nodes on which further pods of the gang are
    settled: tuple[int, ...] = ()


@st.composite
def problems(draw: st.DrawFn, shapes: int = 3, multiples: bool = True, settled: bool = False) -> Problem:
    label = st.sampled_from(["", "1", "1", "2", "2"])
    node_ = st.tuples(label, label, st.integers(0, 4), st.integers(0, 4))
    nodes = tuple(draw(st.lists(node_, min_size=1, max_size=5)))
    kinds = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=shapes))
    sets = []
    for gpus, cpus in kinds:
        count = draw(st.integers(1, 4 if len(kinds) == 1 else 3))
        sets.append((gpus, cpus, count, draw(st.sampled_from([count, count, 0, 1]))))
    least, most = sum(s[3] for s in sets), sum(s[2] for s in sets)
    minimum = draw(st.sampled_from([max(least, 1), most]))
    layers = st.sampled_from(["Spine", "Block", NODE, "ClusterTopologyLayer"])
    rule = st.builds(
        Gather,
        layers,
        st.sampled_from([MUST, PREFER, None]),
        st.sampled_from([1, 1, 2, 3]) if multiples else st.just(1),
    )
    rules = tuple(draw(st.lists(rule, min_size=1, max_size=3)))
    on = tuple(draw(st.lists(st.integers(0, len(nodes) - 1), max_size=3))) if settled else ()
    return Problem(nodes, tuple(sets), minimum, rules, on)


NO_PODS: Counter[int] = Counter()


def domains(problem: Problem, layer: str) -> list[str | None]:
    """Per node the path of its domain; None for none."""
    found: list[str | None] = []
    for i, (spine, block, _, _) in enumerate(problem.nodes):
        label = {"Spine": spine and spine, "Block": block and f"{spine}/{block}", NODE: str(i)}
        found.append(label.get(layer, "all") or None)
    return found


def obeyed(
    problem: Problem, rules: Sequence[Gather], new: Counter[int], there: Counter[int] = NO_PODS
) -> bool:
    """Whether these pods per node may be put beside those that are there."""
    pods = new + there
    for rule in rules:
        of = domains(problem, rule.layer)
        own = {of[i] for i in pods}
        if (rule.strategy is MUST or rule.multiple > 1) and None in own:
            return False
        if rule.strategy is MUST and len(own) > 1:
            return False
        if rule.multiple > 1:
            by_domain = Counter[str | None]()
            for i, n in pods.items():
                by_domain[of[i]] += n
            if any(by_domain[of[i]] % rule.multiple for i in new):
                return False
    return True


def placements(problem: Problem) -> Iterator[list[Counter[int]]]:
    """All that fit: per set, pods per node; the minimum is there."""

    def options(count: int, rooms: Sequence[int]) -> Iterator[tuple[int, ...]]:
        if not rooms:
            yield ()
            return
        for n in range(min(count, rooms[0]) + 1):
            for rest in options(count - n, rooms[1:]):
                yield (n, *rest)

    def sets(p: int, free: list[tuple[int, int]]) -> Iterator[list[Counter[int]]]:
        if p == len(problem.sets):
            yield []
            return
        gpus, cpus, count, least = problem.sets[p]
        rooms = [min(g // gpus, c // cpus if cpus else 9) for g, c in free]
        for chosen in options(count, rooms):
            if sum(chosen) >= least:
                left = [(g - n * gpus, c - n * cpus) for n, (g, c) in zip(chosen, free, strict=True)]
                for rest in sets(p + 1, left):
                    yield [Counter({i: n for i, n in enumerate(chosen) if n}), *rest]

    for found in sets(0, [(g, c) for _, _, g, c in problem.nodes]):
        if sum(n for pods in found for n in pods.values()) >= problem.minimum:
            yield found


def cluster(problem: Problem) -> Scheduler:
    made = scheduler()
    made.apply(LayersChanged(LAYERS))
    for i, (spine, block, gpus, cpus) in enumerate(problem.nodes):
        labels = {key: value for key, value in (("spine", spine), ("block", block)) if value}
        made.apply(node(f"n{i}", gpu=gpus, cpu=cpus * 1000, labels=labels))
    made.decide(0.0)
    made.world.topology.refresh()
    return made


def request(problem: Problem) -> Request:
    parts = tuple(
        Part(f"p{p}", shape(gpu=gpus, cpu=cpus * 1000), count, least)
        for p, (gpus, cpus, count, least) in enumerate(problem.sets)
    )
    rules = Rules(problem.rules, started=GangId("x") if problem.settled else None)
    settled = {Place("p0", 100 + i): column for i, column in enumerate(problem.settled)}
    return Request(
        Demand(parts, problem.minimum, rules), [range(part.count) for part in parts], settled=settled
    )


def answer(problem: Problem) -> tuple[Placed | Infeasible, Scheduler]:
    made = cluster(problem)
    found = made.fit.fit(request(problem))
    if not found:
        assert not made.world.nodes.used.any()
    return found, made


def check(problem: Problem) -> str:
    """Whether the answer is right: "placed", "refused", or "missed" if it admits not to know."""
    found, made = answer(problem)
    settled = Counter(problem.settled)
    # a gang that must gather stays where most of it is; if it is torn already, that is not asked
    if not found:
        exists = any(
            obeyed(problem, problem.rules, sum(some, Counter[int]()), settled) for some in placements(problem)
        )
        if not exists:
            return "refused"
        assert not found.proven, "a placement exists"
        return "missed"
    pods = Counter(found.columns.values())
    assert obeyed(problem, problem.rules, pods, settled)
    by_set = Counter(place.pod_set for place in found.columns)
    assert sum(by_set.values()) >= problem.minimum
    for p, (_, _, count, least) in enumerate(problem.sets):
        assert least <= by_set[f"p{p}"] <= count
    assert (made.world.nodes.used <= made.world.nodes.capacities(np.arange(len(problem.nodes)))).all()
    return "placed"


@settings(max_examples=examples(200), deadline=None)
@given(problems(shapes=1))
def test_one_shape_is_exact(problem: Problem) -> None:
    assert check(problem) != "missed"


@settings(max_examples=examples(200), deadline=None)
@given(problems(multiples=False))
def test_several_shapes_are_exact_without_multiples(problem: Problem) -> None:
    assert check(problem) != "missed"


@settings(max_examples=examples(200), deadline=None)
@given(problems())
def test_several_shapes_with_multiples_are_right(problem: Problem) -> None:
    check(problem)


@settings(max_examples=examples(200), deadline=None)
@given(problems(shapes=1, settled=True))
def test_bound_pods_constrain_the_rest_of_their_gang(problem: Problem) -> None:
    """As long as the gang's places keep its rules, the answer for the others is exact."""
    if problem.settled and not _keeps(problem):
        answer(problem)  # torn apart by others' doing: any answer, and no crash
        return
    assert check(problem) != "missed"


def _keeps(problem: Problem) -> bool:
    musts = [replace(rule, multiple=1) for rule in problem.rules if rule.strategy is MUST]
    required = [Gather(rule.layer, None, 1) for rule in problem.rules if rule.multiple > 1]
    there = Counter(problem.settled)
    labelled = all(domains(problem, rule.layer)[i] is not None for rule in required for i in there)
    return labelled and obeyed(problem, musts, there)


@settings(max_examples=examples(100), deadline=None)
@given(problems(), st.data())
def test_an_owned_node_is_kept_if_the_rules_allow(problem: Problem, data: st.DataObject) -> None:
    """Places with a node of their own (of a plan that was found) break no rule and keep no gang waiting."""
    asked = request(problem)
    places = [Place(part.pod_set, i) for part in asked.demand.parts for i in range(part.count)]
    nodes = st.integers(0, len(problem.nodes) - 1)
    own = data.draw(st.dictionaries(st.sampled_from(places), nodes, max_size=3))
    made = cluster(problem)
    found = made.fit.fit(asked._replace(preferred=own))
    plain, _ = answer(problem)
    assert found or not plain
    if found:
        assert obeyed(problem, problem.rules, Counter(found.columns.values()))
