"""Exact answers against an exhaustive search, and what the scheduler makes of them."""

import itertools
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from muster.core.cycle import Scheduler
from muster.core.demand import Demand, Part, Request
from muster.core.placement import Infeasible, Placed, Reason, exact
from muster.core.placement.exact import Exact, proofs, solver
from muster.core.placement.exact.solver import Integral, Optimum, Program
from muster.core.placement.greedy import place
from muster.core.words.events import GangSubmitted, PodsEnded
from muster.core.words.gang import Code, GangId, Operator, Place, PodSet, PodTerm, Requirement
from muster.core.world.nodes import Columns
from tests.core.placement.test_greedy import Cluster, exactly_fits, one
from tests.core.words import assigns, bind, foreign, gang, node, pod, scheduler, shape, waits
from tests.tiers import FULL

#: How many of the drawn cases are at least of a kind, lest a test say nothing.
SOME = 10 if FULL else 1

Free = tuple[tuple[int, int], ...]
Sets = tuple[tuple[tuple[int, int], int, int], ...]


def ask(cluster: Cluster, demand: Demand, *, excluded: Columns | None = None) -> Placed | Infeasible:
    """Greedily, then exactly."""
    vacant = [range(part.count) for part in demand.parts]
    request = Request(demand, vacant, excluded=excluded)
    placed = place(request, cluster.ledger, cluster.slots)
    if placed is not None:
        return placed
    return Exact(cluster.ledger, cluster.slots).place(request)


def drawn(seed: int) -> tuple[Free, Sets, int]:
    """Free GPUs and CPUs of 2–5 nodes; 2–3 pod sets (request, count, minimum); the overall minimum."""
    rng = random.Random(seed)
    free = tuple((rng.randint(0, 8), rng.randint(2, 16)) for _ in range(rng.randint(2, 5)))
    sets = []
    for _ in range(rng.randint(2, 3)):
        count = rng.randint(1, 4)
        least = rng.choice([count, count, rng.randint(0, count)])
        sets.append(((rng.randint(0, 4), rng.randint(1, 6)), count, least))
    smallest = sum(least for _, _, least in sets)
    need = rng.choice([smallest, rng.randint(smallest, sum(count for _, count, _ in sets))])
    return free, tuple(sets), need


def minimum_fits(free: Free, sets: Sets, need: int) -> bool:
    """Exhaustive: some way to make up the minimum fits."""
    return any(
        sum(numbers) == need and exactly_fits(free, tuple(zip((q for q, _, _ in sets), numbers, strict=True)))
        for numbers in itertools.product(*(range(least, count + 1) for _, count, least in sets))
    )


def wanted(sets: Sets, need: int) -> Demand:
    return Demand(
        tuple(
            Part(f"s{i}", shape(gpu=g, cpu=1000 * c), count, least)
            for i, ((g, c), count, least) in enumerate(sets)
        ),
        need,
    )


def answers(seeds: range) -> Counter[str]:
    """How often each rung spoke; every answer is checked against the exhaustive search."""
    found: Counter[str] = Counter()
    for seed in seeds:
        free, sets, need = drawn(seed)
        cluster, demand = Cluster(*free), wanted(sets, need)
        greedy = cluster.place(*demand.parts, need=need) is not None
        fits = minimum_fits(free, sets, need)
        cluster = Cluster(*free)
        answer = ask(cluster, demand)
        found["fits"] += fits
        found["missed by greedy"] += fits and not greedy
        if not answer:
            assert not (cluster.nodes.used > 0).any()
            assert not (answer.proven and fits), seed
            found[answer.reason.value] += 1
            found["missed"] += fits
        else:
            check(cluster, demand, answer.columns)
            assert fits, seed
    return found


def check(cluster: Cluster, demand: Demand, placed: dict[Place, int]) -> None:
    """Nothing is overdrawn, the ledger is charged with what is placed, every minimum is met."""
    number = Counter(p.pod_set for p in placed)
    assert sum(number.values()) >= demand.need
    assert all(part.need <= number[part.pod_set] <= part.count for part in demand.parts)
    used = np.zeros_like(cluster.nodes.used)
    row_amounts_of = {part.pod_set: cluster.nodes.row_amounts(part.shape.requests) for part in demand.parts}
    for placed_, column in placed.items():
        for row, amount in row_amounts_of[placed_.pod_set]:
            used[row, column] += amount
    assert (cluster.nodes.used == used).all()
    for row in cluster.nodes.resources.values():
        assert (cluster.nodes.used[row, : len(cluster.nodes)] <= cluster.nodes.capacity(row)).all()


def test_answers_agree_with_an_exhaustive_search() -> None:
    found = answers(range(1000 if FULL else 200))
    assert found["missed by greedy"] > SOME
    assert found["relaxation"] > SOME
    assert found["missed"] == 0


@pytest.mark.parametrize("helpless", ["rounding", "relaxation"])
def test_so_does_the_search_alone(monkeypatch: pytest.MonkeyPatch, helpless: str) -> None:
    if helpless == "rounding":
        monkeypatch.setattr(exact, "rounded", lambda *args: None)
    else:
        monkeypatch.setattr(solver, "optimum", lambda program: None)
    found = answers(range(500 if FULL else 150))
    assert found["missed by greedy"] > SOME // 2
    assert found["missed"] == 0
    assert (found["exhausted"] > SOME // 2) == (helpless == "relaxation")


LARGE, SMALL = shape(gpu=3, cpu=1000), shape(gpu=2, cpu=1000)
#: On nodes of 4 and 5 GPUs greedy placement puts the large pod on the node of 4 and is one GPU short.
MISSED = (PodSet("large", LARGE, 1, 1), PodSet("small", SMALL, 3, 3))
#: On two nodes of 4 GPUs nothing holds them, though 8 GPUs are asked and 8 are free.
SUBTLE = (PodSet("large", LARGE, 2, 2), PodSet("small", SMALL, 1, 1))


def four_and_five() -> Scheduler:
    return scheduler([node("n0", gpu=4), node("n1", gpu=5)], gang("x", *MISSED))


def two_of_four(*gangs: str) -> Scheduler:
    return scheduler([node("n0", gpu=4), node("n1", gpu=4)], *(gang(name, *SUBTLE) for name in gangs))


def test_the_exact_search_places_gangs_that_greedy_placement_misses() -> None:
    cluster = Cluster((4, 64), (5, 64))
    assert cluster.place(one(1, LARGE, name="large"), one(3, SMALL, name="small")) is None
    (start,) = assigns(four_and_five().decide(0.0))
    assert start.nodes == {
        Place("large", 0): "n1",
        Place("small", 0): "n0",
        Place("small", 1): "n0",
        Place("small", 2): "n1",
    }


def test_other_pods_see_the_labels_of_a_gang_that_only_a_search_can_place() -> None:
    """Anti-affinity against them holds while their places are held, and once they are bound."""
    host, app = "kubernetes.io/hostname", Requirement("app", Operator.IN, ("a",))
    sets = [replace(pod_set, labels=(("app", "a"),), namespace="ns") for pod_set in MISSED]
    nodes = [node("n0", gpu=4, labels={host: "n0"}), node("n1", gpu=5, labels={host: "n1"})]
    muster = scheduler(nodes, gang("x", *sets))
    (start,) = assigns(muster.decide(0.0))
    away = replace(shape(cpu=100), pod_anti_affinity=(PodTerm(host, (app,), ("ns",)),))
    muster.apply(GangSubmitted(gang("away", of=away, submitted=1.0)))
    assert assigns(muster.decide(1.0)) == []
    bind(muster, start)
    assert assigns(muster.decide(2.0)) == []


def test_as_many_more_as_fit_follow_the_minimum() -> None:
    more = PodSet("small", SMALL, 9, 3)
    muster = scheduler(
        [node("n0", gpu=4), node("n1", gpu=5), node("n2", gpu=2, cpu=500), node("n3", gpu=3, cpu=1_500)],
        gang("x", PodSet("large", LARGE, 1, 1), more, minimum=4),
    )
    (start,) = assigns(muster.decide(0.0))
    assert Counter(start.nodes.values()) == {"n0": 2, "n1": 2, "n3": 1}


def test_a_proof_is_marked_as_one() -> None:
    (wait,) = waits(two_of_four("x").decide(0.0))
    assert wait.explanation.code is Code.FRAGMENTED
    assert wait.explanation.message.endswith("but in pieces that take only 0 of 1 pods; no placement exists")


@pytest.mark.parametrize("bound", ["PATTERNS", "_ROWS"])
def test_beyond_the_bounds_the_answer_stays_open(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(f"muster.core.placement.exact.patterns.{bound}", 1)
    muster = four_and_five()
    (wait,) = waits(muster.decide(0.0))
    assert wait.explanation.code is Code.FRAGMENTED
    assert wait.explanation.message.endswith("; none was found within the search budget")
    assert not (muster.world.nodes.used > 0).any()


def test_too_little_of_a_resource_needs_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("muster.core.placement.exact.solver.optimum")
    sets = (((3, 1), 2, 2), ((2, 1), 2, 2))
    answer = ask(Cluster((4, 64), (5, 64)), wanted(sets, 4))
    assert answer == Infeasible(Reason.TOTALS)


def test_pods_of_one_shape_need_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("muster.core.placement.exact.solver.optimum")
    demand = Demand((one(1, LARGE, name="a"), one(2, LARGE, name="b")), 3)
    assert ask(Cluster((5, 64), (5, 64)), demand) == Infeasible(Reason.TOTALS)


def test_nodes_that_are_avoided_are_not_used() -> None:
    sets = (((3, 1), 1, 1), ((2, 1), 3, 3))
    cluster, demand = Cluster((4, 64), (4, 64), (5, 64), (5, 64)), wanted(sets, 4)
    answer = ask(cluster, demand, excluded=np.array([1, 3]))
    assert answer
    assert set(answer.columns.values()) == {0, 2}
    check(cluster, demand, answer.columns)
    assert not ask(Cluster((4, 64), (5, 64)), demand, excluded=np.array([1]))


def test_a_replacement_keeps_its_node_if_the_rest_fits_around_it() -> None:
    muster = four_and_five()
    (start,) = assigns(muster.decide(0.0))
    bind(muster, start)
    for ended in start.nodes:
        muster.apply(PodsEnded((pod("x", ended),), 0.5))
    (again,) = assigns(muster.decide(1.0))
    assert again.nodes == start.nodes


def test_a_replacement_moves_if_nothing_fits_around_its_node() -> None:
    cluster = Cluster((4, 64), (5, 64))
    demand = wanted((((3, 1), 1, 1), ((2, 1), 3, 3)), 4)
    vacant = [range(part.count) for part in demand.parts]
    own = {Place("s0", 0): 0, Place("s1", 0): 1}
    request = Request(demand, vacant, preferred=own)
    assert place(request, cluster.ledger, cluster.slots) is None
    answer = Exact(cluster.ledger, cluster.slots).place(request)
    assert answer
    assert answer.columns[Place("s0", 0)] == 1
    assert answer.columns[Place("s1", 0)] == 1
    check(cluster, demand, answer.columns)


def test_an_answer_does_not_depend_on_what_was_asked_before() -> None:
    """Patterns at hand or not, other problems solved in between or not."""
    problems = [drawn(seed) for seed in range(150 if FULL else 100)]

    def asked(one: Exact, cluster: Cluster, demand: Demand) -> Placed | Infeasible:
        tried = cluster.ledger.log.trial()
        answer = one.place(Request(demand, [range(part.count) for part in demand.parts]))
        tried.undo()
        one.budget.next_cycle()
        return answer

    cluster = Cluster(*problems[0][0], (4, 64), (5, 64))
    demands = [wanted(sets, need) for _, sets, need in problems if need]
    used = Exact(cluster.ledger, cluster.slots)
    first = [asked(used, cluster, demand) for demand in demands]
    again = [asked(used, cluster, demand) for demand in reversed(demands)][::-1]
    fresh = [asked(Exact(cluster.ledger, cluster.slots), cluster, demand) for demand in demands]
    assert first == again == fresh
    assert {type(answer) for answer in first} == {Placed, Infeasible}


def test_demands_take_turns() -> None:
    """Five different gangs that only a search can tell: four are told in the first cycle."""
    sizes = range(1, exact.TURNS + 2)
    muster = Scheduler()
    for i in sizes:
        labels = {"pool": str(i)}
        for name, gpu in ((f"a{i}", 4), (f"b{i}", 5)):
            muster.apply(node(name, gpu=gpu, labels=labels))
        large, small = (
            PodSet(s.name, replace(s.shape, selector=(("pool", str(i)),)), s.count) for s in MISSED
        )
        muster.apply(GangSubmitted(gang(f"g{i}", large, small)))
    first = muster.decide(0.0)
    assert len(assigns(first)) == exact.TURNS
    assert [w.gang for w in waits(first)] == ["g5"]
    assert muster.wake_at() == muster.config.turn
    assert [a.gang for a in assigns(muster.decide(1.0))] == ["g5"]
    assert muster.wake_at() is None


def test_in_a_cluster_at_rest_each_want_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = count_solves(monkeypatch)
    monkeypatch.setattr(proofs, "PROOFS", 2)
    labels = [{"pool": str(i)} for i in range(7)]
    muster = Scheduler()
    for i, label in enumerate(labels):
        for name in ("a", "b"):
            muster.apply(node(f"{name}{i}", gpu=4, labels=label))
        pool = tuple(label.items())
        sets = [PodSet(s.name, replace(s.shape, selector=pool), s.count, s.count) for s in SUBTLE]
        muster.apply(GangSubmitted(gang(f"g{i}", *sets)))
    told = [[w.gang for w in waits(muster.decide(float(now)))] for now in range(4)]
    assert told == [[f"g{i}" for i in range(7)], ["g4", "g5", "g6"], [], []]
    assert solved == [7]
    assert muster.wake_at() is None


def test_room_that_is_left_behind_in_a_cycle_ends_a_proof() -> None:
    muster = two_of_four("x")
    muster.decide(0.0)
    demand = muster.world.gangs[GangId("x")].demand
    assert demand is not None
    assert muster.fit.exact.refutes(demand) is not None
    muster.world.nodes.change(node("n0", gpu=5))
    assert muster.fit.exact.refutes(demand) is None


def test_equal_demands_are_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = count_solves(monkeypatch)
    muster = two_of_four(*(f"g{i}" for i in range(20)))
    assert len(waits(muster.decide(0.0))) == 20
    assert muster.decide(1.0) == []
    assert solved == [1]


def test_a_proof_is_kept_while_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = count_solves(monkeypatch)
    muster = two_of_four("x")
    muster.decide(0.0)
    for i in range(5):
        foreign(muster, "n0", i % 3)
        assert assigns(muster.decide(float(i))) == []
    assert solved == [1]
    foreign(muster, "n0", 0)
    muster.apply(node("n0", gpu=5))
    assert len(assigns(muster.decide(9.0))) == 1


def count_solves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    count, original = [0], solver.optimum

    def counting(program: Program) -> Optimum | None:
        count[0] += 1
        return original(program)

    monkeypatch.setattr(solver, "optimum", counting)
    return count


def test_a_kept_proof_equals_a_fresh_one() -> None:
    rng = random.Random(7)
    held = let_go = 0
    for seed in range(800 if FULL else 200):
        free, sets, need = drawn(seed)
        cluster, demand = Cluster(*free), wanted(sets, need)
        vacant = [range(part.count) for part in demand.parts]
        request = Request(demand, vacant)
        if place(request, cluster.ledger, cluster.slots) is not None:
            continue
        tried = Exact(cluster.ledger, cluster.slots)
        answer = tried.place(request)
        if answer or answer.reason is not Reason.RELAXATION:
            continue
        now = list(free)
        for _ in range(4):
            i = rng.randrange(len(now))
            now[i] = (rng.randint(0, 8), rng.randint(2, 16))
            cluster.nodes.change(node(f"n{i}", gpu=now[i][0], cpu=1000 * now[i][1]))
            tried.budget.next_cycle()
            if tried.refutes(demand) is None:
                let_go += 1
                break
            held += 1
            assert not minimum_fits(tuple(now), sets, need)
    assert held > SOME
    assert let_go > SOME


def test_badly_rounded_prices_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the solver claims, a no that is called proven is one."""

    def request(program: Program) -> Optimum:
        return Optimum(1.0, np.zeros(len(program.cost)), np.ones(len(program.rows_lower)))

    monkeypatch.setattr(solver, "optimum", request)
    answer = ask(Cluster((4, 64), (5, 64)), wanted((((3, 1), 1, 1), ((2, 1), 3, 3)), 4))
    assert answer
    monkeypatch.setattr(
        solver, "integral", lambda program, whole, nodes: Integral(np.full(whole, 9.0), exhausted=False)
    )
    cluster = Cluster((4, 64), (5, 64))
    answer = ask(cluster, wanted((((3, 1), 1, 1), ((2, 1), 3, 3)), 4))
    assert answer == Infeasible(Reason.BUDGET)
    assert not (cluster.nodes.used > 0).any()


def test_nothing_is_left_to_solve_once_all_are_on_their_own_nodes() -> None:
    cluster = Cluster((1, 4), (2, 4))
    demand = Demand((Part("one", shape(gpu=1), 1, 1), Part("two", shape(gpu=2), 1, 1)), 2)
    own = {Place("one", 0): 0, Place("two", 0): 1}
    exactly = Exact(cluster.ledger, cluster.slots)
    assert exactly.place(Request(demand, [range(1), range(1)], preferred=own)) == Placed(own)
