"""Rules about the topology that hold for single subgroups of a gang."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign, Decision, Evict
from muster.core.words.events import GangSubmitted, LayersChanged, PodsEnded
from muster.core.words.gang import Code, Gang, GangId, Gather, Layer, PodSet, Strategy, Subgroup
from tests.core.words import assigns, bind, node, pod, shape, waits
from tests.tiers import examples

RACK, SPINE = Gather("rack", Strategy.MUST_GATHER), Gather("spine", Strategy.MUST_GATHER)
NEAR = Gather("rack", Strategy.PREFER_GATHER)
PAIRS = Gather("rack", None, 2)
LAYERS = LayersChanged((Layer("spine", ("spine",)), Layer("rack", ("rack",))))
#: Rack and free CPUs of each node; racks a and b are in one spine, c and d in the other.
Nodes = list[tuple[str, int]]
#: CPUs of a pod, how many there are, how many are needed.
Set = tuple[int, int, int]


def spine(rack: str) -> str:
    return "s" if rack in "ab" else "t"


def core_of(nodes: Nodes, *gangs: Gang) -> Scheduler:
    core = Scheduler()
    core.apply(LAYERS)
    for i, (rack, cpu) in enumerate(nodes):
        core.apply(node(f"n{i}", gpu=0, cpu=1000 * cpu, labels={"rack": rack, "spine": spine(rack)}))
    for gang in gangs:
        core.apply(GangSubmitted(gang))
    return core


def made(*groups: tuple[tuple[Gather, ...], list[Set]], gather: tuple[Gather, ...] = ()) -> Gang:
    """A gang with a subgroup for each of these rules and pod sets."""
    sets = tuple(
        PodSet(f"{g}-{i}", shape(cpu=1000 * cpu), count, need, subgroup=str(g))
        for g, (_, told) in enumerate(groups)
        for i, (cpu, count, need) in enumerate(told)
    )
    subgroups = tuple(
        Subgroup(str(g), sum(need for *_, need in told), rules) for g, (rules, told) in enumerate(groups)
    )
    least = sum(each.min_count for each in subgroups)
    return Gang(GangId("x"), sets, least, 0.0, gather=gather, subgroups=subgroups)


def settled(core: Scheduler, now: float = 0.0) -> list[Decision]:
    decisions = [*core.decide(now)]
    for _ in range(8):
        if core.behind:
            decisions += core.decide(now)
    return decisions


def obeyed(gang: Gang, nodes: Nodes, where: list[tuple[str, int]]) -> bool:
    """Whether pods (pod set, node) are where the rules of the gang and of its subgroups allow them."""
    of = {pod_set.name: pod_set.subgroup for pod_set in gang.pod_sets}
    ruled = [(gang.gather, where)]
    ruled += [(each.gather, [p for p in where if of[p[0]] == each.name]) for each in gang.subgroups]
    for rules, pods in ruled:
        for rule in rules:
            racks = [nodes[column][0] for _, column in pods]
            domains = Counter(racks if rule.layer == "rack" else map(spine, racks))
            if rule.strategy is Strategy.MUST_GATHER and len(domains) > 1:
                return False
            if any(number % rule.multiple for number in domains.values()):
                return False
    return True


def placements(gang: Gang, nodes: Nodes) -> Iterator[list[tuple[str, int]]]:
    """All ways to place exactly the pods that are needed."""
    free = [cpu for _, cpu in nodes]
    pods = [
        (p.name, dict(p.shape.requests)["cpu"] // 1000) for p in gang.pod_sets for _ in range(p.min_count)
    ]

    def go(i: int, where: list[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
        if i == len(pods):
            yield where
            return
        name, cpu = pods[i]
        first = where[-1][1] if where and where[-1][0] == name else 0
        for column in range(first, len(nodes)):
            if free[column] >= cpu:
                free[column] -= cpu
                yield from go(i + 1, [*where, (name, column)])
                free[column] += cpu

    return go(0, [])


def columns(assign: Assign) -> list[tuple[str, int]]:
    return [(place.pod_set, int(name[1:])) for place, name in sorted(assign.nodes.items())]


@st.composite
def sets(draw: st.DrawFn) -> Set:
    count = draw(st.integers(1, 3))
    return draw(st.integers(1, 4)), count, draw(st.sampled_from([count, count, 1]))


GROUPS = st.lists(
    st.tuples(
        st.sampled_from([(), (), (RACK,), (RACK,), (SPINE,), (NEAR,)]),
        st.lists(sets(), min_size=1, max_size=2),
    ),
    min_size=2,
    max_size=3,
).filter(lambda groups: sum(need for _, told in groups for *_, need in told) <= 7)
NODES = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(2, 8)), min_size=2, max_size=4)


#: Filled to the last CPU: each part fits in many ways, of which few leave room for the others.
TIGHT = [((), [(2, 1, 1)]), ((RACK,), [(3, 1, 1), (2, 2, 2)]), ((RACK,), [(3, 1, 1), (2, 2, 2)])]


@given(NODES, GROUPS, st.sampled_from([(), (), (SPINE,)]))
@example([("a", 8), ("a", 8)], TIGHT, ())
@example([("a", 7), ("a", 6)], [((RACK,), [(4, 2, 2), (1, 1, 1)]), ((), [(2, 2, 2)])], (SPINE,))
@example(
    [("d", 6), ("a", 5), ("a", 2), ("d", 5)],
    [((), [(4, 2, 2), (1, 1, 1)]), ((NEAR,), [(2, 3, 3), (3, 1, 1)])],
    (),
)
@example([("b", 2), ("a", 2), ("a", 6)], [((), [(3, 1, 1)]), ((RACK,), [(2, 3, 3)])], ())
@settings(max_examples=examples(300), deadline=None)
def test_a_gang_starts_if_and_only_if_its_minimum_fits_as_the_rules_of_its_parts_say(
    nodes: Nodes, groups: list[tuple[tuple[Gather, ...], list[Set]]], gather: tuple[Gather, ...]
) -> None:
    gang = made(*groups, gather=gather)
    started = assigns(settled(core_of(nodes, gang)))
    able = any(obeyed(gang, nodes, where) for where in placements(gang, nodes))
    event("fits" if able else "does not")
    assert bool(started) == able
    if started:
        assert gang.met(Counter(place.pod_set for place in started[0].nodes))
        assert obeyed(gang, nodes, columns(started[0]))


@given(
    NODES,
    st.lists(
        st.tuples(st.sampled_from([(), (RACK,), (PAIRS,), (RACK, PAIRS)]), sets().map(lambda told: [told])),
        min_size=2,
        max_size=3,
    ),
)
@settings(max_examples=examples(200), deadline=None)
def test_multiples_hold_for_each_part(
    nodes: Nodes, groups: list[tuple[tuple[Gather, ...], list[Set]]]
) -> None:
    gang = made(*groups)
    for assign in assigns(settled(core_of(nodes, gang))):
        assert gang.met(Counter(place.pod_set for place in assign.nodes))
        assert obeyed(gang, nodes, columns(assign))


def test_workers_are_together_and_their_coordinator_may_be_elsewhere() -> None:
    """As reported: two pods anywhere, and two in one block, on two blocks of two nodes."""
    nodes = [("a", 8), ("a", 8), ("b", 8), ("b", 8)]
    gang = made(((), [(8, 2, 2)]), ((RACK,), [(8, 2, 2)]))
    (start,) = assigns(core_of(nodes, gang).decide(0.0))
    assert obeyed(gang, nodes, columns(start))
    assert len(start.nodes) == 4


def test_an_earlier_part_makes_way_for_a_later_one() -> None:
    """Each of two parts would take rack a; only the larger fits nowhere else."""
    nodes = [("a", 4), ("a", 4), ("b", 6)]
    gang = made(((RACK,), [(2, 3, 3)]), ((RACK,), [(4, 2, 2)]))
    (start,) = assigns(core_of(nodes, gang).decide(0.0))
    assert {nodes[column][0] for name, column in columns(start) if name == "0-0"} == {"b"}


def test_a_part_that_runs_keeps_its_domain() -> None:
    nodes = [("a", 4), ("a", 4), ("b", 8), ("b", 8)]
    gang = made(((), [(1, 1, 1)]), ((RACK,), [(4, 2, 2)]))
    core = core_of(nodes, gang)
    (start,) = assigns(core.decide(0.0))
    bind(core, start)
    rack = {nodes[column][0] for name, column in columns(start) if name == "1-0"}
    lost = next(place for place in start.nodes if place.pod_set == "1-0")
    core.apply(PodsEnded((pod("x", lost),), 1.0))
    core.apply(node("n3", gpu=0, cpu=64_000, labels={"rack": "c", "spine": "t"}))
    again = assigns(core.decide(2.0))
    assert {nodes[column][0] for each in again for _, column in columns(each)} == rack


def test_the_part_that_fits_in_no_domain_is_named() -> None:
    core = core_of([("a", 4), ("b", 4)], made(((), [(1, 1, 1)]), ((RACK,), [(3, 2, 2)])))
    (wait,) = waits(core.decide(0.0))
    assert wait.explanation.code is Code.TOPOLOGY_UNSATISFIED
    assert wait.explanation.message == (
        "1: 2 pods must be in one rack; of 2, rack s/a has most room, for 1; without that they fit"
    )
    assert [remedy.change for remedy in wait.explanation.remedies] == [
        "with 1 instead of 2 pods of 1-0",
        "without 1 having to be in one rack",
    ]


def test_a_layer_that_a_part_names_and_that_does_not_exist_is_invalid() -> None:
    absent = Gather("row", Strategy.MUST_GATHER)
    core = core_of([("a", 4)], made(((), [(1, 1, 1)]), ((absent,), [(1, 1, 1)])))
    (wait,) = waits(core.decide(0.0))
    assert wait.explanation.code is Code.INVALID
    assert "there is no topology layer row" in wait.explanation.message


def test_victims_are_sought_where_a_part_must_be() -> None:
    """One gang of lower rank is in each rack; the workers fit into rack b without it, and nowhere else."""
    nodes = [("a", 4), ("b", 8), ("b", 8)]
    core = core_of(nodes)
    for name, rack, cpu in (("small", "a", 2), ("large", "b", 8)):
        low = PodSet("main", shape(cpu=1000 * cpu, selector={"rack": rack}), 1, 1)
        core.apply(GangSubmitted(Gang(GangId(name), (low,), 1, 0.0)))
    for assign in assigns(core.decide(0.0)):
        bind(core, assign)
    gang = made(((), [(2, 1, 1)]), ((RACK,), [(8, 2, 2)]))
    core.apply(GangSubmitted(replace(gang, priority=1)))
    decisions = core.decide(1.0)
    evicted = [victim.gang for each in decisions if isinstance(each, Evict) for victim in each.victims]
    assert evicted == ["large"]
    (start,) = assigns(decisions)
    assert obeyed(gang, nodes, columns(start))


def test_a_gang_of_which_a_part_fits_in_no_domain_lowers_no_share() -> None:
    never = made(((), [(1, 1, 1)]), ((RACK,), [(8, 2, 2)]))
    core = core_of([("a", 8), ("b", 8)], never)
    core.decide(0.0)
    state = core.world.gangs[never.id]
    demand = state.demand
    assert demand is not None
    assert not core.world.queues.could_run(state, demand)
    core.apply(node("n2", gpu=0, cpu=8000, labels={"rack": "b", "spine": "s"}))
    core.decide(1.0)
    assert core.world.queues.could_run(state, demand)


def test_the_largest_part_makes_way_though_it_is_first_in_all_orders_that_are_tried() -> None:
    nodes = [("a", 4), ("b", 3), ("b", 3), ("c", 2)]
    parts = [(4, 1, 1), (1, 1, 1), (1, 1, 1)]
    gang = made(((RACK,), [(1, 4, 4)]), *(((RACK,), [part]) for part in parts))
    (start,) = assigns(core_of(nodes, gang).decide(0.0))
    assert obeyed(gang, nodes, columns(start))
    assert {nodes[column][0] for name, column in columns(start) if name == "0-0"} == {"b"}


def test_it_makes_way_also_where_the_parts_are_not_placed_jointly() -> None:
    """A multiple of one part keeps all of them from being placed jointly."""
    nodes = [("a", 4), ("b", 3), ("b", 3), ("c", 2), ("d", 2)]
    parts = [(4, 1, 1), (1, 1, 1), (1, 1, 1)]
    gang = made(((RACK,), [(1, 4, 4)]), *(((RACK,), [part]) for part in parts), ((PAIRS,), [(1, 2, 2)]))
    (start,) = assigns(core_of(nodes, gang).decide(0.0))
    assert obeyed(gang, nodes, columns(start))
