"""All that a gang can ask of the topology at once, beside other gangs, against trying everything.

Several pod sets, minima below sizes, chains of preferences, multiples, domains of one's own and other gangs'
ones, and ranks. What is permitted is never overstepped; what exists is found, as near together as it can be,
unless the answer admits not to know; and pods stand along the tree in their own order.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.demand import Request
from muster.core.words.events import GangSubmitted, PodsBound
from muster.core.words.gang import NodeName, Place
from muster.core.world.topology import CLUSTER, NODE
from tests.core.placement.topology.test_search import (
    MUST,
    PREFER,
    Problem,
    cluster,
    domains,
    obeyed,
    placements,
    problems,
    request,
)
from tests.core.words import gang, pod
from tests.tiers import examples

#: from the widest to the narrowest
LAYERS = [CLUSTER, "Spine", "Block", NODE]


@dataclass(frozen=True)
class Case:
    problem: Problem
    #: the layer of which the gang wants domains to itself; "" = none
    exclusive: str
    #: other gangs of one pod each: the node, and as above
    others: tuple[tuple[int, str], ...]
    #: by set
    ranks: tuple[tuple[int, ...], ...]

    @property
    def free(self) -> Problem:
        """The same with no room on nodes that are out of bounds."""
        nodes = self.problem.nodes
        barred = set[int]()
        for on, layer in self.others:
            for of in (layer, self.exclusive):
                if of:
                    own = domains(self.problem, of)
                    barred |= {i for i in range(len(nodes)) if own[i] == own[on] and own[i] is not None}
        if self.exclusive:
            barred |= {i for i, own in enumerate(domains(self.problem, self.exclusive)) if own is None}
        left = ((s, b, 0 if i in barred else g, c) for i, (s, b, g, c) in enumerate(nodes))
        return replace(self.problem, nodes=tuple(left))


@st.composite
def cases(draw: st.DrawFn, shapes: int = 3, multiples: bool = True) -> Case:
    problem = draw(problems(shapes=shapes, multiples=multiples))
    if shapes < 3:  # most fit somewhere, and the question is how near together
        more = draw(st.integers(0, 3))
        roomier = tuple((spine, block, g + more, c + more) for spine, block, g, c in problem.nodes)
        problem = replace(problem, nodes=roomier)
    layer = st.sampled_from(["", "", "Block", "Spine", NODE])
    others = draw(st.lists(st.tuples(st.integers(0, len(problem.nodes) - 1), layer), max_size=2))
    ranks = [
        tuple(draw(st.lists(st.integers(0, 5), min_size=count, max_size=count)))
        if draw(st.booleans())
        else ()
        for _, _, count, _ in problem.sets
    ]
    return Case(problem, draw(layer), tuple(others), tuple(ranks))


def asked(case: Case) -> tuple[Scheduler, Request]:
    made = cluster(case.problem)
    for i, (on, layer) in enumerate(case.others):
        other = replace(gang(f"other-{i}"), exclusive=layer)
        made.apply(GangSubmitted(other))
        place = Place("main", 0)
        made.apply(PodsBound({pod(other.id, place): place}, NodeName(f"n{on}"), (), gang=other.id))
    made.decide(0.0)
    plain = request(case.problem)
    assert plain.demand.rules is not None
    demand = replace(plain.demand, rules=replace(plain.demand.rules, exclusive=case.exclusive))
    ranks = {f"p{p}": own for p, own in enumerate(case.ranks) if own}
    return made, plain._replace(demand=demand, ranks=ranks)


def check(case: Case) -> str:
    """Whether the answer is right: "placed", "refused", or "missed" if it admits not to know."""
    made, wanted = asked(case)
    used = made.world.nodes.used.copy()
    found = made.fit.fit(wanted)
    problem = case.free
    if not found:
        assert (made.world.nodes.used == used).all()
        exists = any(obeyed(problem, problem.rules, _all(some)) for some in placements(problem))
        assert not (exists and found.proven), "a placement exists"
        return "missed" if exists else "refused"
    by_set = [
        Counter(c for place, c in found.columns.items() if place.pod_set == f"p{p}")
        for p in range(len(problem.sets))
    ]
    assert obeyed(problem, problem.rules, _all(by_set))
    assert _all(by_set).total() >= problem.minimum
    for (_, _, count, least), pods in zip(problem.sets, by_set, strict=True):
        assert least <= pods.total() <= count
    for i, (_, _, gpus, cpus) in enumerate(problem.nodes):
        assert sum(pods[i] * s[0] for s, pods in zip(problem.sets, by_set, strict=True)) <= gpus
        assert sum(pods[i] * s[1] for s, pods in zip(problem.sets, by_set, strict=True)) <= cpus
    _stands_in_order(case, found.columns)
    return "placed" if _is_near(problem, by_set) else "further apart than it could be"


def _all(by_set: Iterable[Counter[int]]) -> Counter[int]:
    return sum(by_set, Counter[int]())


def _stands_in_order(case: Case, found: dict[Place, int]) -> None:
    """Pods of equal shape lie along the tree by rank; of a set those of lowest rank are placed."""
    problem = case.problem
    along = sorted(range(len(problem.nodes)), key=lambda i: (problem.nodes[i][0], problem.nodes[i][1], i))
    alike: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}
    for p, (gpus, cpus, count, _) in enumerate(problem.sets):
        ranks = case.ranks[p]
        by_rank = sorted(range(count), key=lambda i: (ranks[i] if ranks else 0, i))
        own = [i for i in by_rank if Place(f"p{p}", i) in found]
        assert own == by_rank[: len(own)]
        for i in own:
            position = along.index(found[Place(f"p{p}", i)])
            alike.setdefault((gpus, cpus), []).append((ranks[i] if ranks else 6, p, i, position))
    ranked = any(case.ranks)
    for pods in alike.values():
        positions = [pod[3] for pod in sorted(pods, key=lambda pod: pod if ranked else pod[1:])]
        assert positions == sorted(positions)


def _is_near(problem: Problem, by_set: Sequence[Counter[int]]) -> bool:
    """All of it in as tight a domain as it goes into; else its minimum."""
    musts = [LAYERS.index(rule.layer) for rule in problem.rules if rule.strategy is MUST]
    prefers = [LAYERS.index(rule.layer) for rule in problem.rules if rule.strategy is PREFER]
    limit = max(musts, default=0)
    loosest = min((level for level in prefers if level > limit), default=limit)
    sizes = [count for _, _, count, _ in problem.sets]
    whole = replace(problem, sets=tuple((g, c, n, n) for g, c, n, _ in problem.sets), minimum=sum(sizes))
    best = _tightest(whole)
    if best is not None and best >= loosest:
        return [pods.total() for pods in by_set] == sizes and _level(problem, _all(by_set)) == best
    best = _tightest(problem)
    assert best is not None
    if limit == 0 and problem.minimum < sum(sizes) and best >= max(loosest, 1):
        of = domains(problem, LAYERS[best])
        inside = ({i for i, own in enumerate(of) if own == domain} for domain in set(of) - {None})
        return any(_holds_minimum(problem, by_set, columns) for columns in inside)
    return True


def _holds_minimum(problem: Problem, by_set: Sequence[Counter[int]], inside: set[int]) -> bool:
    """Whichever pods of a shape those of the minimum are: by their order they may have changed places."""
    there, least = Counter[tuple[int, int]](), Counter[tuple[int, int]]()
    for (gpus, cpus, _, need), pods in zip(problem.sets, by_set, strict=True):
        least[gpus, cpus] += need
        there[gpus, cpus] += sum(n for i, n in pods.items() if i in inside)
    return there.total() >= problem.minimum and all(there[shape] >= need for shape, need in least.items())


def _tightest(problem: Problem) -> int | None:
    """The narrowest layer in one domain of which all that must be placed can be, by its number."""
    found = (_all(some) for some in placements(problem))
    return max(
        (_level(problem, pods) for pods in found if obeyed(problem, problem.rules, pods)), default=None
    )


def _level(problem: Problem, pods: Counter[int]) -> int:
    for level in range(len(LAYERS) - 1, 0, -1):
        own = {domains(problem, LAYERS[level])[i] for i in pods}
        if len(own) == 1 and None not in own:
            return level
    return 0


@settings(max_examples=examples(150), deadline=None)
@given(cases(shapes=1))
def test_one_shape_is_exact_and_as_near_as_it_goes(case: Case) -> None:
    assert check(case) in ("placed", "refused")


@settings(max_examples=examples(150), deadline=None)
@given(cases(shapes=2, multiples=False))
def test_several_shapes_are_exact_without_multiples(case: Case) -> None:
    assert check(case) in ("placed", "refused")


@settings(max_examples=examples(150), deadline=None)
@given(cases())
def test_everything_together_is_right(case: Case) -> None:
    check(case)
