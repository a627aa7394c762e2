"""Victims: whom to end so that a gang fits, at the least loss, or nobody.

First of all the preemptor must fit afterwards, with everything that `Fit` looks at; every set of victims that
comes out of here has been tried on the ledger. Among those sets the best is, in this order, the one

1. whose highest victim priority is lowest,
2. of surplus pods only, if surplus of that priority and below suffices,
3. that loses the least work (`candidates.py`), then ends the fewest gangs, then the fewest pods.

To find the very best is set covering, which is hard; so, after Dobson's greedy for covering integer
programs and the reprieve of kube-scheduler's preemption:

- *level*: how many pods would fit if all candidates up to a priority left is a sum of slots, which only
  grows with the priority: bisection finds the lowest that could do, and `Fit` confirms it or goes on.
- *greedy*: take whatever frees most slots for the work that it loses, again and again, until enough are
  there. A fraction of a slot counts a little, or jobs that share a node would never look worth taking.
- *reprieve*: spare victims, the dearest first, as long as the preemptor still fits. What is left is
  irreducible: it fits without none of them.
- *exchange*: for each victim, the dearest first, look for others that do the same for less.

The sums of slots (`Count`) are a necessary condition that costs microseconds; `Fit` is asked only where it
holds. For pods of one shape without further constraints it is the whole truth.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.core.candidates import Candidate, Longs
from muster.core.decisions import Victim
from muster.core.departures import Charged
from muster.core.devices import WHOLE
from muster.core.eligibility import Eligibility
from muster.core.events import Presence
from muster.core.exact import Verdict
from muster.core.fit import Claim, Fit
from muster.core.gang import Gang, NodeName, Place
from muster.core.ledger import Ledger
from muster.core.nodes import Bools, Columns, Demand, Nodes
from muster.core.placement import Want
from muster.names import GPU_SHARE

#: Times that `Fit` is asked in one search.
TRIALS: Final = 120
#: Exchanges tried in one search.
EXCHANGES: Final = 12
#: What the whole of a slot's fraction is worth, in slots.
_FRACTION: Final = 0.25

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Found:
    """Victims, and where the preemptor fits without them (places → columns)."""

    victims: tuple[Victim, ...]
    placed: dict[Place, int]


class Search:
    """Looks for victims on the ledger."""

    def __init__(self, nodes: Nodes, ledger: Ledger, eligibility: Eligibility, fit: Fit) -> None:
        self._nodes = nodes
        self._ledger = ledger
        self._eligibility = eligibility
        self._fit = fit

    def find(self, claim: Claim, candidates: Sequence[Candidate]) -> Found | None:
        """None if no set of these victims makes room. The ledger stays as it is.

        `candidates` are all that the preemptor may end; which of them is what is looked for here.
        """
        if not candidates:
            return None
        table = Table.of(candidates, len(self._nodes))
        if not table.groups:
            return None  # all they have is on nodes that are gone
        trial = _Trial(table, claim, self._nodes, self._ledger, self._fit)
        count = Count(claim, self._nodes, self._eligibility, trial.table)
        usable = self._lowest(trial, count)
        if usable is None:
            return None
        best: Bools | None = None
        for fraction in (_FRACTION, 1.0):
            chosen = self._greedy(trial, count, usable, fraction)
            if chosen is not None:
                chosen = self._reprieve(trial, count, chosen)
                if best is None or trial.table.cost(chosen) < trial.table.cost(best):
                    best = chosen
        if best is None:
            return None
        best = self._exchange(trial, count, usable, best)
        return trial.found(best)

    def _lowest(self, trial: "_Trial", count: "Count") -> Bools | None:
        """The cuts to choose from: up to the lowest priority that does, of surplus only if that does."""
        table = trial.table
        levels = sorted(set(table.priority.tolist()))
        low, high = 0, len(levels)
        while low < high:
            middle = (low + high) // 2
            if count.enough(table.priority <= levels[middle]):
                high = middle
            else:
                low = middle + 1
        for level in levels[low:]:
            usable: Bools = table.priority <= level
            if trial.fits(usable):
                surplus: Bools = usable & ~table.last
                if surplus.any() and count.enough(surplus) and trial.fits(surplus):
                    return surplus
                return usable
        return None

    def _greedy(self, trial: "_Trial", count: "Count", usable: Bools, fraction: float) -> Bools | None:
        """Cuts taken one after the other until the preemptor fits; all of them, if nothing else does."""
        table = trial.table
        taken = np.zeros(len(table), np.bool_)
        order: list[Bools] = []
        for taken in count.picks(usable, fraction):
            order.append(taken)
            if count.satisfied and trial.fits(taken):
                return taken
        return usable if trial.fits(usable) else None

    def _reprieve(self, trial: "_Trial", count: "Count", chosen: Bools) -> Bools:
        """Spare gangs, the dearest first: all of its cuts, else from its last one on as many as can be."""
        table = trial.table
        for gang in table.dearest(chosen):
            mine = chosen & (table.gang == gang)
            for first in np.flatnonzero(mine):
                fewer = chosen & ~(mine & (np.arange(len(table)) >= first))
                if count.enough(fewer) and trial.fits(fewer):
                    chosen = fewer
                    break
        return chosen

    def _exchange(self, trial: "_Trial", count: "Count", usable: Bools, best: Bools) -> Bools:
        """Without one victim at all: what else would have to go, and is that less?"""
        table = trial.table
        tried = 0
        improved = True
        while improved and tried < EXCHANGES:
            improved = False
            for gang in table.dearest(best):
                if tried >= EXCHANGES:
                    break
                tried += 1
                others = usable & (table.gang != gang)
                if not count.enough(others):
                    continue
                start = best & others
                chosen = self._greedy_from(trial, count, others, start)
                if chosen is None:
                    continue
                chosen = self._reprieve(trial, count, chosen)
                if table.cost(chosen) < table.cost(best):
                    best, improved = chosen, True
                    break
        return best

    def _greedy_from(self, trial: "_Trial", count: "Count", usable: Bools, start: Bools) -> Bools | None:
        for taken in count.picks(usable, _FRACTION, start):
            if count.satisfied and trial.fits(taken):
                return taken
        return None


class Table:
    """Candidates' cuts as arrays, a cell per cut; those of one gang follow each other, in order."""

    def __init__(self, candidates: Sequence[Candidate], columns: int) -> None:
        self.candidates = candidates
        self.columns = columns
        sizes = [len(candidate.cuts) for candidate in candidates]
        gangs = np.repeat(np.arange(len(candidates)), sizes)
        self.gang: npt.NDArray[np.intp] = gangs
        self.position = np.concatenate([np.arange(n) for n in sizes])
        self.last: Bools = np.diff(gangs, append=len(candidates)) > 0
        self.priority = np.array([c.gang.priority for c in candidates], np.int64)[gangs]
        self.lost: Floats = np.array([lost for c in candidates for lost in c.lost], np.float64)
        self.pods = np.zeros(len(gangs), np.int64)
        #: per kind of demand: cut, column, how many
        self.groups: list[tuple[Demand, Longs, Columns, Longs]] = []
        #: pods that share a GPU, by cut; they are among the groups, too
        self.shares: list[tuple[int, Charged]] = []
        #: what others see of the rest, by cut
        self.seen: list[tuple[int, tuple[NodeName, Presence]]] = []
        self._collect()

    @staticmethod
    def of(candidates: Sequence[Candidate], columns: int) -> "Table":
        return Table(candidates, columns)

    def __len__(self) -> int:
        return len(self.gang)

    def _collect(self) -> None:
        collected: dict[Demand, tuple[list[int], list[Columns], list[Longs]]] = {}
        cut = 0
        for candidate in self.candidates:
            named = 0
            for one in candidate.cuts:
                self.pods[cut] = len(one.pods) or candidate.size - named
                named += len(one.pods)
                for demand, columns, times in one.footprint.taken:
                    cuts, all_columns, all_times = collected.setdefault(demand, ([], [], []))
                    cuts.append(cut)
                    all_columns.append(columns)
                    all_times.append(times)
                self.shares += [(cut, charged) for charged in one.footprint.shares]
                self.seen += [(cut, one_seen) for one_seen in one.footprint.seen]
                cut += 1
        for demand, (cuts, all_columns, all_times) in sorted(collected.items()):
            repeats = [len(columns) for columns in all_columns]
            self.groups.append(
                (
                    demand,
                    np.repeat(np.array(cuts, np.int64), repeats),
                    np.concatenate(all_columns),
                    np.concatenate(all_times),
                )
            )

    def cost(self, chosen: Bools) -> tuple[float, int, int]:
        """Work, gangs, pods."""
        gangs = len(np.unique(self.gang[chosen]))
        return (round(float(self.lost[chosen].sum()), 6), gangs, int(self.pods[chosen].sum()))

    def dearest(self, chosen: Bools) -> list[int]:
        """Gangs of which something is chosen, those that lose most first, ties to the last name."""
        lost = np.bincount(self.gang[chosen], self.lost[chosen], len(self.candidates))
        gangs = np.unique(self.gang[chosen])
        return sorted(gangs.tolist(), key=lambda gang: (-lost[gang], -gang))


class Count:
    """How many pods would fit by slots alone, whatever is taken: a sum per part of what is wanted."""

    def __init__(self, claim: Claim, nodes: Nodes, eligibility: Eligibility, table: Table) -> None:
        self._want: Want = claim.want
        self._table = table
        width = len(nodes)
        demands = [dict(nodes.demand(part.shape.requests)) for part in claim.want.parts]
        rows = sorted({row for demand in demands for row in demand})
        self._asked = [np.array([demand.get(row, 0) for row in rows], np.int64) for demand in demands]
        self._open = []
        for part in claim.want.parts:
            mask = eligibility.of(part.shape).eligible.copy()
            if claim.excluded is not None:
                mask[claim.excluded] = False
            self._open.append(mask)
        #: rows of whole GPUs and of shares of them, if anybody shares
        self._gpu = (nodes.devices.row, nodes.resources.get(GPU_SHARE))
        #: rows × nodes, as it is: below zero where a node is overdrawn
        self._free: Longs = np.array(
            [
                nodes.free(row).astype(np.int64)
                if row == self._gpu[1]
                else nodes.capacity(row).astype(np.int64) - nodes.used[row, :width]
                for row in rows
            ]
        )
        self._entries(rows)
        self._weights = self._weigh(nodes)
        self.satisfied = False

    def _entries(self, rows: list[int]) -> None:
        """Per cut and node what taking it frees there, of the resources that count."""
        position = {row: i for i, row in enumerate(rows)}
        keys, amounts = [], []
        for demand, cuts, columns, times in self._table.groups:
            each = np.zeros(len(rows), np.int64)
            for row, amount in self._at_most(demand):
                if row in position:
                    each[position[row]] += amount
            keys.append(cuts * self._table.columns + columns)
            amounts.append(each[:, None] * times)
        distinct, inverse = np.unique(np.concatenate(keys), return_inverse=True)
        self._cut: Longs = distinct // self._table.columns
        self._column: Longs = distinct % self._table.columns
        self._amount: Longs = np.zeros((len(rows), len(distinct)), np.int64)
        np.add.at(self._amount.T, inverse, np.concatenate(amounts, axis=1).T)

    def _at_most(self, demand: Demand) -> Iterator[tuple[int, int]]:
        """What can be free when a pod of this demand has gone: of a GPU that is shared, perhaps all."""
        yield from demand
        whole, share = self._gpu
        for row, amount in demand:
            if row == whole and share is not None:
                yield share, amount * WHOLE
            elif row == share:
                yield whole, 1

    def _weigh(self, nodes: Nodes) -> list[float]:
        """What a slot of each part is worth: its part of all that is wanted."""
        parts = self._want.parts
        if len(parts) == 1:
            return [1.0]
        rest = self._want.need - sum(part.need for part in parts)
        return [float(part.need + (rest if part.count > part.need else 0) > 0) for part in parts]

    def enough(self, taken: Bools) -> bool:
        """Whether the slots suffice once these cuts are taken."""
        free = self._free.copy()
        mine = taken[self._cut]
        np.add.at(free.T, self._column[mine], self._amount[:, mine].T)
        return self._suffices([int(self._slots(p, free, open_).sum()) for p, open_ in enumerate(self._open)])

    def _suffices(self, slots: list[int]) -> bool:
        parts = self._want.parts
        return all(n >= part.need for n, part in zip(slots, parts, strict=True)) and (
            sum(min(n, part.count) for n, part in zip(slots, parts, strict=True)) >= self._want.need
        )

    def _slots(self, p: int, free: Longs, open_: Bools) -> Longs:
        asked = self._asked[p]
        slots = np.full(free.shape[1], 2**40, np.int64)
        for row in np.flatnonzero(asked):
            np.minimum(slots, free[row] // asked[row], out=slots)
        np.maximum(slots, 0, out=slots)
        return slots * open_

    def _value(self, p: int, free: Longs, open_: Bools, fraction: float) -> Floats:
        """Slots, and for the part of a slot that is there a part of `fraction`."""
        asked = self._asked[p]
        whole = np.full(free.shape[1], 2.0**40)
        for row in np.flatnonzero(asked):
            np.minimum(whole, free[row] / asked[row], out=whole)
        slots = np.maximum(np.floor(whole), 0.0)
        return np.asarray((slots * (1 - fraction) + whole * fraction) * open_)

    def picks(self, usable: Bools, fraction: float, start: Bools | None = None) -> Iterator[Bools]:
        """What is taken after each pick, until nothing is left that frees anything.

        `satisfied` says whether the slots suffice by then.
        """
        table = self._table
        taken = np.zeros(len(table), np.bool_) if start is None else start.copy()
        free = self._free.copy()
        mine = taken[self._cut]
        np.add.at(free.T, self._column[mine], self._amount[:, mine].T)
        parts = range(len(self._open))
        slots = [self._slots(p, free, self._open[p]) for p in parts]
        self.satisfied = self._suffices([int(s.sum()) for s in slots])
        if start is not None:
            yield taken
        values = [self._value(p, free, self._open[p], fraction) for p in parts]
        gains = np.zeros(len(self._cut))
        touched = np.arange(len(self._cut))
        chained = bool((table.position > 0).any())
        tiny = 1e-9 * (1.0 + float(table.lost.sum()))
        while True:
            columns = self._column[touched]
            after = free[:, columns] + self._amount[:, touched]
            gains[touched] = sum(
                w * (self._value(p, after, self._open[p][columns], fraction) - values[p][columns])
                for p, w in zip(parts, self._weights, strict=True)
            )
            gain = np.bincount(self._cut, gains, len(table))
            gain[taken | ~usable] = 0.0
            left = usable & ~taken
            if not left.any():
                return
            cost = table.lost + tiny * (1 + table.pods / 1e6)
            if chained:
                first = left & np.concatenate(([True], (table.gang[1:] != table.gang[:-1]) | taken[:-1]))
                # the whole of what is left of a gang, noted at its first cut that is left
                all_gain = np.bincount(table.gang, gain, len(table.candidates))
                all_cost = np.bincount(table.gang, np.where(left, cost, 0.0), len(table.candidates))
                next_score = np.where(first, gain / cost, -1.0)
                rest_score = np.where(first, (all_gain / np.maximum(all_cost, tiny))[table.gang], -1.0)
                best_next, best_rest = int(next_score.argmax()), int(rest_score.argmax())
                if rest_score[best_rest] > next_score[best_next]:
                    picked = left & (table.gang == table.gang[best_rest])
                    score = rest_score[best_rest]
                else:
                    picked = np.zeros(len(table), np.bool_)
                    picked[best_next] = True
                    score = next_score[best_next]
            else:
                scores = np.where(left, gain / cost, -1.0)
                best = int(scores.argmax())
                picked = np.zeros(len(table), np.bool_)
                picked[best] = True
                score = scores[best]
            if score <= 0.0:
                return
            taken = taken | picked
            entries = picked[self._cut]
            np.add.at(free.T, self._column[entries], self._amount[:, entries].T)
            changed = np.zeros(table.columns, np.bool_)
            changed[self._column[entries]] = True
            where = np.flatnonzero(changed)
            for p in parts:
                values[p][where] = self._value(p, free[:, where], self._open[p][where], fraction)
                slots[p][where] = self._slots(p, free[:, where], self._open[p][where])
            self.satisfied = self._suffices([int(s.sum()) for s in slots])
            yield taken
            touched = np.flatnonzero(changed[self._column])


class _Trial:
    """Asks `Fit` with some cuts taken; answers are remembered."""

    def __init__(self, table: Table, claim: Claim, nodes: Nodes, ledger: Ledger, fit: Fit) -> None:
        self.table = table
        self._claim = claim
        self._nodes = nodes
        self._ledger = ledger
        self._fit = fit
        self._left = TRIALS
        self._known: dict[bytes, bool] = {}

    def fits(self, taken: Bools) -> bool:
        """False, too, if the search has used up its trials."""
        key = taken.tobytes()
        known = self._known.get(key)
        if known is None and self._left:
            self._left -= 1
            mark = self._ledger.mark()
            known = self._known[key] = not isinstance(self._placed(taken), Verdict)
            self._ledger.rollback(mark)
        return bool(known)

    def found(self, taken: Bools) -> Found:
        mark = self._ledger.mark()
        placed = self._placed(taken)
        self._ledger.rollback(mark)
        assert not isinstance(placed, Verdict), "it has been tried"
        return Found(tuple(self._victims(taken)), placed)

    def _placed(self, taken: Bools) -> dict[Place, int] | Verdict:
        for cut, charged in self.table.shares:
            if taken[cut]:
                self._ledger.give(*charged)
        if self._claim.want.constrained:
            for cut, (node, presence) in self.table.seen:
                if taken[cut]:
                    self._ledger.hide(node, presence)
        for demand, cuts, columns, times in self.table.groups:
            mine = taken[cuts]
            if mine.any() and not self._nodes.share(demand):
                freed = np.bincount(columns[mine], times[mine], self.table.columns).astype(np.int64)
                where = np.flatnonzero(freed)
                self._ledger.take_at(where, demand, -freed[where])
        return self._fit.fit(self._claim)

    def _victims(self, taken: Bools) -> Iterator[Victim]:
        table = self.table
        for g in np.unique(table.gang[taken]).tolist():
            candidate = table.candidates[g]
            mine = np.flatnonzero(taken & (table.gang == g))
            lost = float(table.lost[mine].sum())
            cuts = [candidate.cuts[i] for i in table.position[mine].tolist()]
            whole = not cuts[-1].pods
            pods = frozenset(pod for cut in cuts for pod in cut.pods)
            yield Victim(candidate.gang.id, frozenset() if whole else pods, lost)


def may_end(preemptor: Gang, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates that rank below it in its queue."""
    return [c for c in candidates if c.gang.queue == preemptor.queue and c.gang.priority < preemptor.priority]
