"""Decides exactly whether any placement of a gang's minimum exists, where greedy placement finds none.

docs/internals/scheduling.md ("If greedy placement finds none") describes the three steps: *totals*, a
*relaxation* over patterns (`patterns.py`), and a *search* of `SEARCH` nodes of the search tree. The
relaxation's proof is a price for each group of pods (`proofs.py`). The solver only suggests the prices; they
are rounded, and the comparison is made in integers, so that no rounding error can turn a yes into a no. What
the search finds is charged to the ledger, and taken only if it fits there.

The bound of the relaxation is Gilmore and Gomory's, and in practice nearly tight: an instance whose
relaxation fits almost always fits. Beyond the bounds of `patterns.py` only the totals speak, and the answer
stays open.

Proofs are cached (`refutes`). New problems are solved for at most `TURNS` demands of a namespace per cycle
(`core/work.py`); further ones are solved in later cycles.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count, islice
from typing import Final

import numpy as np

from muster.core.demand import Demand, Request
from muster.core.placement.answer import Infeasible, Placed, Reason
from muster.core.placement.exact import solver
from muster.core.placement.exact.patterns import Asked, Catalogue, Classes, Sharing
from muster.core.placement.exact.problem import LACKING, Problem, on_nodes, program, rounded, search
from muster.core.placement.exact.proofs import Proofs
from muster.core.placement.greedy import Draft
from muster.core.placement.slots import Slots
from muster.core.words.gang import NodeName, Place
from muster.core.work import WorkBudget
from muster.core.world.devices import WHOLE
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Columns, Ints, Longs, recent

#: Demands of a namespace for which problems are solved in a cycle.
TURNS: Final = 4
#: Steps of a program (`core/work.py`), besides one for so many of its patterns.
_SOLUTION: Final = 100
_PATTERNS: Final = 4
#: Lists of demands whose patterns are remembered.
_CATALOGUES: Final = 64


class Exact:
    """The steps after greedy placement, on one ledger."""

    def __init__(self, ledger: Ledger, slots: Slots) -> None:
        self._ledger, self._nodes, self._slots = ledger, ledger.nodes, slots
        self._catalogues: dict[tuple[Asked, ...], Catalogue] = {}
        self.budget = WorkBudget(TURNS)
        #: problems that may be solved outside the budget (`lending`)
        self.lent = 0
        self._proofs = Proofs(self._nodes, slots, self.budget)

    def place(self, request: Request, *, granted: bool = False) -> Placed | Infeasible:
        """Place what greedy placement could not, and charge it to the ledger.

        Places with a preferred node keep it if the minimum can be placed so; otherwise as many keep it as
        happen to. `granted`: the budget has already granted this demand; else it is asked here.
        """
        demand, preferred = request.demand, request.preferred
        if len({part.shape for part in demand.parts}) == 1:
            return Infeasible(Reason.TOTALS)
        self._nodes.steps += 4 * len(demand.parts)
        problem = Problem.of(demand, [0] * len(demand.parts), self._slots)
        caps = problem.caps(self._slots, request.excluded)
        if problem.exceeds(self._nodes, caps) or (len(problem.groups) == 1 and not preferred):
            return Infeasible(Reason.TOTALS)
        if not (granted or self.grants(request.namespace, demand)):
            return Infeasible(Reason.UNSEARCHED)
        if preferred and (placed := self._place_around(request)):
            return placed
        remember = demand if request.excluded is None and not preferred else None
        draft = Draft(request, self._ledger, self._slots)
        return self._solve(draft, problem, caps, preferred, remember)

    def place_apart(self, request: Request, barred: Mapping[str, Columns]) -> Placed | Infeasible:
        """Place a minimum of which subgroups are kept off some columns, if a problem is lent for it.

        The demand must have no more places than its minimum takes: further ones might go anywhere.
        """
        demand = request.demand
        self._nodes.steps += 4 * len(demand.parts)
        problem = Problem.of(demand, [0] * len(demand.parts), self._slots)
        caps = problem.caps(self._slots, request.excluded)
        for g, group in enumerate(problem.groups):
            columns = barred.get(demand.parts[group.parts[0]].subgroup)
            if columns is not None:
                caps[g, columns] = 0
        if problem.exceeds(self._nodes, caps):
            return Infeasible(Reason.TOTALS)
        if self.lent <= 0:
            return Infeasible(Reason.UNSEARCHED)
        self.lent -= 1
        draft = Draft(request._replace(preferred={}), self._ledger, self._slots)
        return self._solve(draft, problem, caps, {}, None)

    def grants(self, namespace: str, demand: Demand) -> bool:
        """Whether a problem is solved for this demand now. Call it once for each that then is."""
        if self.lent > 0:
            self.lent -= 1
            return True
        granted = self.budget.takes(namespace, demand)
        if granted:
            self.budget.charge(namespace, 1)
        return granted

    @contextmanager
    def lending(self, problems: int) -> Iterator[None]:
        """Let a caller that asks several times about one demand (for victims, or a time) solve some first."""
        before, self.lent = self.lent, problems
        try:
            yield
        finally:
            self.lent = before

    def lacks_room(self, request: Request) -> Infeasible | None:
        """Return a proof that the minimum has no room even without constraints; None if not proven."""
        demand = request.demand
        problem = Problem.of(demand, [0] * len(demand.parts), self._slots)
        caps = problem.caps(self._slots, request.excluded)
        if problem.exceeds(self._nodes, caps):
            return Infeasible(Reason.TOTALS)
        if len(problem.groups) == 1:
            return None
        found = self._relax(problem, caps, demand if request.excluded is None else None)
        return None if found or not found.proven else found

    def refutes(self, demand: Demand) -> Infeasible | None:
        """Return an earlier proof that this demand does not fit; None if there is none that still holds."""
        return Infeasible(Reason.RELAXATION) if self._proofs.refutes(demand) else None

    def _place_around(self, request: Request) -> Placed | None:
        """Place the demand with every place on its preferred node that fits there; None if that fails."""
        with self._ledger.log.trial() as trial:
            draft = Draft(request, self._ledger, self._slots)
            for place, column in sorted(request.preferred.items()):
                draft.prefer(place, column)
            problem = Problem.of(request.demand, draft.placed, self._slots)
            if not problem.groups:  # the preferred nodes hold the whole minimum
                draft.fill_up()
                placed = draft.places()
            else:
                caps = problem.caps(self._slots, request.excluded)
                fits = not problem.exceeds(self._nodes, caps)
                found = self._solve(draft, problem, caps, {}, None) if fits else None
                if not found:
                    return None
                placed = found
            trial.keep()
            return placed

    def _solve(
        self,
        draft: Draft,
        problem: Problem,
        caps: Ints,
        preferred: Mapping[Place, int],
        remember: Demand | None,
    ) -> Placed | Infeasible:
        """Solve and carry out what a draft still lacks. A proof is kept for the demand to `remember`."""
        relaxed = self._relax(problem, caps, remember)
        if not relaxed:
            return relaxed
        classes, x = relaxed
        counts = rounded(problem, classes, x, caps.shape) if x is not None else None
        if counts is None:
            uses, exhausted = search(problem, classes)
            if uses is None:
                return Infeasible(Reason.EXHAUSTED if exhausted else Reason.BUDGET)
            counts = on_nodes(classes, uses, caps.shape)
        placed = self._carry_out(draft, problem, counts, preferred) if counts is not None else None
        return placed or Infeasible(Reason.BUDGET)

    def _relax(
        self, problem: Problem, caps: Ints, remember: Demand | None
    ) -> Infeasible | tuple[Classes, solver.Floats | None]:
        """Return the relaxation's solution, if any; or a proof, kept for the demand to `remember`."""
        asked = tuple((group.row_amounts, group.shape.claims) for group in problem.groups)
        catalogue = recent(self._catalogues, asked, partial(Catalogue, self._nodes), _CATALOGUES)
        classes = catalogue.classes(caps)
        self._nodes.steps += _SOLUTION
        if classes is None:
            return Infeasible(Reason.PATTERNS)
        self._nodes.steps += len(classes) // _PATTERNS
        relaxed = solver.optimum(program(problem, classes, relaxed=True))
        if relaxed is None or relaxed.cost <= LACKING:
            return classes, None if relaxed is None else relaxed.x
        proof = self._proofs.proof(problem, catalogue, classes, caps, relaxed.prices)
        if proof is None:
            return classes, None
        if remember is not None:
            self._proofs.keep(remember, proof)
        return Infeasible(Reason.RELAXATION)

    def _carry_out(
        self, draft: Draft, problem: Problem, counts: Longs, preferred: Mapping[Place, int]
    ) -> Placed | None:
        """Charge the minimum as found, then as many more pods as fit.

        Returns None, with nothing charged, if the ledger does not accept the minimum.
        """
        targets = problem.targets(counts.sum(axis=1).tolist())
        if targets is None:
            return None
        with self._ledger.log.trial() as trial:
            later = []
            for place, column in sorted(preferred.items()):
                p = next(p for p, part in enumerate(draft.parts) if part.pod_set == place.pod_set)
                g = problem.group_of.get(p)
                if g is not None and targets[p] and counts[g, column] and draft.prefer(place, column):
                    targets[p] -= 1
                    counts[g, column] -= 1
                else:
                    later.append((place, column))
            with self._ledger.on(self._devices(problem, counts)):
                for g, group in enumerate(problem.groups):
                    columns = np.repeat(np.arange(counts.shape[1]), counts[g])
                    for p in group.parts:
                        mine, columns = columns[: targets[p]], columns[targets[p] :]
                        if len(mine) < targets[p] or not draft.put(p, mine):
                            return None
            for place, column in later:
                draft.prefer(place, column)
            draft.fill_up()
            trial.keep()
        return draft.places()

    def _devices(self, problem: Problem, counts: Longs) -> dict[tuple[NodeName, int], list[int]]:
        """Return devices for so many pods of each group on each node, by node and thousandths.

        All shares of a node are packed together. What cannot be packed is placed where it fits best.
        """
        nodes, found = self._nodes, dict[tuple[NodeName, int], list[int]]()
        sharing = Sharing.of([group.row_amounts for group in problem.groups], nodes)
        if sharing is None:
            return found
        sharers = np.array(sharing.shares) > 0
        for column in np.flatnonzero(counts[sharers].any(axis=0)).tolist():
            node, pattern = nodes.names[column], counts[:, column].tolist()
            used = nodes.devices.used(node)
            open_ = [number for number, amount in enumerate(used) if amount]
            left = [max(WHOLE - used[number], 0) for number in open_]
            packing = sharing.places(pattern, [max(nodes.free_at(nodes.devices.row, column), 0), *left])
            fresh = (number for number in count() if number not in open_)
            numbers = [*open_, *islice(fresh, sum(pattern))]
            for share, b in zip(sharing.sizes(pattern), packing.bins or (), strict=False):
                found.setdefault((node, share), []).append(numbers[b])
        return found
