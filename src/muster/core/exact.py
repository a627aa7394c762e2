"""An exact answer where greedy placement finds none: does any placement of the gang's minimum exist?

Greedy placement is exact for one shape. For several it sometimes misses a placement, and it can never say
that there is none. So when it has failed there are three more rungs:

1. *totals*: of some resource, or of some pod set's slots, less is there than the minimum takes. A proof.
2. *relaxation*: a linear program over patterns (`patterns.py`) that may use half a node one way and half
   of it another. If not even that holds the minimum, no placement does. The proof is a price for each
   group of pods: all nodes together, each filled with whatever brings most, bring less than the
   minimum is worth. The solver only suggests the prices; they are rounded, and the comparison is made in
   integers, so that no rounding error can turn a yes into a no.
3. *search*: the same program in whole numbers, with a budget of `SEARCH` nodes of the search tree; first only
   for what is left when the relaxation's solution is rounded down, then for the whole. What it
   finds is charged to the ledger, and taken only if it fits there.

The bound of rung 2 is Gilmore and Gomory's, and in practice nearly tight: an instance whose relaxation fits
almost always fits. Beyond the bounds of `patterns.py` only the totals speak, and the answer stays open.

A proof stays at hand: when nodes change, only what those nodes can bring is worked out anew, so that gangs
that wait in a full cluster cost next to nothing (`refutes`). New problems are solved for at most
`TURNS` wants per cycle; further ones take turns in later cycles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from muster.core import solver
from muster.core.gang import Place, Shape
from muster.core.ledger import Ledger
from muster.core.nodes import Columns, Demand, Ints, Nodes
from muster.core.patterns import Classes, Longs, Patterns
from muster.core.placement import Trial, Want
from muster.core.slots import Slots

#: Nodes of the search tree per problem.
SEARCH: Final = 100
#: Wants per cycle for which problems are solved.
TURNS: Final = 4
#: Proofs kept at hand; each has a cell per node.
PROOFS: Final = 64
#: Prices are integers up to this.
_PRICE: Final = 2**30
#: A relaxation that lacks less than this part of a pod counts as one that fits.
_LACKING: Final = 1e-6


class Rung(Enum):
    """How far the question went."""

    GREEDY = "greedy"
    TOTALS = "totals"
    RELAXATION = "relaxation"
    SEARCH = "search"


class Answer(Enum):
    #: proven in integers
    NONE_EXISTS = "none exists"
    #: the search ended without one; it reckons in floating point, so this is no proof
    NONE_LEFT = "none left"
    #: the budget was used up, there were too many patterns, or it was not this gang's turn
    NONE_FOUND = "none found"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A no, and what stands behind it."""

    rung: Rung
    answer: Answer
    #: level and number of the one domain (`topology.py`) in which the gang has to stay
    home: tuple[int, int] | None = None

    @property
    def proven(self) -> bool:
        return self.answer is Answer.NONE_EXISTS

    @property
    def open(self) -> bool:
        """There may be one, and another look at what is free may find it, even if there is less of it."""
        return self.answer is Answer.NONE_FOUND

    @property
    def postponed(self) -> bool:
        """Only greedy placement was tried: another want's turn."""
        return self.rung is Rung.GREEDY and not self.proven


class Exact:
    """The rungs above greedy, on one ledger."""

    def __init__(self, nodes: Nodes, ledger: Ledger, slots: Slots) -> None:
        self._nodes = nodes
        self._ledger = ledger
        self._slots = slots
        self._patterns = Patterns(nodes)
        self._turns = Turns(TURNS)
        #: problems that whoever asks several times about one want (a search for victims) may solve besides
        self.lent = 0
        self._proofs: dict[Want, Proof] = {}
        self._seen: Seen | None = None
        self._cycle = 0

    def next_cycle(self) -> None:
        self._cycle += 1
        self._turns.next_cycle()
        self.room_freed()

    @property
    def behind(self) -> bool:
        """Some wants have not had their turn."""
        return self._turns.behind

    def place(
        self,
        want: Want,
        vacant: Sequence[Sequence[int]],
        preferred: Mapping[Place, int],
        excluded: Columns | None,
        granted: bool = False,
    ) -> dict[Place, int] | Verdict:
        """As `placement.place`, which has found nothing: places → columns, charged to the ledger, or why not.

        Places with a node of their own keep it if the minimum can be placed so; otherwise as many do as
        happen to. `granted`: it is this want's turn, as `turn` has said; else that is asked here.
        """
        if len({part.shape for part in want.parts}) == 1:
            return Verdict(Rung.GREEDY, Answer.NONE_EXISTS)
        problem = Problem.of(want, [0] * len(want.parts), self._slots)
        caps = self._caps(problem, excluded)
        if self._too_little(problem, caps):
            return Verdict(Rung.TOTALS, Answer.NONE_EXISTS)
        if len(problem.groups) == 1 and not preferred:
            return Verdict(Rung.GREEDY, Answer.NONE_EXISTS)
        if not (granted or self.turn(want)):
            return Verdict(Rung.GREEDY, Answer.NONE_FOUND)
        if preferred:
            placed = self._place_around(want, vacant, preferred, excluded)
            if placed is not None:
                return placed
        counts = self._solve(problem, caps, want if excluded is None and not preferred else None)
        if isinstance(counts, Verdict):
            return counts
        trial = Trial(want.parts, excluded, self._ledger, self._slots)
        placed = self._carry_out(trial, problem, counts, vacant, preferred)
        return Verdict(Rung.SEARCH, Answer.NONE_FOUND) if placed is None else placed

    def lacks_room(self, want: Want, excluded: Columns | None) -> Verdict | None:
        """A proof that the minimum finds no room even without constraints; None: not proven."""
        problem = Problem.of(want, [0] * len(want.parts), self._slots)
        caps = self._caps(problem, excluded)
        if self._too_little(problem, caps):
            return Verdict(Rung.TOTALS, Answer.NONE_EXISTS)
        if len(problem.groups) == 1:
            return None
        found = self._relax(problem, caps, want if excluded is None else None)
        return found if isinstance(found, Verdict) and found.proven else None

    def turn(self, want: Want) -> bool:
        """Whether problems may be solved for this want in this cycle. Asked once per cycle."""
        if self.lent > 0:
            self.lent -= 1
            return True
        return self._turns.take(want)

    def refutes(self, want: Want) -> Verdict | None:
        """An earlier proof that this want does not fit, if it still holds."""
        proof = self._proofs.get(want)
        if proof is None:
            return None
        proof.asked = self._cycle
        if self._catch_up(proof) and proof.holds:
            return Verdict(Rung.RELAXATION, Answer.NONE_EXISTS)
        del self._proofs[want]
        return None

    def room_freed(self) -> None:
        """Note for all proofs which nodes have changed since the last time.

        Called at the start of a cycle, and when room is left behind within one: placements take room away
        and leave proofs true. The log of changes would not do, as greedy trials run it over.
        """
        if not self._proofs:
            self._seen = None
            return
        nodes, seen = self._nodes, self._seen
        now = Seen(nodes)
        facts = nodes.fact_changes.since(seen.facts) if seen is not None else None
        if seen is None or facts is None or seen.layout != now.layout or seen.free.shape != now.free.shape:
            self._proofs.clear()
            self._seen = None
            return
        changed = {*seen.differences(now), *facts}
        for proof in self._proofs.values():
            proof.stale |= changed
        self._seen = now

    def _catch_up(self, proof: "Proof") -> bool:
        """Work out what changed nodes bring now. False if that is not known."""
        if proof.stale:
            columns = np.array(sorted(proof.stale), np.intp)
            brings = self._brings(proof, columns)
            if brings is None:
                return False
            proof.total += int(brings.sum()) - int(proof.brings[columns].sum())
            proof.brings[columns] = brings
            proof.stale.clear()
        return True

    def _place_around(
        self,
        want: Want,
        vacant: Sequence[Sequence[int]],
        preferred: Mapping[Place, int],
        excluded: Columns | None,
    ) -> dict[Place, int] | None:
        """With every place on its own node that fits there."""
        mark = self._ledger.mark()
        trial = Trial(want.parts, excluded, self._ledger, self._slots)
        for place, column in sorted(preferred.items()):
            trial.prefer(place, column)
        problem = Problem.of(want, trial.placed, self._slots)
        caps = self._caps(problem, excluded)
        placed = None
        if not self._too_little(problem, caps):
            counts = self._solve(problem, caps, None)
            if not isinstance(counts, Verdict):
                placed = self._carry_out(trial, problem, counts, vacant, {})
        if placed is None:
            self._ledger.rollback(mark)
        else:
            self._ledger.commit(mark)
        return placed

    def _caps(self, problem: "Problem", excluded: Columns | None, columns: Columns | None = None) -> Ints:
        """Groups × nodes (all, or these): how many pods of each could matter there."""
        some = slice(None) if columns is None else columns
        caps = np.array(
            [np.minimum(self._slots.of(g.shape).slots[some], g.count) for g in problem.groups], np.int32
        )
        if excluded is not None:
            caps[:, excluded] = 0
        return caps

    def _too_little(self, problem: "Problem", caps: Ints) -> bool:
        """The necessary conditions: slots of each group, slots of all, and each resource in sum."""
        fitting = caps.sum(axis=1, dtype=np.int64).tolist()
        if any(fits < group.need for fits, group in zip(fitting, problem.groups, strict=True)):
            return True
        if sum(min(fits, g.count) for fits, g in zip(fitting, problem.groups, strict=True)) < problem.size:
            return True
        asked = [dict(group.demand) for group in problem.groups]
        for row in {row for amounts in asked for row in amounts}:
            least = problem.least([amounts.get(row, 0) for amounts in asked])
            asking = [g for g, amounts in enumerate(asked) if row in amounts]
            usable = caps[asking].any(axis=0)
            if least > int(self._nodes.free(row)[usable].sum(dtype=np.int64)):
                return True
        return False

    def _solve(self, problem: "Problem", caps: Ints, remember: Want | None) -> Longs | Verdict:
        """Groups × nodes: pods that together hold the minimum. A proof is kept for the want to `remember`."""
        relaxed = self._relax(problem, caps, remember)
        if isinstance(relaxed, Verdict):
            return relaxed
        classes, x = relaxed
        if x is not None:
            counts = _rounded(problem, classes, x, caps.shape)
            if counts is not None:
                return counts
        found = _search(problem, classes)
        if found.x is None:
            return Verdict(Rung.SEARCH, Answer.NONE_LEFT if found.exhausted else Answer.NONE_FOUND)
        counts = _on_nodes(classes, _whole(classes, found.x), caps.shape)
        return Verdict(Rung.SEARCH, Answer.NONE_FOUND) if counts is None else counts

    def _relax(
        self, problem: "Problem", caps: Ints, remember: Want | None
    ) -> Verdict | tuple[Classes, solver.Floats | None]:
        """The relaxation's solution, if it has one; or a proof, which is kept for the want to `remember`."""
        classes = self._patterns.classes([g.demand for g in problem.groups], caps)
        if classes is None:
            return Verdict(Rung.TOTALS, Answer.NONE_FOUND)
        relaxed = solver.optimum(_program(problem, classes, relaxed=True))
        if relaxed is None:
            return classes, None
        if relaxed.cost <= _LACKING:
            return classes, relaxed.x
        proof = self._proof(problem, classes, relaxed.prices)
        if not proof.holds:
            return classes, None
        if remember is not None:
            self._keep(remember, proof)
        return Verdict(Rung.RELAXATION, Answer.NONE_EXISTS)

    def _proof(self, problem: "Problem", classes: Classes, shadow: solver.Floats) -> "Proof":
        """What the prices suggested by the solver prove, reckoned in integers."""
        suggested = np.maximum(shadow[len(classes.columns) :][: len(problem.groups)], 0.0)
        prices = np.rint(suggested / max(suggested.max(), 1e-12) * _PRICE).astype(np.int64)
        brings = np.zeros(len(self._nodes), np.int64)
        for columns, patterns in zip(classes.columns, classes.patterns, strict=True):
            brings[columns] = (patterns @ prices).max()
        return Proof(
            problem,
            prices,
            problem.least(prices.tolist()),
            brings,
            sum(brings.tolist()),
            self._cycle,
        )

    def _keep(self, want: Want, proof: "Proof") -> None:
        if len(self._proofs) >= PROOFS:
            # Proofs that nobody asks for any more make room; others stay, or all would be lost in turn.
            for old in [w for w, p in self._proofs.items() if p.asked < self._cycle - 1]:
                del self._proofs[old]
        if len(self._proofs) < PROOFS:
            now = Seen(self._nodes)
            if self._seen is None:
                self._seen = now
            elif (self._seen.layout, self._seen.free.shape) != (now.layout, now.free.shape):
                return
            proof.stale |= self._seen.differences(now)
            self._proofs[want] = proof

    def _brings(self, proof: "Proof", columns: Columns) -> Longs | None:
        """The most that each of these nodes can bring at the prices of the proof."""
        caps = self._caps(proof.problem, None, columns)
        listed = self._patterns.of([g.demand for g in proof.problem.groups], caps, columns)
        if listed is None:
            return None
        return np.array([(patterns @ proof.prices).max(initial=0) for patterns in listed], np.int64)

    def _carry_out(
        self,
        trial: Trial,
        problem: "Problem",
        counts: Longs,
        vacant: Sequence[Sequence[int]],
        preferred: Mapping[Place, int],
    ) -> dict[Place, int] | None:
        """Charge the minimum as found, then as many more as fit. None, and nothing charged, if wrong."""
        targets = problem.targets(counts.sum(axis=1).tolist())
        if targets is None:
            return None
        mark = self._ledger.mark()
        later = []
        for place, column in sorted(preferred.items()):
            p = next(p for p, part in enumerate(trial.parts) if part.pod_set == place.pod_set)
            g = problem.group_of.get(p)
            if g is not None and targets[p] and counts[g, column] and trial.prefer(place, column):
                targets[p] -= 1
                counts[g, column] -= 1
            else:
                later.append((place, column))
        for g, group in enumerate(problem.groups):
            columns = np.repeat(np.arange(counts.shape[1]), counts[g])
            for p in group.parts:
                mine, columns = columns[: targets[p]], columns[targets[p] :]
                if len(mine) < targets[p] or not trial.put(p, mine):
                    self._ledger.rollback(mark)
                    return None
        for place, column in later:
            trial.prefer(place, column)
        for p in trial.order:
            trial.fill(p, trial.parts[p].count)
        self._ledger.commit(mark)
        return trial.places(vacant)


@dataclass(frozen=True, slots=True)
class Group:
    """Pods of one shape, of whichever parts: at least `need`, at most `count`."""

    shape: Shape
    demand: Demand
    need: int
    count: int
    parts: tuple[int, ...]
    size: float


@dataclass(frozen=True, slots=True)
class Problem:
    """A minimum: the `need` of each group, and `rest` more pods of any."""

    groups: tuple[Group, ...]
    rest: int
    #: of each part that counts: what it still needs, and how many more it may have
    parts: Mapping[int, tuple[int, int]]

    @staticmethod
    def of(want: Want, placed: Sequence[int], slots: Slots) -> "Problem":
        """What is left of the want's minimum once so many pods of each part are placed."""
        needs = [max(part.need - n, 0) for part, n in zip(want.parts, placed, strict=True)]
        rest = max(want.need - sum(placed) - sum(needs), 0)
        parts = {}
        by_shape: dict[Shape, list[int]] = {}
        for p, part in enumerate(want.parts):
            spare = max(part.count - placed[p] - needs[p], 0) if rest else 0
            if needs[p] or spare:
                parts[p] = (needs[p], spare)
                by_shape.setdefault(part.shape, []).append(p)
        groups = []
        for shape, members in by_shape.items():
            vector = slots.of(shape)
            need = sum(needs[p] for p in members)
            count = sum(sum(parts[p]) for p in members)
            groups.append(Group(shape, vector.demand, need, count, tuple(members), vector.size))
        # In one order whatever the pod sets are called, so that equal lists of shapes share their patterns.
        groups.sort(key=lambda group: (group.demand, group.parts))
        return Problem(tuple(groups), rest, parts)

    @property
    def size(self) -> int:
        return sum(group.need for group in self.groups) + self.rest

    def without(self, placed: Sequence[int]) -> "Problem":
        """What is left once so many pods of each group are placed; of use to solve, not to carry out."""
        groups, rest = [], self.rest
        for group, n in zip(self.groups, placed, strict=True):
            need, count = max(group.need - n, 0), max(group.count - n, 0)
            rest -= min(max(n - group.need, 0), group.count - group.need)
            groups.append(replace(group, need=need, count=count))
        return replace(self, groups=tuple(groups), rest=max(rest, 0))

    @property
    def group_of(self) -> dict[int, int]:
        return {p: g for g, group in enumerate(self.groups) for p in group.parts}

    def least(self, worth: Sequence[int]) -> int:
        """The least that a minimum can be worth if a pod of group g is worth `worth[g]`."""
        total, rest = sum(n * g.need for n, g in zip(worth, self.groups, strict=True)), self.rest
        for n, group in sorted(zip(worth, self.groups, strict=True), key=lambda item: item[0]):
            more = min(rest, group.count - group.need)
            total += n * more
            rest -= more
        return total

    def targets(self, have: Sequence[int]) -> dict[int, int] | None:
        """How many pods of each part make up the minimum if so many of each group are there.

        The rest is made of the smallest pods. None if it is not enough.
        """
        targets = {p: need for p, (need, _) in self.parts.items()}
        rest = self.rest
        by_size = sorted(range(len(self.groups)), key=lambda g: self.groups[g].size)
        for g in by_size:
            group = self.groups[g]
            if have[g] < group.need:
                return None
            more = min(rest, have[g] - group.need)
            for p in group.parts:
                extra = min(more, self.parts[p][1])
                targets[p] += extra
                more -= extra
                rest -= extra
        return targets if not rest else None


@dataclass(slots=True, eq=False)
class Proof:
    """At these prices the minimum is worth at least `least`, and all nodes together bring only `total`."""

    problem: Problem
    prices: Longs
    least: int
    #: the most that each node can bring, and the sum
    brings: Longs
    total: int
    #: the cycle in which it was last asked for
    asked: int
    #: columns that have changed since
    stale: set[int] = field(default_factory=set)

    @property
    def holds(self) -> bool:
        return self.total < self.least


class Seen:
    """What was free when proofs were last told what has changed."""

    def __init__(self, nodes: Nodes) -> None:
        self.layout = nodes.layout
        self.facts = nodes.fact_changes.end
        self.free = np.array([nodes.free(row) for row in nodes.resources.values()])

    def differences(self, other: "Seen") -> set[int]:
        """Columns; both of one layout."""
        return set(np.flatnonzero((self.free != other.free).any(axis=0)).tolist())


class Turns:
    """Who may have problems solved in this cycle: those that have been waiting for it, then who asks first.

    Of n wants that all need it each has its turn at least every ⌈n / turns⌉ cycles.
    """

    def __init__(self, turns: int) -> None:
        self._turns = self._left = turns
        self._now: set[Want] = set()
        #: in order of arrival; wants that are gone drop out
        self._waiting: WeakKeyDictionary[Want, None] = WeakKeyDictionary()

    def next_cycle(self) -> None:
        self._now = set(list(self._waiting)[: self._turns]) if self._waiting else set()
        for want in self._now:
            del self._waiting[want]
        self._left = self._turns - len(self._now)

    def take(self, want: Want) -> bool:
        if want in self._now:
            self._now.remove(want)
            return True
        if want in self._waiting or not self._left:
            self._waiting.setdefault(want)
            return False
        self._left -= 1
        return True

    @property
    def behind(self) -> bool:
        return bool(self._waiting)


def _rounded(problem: Problem, classes: Classes, x: solver.Floats, shape: tuple[int, ...]) -> Longs | None:
    """The relaxation's own solution rounded down, and a search for what is then left.

    A corner of the relaxation has few fractions, so that is a small problem, and nearly always enough.
    """
    uses = np.floor(x[: sum(len(patterns) for patterns in classes.patterns)] + _LACKING).astype(np.int64)
    sizes = [len(patterns) for patterns in classes.patterns]
    by_class = np.split(uses, np.cumsum(sizes)[:-1])
    left = [len(c) - int(used.sum()) for c, used in zip(classes.columns, by_class, strict=True)]
    remaining = problem.without((uses @ np.concatenate(classes.patterns)).tolist())
    if remaining.size:
        some = Classes(
            [columns[:n] for columns, n in zip(classes.columns, left, strict=True) if n > 0],
            [patterns for patterns, n in zip(classes.patterns, left, strict=True) if n > 0],
        )
        found = _search(remaining, some) if some.columns else None
        if found is None or found.x is None:
            return None
        uses[np.repeat(np.array(left) > 0, sizes)] += _whole(some, found.x)
    counts = _on_nodes(classes, uses, shape)
    if counts is None or problem.targets(counts.sum(axis=1).tolist()) is None:
        return None
    return counts


def _search(problem: Problem, classes: Classes) -> solver.Integral:
    whole = sum(len(patterns) for patterns in classes.patterns)
    return solver.integral(_program(problem, classes, relaxed=False), whole, SEARCH)


def _whole(classes: Classes, x: solver.Floats) -> Longs:
    """How many nodes use each pattern."""
    return np.rint(x[: sum(len(patterns) for patterns in classes.patterns)]).astype(np.int64)


def _program(problem: Problem, classes: Classes, relaxed: bool) -> solver.Program:
    """Unknowns: nodes of each class per pattern; per group its part of the rest; per group what is lacking.

    The last only if `relaxed`: then there always is a solution, and its cost is the number of pods lacking.
    Rows: nodes of each class; pods of each group; the rest.
    """
    groups = problem.groups
    first, kinds = len(classes.columns), sum(len(patterns) for patterns in classes.patterns)
    class_of = np.repeat(np.arange(first), [len(patterns) for patterns in classes.patterns])
    pods = np.concatenate(classes.patterns)
    pattern, group = np.nonzero(pods)
    of_group = first + np.arange(len(groups))
    columns = [np.arange(kinds), pattern]
    rows = [class_of, first + group]
    values = [np.ones(kinds), pods[pattern, group]]
    upper = [np.array([len(members) for members in classes.columns])[class_of]]
    cost = [np.zeros(kinds)]
    width = kinds
    if problem.rest:
        more = width + np.arange(len(groups))
        columns += [more, more]
        rows += [of_group, np.full(len(groups), first + len(groups))]
        values += [np.full(len(groups), -1.0), np.ones(len(groups))]
        upper.append(np.array([g.count - g.need for g in groups]))
        cost.append(np.zeros(len(groups)))
        width += len(groups)
    if relaxed:
        columns.append(width + np.arange(len(groups)))
        rows.append(of_group)
        values.append(np.ones(len(groups)))
        upper.append(np.full(len(groups), np.inf))
        cost.append(np.ones(len(groups)))
        width += len(groups)
    column, row = np.concatenate(columns), np.concatenate(rows)
    order = np.lexsort((row, column))
    infinite = np.full(len(groups) + bool(problem.rest), np.inf)
    least = [group.need for group in groups] + [problem.rest] * bool(problem.rest)
    return solver.Program(
        cost=np.concatenate(cost),
        upper=np.concatenate(upper).astype(np.float64),
        rows_lower=np.concatenate((np.full(first, -np.inf), np.array(least, np.float64))),
        rows_upper=np.concatenate(([float(len(members)) for members in classes.columns], infinite)),
        starts=np.searchsorted(column[order], np.arange(width + 1)).astype(np.int32),
        rows=row[order].astype(np.int32),
        values=np.concatenate(values).astype(np.float64)[order],
    )


def _on_nodes(classes: Classes, uses: Longs, shape: tuple[int, ...]) -> Longs | None:
    """Groups × nodes: nodes of a class in order of name, its patterns in their order.

    None if more nodes of a class are used than there are.
    """
    counts = np.zeros(shape, np.int64)
    start = 0
    for columns, patterns in zip(classes.columns, classes.patterns, strict=True):
        used = np.maximum(uses[start : start + len(patterns)], 0)
        start += len(patterns)
        chosen = np.repeat(patterns, used, axis=0)
        if len(chosen) > len(columns):
            return None
        counts[:, columns[: len(chosen)]] = chosen.T
    return counts
