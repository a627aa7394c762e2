"""Proofs that a demand does not fit, cached while they hold.

A proof is a price for each group of pods: all nodes together, each filled with the pattern of highest value,
have less value than the minimum. When nodes change, only the values of those nodes are recomputed, so that
gangs that wait in a full cluster cost next to nothing.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from muster.core.demand import Demand
from muster.core.placement.exact.patterns import Classes, Patterns
from muster.core.placement.exact.problem import Problem
from muster.core.placement.exact.solver import Floats
from muster.core.placement.search_budget import SearchBudget
from muster.core.placement.slots import Slots
from muster.core.world.nodes import Bools, Columns, Ints, Longs, Nodes

#: Proofs in the cache; each has a cell per node.
PROOFS: Final = 64
#: Prices are integers up to this.
_PRICE: Final = 2**30


@dataclass(slots=True, eq=False)
class Proof:
    """At these prices the minimum is worth at least `least`, and all nodes together bring only `total`."""

    problem: Problem
    prices: Longs
    least: int
    #: the most that each node can bring, and the sum
    brings: Longs
    total: int
    #: columns that have changed since
    stale: set[int] = field(default_factory=set)
    #: the cycle in which it was last used
    asked: int = 0

    @staticmethod
    def of(problem: Problem, classes: Classes, shadow: Floats, nodes: int) -> "Proof":
        """Compute in integers what the prices that the solver suggests show for so many nodes."""
        suggested = np.maximum(shadow[len(classes.columns) :][: len(problem.groups)], 0.0)
        prices = np.rint(suggested / max(suggested.max(), 1e-12) * _PRICE).astype(np.int64)
        brings = np.zeros(nodes, np.int64)
        for columns, patterns in zip(classes.columns, classes.patterns, strict=True):
            brings[columns] = (patterns @ prices).max()
        return Proof(problem, prices, problem.least(prices.tolist()), brings, sum(brings.tolist()))

    @property
    def holds(self) -> bool:
        return self.total < self.least


class Proofs:
    """The cached proofs, by demand."""

    def __init__(self, nodes: Nodes, slots: Slots, patterns: Patterns, budget: SearchBudget) -> None:
        self._nodes = nodes
        self._slots = slots
        self._patterns = patterns
        self._proofs: dict[Demand, Proof] = {}
        self._seen: Seen | None = None
        #: `Nodes.room` as of `_seen`
        self._room = -1
        self._budget = budget

    def refutes(self, demand: Demand) -> bool:
        """Whether a cached proof that this demand does not fit still holds."""
        if self._proofs and self._room != self._nodes.room.value:
            self._record_changes()
        proof = self._proofs.get(demand)
        if proof is None:
            return False
        proof.asked = self._budget.cycle
        if self._catch_up(proof) and proof.holds:
            return True
        del self._proofs[demand]
        return False

    def keep(self, demand: Demand, proof: Proof) -> None:
        proof.asked = self._budget.cycle
        if len(self._proofs) >= PROOFS:
            # Only proofs that are no longer used are dropped; otherwise all would be lost in turn.
            for old in [w for w, p in self._proofs.items() if p.asked < self._budget.cycle - 1]:
                del self._proofs[old]
        if len(self._proofs) < PROOFS:
            now = Seen(self._nodes)
            if self._seen is None:
                self._seen, self._room = now, self._nodes.room.value
            elif (self._seen.layout, self._seen.free.shape) != (now.layout, now.free.shape):
                return
            proof.stale |= self._seen.differences(now)
            self._proofs[demand] = proof

    def _record_changes(self) -> None:
        """Record for all proofs which nodes have changed since the last call, as room was given meanwhile.

        Placements only take room away and leave proofs true. The log of changes cannot be used, as greedy
        trials overflow it.
        """
        nodes, seen = self._nodes, self._seen
        self._room = nodes.room.value
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

    def _catch_up(self, proof: Proof) -> bool:
        """Recompute what changed nodes bring. Returns False if that is not known."""
        if proof.stale:
            columns = np.array(sorted(proof.stale), np.intp)
            brings = self._brings(proof, columns)
            if brings is None:
                return False
            proof.total += int(brings.sum()) - int(proof.brings[columns].sum())
            proof.brings[columns] = brings
            # What a cycle takes may be freed without notice: nodes that differ from what was seen stay stale.
            assert self._seen is not None, "there is a proof"
            proof.stale = set(columns[self._seen.differ(self._nodes, columns)].tolist())
        return True

    def _brings(self, proof: Proof, columns: Columns) -> Longs | None:
        """Return the most that each of these nodes can bring at the prices of the proof."""
        caps = proof.problem.caps(self._slots, None, columns)
        listed = self._patterns.of([g.row_amounts for g in proof.problem.groups], caps, columns)
        if listed is None:
            return None
        return np.array([(patterns @ proof.prices).max(initial=0) for patterns in listed], np.int64)


class Seen:
    """What was free when changes were last recorded for the proofs."""

    def __init__(self, nodes: Nodes) -> None:
        self.layout = nodes.layout
        self.facts = nodes.fact_changes.end
        self.free = _free(nodes)
        #: thousandths on open devices, by number
        self.left = nodes.devices.left().copy()

    def differences(self, other: "Seen") -> set[int]:
        """Return the columns in which the two differ; both must be of one layout."""
        changed = (self.free != other.free).any(axis=0) | _other_devices(self.left, other.left)
        return set(np.flatnonzero(changed).tolist())

    def differ(self, nodes: Nodes, columns: Columns) -> Bools:
        """Return which of these columns have changed."""
        changed: Bools = (_free(nodes, columns) != self.free[:, columns]).any(axis=0)
        return changed | _other_devices(self.left[:, columns], nodes.devices.left(columns))


def _free(nodes: Nodes, columns: Columns | None = None) -> Longs:
    some = slice(None) if columns is None else columns
    return np.array([nodes.free(row)[some] for row in nodes.resources.values()])


def _other_devices(one: Ints, other: Ints) -> Bools:
    """Whether the rest of some device differs; a device that is not listed has nothing left."""
    both = min(len(one), len(other))
    changed: Bools = (one[:both] != other[:both]).any(axis=0)
    return changed | one[both:].any(axis=0) | other[both:].any(axis=0)
