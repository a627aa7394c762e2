"""How many pods of a gang could meet their affinity and spread, depending on which other pods stay.

A gang with required pod affinity, or with a spread that counts other pods, may fit only if some of its
possible victims stay: for it, more victims are not better. So each set of victims is judged by itself, by the
pods that remain without it:

- *affinity*: a pod may be in domains where a pod stays that its terms select, or where there is room for a
  pod of its own gang that they select. If no such pod runs anywhere and the pod selects itself, it may go to
  any domain.
- *spread*: in the end no domain has more than the skew plus what the domain with fewest can have then.

Like slots these are necessary conditions, and arithmetic: many sets at once, one a row, and a number of
slots for each of them and each node.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from muster.core.demand import Request
from muster.core.placement.constraints import Constraints
from muster.core.preemption.eviction_units import Floats, UnitTable
from muster.core.words.events import Footprint
from muster.core.words.gang import Shape, Spread
from muster.core.world import World
from muster.core.world.footprints import Matching
from muster.core.world.nodes import Bools, Ints


@dataclass(frozen=True, slots=True)
class _Pods:
    """Pods of the request's own gang: those of one shape of one pod set."""

    shape: int
    count: int
    footprint: Footprint


class AffinityDependents:
    """The pods on which a request's affinity and spread depend, and the units of a table that remove them."""

    def __init__(
        self,
        request: Request,
        shapes: Sequence[Shape],
        table: UnitTable,
        world: World,
    ) -> None:
        """`shapes`: the shapes of the request, each once."""
        ledger = world.ledger
        self._shapes = shapes
        self._size = len(table), table.columns
        self._footprints = ledger.footprints
        self._own: list[_Pods] = []
        self._constraints: dict[int, Constraints] = {}
        for part in request.demand.parts:
            number, footprint = (
                shapes.index(part.shape),
                request.footprints.get(part.pod_set) or part.footprint,
            )
            self._own.append(_Pods(number, part.count, footprint))
            affinity = replace(part.affinity, footprint=footprint)
            self._constraints.setdefault(number, Constraints(part.shape, affinity, ledger, world.eligibility))
        column = ledger.nodes.column
        #: unit, column and footprint of each pod that a unit removes; promised places count as staying
        self._pods = [
            (number, column[bound.node], bound.footprint)
            for number, unit in enumerate(table.units)
            for bound in map(world.pods.__getitem__, unit.pods)
            if bound.node in column
        ]
        self._known: dict[Matching, Floats] = {}

    @property
    def needed(self) -> Bools:
        """Units that remove pods which the request's affinity selects or its spread counts."""
        questions = [Matching(shape.pod_affinity) for shape in self._shapes if shape.pod_affinity]
        for constraints in self._constraints.values():
            questions += [_evened(constraints, spread) for spread in constraints.hard]
        taking: Bools = np.any([self._going(question).any(axis=1) for question in questions], axis=0)
        return taking

    def limit(self, slots: Sequence[Floats], sets: Bools) -> list[Floats]:
        """Slots of each shape, sets × nodes, as far as affinity and spread can hold for them."""
        return [self._limit(shape, slots, sets) for shape in range(len(slots))]

    def _limit(self, number: int, slots: Sequence[Floats], sets: Bools) -> Floats:
        shape, limited = self._shapes[number], slots[number]
        if shape.pod_affinity:
            limited = limited * self._near(number, slots, sets)
        for spread in self._constraints[number].hard:
            limited = np.minimum(limited, self._even(number, spread, slots, sets))
        return limited

    def _near(self, number: int, slots: Sequence[Floats], sets: Bools) -> Bools:
        """Where its affinity may be satisfied: sets × nodes."""
        near = self._shapes[number].pod_affinity
        question = Matching(near)
        stay = self._staying(question, sets)
        kin = {own.shape for own in self._own if question.answers(own.footprint)}
        room = sum((slots[other] for other in kin - {number}), np.zeros_like(stay))
        satisfied = labelled = np.ones(stay.shape, np.bool_)
        none_stays = np.ones((len(sets), 1), np.bool_)
        for term in near:
            index = self._footprints.domains.of(term.key).index
            labelled = labelled & (index >= 0)
            satisfied = satisfied & (_around(stay + room, index) > 0)
            none_stays &= ~_around(stay, index).any(axis=1, keepdims=True)
        return satisfied | (labelled & none_stays) if number in kin else satisfied

    def _even(self, number: int, spread: Spread, slots: Sequence[Floats], sets: Bools) -> Floats:
        """How many pods at most a node can have within the skew: sets × nodes."""
        constraints = self._constraints[number]
        question, nodes = _evened(constraints, spread), constraints.counting(spread)
        index = self._footprints.domains.of(spread.key).index
        stay = _around(self._staying(question, sets) * nodes, index)
        most, counts = stay, False
        for own in self._own:
            if question.answers(own.footprint):
                most = most + np.minimum(_around(slots[own.shape], index), own.count)
                counts |= own.shape == number
        counted = nodes & (index >= 0)
        domains = len(np.unique(index[counted]))
        least = most[:, counted].min(axis=1) if domains >= max(spread.min_domains, 1) else np.zeros(len(sets))
        room = least[:, None] + spread.max_skew - stay
        if not counts:
            room = np.where(room < 0, room, np.inf)
        return np.where(index >= 0, np.maximum(room, 0.0), 0.0)

    def _staying(self, question: Matching, sets: Bools) -> Floats:
        """Pods that match a question and are not removed: sets × nodes."""
        return self._footprints.count(question) - sets @ self._going(question)

    def _going(self, question: Matching) -> Floats:
        """The pods that match it and are removed with a unit: units × nodes."""
        going = self._known.get(question)
        if going is None:
            going = self._known[question] = np.zeros(self._size)
            for unit, column, footprint in self._pods:
                going[unit, column] += question.answers(footprint)
        return going


def _evened(constraints: Constraints, spread: Spread) -> Matching:
    """The pods that a spread counts."""
    return Matching((constraints.term(spread),), leaving=False)


def sums(values: Floats, index: Ints) -> Floats:
    """The sums over each domain of a number per node: sets × domains."""
    inside = np.flatnonzero(index >= 0)
    found = np.zeros((int(index.max(initial=-1)) + 1, len(values)))
    np.add.at(found, index[inside], values.T[inside])
    return found.T


def _around(values: Floats, index: Ints) -> Floats:
    """The same sums at each node of the domain, 0 where there is none: sets × nodes."""
    return np.append(sums(values, index), np.zeros((len(values), 1)), axis=1)[:, index]
