"""Small full clusters, a gang that does not fit, and an oracle: all sets of victims, one by one.

What a set of victims must keep to is said here once more, naively: ranks, budgets, hard caps, entitlements.
Whether the gang fits without them is asked of `Fit`, as for any start.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from muster.core.cycle import Scheduler
from muster.core.demand import Request
from muster.core.preemption.candidates import Candidate, Candidates
from muster.core.words.decisions import Decision, Evict, Victim
from muster.core.words.events import BudgetChanged, GangSubmitted, LayersChanged, NodeChanged, QueueChanged
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
    Queue,
    Requirement,
    Shape,
    Spread,
    Strategy,
    Taint,
    Toleration,
)
from muster.core.world.nodes import Columns
from muster.core.world.topology import NODE
from muster.names import GPU_SHARE
from tests.core.words import GPU, amounts, assigns, bind, scheduler

NOW = 1_000.0
#: What a case may be about, besides room.
TOPOLOGY, CONSTRAINTS, QUEUES, BUDGETS, SHAPES = "topology", "constraints", "queues", "budgets", "shapes"
AFFINITY, EXCLUSIVE = "affinity", "exclusive"
#: Sets of victims that an oracle looks through.
SETS = 1_000
LAYERS = (NODE, "rack", "block")
#: GPUs
SIZES = (1, 1, 2, 2, 4, 8)


@dataclass
class Case:
    made: Scheduler
    preemptor: Gang
    #: how many pods of app a may go; None: any
    budget: int | None = None


@dataclass
class Best:
    level: int
    surplus: bool
    lost: float

    @property
    def key(self) -> tuple[int, bool, float]:
        return self.level, not self.surplus, self.lost


def draw(seed: int, *about: str) -> Case:
    """Up to 12 nodes, filled with gangs of several sizes, ages and priorities, some elastic; and one more."""
    rng = random.Random(seed)
    made = scheduler(_nodes(rng, about))
    made.apply(LayersChanged((Layer("block", ("block",)), Layer("rack", ("rack",)))))
    rules = [Queue("p"), Queue("q", "p", weight=rng.randint(1, 3)), Queue("r", "p")]
    for each in rules:
        made.apply(QueueChanged(each))
    for i in range(rng.randint(3, 11)):
        count = rng.randint(1, 6)
        least = rng.choice([count, count, count, rng.randint(1, count)])
        pods = PodSet("main", _shape(rng, about, SIZES), count, least, labels=(("app", rng.choice("ab")),))
        one = Gang(GangId(f"g{i}"), (pods,), least, 0.0, rng.randint(0, 2), namespace="ns", preempts=False)
        one = replace(one, queue=rng.choice("qqr") if QUEUES in about else "q")
        one = replace(one, restart_cost=rng.choice([0.0, 0.0, 60.0]))
        made.apply(GangSubmitted(one))
        for assign in assigns(made.decide(0.0)):
            at = float(rng.randint(1, 900))
            for event in bind(made, assign):
                labelled = replace(
                    event.footprint,
                    namespace="ns",
                    labels=pods.labels,
                    pod_anti_affinity=pods.shape.pod_anti_affinity,
                )
                made.apply(replace(event, at=at, footprint=labelled))
        made.decide(0.0)
    if EXCLUSIVE in about:  # some beside others, as they came to ask for it later
        for one in [state.gang for state in made.world.gangs.values() if state.gang and rng.random() < 0.4]:
            made.apply(GangSubmitted(replace(one, exclusive=rng.choice(LAYERS))))
        made.decide(0.0)
    if QUEUES in about and rng.random() < 0.7:
        made.apply(QueueChanged(_capped(rng, made, rng.choice(rules[:2]))))
    budget = rng.randint(0, 6) if BUDGETS in about else None
    if budget is not None:
        selected = (Requirement("app", Operator.IN, ("a",)),)
        made.apply(BudgetChanged("ns", "budget", selected, budget))
    return Case(made, _preemptor(rng, about), budget)


def _nodes(rng: random.Random, about: Sequence[str]) -> Iterator[NodeChanged]:
    block = rack = 0
    for i in range(rng.randint(2, 12)):
        block += rng.random() < 0.2
        rack += rng.random() < 0.4
        labels = {"host": f"n{i:02}", "block": f"b{block}", "rack": f"r{rack}", "disk": rng.choice("xxy")}
        if TOPOLOGY in about and rng.random() < 0.1:
            del labels[rng.choice(["block", "rack"])]
        special = CONSTRAINTS in about and rng.random() < 0.15
        taints = (Taint("special", "", Effect.NO_SCHEDULE),) if special else ()
        room = amounts({"cpu": 64_000, GPU: rng.choice([8, 8, 8, 4]), "pods": 110})
        yield NodeChanged(NodeName(f"n{i:02}"), room, tuple(sorted(labels.items())), taints)


def _shape(rng: random.Random, about: Sequence[str], sizes: Sequence[int]) -> Shape:
    made = Shape(amounts({GPU: rng.choice(sizes)}))
    if CONSTRAINTS not in about:
        return made
    if rng.random() < 0.2:
        made = replace(made, selector=(("disk", "x"),))
    if rng.random() < 0.3:
        made = replace(made, tolerations=(Toleration("special"),))
    if rng.random() < 0.25:
        app = (Requirement("app", Operator.IN, (rng.choice("ab"),)),)
        made = replace(made, pod_anti_affinity=(PodTerm(rng.choice(["host", "rack"]), app, ("ns",)),))
    return made


def _capped(rng: random.Random, made: Scheduler, rules: Queue) -> Queue:
    """With a hard cap that leaves little, or nothing."""
    account = made.world.queues.accounts[rules.name]
    if rng.random() < 0.3:
        return replace(rules, max_gangs=max(account.standing, 1))
    used = account.used.get(GPU_SHARE, 0) // 1000
    return replace(rules, capability=amounts({GPU: used + rng.choice([0, 0, 2, 5]) or 1}))


def _preemptor(rng: random.Random, about: Sequence[str]) -> Gang:
    kinds = rng.randint(1, 2) if SHAPES in about else 1
    sets = []
    for k in range(kinds):
        count = rng.randint(1, 10 // kinds)
        made = _shape(rng, about, (1, 2, 3, 4, 8))
        if AFFINITY in about:
            made = _with_affinity(rng, made)
        sets.append(PodSet(f"s{k}", made, count, count, labels=(("app", rng.choice("abc")),)))
    total = sum(s.count for s in sets)
    one = Gang(GangId("preemptor"), tuple(sets), total, 1.0, 3, "q", namespace="ns")
    if EXCLUSIVE in about and rng.random() < 0.5:
        one = replace(one, exclusive=rng.choice(LAYERS))
    if TOPOLOGY not in about:
        return one
    must, prefer = Strategy.MUST_GATHER, Strategy.PREFER_GATHER
    rules = [
        (Gather("rack", must),),
        (Gather("block", must),),
        (Gather("block", must), Gather("rack", must)),
        (Gather("block", must), Gather("rack", prefer)),
        (Gather("rack", prefer),),
    ]
    return replace(one, gather=rng.choice(rules))


def _with_affinity(rng: random.Random, made: Shape) -> Shape:
    """The shape with affinity to, or a spread over, pods of possible victims."""
    key, app = rng.choice(["host", "rack"]), (Requirement("app", Operator.IN, (rng.choice("ab"),)),)
    if rng.random() < 0.5:
        return replace(made, pod_affinity=(PodTerm(key, app, ("ns",)),))
    return replace(made, spread=(Spread(key, rng.randint(1, 2), app),))


def compare(case: Case) -> float | None:
    """Ratio of the work lost to the least possible; None: no victim is needed, or none helps.

    Raises if one finds what the other does not, or if priority or kind of the victims are not the best.
    """
    made = case.made
    made.apply(GangSubmitted(replace(case.preemptor, preempts=False)))
    if assigns(made.decide(NOW)):
        return None
    best = oracle(case)
    made.apply(GangSubmitted(case.preemptor))
    found = searched(made, patiently(made))
    if best is None or found is None:
        assert found is best, (best, found)
        return None
    assert (found.level, found.surplus) == (best.level, best.surplus), (best, found)
    return found.lost / best.lost


def patiently(made: Scheduler, cycles: int = 500) -> list[Decision]:
    """The decisions of the cycles until victims are found, or no search goes on."""
    decisions = made.decide(NOW)
    while made.behind and not any(isinstance(each, Evict) for each in decisions):
        cycles -= 1
        assert cycles
        decisions = made.decide(NOW)
    return decisions


def searched(made: Scheduler, decisions: Sequence[object]) -> Best | None:
    evicts = [decision for decision in decisions if isinstance(decision, Evict)]
    if not evicts:
        return None
    (evict,) = evicts
    gangs = [made.world.gangs[victim.gang].gang for victim in evict.victims]
    priorities = [gang.priority for gang in gangs if gang is not None]
    return Best(max(priorities), all(v.pods for v in evict.victims), evict.work_lost)


#: Of a candidate, the units that are taken.
_Some = tuple[int, ...]
_Chosen = list[tuple[Candidate, _Some]]


def oracle(case: Case) -> Best | None:
    """The best of all sets of victims, tried one by one; None: nothing helps."""
    found = _candidates(case)
    sets = []
    for several in product(*map(_ways, found)):
        chosen = [(c, some) for c, some in zip(found, several, strict=True) if some]
        if chosen:
            level = max(c.gang.priority for c, _ in chosen)
            surplus = not any(_whole(c, some) for c, some in chosen)
            sets.append((Best(level, surplus, sum(c.lost[n] for c, some in chosen for n in some)), chosen))
    sets.sort(key=lambda one: one[0].key)
    heeding = (
        (best, chosen, all_)
        for all_ in (True, False)  # budgets of other queues count first, as long as others make room
        for own in (False, True)  # what other queues have borrowed goes first
        for best, chosen in sets
        if own or all(candidate.gang.queue != case.preemptor.queue for candidate, _ in chosen)
    )
    return next(
        (best for best, chosen, all_ in heeding if _allowed(case, chosen, all_) and _fits(case, chosen)), None
    )


def _candidates(case: Case) -> list[Candidate]:
    made = case.made
    return Candidates(made.world.nodes, made.world.gangs, made.world.pods).of(NOW, lambda gang: True)[0]


def sets_of(case: Case) -> int:
    """How many sets of victims there are."""
    total = 1
    for candidate in _candidates(case):
        total *= len(_ways(candidate))
    return total


def _ways(candidate: Candidate) -> list[_Some]:
    """What may be taken of a gang: so much surplus that its minima hold, in any order, or everything."""
    gang, numbers = candidate.gang, range(len(candidate.units))
    surplus = [n for n in numbers if not candidate.units[n].core]
    ways = [
        some
        for number in range(len(surplus) + 1)
        for some in combinations(surplus, number)
        if _filled(candidate) - number >= max(gang.min_count, gang.pod_sets[0].min_count)
    ]
    return ways + [tuple(numbers)] * (len(surplus) < len(numbers))


def _filled(candidate: Candidate) -> int:
    return sum(len(unit.pods) for unit in candidate.units)


def _whole(candidate: Candidate, some: _Some) -> bool:
    return any(candidate.units[n].core for n in some)


def _allowed(case: Case, chosen: _Chosen, heeds_all: bool) -> bool:
    made = case.made
    heeded = [(c, some) for c, some in chosen if heeds_all or c.gang.queue == case.preemptor.queue]
    pods = [made.world.pods[pod] for c, some in heeded for n in some for pod in c.units[n].pods]
    if case.budget is not None and sum(("app", "a") in pod.footprint.labels for pod in pods) > case.budget:
        return False
    row_amounts = Counter({"pods": case.preemptor.min_count})
    for pod_set in case.preemptor.pod_sets:
        row_amounts[GPU_SHARE] += 1000 * pod_set.count * dict(pod_set.shape.requests)[GPU]
    freed: dict[str, Counter[str]] = {name: Counter() for name in ("p", "q", "r")}
    gangs: Counter[str] = Counter()
    for candidate, some in chosen:
        for name in ("p", candidate.gang.queue):
            gangs[name] += _whole(candidate, some)
            for n in some:
                freed[name].update(Counter(candidate.units[n].freed))
    for name in ("p", "q"):
        account = made.world.queues.accounts[name]
        cap = dict(account.rules.capability).get(GPU)
        used = account.used.get(GPU_SHARE, 0)
        if cap is not None and used - freed[name][GPU_SHARE] + row_amounts[GPU_SHARE] > 1000 * cap:
            return False
        most = account.rules.max_gangs
        if most is not None and account.standing - gangs[name] + 1 > most:
            return False
    return _reclaimable(made, [(c, some) for c, some in chosen if c.gang.queue != "q"], row_amounts)


def _reclaimable(made: Scheduler, foreign: _Chosen, row_amounts: Counter[str]) -> bool:
    """Each with those before it gone, the smallest first."""
    if not foreign:
        return True
    mine, theirs = made.world.queues.accounts["q"], made.world.queues.accounts["r"]
    limited = {r for r, n in made.world.queues.root.entitled.items() if n}
    everything = made.world.queues.root.entitled

    def over(account_used: int, entitled: int, resource: str) -> bool:
        return account_used > entitled < everything[resource]

    if any(
        over(mine.used.get(r, 0) + row_amounts[r], mine.entitled.get(r, 0), r)
        for r in limited & {*row_amounts}
    ):
        return False
    used = Counter(theirs.used)
    for _, _, _, taken in sorted(
        (sum(len(c.units[n].pods) for n in some), c.gang.id, number, taken)
        for c, some in foreign
        for number, taken in enumerate(_steps(c, some))
    ):
        if not any(
            row_amounts[r] and over(used[r], theirs.entitled.get(r, 0), r) for r in limited & {*taken}
        ):
            return False
        used.subtract(taken)
    return True


def _steps(candidate: Candidate, some: _Some) -> Iterator[Counter[str]]:
    """Surplus pod by pod; of a gang that goes as a whole, after its surplus all the rest."""
    freed = [Counter(candidate.units[n].freed) for n in some]
    steps = candidate.spare.get("", 0) if _whole(candidate, some) else len(some)
    yield from freed[:steps]
    if freed[steps:]:
        yield sum(freed[steps:], Counter())


def _fits(case: Case, chosen: _Chosen) -> bool:
    made, state = case.made, case.made.world.gangs[case.preemptor.id]
    assert state.demand is not None
    tried = made.world.ledger.log.trial()
    for candidate, some in chosen:
        pods = frozenset(pod for n in some for pod in candidate.units[n].pods)
        made.world.pending_evictions.lift_victims([Victim(candidate.gang.id, pods)])
    made.fit.exact.budget.next_cycle()
    made.fit.exclusive_domains.leave(
        map(Victim, made.world.gangs)
    )  # what keeps it off is computed here once more
    placed = made.fit.fit(
        Request(state.demand, state.vacant, footprints=state.footprints, excluded=_kept_off(case, chosen))
    )
    tried.undo()
    return bool(placed)


def _kept_off(case: Case, chosen: _Chosen) -> Columns | None:
    """Nodes in exclusive domains of gangs that stay; and, for an exclusive gang, domains with other pods."""
    made = case.made
    gone = {pod for candidate, some in chosen for n in some for pod in candidate.units[n].pods}
    left = [bound for pod, bound in made.world.pods.items() if pod not in gone]
    kept = set[int]()
    for bound in left:
        asked = made.world.gangs[bound.gang].gang if bound.gang is not None else None
        for layer in {asked.exclusive if asked is not None else "", case.preemptor.exclusive} - {""}:
            domain = _domain(made, bound.node, layer)
            kept |= {
                c
                for name, c in made.world.nodes.column.items()
                if domain and _domain(made, name, layer) == domain
            }
    if case.preemptor.exclusive:
        kept |= {
            c
            for name, c in made.world.nodes.column.items()
            if not _domain(made, name, case.preemptor.exclusive)
        }
    return np.array(sorted(kept), np.intp) if kept else None


def _domain(made: Scheduler, node: NodeName, layer: str) -> tuple[str, ...]:
    labels = dict(made.world.nodes.facts[node].labels)
    path = (labels.get("block", ""), labels.get("rack", ""), node)[: 3 - LAYERS.index(layer)]
    return path if path[-1] else ()
