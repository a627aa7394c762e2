"""Placing a gang that has rules about the network topology.

What is asked (koordinator, apis/extension/network_topology.go; the algorithm is described in its "Network
Topology Aware Scheduling"):

- `MustGather` LAYER: all pods in one domain of the layer. With several, all of them hold.
- `PreferGather` LAYER: in one domain if that goes; chains are tried from the tightest layer to the loosest,
  and then the whole cluster.
- a multiple N of a LAYER: in any one domain of it the gang's pods are a multiple of N.

Whatever the rule, the gang goes to the tightest domain that holds all of it, of any layer below the
required one; among several to the fullest (fewest free slots for its largest pod, then the fullest
surroundings), then to the first by path. If no permitted domain holds all of it and less would do, its
minimum gathers, and the others come as near to it as they fit.

One survey of the slots of every shape, summed over the domains, says for each domain of each layer whether it
could hold the gang. For pods of one shape that is the answer. For several shapes it is a necessary
condition, and the usual rungs decide inside a domain: greedy, then exact (`exact.py`), for at most
`SEARCHES` domains. Multiples of one shape are decided by counting (`multiples.py`), exactly; those of
several shapes only as far as filling one domain after the other goes, and then the verdict says so.

Inside its domain a gang of one shape is spread over as few smaller domains as it can be: the one that
holds what is left most tightly, else the largest first. Then pods of equal shape are put into the
gang's own order, nodes into that of the tree, and the one laid along the other: neighbours share a node,
else a block, else a spine.

Places that are filled or held bind the others: a gang that must gather stays in the domain in which
most of it is.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Final

import numpy as np

from muster.core.bay import Bay
from muster.core.exact import Answer, Exact, Rung, Verdict
from muster.core.gang import Place, Shape, Strategy
from muster.core.ledger import Ledger
from muster.core.multiples import Multiples, counted
from muster.core.nodes import UNLIMITED, Bools, Columns, Ints, Nodes
from muster.core.placement import Claim, Trial, Want, fill_in_some_way, tightest_group
from muster.core.search import search
from muster.core.slots import Slots, Vector
from muster.core.topology import Longs, Topology, resolve

#: Domains of one layer in which placement is tried; only gangs of several shapes ever need a second one.
TRIES: Final = 64
#: Domains for which an exact problem is solved, per claim.
SEARCHES: Final = 8

#: Of so many domains it is not asked beforehand whether all amounts together suffice.
_FEW: Final = 16

#: Slots by group, per column or domain.
_Totals = Sequence[Ints | Longs]

_NONE: Final = Verdict(Rung.TOTALS, Answer.NONE_EXISTS)


@dataclass(frozen=True, slots=True)
class Nearest:
    """The domain that comes nearest to holding a minimum, and how many of its pods fit there."""

    title: str
    #: by part
    fits: tuple[int, ...]
    #: of how many domains it is the best
    among: int
    #: its nodes
    columns: Columns


class Gathering:
    """Places claims whose wants have rules, on one ledger."""

    def __init__(self, nodes: Nodes, topology: Topology, ledger: Ledger, slots: Slots, exact: Exact) -> None:
        self.nodes = nodes
        self.topology = topology
        self.ledger = ledger
        self.slots = slots
        self.exact = exact

    def place(self, claim: Claim) -> dict[Place, int] | Verdict:
        """As `Fit.fit`."""
        self.topology.refresh()
        mark = self.ledger.mark()
        placed = _Search(self, claim).run()
        if isinstance(placed, Verdict):
            self.ledger.rollback(mark)
            return placed
        self.ledger.commit(mark)
        parts = claim.want.parts
        if self.topology.by_name and not claim.ranks and len({part.shape for part in parts}) == len(parts):
            return placed  # it lies along the tree already
        return arrange(placed, claim, self.topology.position)

    def nearest(self, want: Want, verdict: Verdict | None, excluded: Columns | None) -> Nearest | None:
        """As `Fit.nearest`."""
        self.topology.refresh()
        vacant = [range(part.count) for part in want.parts]
        search = _Search(self, Claim(want, vacant, excluded=excluded))
        return search.nearest(verdict.home if verdict is not None else None)


@dataclass(frozen=True, slots=True)
class _Group:
    """Pods of one shape, of whichever parts."""

    shape: Shape
    parts: tuple[int, ...]
    need: int
    count: int


class _Search:
    """One claim's way through the domains."""

    def __init__(self, gathering: Gathering, claim: Claim) -> None:
        want = claim.want
        assert want.rules is not None
        self._of = gathering
        self._claim = claim
        self._want = want
        topology = gathering.topology
        self._topology = topology
        found = resolve(want.rules.gather, want.rules.exclusive, topology.layers)
        self._unknown = bool(found.error)
        names = {name: level for level, name in enumerate(topology.names)}
        musts = [names[r.layer] for r in found.gather if r.strategy is Strategy.MUST_GATHER]
        prefers = [names[r.layer] for r in found.gather if r.strategy is Strategy.PREFER_GATHER]
        #: the tightest level of which one domain must hold all
        self._limit = max(musts, default=0)
        #: the loosest level of which one domain should
        self._loosest = min((p for p in prefers if p > self._limit), default=self._limit)
        self._multiples = Multiples.of((names[r.layer], r.multiple) for r in found.gather)
        required = {*musts, *self._multiples.by_level}
        self._barred = self._bar(required - {0})
        self._settled = np.array(sorted(claim.settled.values()), np.intp)
        self._granted: bool | None = None
        self._searches = 0
        self._open: Verdict | None = None
        self._still: list[Vector] | None = None

    def run(self) -> dict[Place, int] | Verdict:
        """Places → columns, charged; or a verdict, and whatever is charged to be rolled back."""
        if self._unknown:
            return _NONE
        want = self._want
        size = sum(part.count for part in want.parts)
        whole = want
        if want.need < size:
            whole = Want(tuple(replace(part, need=part.count) for part in want.parts), size)
        if (placed := self._own_nodes()) is not None:
            return placed
        for level in range(len(self._topology.levels) - 1, self._loosest - 1, -1):
            if (placed := self._try(level, whole)) is not None:
                return placed
        if whole is not want or self._loosest != self._limit:
            for level in self._levels_for_minimum():
                if (placed := self._try(level, want)) is not None:
                    return placed
        home = self._home(self._limit) if self._limit else None
        verdict = self._open or Verdict(
            Rung.GREEDY if len(self._groups) == 1 else Rung.TOTALS, Answer.NONE_EXISTS
        )
        return replace(verdict, home=(self._limit, home) if home is not None else None)

    def _levels_for_minimum(self) -> Iterator[int]:
        """If not all of it fits where all should be: the minimum, preferred levels first."""
        if self._limit == 0 and self._want.need < sum(part.count for part in self._want.parts):
            yield from range(len(self._topology.levels) - 1, max(self._loosest, 1) - 1, -1)
        yield self._limit

    def _own_nodes(self) -> dict[Place, int] | None:
        """Places with a node of their own keep it, if the rest of the minimum then fits nearby."""
        preferred = self._claim.preferred
        if not preferred:
            return None
        levels = len(self._topology.levels)
        columns = self._settled if len(self._settled) else np.array(sorted(preferred.values()), np.intp)
        for level in range(levels - 1, self._limit - 1, -1):
            number = self._most(level, columns)
            if number is None:
                continue
            inside = set(self._topology.columns(level, number).tolist())
            if level == self._limit or inside.issuperset(preferred.values()):
                mark = self._of.ledger.mark()
                placed = self._attempt(level, number, self._want, preferred)
                if placed is not None and any(placed.get(p) == c for p, c in preferred.items()):
                    self._of.ledger.commit(mark)
                    return placed
                self._of.ledger.rollback(mark)
                return None
        return None

    # Candidates

    def _try(self, level: int, want: Want) -> dict[Place, int] | None:
        """The first of the level's domains that holds the minimum of this want (the whole, or the gang's).

        Greedily first: a domain that only a search would fill comes after those that need none.
        """
        candidates = self._candidates(level, want)
        some = candidates[:TRIES].tolist()
        own = self._claim.preferred
        for number in some:
            placed = self._attempt(level, number, want, own)
            if placed is None and own:  # rather a place that moves than a gang that waits
                placed = self._attempt(level, number, want, {})
            if placed is not None:
                return placed
        if len(self._groups) > 1 or want.constrained:
            for number in some:
                if (placed := self._search(self._columns(level, number), want)) is not None:
                    return placed
        if len(candidates) > TRIES and level == self._limit and want is self._want:
            self._leave_open(Verdict(Rung.GREEDY, Answer.NONE_FOUND))
        return None

    def _candidates(self, level: int, want: Want) -> Columns:
        """Domains that could hold the minimum, in the order in which they are to be tried."""
        needs = [sum(want.parts[p].need for p in group.parts) for group in self._groups]
        least = self._least(needs, want)
        node = level == len(self._topology.levels) - 1
        if node and any(amount > self._of.nodes.free(row).max(initial=0) for row, amount in least):
            return np.zeros(0, np.intp)
        totals = self._totals(level)
        able: Bools = totals[0] >= needs[0]
        for row, need in zip(totals[1:], needs[1:], strict=True):
            able &= row >= need
        if want.need > sum(needs):
            able &= self._useful(totals, slice(None)) >= want.need
        able &= self._topology.levels[level].labelled
        if level and len(self._settled):
            home = self._home(level)
            if home is not None:
                able[:home] = able[home + 1 :] = False
            elif level > self._limit:
                able[:] = False
        numbers = np.flatnonzero(able)
        if len(numbers) > _FEW and len(self._groups) > 1:
            numbers = numbers[self._hold_amounts(level, numbers, least)]
        if len(numbers) <= 1:
            return numbers
        size = sum(group.count for group in self._groups)
        elastic = want is self._want and level == self._limit and want.need < size
        return self._ordered(level, numbers, totals, most_first=elastic)

    def _ordered(self, level: int, numbers: Columns, totals: _Totals, most_first: bool) -> Columns:
        """The fullest first, by slots of the largest pod, then by those of what is around it."""
        row = totals[self._largest][numbers]
        keys: list[Ints | Longs | Columns] = [numbers]
        for wider in range(1, level):
            around = self._topology.totals(wider, self._sums[self._largest])
            keys.append(around[self._above(level, wider)[numbers]])
        keys.append(row)
        if most_first:
            keys.append(-self._useful(totals, numbers))
        return numbers[np.lexsort(keys)]

    def _above(self, level: int, wider: int) -> Columns:
        """For each domain of a level, the number of the wider one that it is part of."""
        levels = self._topology.levels
        first = levels[level].starts if level == len(levels) - 1 else levels[level].starts[:-1]
        above: Columns = np.searchsorted(levels[wider].starts, first, side="right") - 1
        return above

    def _least(self, needs: Sequence[int], want: Want) -> list[tuple[int, int]]:
        """The least of every resource (by row) that the minimum takes, whichever pods it is made of."""
        asked = [dict(self._of.nodes.demand(group.shape.requests)) for group in self._groups]
        rest = want.need - sum(needs)
        found = []
        for row in sorted({row for amounts in asked for row in amounts}):
            each = [amounts.get(row, 0) for amounts in asked]
            found.append((row, sum(n * a for n, a in zip(needs, each, strict=True)) + rest * min(each)))
        return found

    def _hold_amounts(self, level: int, numbers: Columns, least: Sequence[tuple[int, int]]) -> Bools:
        """Of these domains, those in which enough of every resource is free for all groups together."""
        able = np.ones(len(numbers), np.bool_)
        for row, amount in least:
            free = np.maximum(self._of.nodes.free(row), 0)
            if level < len(self._topology.levels) - 1:
                free = self._topology.totals(level, self._topology.sums(free))
            able &= free[numbers] >= amount
        return able

    # Numbers of the survey

    @cached_property
    def _groups(self) -> list[_Group]:
        by_shape: dict[Shape, list[int]] = {}
        for p, part in enumerate(self._want.parts):
            by_shape.setdefault(part.shape, []).append(p)
        parts = self._want.parts
        return [
            _Group(shape, tuple(ps), sum(parts[p].need for p in ps), sum(parts[p].count for p in ps))
            for shape, ps in by_shape.items()
        ]

    @cached_property
    def _largest(self) -> int:
        sizes = [vector.size for vector in self._vectors()]
        return max(range(len(sizes)), key=sizes.__getitem__)

    @cached_property
    def _sums(self) -> list[Longs]:
        return [self._topology.sums(row) for row in self._slots()]

    def _vectors(self) -> list[Vector]:
        """By group. In bays the ledger does not change, until a search is made or it is all over."""
        if not self._apart:
            return [self._of.slots.of(group.shape) for group in self._groups]
        if self._still is None:
            self._still = [self._of.slots.of(group.shape) for group in self._groups]
        return self._still

    def _slots(self) -> list[Ints]:
        """By group the slots per column. Read them before the ledger changes again."""
        rows = [vector.slots for vector in self._vectors()]
        return rows if self._barred is None else [np.where(self._barred, 0, row) for row in rows]

    def _totals(self, level: int) -> _Totals:
        """By group the slots of each domain of a level."""
        if level == len(self._topology.levels) - 1:
            return self._slots()
        return [self._topology.totals(level, row) for row in self._sums]

    def _useful(self, totals: _Totals, numbers: Columns | slice) -> Longs:
        """How many of the gang's pods these domains could take, each group for itself."""
        useful = [np.minimum(row[numbers], g.count) for row, g in zip(totals, self._groups, strict=True)]
        found: Longs = np.sum(useful, axis=0, dtype=np.int64)
        return found

    def _bar(self, levels: set[int]) -> Bools | None:
        """Columns that must not be used: excluded ones, and those in no domain of a required layer."""
        excluded = self._claim.excluded
        if excluded is None and not levels:
            return None
        barred = np.zeros(len(self._of.nodes), np.bool_)
        if excluded is not None:
            barred[excluded] = True
        for level in levels:
            barred |= self._topology.levels[level].domains < 0
        return barred if barred.any() else None

    def _home(self, level: int) -> int | None:
        """The domain in which most of what stays where it is is, inside that of the required layer."""
        settled = self._settled
        if level > self._limit > 0 and (home := self._most(self._limit, settled)) is not None:
            settled = settled[self._topology.levels[self._limit].domains[settled] == home]
        return self._most(level, settled)

    def _most(self, level: int, columns: Columns) -> int | None:
        domains = self._topology.levels[level].domains[columns]
        found = Counter(domains[domains >= 0].tolist())
        return min(found, key=lambda number: (-found[number], number), default=None)

    # Inside a domain

    def _attempt(
        self, level: int, number: int, want: Want, own: Mapping[Place, int]
    ) -> dict[Place, int] | None:
        """Put the minimum of `want` into this domain, and then as many more as near as they fit.

        `own`: nodes that places keep if they are in the domain.
        """
        ledger = self._of.ledger
        columns = self._columns(level, number)
        if columns is not None and self._apart:
            return self._attempt_apart(columns, level, number, want)
        mark = ledger.mark()
        trial = Trial(want.parts, None, ledger, self._of.slots, columns, self._claim.presences)
        if trial.constrained:
            fits = fill_in_some_way(trial, want, own) and self._right(trial)
        else:
            trial.prefer_all(own)
            if len(self._groups) == 1:
                fits = self._spread(trial, level, number, want)
            else:
                fits = trial.fill_minimum(want.need) and self._right(trial)
        if not fits:
            ledger.rollback(mark)
            return None
        self._widen(trial, level, number, want)
        ledger.commit(mark)
        return trial.places(self._claim.vacant)

    def _attempt_apart(
        self, columns: Columns, level: int, number: int, want: Want
    ) -> dict[Place, int] | None:
        """The same for several shapes, without the ledger until it is known to fit."""
        slots, nodes = self._of.slots, self._of.nodes
        of_group = {group.shape: vector for group, vector in zip(self._groups, self._vectors(), strict=True)}
        vectors = [of_group[part.shape] for part in want.parts]
        order = sorted(range(len(vectors)), key=lambda p: -vectors[p].size)
        filled = Bay(nodes, slots.order, vectors, columns).fill(want.parts, want.need, order)
        if filled is None:
            return None
        trial = Trial(want.parts, None, self._of.ledger, slots, columns, self._claim.presences)
        for p, pieces in enumerate(filled):
            for some, times in pieces:
                trial.take(p, vectors[p], some, times)
        self._widen(trial, level, number, want)
        return trial.places(self._claim.vacant)

    @cached_property
    def _apart(self) -> bool:
        """Whether domains can be tried in a bay."""
        return (
            len(self._groups) > 1
            and self._of.slots.order.free_alone
            and not (self._claim.preferred or self._multiples or self._want.constrained)
            and not any(group.shape.gpu_share for group in self._groups)
        )

    def _widen(self, trial: Trial, level: int, number: int, want: Want) -> None:
        """Put as many more as fit: in the domain, then in the next wider one, up to the required one."""
        size = sum(part.count for part in want.parts)
        wider = level
        while not self._multiples and sum(trial.placed) < size and wider >= self._limit:
            if wider < level:
                trial.within = self._columns(wider, self._topology.above(number, level, wider))
            trial.fill_up()
            wider -= 1

    def _columns(self, level: int, number: int) -> Columns | None:
        """The columns of a domain that may be used; None = all there are."""
        if level == 0 and self._barred is None:
            return None
        columns = self._topology.columns(level, number)
        return columns if self._barred is None else columns[~self._barred[columns]]

    def _search(self, columns: Columns | None, want: Want) -> dict[Place, int] | None:
        """The exact rungs, where the greedy one has failed."""
        if self._multiples:
            self._leave_open(Verdict(Rung.GREEDY, Answer.NONE_FOUND))
            return None
        if not self._claim.search:
            self._granted = False
        elif self._granted is None:
            self._granted = self._of.exact.turn(self._want)
        if not self._granted or self._searches >= SEARCHES:
            self._leave_open(Verdict(Rung.GREEDY, Answer.NONE_FOUND))
            return None
        self._searches += 1
        self._still = None
        if want.constrained:
            return self._walk(columns, want)
        outside = None
        if columns is not None:
            mask = np.ones(len(self._of.nodes), np.bool_)
            mask[columns] = False
            outside = np.flatnonzero(mask)
        inside = self._claim.preferred
        found = self._of.exact.place(want, self._claim.vacant, inside, outside, granted=True)
        if isinstance(found, Verdict):
            if want is self._want and not found.proven:
                self._leave_open(found)
            return None
        return found

    def _walk(self, columns: Columns | None, want: Want) -> dict[Place, int] | None:
        """Pod by pod, where constraints besides room have defeated the greedy placement."""
        trial = Trial(want.parts, None, self._of.ledger, self._of.slots, columns, self._claim.presences)
        answer = search(trial, want)
        if answer is None:
            return trial.places(self._claim.vacant)
        self._leave_open(Verdict(Rung.SEARCH, answer))
        return None

    def _leave_open(self, verdict: Verdict) -> None:
        """Not every domain is ruled out by a proof."""
        if self._open is None or self._open.answer is Answer.NONE_LEFT:
            self._open = verdict

    # Pods of one shape

    def _spread(self, trial: Trial, level: int, number: int, want: Want) -> bool:
        """Put as many as fit, at least the minimum, into as few domains of each layer as they go into."""
        group = self._groups[0]
        placed = sum(trial.placed)
        least = max(want.need, sum(want.parts[p].need for p in group.parts)) - placed
        most = group.count - placed
        if most <= 0:
            return self._right(trial)
        vector = self._of.slots.of(group.shape)
        if self._multiples:
            columns = self._count(trial, vector.slots, level, number, max(least, 0), most)
        elif level == len(self._topology.levels) - 1:
            room = vector.slots.item(number) if trial.within is None or len(trial.within) else 0
            columns = np.full(min(most, room), number, np.intp) if room >= least else None
        else:
            columns = self._share_out(vector, level, number, least, most)
        if columns is None:
            return False
        self._put(trial, columns, want)
        return self._right(trial)

    def _count(
        self, trial: Trial, slots: Ints, level: int, number: int, least: int, most: int
    ) -> Columns | None:
        """One column per pod so that multiples come out right."""
        free = np.zeros(len(slots), np.int64)
        within = slice(None) if trial.within is None else trial.within
        free[within] = np.minimum(slots[within], most)
        taken = np.zeros(len(slots), np.int64)
        np.add.at(taken, np.array([*self._settled.tolist(), *trial.columns], np.intp), 1)
        times = counted(self._topology, self._multiples, level, number, free, taken, least, most)
        return None if times is None else np.repeat(np.arange(len(times)), times)

    def _share_out(self, vector: Vector, level: int, number: int, least: int, most: int) -> Columns | None:
        """One column per pod, in as few domains of each layer as goes; None if there is too little room."""
        topology = self._topology
        begin, end = topology.levels[level].starts[number : number + 2].tolist()
        starts = topology.starts[begin : end + 1]
        inside = topology.order[starts[0] : starts[-1]]
        free = np.minimum(vector.slots[inside], most).astype(np.int64)
        if self._barred is not None:
            free[self._barred[inside]] = 0
        rooms = np.concatenate(([0], np.cumsum(np.add.reduceat(free, starts[:-1] - starts[0]))))
        if rooms[-1] < least:
            return None
        pieces: list[Columns] = [np.zeros(0, np.intp)]
        bounds = [level.starts - begin for level in topology.levels[level + 1 : -1]]
        for low, high, share in _shares(bounds, rooms, 0, end - begin, min(most, int(rooms[-1]))):
            some = slice(int(starts[low] - starts[0]), int(starts[high] - starts[0]))
            if share == rooms[high] - rooms[low]:
                pieces.append(np.repeat(inside[some], free[some]))
            else:
                cells = np.sort(inside[some][free[some] > 0])
                pieces.append(np.repeat(*tightest_group(vector, share, None, cells)))
        return np.concatenate(pieces)

    def _put(self, trial: Trial, columns: Columns, want: Want) -> None:
        """Deal these columns, one per pod, out to the parts: first to their minima."""
        parts = want.parts
        shares = [max(part.need - n, 0) for part, n in zip(parts, trial.placed, strict=True)]
        left = len(columns) - sum(shares)
        for p, part in enumerate(parts):
            more = min(left, part.count - trial.placed[p] - shares[p])
            shares[p] += more
            left -= more
        start = 0
        for p, share in enumerate(shares):
            done = trial.put(p, columns[start : start + share])
            assert done, "what was counted fits"
            start += share

    def _right(self, trial: Trial) -> bool:
        """Whether multiples come out right, which pods of several shapes only do by chance."""
        new = np.array(trial.columns, np.intp)
        return not self._multiples or self._multiples.hold(self._topology, new, self._settled)

    # Why not

    def nearest(self, home: tuple[int, int] | None) -> Nearest | None:
        if self._unknown or not self._limit:
            return None
        level = self._limit
        totals = self._useful(self._totals(level), slice(None))
        numbers = np.flatnonzero(self._topology.levels[level].labelled)
        if home is not None:
            numbers = np.array([home[1]], np.intp)
        if not len(numbers):
            return None
        number = int(numbers[totals[numbers].argmax()])
        mark = self._of.ledger.mark()
        trial = Trial(self._want.parts, None, self._of.ledger, self._of.slots, self._columns(level, number))
        trial.fill_minimum(self._want.need)
        fits = tuple(trial.placed)
        self._of.ledger.rollback(mark)
        columns = self._topology.columns(level, number)
        return Nearest(self._topology.title(level, number), fits, len(numbers), columns)


def _shares(
    levels: Sequence[Columns], rooms: Longs, low: int, high: int, size: int
) -> Iterator[tuple[int, int, int]]:
    """(first cell, end, pods): `size` pods over cells low…high, in as few domains of each level as goes.

    `levels` are the first cells of the domains, level by level; `rooms` are running sums over the cells.
    """
    if high - low == 1 or size == rooms[high] - rooms[low]:
        yield low, high, size
        return
    starts = levels[0]
    first, end = np.searchsorted(starts, (low, high)).tolist()
    bounds = rooms[starts[first : end + 1]]
    room = np.diff(bounds)
    order = np.argsort(-room, kind="stable")
    filled = np.cumsum(room[order])
    whole = int(np.searchsorted(filled, size, side="right"))
    for i in order[:whole].tolist():
        if room[i]:
            yield int(starts[first + i]), int(starts[first + i + 1]), int(room[i])
    rest = size - (int(filled[whole - 1]) if whole else 0)
    if rest:
        able = order[whole:][room[order[whole:]] >= rest]
        i = first + int(able[np.lexsort((able, room[able]))[0]])
        yield from _shares(levels[1:], rooms, int(starts[i]), int(starts[i + 1]), rest)


def arrange(placed: Mapping[Place, int], claim: Claim, position: Columns) -> dict[Place, int]:
    """The same columns, with the gang's order laid along that of the tree.

    Pods that are alike change places with each other, whichever pod set they are of; those that kept a node
    of their own do not.
    """
    arranged = {p: c for p, c in placed.items() if claim.preferred.get(p) == c}
    by_set: dict[str, list[tuple[Place, int]]] = {part.pod_set: [] for part in claim.want.parts}
    for place, column in placed.items():
        if place not in arranged:
            by_set[place.pod_set].append((place, column))
    alike: dict[Hashable, list[int]] = {}
    parts = claim.want.parts
    for p, part in enumerate(parts):
        alike.setdefault((part.shape, p if part.constrained else -1), []).append(p)
    for members in alike.values():
        pods: list[Place] = []
        columns: list[int] = []
        for p in members:
            found = by_set[parts[p].pod_set]
            columns += [column for _, column in found]
            if claim.ranks.get(parts[p].pod_set):
                free = (Place(parts[p].pod_set, i) for i in claim.vacant[p])
                ranked = sorted((place for place in free if place not in arranged), key=partial(_rank, claim))
                pods += ranked[: len(found)]
            else:
                pods += [place for place, _ in found]
        if claim.ranks:
            pods.sort(key=partial(_rank, claim))
        order = np.argsort(position[columns], kind="stable")
        arranged.update(zip(pods, np.array(columns)[order].tolist(), strict=True))
    return arranged


def _rank(claim: Claim, place: Place) -> int:
    """Of places without a rank, and of equal ones, the order stays that of the pod sets and their indices."""
    ranks = claim.ranks.get(place.pod_set, ())
    return ranks[place.index] if place.index < len(ranks) else UNLIMITED
