"""What of a demand could run at all: on the nodes as they are, if nothing else ran there.

Queues divide shares among what can run (`world/queues`). A demand of which the minimum can never run has no
part in that: a pod larger than any node, a gang larger than the cluster or than any domain in which it must
gather, a layer that does not exist. Of a surplus only pods that have a slot count.

The answer is an upper bound, from slots and totals, so it costs a few vector operations per demand: what no
bound refutes counts as possible. It changes with nodes and layers only, never with what runs.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from muster.core.demand import Demand
from muster.core.placement.slots import Slots
from muster.core.placement.subgroups import pieces
from muster.core.placement.topology.rules import Levels
from muster.core.words.amounts import Usage
from muster.core.words.gang import Shape
from muster.core.world.eligibility import Eligibility
from muster.core.world.nodes import Bools, Columns, Longs, Nodes
from muster.core.world.topology import Topology

#: Demands whose answers are kept until nodes or layers change.
_KEPT: Final = 4096


class Attainable:
    def __init__(self, nodes: Nodes, eligibility: Eligibility, topology: Topology, slots: Slots) -> None:
        self._nodes, self._eligibility = nodes, eligibility
        self._topology, self._slots = topology, slots
        self._known: dict[Demand, Usage] = {}
        self._known_as_of: tuple[object, ...] = ()

    @property
    def as_of(self) -> tuple[object, ...]:
        """Returns the versions on which answers depend."""
        return self._nodes.layout, self._nodes.capacity_revision, self._topology.layers

    def of(self, demand: Demand) -> Usage:
        """Returns what the part of a demand that could run would use; nothing if its minimum could not."""
        if self._known_as_of != (as_of := self.as_of) or len(self._known) >= _KEPT:
            self._known, self._known_as_of = {}, as_of
        if (known := self._known.get(demand)) is None:
            known = self._known[demand] = self._of(demand)
        return known

    def _of(self, demand: Demand) -> Usage:
        levels = None
        divided = pieces(demand) if demand.rules is not None and demand.rules.subgroups else ()
        if not all(self._of(piece.demand) for piece in divided if piece.demand.need):
            return Usage()
        if demand.rules is not None:
            self._topology.refresh()
            levels = Levels.of(demand.rules, self._topology.layers)
            if levels is None:
                return Usage()
        masks = [self._mask(part.shape, levels) for part in demand.parts]
        slots: list[Longs] = [
            self._slots.when_empty(part.shape, mask).astype(np.int64)
            for part, mask in zip(demand.parts, masks, strict=True)
        ]
        counts = [part.count for part in demand.parts]
        if levels is None or not (levels.limit or levels.multiples):
            domains = np.zeros(len(self._nodes), np.intp)
        else:
            domains = self._topology.levels[levels.limit].domains.astype(np.intp)
        number = int(domains.max(initial=-1)) + 1
        fits = np.stack([_sums(domains, each, number) for each in slots]) if slots else np.zeros((0, number))
        if levels is not None and levels.multiples and len(demand.parts) == 1:
            fits[0], counts[0] = self._in_multiples(levels, slots[0], domains, number, counts[0])
        most = np.minimum(fits, np.array(counts, np.int64)[:, None])
        able: Bools = np.ones(number, np.bool_)
        for members, need in demand.joint:
            able &= most[[*members]].sum(axis=0) >= need
        for part, each in zip(demand.parts, most, strict=True):
            able &= each >= part.need
        if len(demand.parts) > 1:
            able &= self._has_totals(demand, masks, domains, number)
        if not able.any():
            return Usage()
        usage = Usage()
        for part, each in zip(demand.parts, most[:, able].max(axis=1).tolist(), strict=True):
            usage.add(part.usage, each)
        return usage

    def _mask(self, shape: Shape, levels: Levels | None) -> Bools:
        """The nodes that pods of this shape may use, in a domain of each required layer."""
        mask = self._eligibility.of(shape).eligible
        for level in levels.required if levels is not None else ():
            mask = mask & (self._topology.levels[level].domains >= 0)
        return mask

    def _in_multiples(
        self, levels: Levels, slots: Longs, domains: Columns, number: int, count: int
    ) -> tuple[Longs, int]:
        """By domain, the slots that count if pods of one shape come in multiples, and how many pods can."""
        for level, multiple in sorted(levels.multiples.items(), reverse=True):
            inner = self._topology.levels[level].domains.astype(np.intp)
            inside, first = np.unique(inner, return_index=True)
            totals = _sums(inner, slots, int(inner.max(initial=-1)) + 1)
            slots = np.zeros_like(slots)
            for domain, column in zip(inside.tolist(), first.tolist(), strict=True):
                if domain >= 0:
                    slots[column] = totals[domain] // multiple * multiple
            count -= count % multiple
        return _sums(domains, slots, number), count

    def _has_totals(self, demand: Demand, masks: Sequence[Bools], domains: Columns, number: int) -> Bools:
        """By domain, whether the nodes that its parts may use have what the minimum takes at least."""
        nodes = self._nodes
        amounts = [dict(nodes.row_amounts(part.shape.requests)) for part in demand.parts]
        able = np.ones(number, np.bool_)
        for row in sorted({row for each in amounts for row in each}):
            usable = np.zeros(len(nodes), np.bool_)
            for mask, each in zip(masks, amounts, strict=True):
                if row in each:
                    usable |= mask
            capacity = np.where(usable, nodes.capacity(row), 0).astype(np.int64)
            able &= _sums(domains, capacity, number) >= demand.at_least([a.get(row, 0) for a in amounts])
        return able


def _sums(domains: Columns, values: Longs, number: int) -> Longs:
    """Sums by domain; columns in no domain (-1) do not count."""
    inside = domains >= 0
    sums = np.zeros(number, np.int64)
    np.add.at(sums, domains[inside], values[inside])
    return sums
