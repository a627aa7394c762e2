"""What of a demand could run at all: on the nodes as they are, if nothing else ran there.

Queues divide shares among what can run (`world/queues`). A demand of which the minimum can never run has no
part in that: a pod larger than any node, a gang larger than the cluster or than any domain in which it must
gather, a layer that does not exist, more pods that repel each other than there are domains. Of a surplus only
pods that have a slot count.

The answer is an upper bound, from slots and totals, so it costs a few vector operations per demand: what no
bound refutes counts as possible. It changes with nodes and layers only, never with what runs. Only `never`
reads what runs: a gang that must be beside pods that are not there, or lacks them for an even spread, waits
for them, not for its share.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from muster.core.demand import Demand, Part
from muster.core.placement.constraints import Constraints, fewest
from muster.core.placement.slots import Slots
from muster.core.placement.subgroups import pieces
from muster.core.placement.topology.rules import Levels
from muster.core.words.amounts import Usage
from muster.core.words.events import Footprint
from muster.core.words.gang import PodTerm, Shape, Spread
from muster.core.world import World
from muster.core.world.footprints import Matching, selects
from muster.core.world.gangs import GangState
from muster.core.world.nodes import Bools, Columns, Longs

#: Demands whose answers are kept until nodes or layers change.
_KEPT: Final = 4096


class _Known(NamedTuple):
    #: what could run; nothing if the minimum could not
    usage: Usage
    #: its minimum is never within a required spread without pods of other gangs, or of other parts
    uneven: bool


class Attainable:
    def __init__(self, world: World, slots: Slots) -> None:
        self._nodes, self._eligibility = world.nodes, world.eligibility
        self._topology, self._slots = world.topology, slots
        self._ledger, self._quotas = world.ledger, world.quotas
        self._footprints = world.ledger.footprints
        self._exclusive_domains = world.exclusive_domains
        self._known: dict[Demand, _Known] = {}
        self._known_as_of: tuple[object, ...] = ()
        #: by demand and the footprints of its parts, whether the pods on nodes leave it uneven
        self._uneven: dict[tuple[Demand, tuple[Footprint | None, ...]], bool] = {}
        self._uneven_as_of: tuple[object, ...] = ()

    @property
    def as_of(self) -> tuple[object, ...]:
        """Returns the versions on which answers depend."""
        return self._nodes.layout, self._nodes.capacity_revision, self._topology.layers

    def of(self, demand: Demand) -> Usage:
        """Returns what the part of a demand that could run would use; nothing if its minimum could not."""
        return self._answer(demand).usage

    def by_pods(self, demand: Demand) -> bool:
        """Returns whether pods on nodes decide if the demand can ever run: `never` reads them."""
        return self._answer(demand).uneven or any(part.shape.pod_affinity for part in demand.parts)

    def _answer(self, demand: Demand) -> _Known:
        if self._known_as_of != (as_of := self.as_of) or len(self._known) >= _KEPT:
            self._known, self._known_as_of = {}, as_of
        if (known := self._known.get(demand)) is None:
            usage = self._of(demand)
            known = self._known[demand] = _Known(usage, bool(usage) and self._is_uneven(demand, None))
        return known

    def least(self, demand: Demand) -> Usage:
        """Returns what a gang is charged with at least for the minimum of a demand."""
        return self._exclusive_domains.least(demand)

    def never(self, state: GangState, demand: Demand) -> bool:
        """Whether a gang's minimum lacks what no end of another gang gives it.

        That is more than a ResourceQuota ever has, pods beside which its own must be, or pods that would even
        out its spread.
        """
        new = demand.rules is not None and demand.rules.exclusive and not state.begun
        if self._quotas.exceeded_ever(state, demand, self.least(demand) if new else Usage()):
            return True
        if self._answer(demand).uneven and self._stays_uneven(state, demand):
            return True
        if not any(part.shape.pod_affinity for part in demand.parts):
            return False
        able = [self._beside(state, part) if part.shape.pod_affinity else part.count for part in demand.parts]
        return any(n < part.need for n, part in zip(able, demand.parts, strict=True)) or any(
            sum(able[p] for p in members) < need for members, need in demand.joint
        )

    def _beside(self, state: GangState, part: Part) -> int:
        """How many pods of a part could be beside pods, its gang's or others, as its affinity requires."""
        question = Matching(part.shape.pod_affinity)
        if self._footprints.count(question).any():
            return part.count
        own = [name for name, seen in state.footprints.items() if question.answers(seen)]
        if own != [part.pod_set]:
            return part.count if own else 0
        slots = self._slots.when_empty(part.shape, self._mask(part.shape, None))
        domains = [self._footprints.domains.of(term.key) for term in part.shape.pod_affinity]
        rooms = [domain.sums(slots) for domain in domains]  # all are where the first one is
        return min(part.count, *(int(room.max(initial=0)) for room in rooms))

    def _stays_uneven(self, state: GangState, demand: Demand) -> bool:
        """Whether it is uneven with the pods that are there; gangs alike share the answer."""
        if self._uneven_as_of != (as_of := (*self.as_of, self._footprints.position)):
            self._uneven, self._uneven_as_of = {}, as_of
        seen = tuple([state.footprints.get(part.pod_set) for part in demand.parts])
        if (found := self._uneven.get((demand, seen))) is None:
            found = self._uneven[demand, seen] = self._is_uneven(demand, seen)
        return found

    def _is_uneven(self, demand: Demand, seen: Sequence[Footprint | None] | None) -> bool:
        """Whether the minimum exceeds what a required spread allows on empty nodes, whichever pods end.

        A domain takes `maxSkew` pods more than the one with fewest. That one has at most the matching pods
        that are there, and one for each slot of the parts that match, as others have `seen` them. None: no
        pods are there, and only the parts in question match. Of one part with one spread that is exact.
        """
        slots: list[Longs] | None = None
        for spread, members, of in self._spreads(demand):
            need = demand.at_least([int(p in members) for p in range(len(demand.parts))])
            if need <= 1:  # some node has a slot, and a first pod breaks no spread
                continue
            if slots is None:
                slots = [
                    self._slots.when_empty(part.shape, self._mask(part.shape, None)).astype(np.int64)
                    for part in demand.parts
                ]
            matching, there = members, np.zeros(len(self._nodes), np.int64)
            if seen is not None:
                question = Matching((of.term(spread),), leaving=False)
                matching = [p for p, each in enumerate(seen) if each is not None and question.answers(each)]
                there += self._footprints.count(question)
            domain, nodes = self._footprints.domains.of(spread.key), of.counting(spread)
            counted = np.zeros(domain.count, np.bool_)
            counted[domain.index[nodes]] = True
            most = domain.sums(nodes * sum((slots[p] for p in matching), there))
            room = domain.sums(sum((slots[p] for p in members), np.zeros_like(there)))
            limit = fewest(spread, most, counted) + spread.max_skew
            if int(np.minimum(room, limit).sum()) < need:
                return True
        return False

    def _spreads(self, demand: Demand) -> Iterator[tuple[Spread, list[int], Constraints]]:
        """Required spreads that count their own pods: with all parts that each treats alike, and with one."""
        found = defaultdict[tuple[Spread, PodTerm, bytes], list[int]](list)
        constraints: list[Constraints] = []
        for p, part in enumerate(demand.parts):
            of = Constraints(part.shape, part.affinity, self._ledger, self._eligibility)
            constraints.append(of)
            for spread in of.hard:
                if selects(term := of.term(spread), part.footprint):
                    found[spread, term, of.counting(spread).tobytes()].append(p)
        for (spread, _, _), members in found.items():
            of = constraints[members[0]]
            for some in [members, *([p] for p in members if len(members) > 1)]:
                yield spread, some, of

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
        for part, each in zip(demand.parts, slots, strict=True):
            self._keep_apart(part, each, None if levels is not None and levels.multiples else domains)
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
        """The nodes that pods of this shape may use, in a domain of each layer or label that they need."""
        mask = self._eligibility.of(shape).eligible
        for level in {*levels.required, levels.exclusive} if levels is not None else ():
            mask = mask & (self._topology.levels[level].domains >= 0)
        keys = {term.key for term in shape.pod_affinity} | {s.key for s in shape.spread if s.required}
        for key in sorted(keys):
            mask = mask & (self._footprints.domains.of(key).index >= 0)
        return mask

    def _keep_apart(self, part: Part, slots: Longs, within: Columns | None) -> None:
        """Leave one slot where pods of a part keep each other off: on a node, or in a domain of a label.

        Of one label's domains only, and of each in each domain `within` which the part gathers: of several
        labels each domain might have another node. None: on nodes only.
        """
        terms = [term for term in part.shape.pod_anti_affinity if selects(term, part.footprint)]
        labels = [self._footprints.domains.of(key) for key in sorted({term.key for term in terms})]
        if part.shape.ports:
            np.minimum(slots, 1, out=slots)
        for label in labels:
            slots[(label.index >= 0) & (slots > 1)] = 1
        wide = next((label for label in labels if not label.single), None)
        if wide is not None and within is not None:
            some = np.flatnonzero((wide.index >= 0) & (slots > 0))
            pairs = np.stack([within[some], wide.index[some].astype(np.intp)])
            _, first = np.unique(pairs, axis=1, return_index=True)
            slots[np.delete(some, first)] = 0

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
