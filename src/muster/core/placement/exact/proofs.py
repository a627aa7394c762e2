"""Proofs that a demand does not fit, cached while they hold.

A proof is a price for each group of pods: all nodes together, each filled with the pattern of highest value,
have less value than the minimum. It holds as long as no room is given back. Then only nodes whose reduced
form has changed are valued again, so that gangs that wait in a full cluster cost next to nothing.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from muster.core.demand import Demand
from muster.core.placement.exact.patterns import Catalogue, Classes
from muster.core.placement.exact.problem import Problem
from muster.core.placement.exact.solver import Floats
from muster.core.placement.slots import Slots
from muster.core.work import WorkBudget
from muster.core.world.nodes import Ints, Longs, Nodes

#: Proofs in the cache; each has a few cells per node.
PROOFS: Final = 64
#: Prices are integers up to this.
_PRICE: Final = 2**30


@dataclass(slots=True, eq=False)
class Proof:
    """At these prices the minimum is worth at least `least`, and all nodes together bring less."""

    problem: Problem
    catalogue: Catalogue
    prices: Longs
    least: int
    #: the reduced form of each node, the most that it can bring, and the sum of that
    kinds: Longs
    brings: Longs
    total: int
    #: `Nodes.layout`, `Nodes.room` and the position in the log of changes for which it was checked
    layout: int
    room: int
    position: int
    #: the cycle in which it was last used
    asked: int = 0

    @property
    def holds(self) -> bool:
        return self.total < self.least


class Proofs:
    """The cached proofs, by demand."""

    def __init__(self, nodes: Nodes, slots: Slots, budget: WorkBudget) -> None:
        self._nodes, self._slots, self._budget = nodes, slots, budget
        self._proofs: dict[Demand, Proof] = {}

    def proof(
        self, problem: Problem, catalogue: Catalogue, classes: Classes, caps: Ints, shadow: Floats
    ) -> Proof | None:
        """Compute in integers what the prices that the solver suggests show; None if it is no proof."""
        nodes = self._nodes
        suggested = np.maximum(shadow[len(classes.columns) :][: len(problem.groups)], 0.0)
        prices = np.rint(suggested / max(suggested.max(), 1e-12) * _PRICE).astype(np.int64)
        brings = np.zeros(len(nodes), np.int64)
        for columns, patterns in zip(classes.columns, classes.patterns, strict=True):
            brings[columns] = (patterns @ prices).max()
        kinds, total = catalogue.reduced(caps, np.arange(len(nodes))), sum(brings.tolist())
        least = problem.least(prices.tolist())
        as_of = nodes.layout, nodes.room.value, nodes.changes.end
        found = Proof(problem, catalogue, prices, least, kinds, brings, total, *as_of)
        return found if found.holds else None

    def keep(self, demand: Demand, proof: Proof) -> None:
        proof.asked = self._budget.cycle
        if len(self._proofs) >= PROOFS:
            # Only proofs that are no longer used are dropped; otherwise all would be lost in turn.
            for old in [w for w, p in self._proofs.items() if p.asked < self._budget.cycle - 1]:
                del self._proofs[old]
        if len(self._proofs) < PROOFS:
            self._proofs[demand] = proof

    def refutes(self, demand: Demand) -> bool:
        """Whether a cached proof that this demand does not fit still holds."""
        proof = self._proofs.get(demand)
        if proof is None:
            return False
        proof.asked = self._budget.cycle
        if proof.room == self._nodes.room.value or self._still_holds(proof):
            return True
        del self._proofs[demand]
        return False

    def _still_holds(self, proof: Proof) -> bool:
        """Check a proof again after room was given back, and value the nodes that differ."""
        nodes = self._nodes
        if proof.layout != nodes.layout:
            return False
        changed = nodes.changed(proof.position)
        columns = np.arange(len(nodes)) if changed is None else np.array(changed, np.intp)
        kinds = proof.catalogue.reduced(proof.problem.caps(self._slots, None, columns), columns)
        if kinds.shape[1] != proof.kinds.shape[1]:  # some node has more open devices
            return False
        differ = np.flatnonzero((kinds != proof.kinds[columns]).any(axis=1))
        if len(differ):
            listed = proof.catalogue.of(kinds[differ])
            if listed is None:
                return False
            columns, kinds = columns[differ], kinds[differ]
            brings = np.array([(patterns @ proof.prices).max(initial=0) for patterns in listed])
            proof.total += sum((brings - proof.brings[columns]).tolist())
            proof.brings[columns], proof.kinds[columns] = brings, kinds
        proof.room, proof.position = nodes.room.value, nodes.changes.end
        return proof.holds
