"""The timetable: which places are reserved from when, and what that leaves to others until then.

A reservation names a gang, its places and the time from which it has them. What matters to everybody else
is what its nodes can *spare* at that time: their capacity, less what then still runs there, what other
reservations hold there then, and what the reserved gang itself will use. Whoever starts now and is still
there at that time takes of that, and may do so as long as there is enough; whoever has gone by then does not
matter to it. Use on a node rises only when a reservation begins, so these instants are all that has to be
looked at.

What is spared is an amount per row of the ledger and column, below zero where too much is in use. It follows
from the ledger and from the ends of what runs (`reckon`, `stands`), and says nothing of constraints between
pods: those are looked at where places are chosen.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from itertools import groupby

import numpy as np
import numpy.typing as npt

from muster.core.decisions import Explanation
from muster.core.devices import WHOLE
from muster.core.ends import Ends
from muster.core.gang import Code, GangId, NodeName, Place, Shape
from muster.core.ledger import Ledger, Share
from muster.core.nodes import Columns
from muster.core.placement import Claim, Want
from muster.core.slots import Vector

#: Amounts, rows of the ledger × columns.
Amounts = npt.NDArray[np.int64]
#: What is charged for reservations: row, columns and amounts, or thousandths of a device.
Withheld = tuple[int, Columns, Amounts] | Share


@dataclass(slots=True, eq=False)
class Reservation:
    gang: GangId
    claim: Claim
    #: when it begins, infinite if nobody knows; who has gone by `at` does not matter to it
    start: float
    at: float
    #: when the gang is gone again; infinite if that is not known, or does not matter
    until: float
    nodes: Mapping[Place, NodeName]
    #: ascending
    columns: Columns
    #: what the gang will use of them, and what they can spare once it has begun
    use: Amounts
    spare: Amounts
    #: who has to end for it; None: find out anew
    basis: tuple[GangId, ...] | None
    #: when it was made
    made: float
    #: so many pods of a shape fit beside it, all nodes together, as of a position in the log of changes
    beside: dict[Shape, tuple[int, int]] = field(default_factory=dict)
    _refusal: Explanation | None = None

    @property
    def want(self) -> Want:
        return self.claim.want

    @property
    def refusal(self) -> Explanation:
        """What those are told who would delay it."""
        if self._refusal is None:
            self._refusal = held(f"would fit, but {self.gang} {self._waits}", self.gang)
        return self._refusal

    def can_spare(self, spare: Amounts) -> None:
        """This is what it can spare now."""
        self.spare = spare
        self.beside.clear()

    @property
    def _waits(self) -> str:
        if self.start == np.inf:
            return "has waited for so long that nodes are kept free for it until others end"
        if self.start <= self.made:
            return "waits for longer and is expected to start any moment"
        when = f"{datetime.fromtimestamp(self.start, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"waits for longer and is expected to start at {when}"


class Timetable:
    def __init__(self, ledger: Ledger, ends: Ends) -> None:
        self._nodes, self._ledger, self._ends = ledger.nodes, ledger, ends
        self._reservations: dict[GangId, Reservation] = {}
        #: of `Nodes`, when all was last found anew
        self._layout = -1

    def __len__(self) -> int:
        return len(self._reservations)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._reservations.values())

    def of(self, gang: GangId) -> Reservation | None:
        return self._reservations.get(gang)

    def clear(self) -> None:
        self._reservations.clear()

    def put_back(self, reservation: Reservation) -> None:
        """As it was, into an empty timetable."""
        self._reservations[reservation.gang] = reservation

    def save(self) -> list[tuple[Reservation, Amounts]]:
        return [(each, each.spare.copy()) for each in self]

    def restore(self, saved: Sequence[tuple[Reservation, Amounts]]) -> None:
        self._reservations = {each.gang: each for each, _ in saved}
        for each, spare in saved:
            each.can_spare(spare)

    def add(self, new: Reservation) -> None:
        """What it can spare is known but for others here; what each of these uses is taken off."""
        for other in self:
            if other.at <= new.at < other.until:
                self._take(new, other.columns, other.use)
            if new.at <= other.at < new.until:
                self._take(other, new.columns, new.use)
        self._reservations[new.gang] = new

    def drop(self, gang: GangId) -> None:
        gone = self._reservations.pop(gang, None)
        if gone is None:
            return
        for other in self:
            if gone.at <= other.at < gone.until:
                self._take(other, gone.columns, -gone.use)

    def start(self, columns: Columns, use: Amounts, until: float) -> None:
        """Somebody starts now, and stays until then."""
        for other in self:
            if other.at < until:
                self._take(other, columns, use)

    def start_unless(self, before: Amounts, until: float) -> Reservation | None:
        """Somebody starts who has been placed since so much was in use, rows × columns, and stays until then.

        Unless that delays somebody: then the first that is found.
        """
        starting = []
        for other in self:
            if other.at < until:
                use = self._nodes.used[: len(before)].take(other.columns, axis=1)
                use -= before.take(other.columns, axis=1)
                spare = self._spare(other)[: len(before)]
                if (use > np.maximum(spare, 0)).any():
                    return other
                starting.append((other, spare, use))
        for other, spare, use in starting:
            spare -= use
            other.beside.clear()
        return None

    def beside(self, other: Reservation, vector: Vector) -> int:
        """At most so many pods of a shape, slots as of now, fit now and are not in its way."""
        known, pods = other.beside.get(vector.shape, (-1, 0))
        if known != vector.position:
            slots, spare = vector.slots[other.columns], self._spare(other)
            room = reduce(np.minimum, [spare[row] // amount for row, amount in vector.demand])
            pods = vector.total - int(np.maximum(slots - np.maximum(room, 0), 0).sum())
            other.beside[vector.shape] = vector.position, pods
        return pods

    def withhold(self, start: float, until: float) -> list[Withheld]:
        """Charge the ledger, as it is at `start`, with what reservations need of it up to `until`.

        Returns what was charged.
        """
        standing = [each for each in self if each.until > start and each.at < until]
        if not standing:
            return []
        if len(standing) == 1 and standing[0].at >= start:
            (only,) = standing
            return self._charge(self._needs(only), only.columns)
        needed = np.zeros_like(self._nodes.used)
        going_on = np.zeros_like(needed)
        for other in standing:
            if other.at < start:
                going_on[: len(other.use), other.columns] += other.use
            else:
                mine = needed[:, other.columns]
                needed[:, other.columns] = np.maximum(mine, self._needs(other))
        np.maximum(needed, going_on, out=needed)
        return self._charge(needed, np.arange(needed.shape[1]))

    def withhold_open(self, until: float) -> list[Share]:
        """Charge what is left on GPUs that reservations up to `until` need whole, and that close by then.

        To be asked for after `withhold`. Returns what was charged.
        """
        charged: list[Share] = []
        devices = self._nodes.devices
        for other in self:
            if other.at >= until:
                continue
            full = [c for c in other.columns.tolist() if self._nodes.free_at(devices.row, c) <= 0]
            names = {self._nodes.names[column] for column in full}
            left = self._ends.left_on(other.at, names)
            for node in sorted(names):
                for number, used in enumerate([*devices.used(node)]):
                    if 0 < used < WHOLE and used <= left[node, number]:
                        self._ledger.keep(share := Share(node, WHOLE - used, number))
                        charged.append(share)
        return charged

    def return_(self, charged: Iterable[Withheld]) -> None:
        """Undo `withhold`."""
        for each in charged:
            if isinstance(each, Share):
                self._ledger.keep(each, -1)
            else:
                row, columns, amounts = each
                self._ledger.take_at(columns, ((row, 1),), -amounts)

    def _charge(self, amounts: Amounts, columns: Columns) -> list[Withheld]:
        """Charge what is above zero. A GPU that is opened for a share is one of the whole ones as well."""
        charged: list[Withheld] = []
        rows = _rows_above_zero(amounts)
        for row in rows:
            if self._nodes.share(((row, 1),)):
                gpus = self._nodes.devices.row
                before = self._nodes.used[gpus, columns]
                charged += self._charge_shares(columns, amounts[row])
                amounts[gpus] -= self._nodes.used[gpus, columns] - before
        for row in rows:
            some = (amounts[row] > 0).nonzero()[0]
            if len(some) and not self._nodes.share(((row, 1),)):
                charged.append((row, columns[some], amounts[row, some]))
                self._ledger.take_at(columns[some], ((row, 1),), amounts[row, some])
        return charged

    def _charge_shares(self, columns: Columns, thousandths: Amounts) -> Iterator[Share]:
        """Device by device."""
        for column, amount in zip(columns.tolist(), thousandths.tolist(), strict=True):
            node = self._nodes.names[column]
            for device, some in [*self._nodes.devices.spread(node, amount)] if amount > 0 else ():
                self._ledger.keep(share := Share(node, some, device))
                yield share

    def reckon(self, now: float) -> None:
        """Find anew what all can spare. Those whose nodes are gone, or will be too full, are dropped."""
        moved, self._layout = self._layout != self._nodes.layout, self._nodes.layout
        for each in list(self):
            if moved:  # what its claim says of columns is told again in its turn
                each.claim = Claim(each.want, each.claim.vacant, presences=each.claim.presences)
            if not self._is_there(each):
                del self._reservations[each.gang]
        mark, ends, gone = self._ledger.mark(), [*self._ends.after(now)], 0
        then, there = self._nodes.used.copy(), list[Reservation]()
        for at, some in groupby(sorted(self, key=lambda each: each.at), key=lambda each: each.at):
            beginning = list(some)
            while gone < len(ends) and ends[gone][0] <= at:
                self._ends.leave(ends[gone][1], then)
                gone += 1
            for over in [other for other in there if other.until <= at]:
                there.remove(over)
                then[: len(over.use), over.columns] -= over.use
            for each in beginning:
                there.append(each)
                then[: len(each.use), each.columns] += each.use
            for each in beginning:
                each.can_spare(self._nodes.capacities(each.columns) - then.take(each.columns, axis=1))
        self._ledger.rollback(mark)
        for each in sorted(self, key=lambda each: each.at):
            if self._is_too_full(each):
                self.drop(each.gang)

    def stands(self, each: Reservation, now: float) -> bool:
        """Whether a search would find its time again: it fits then as it did, and nowhere before.

        False where that cannot be told by amounts. What it can spare is found anew.
        """
        nodes, want = self._nodes, each.want
        if not want.fits_by_slots or each.start == np.inf or each.at <= now:
            return False
        demand, left = nodes.demand(want.parts[0].shape.requests), self._ends.left_by(each.at)
        if left is None or nodes.share(demand):
            return False
        for row, amount in reversed(demand):  # pods, which are seldom short, come last
            if nodes.all_free(row) + left.before[row] < want.need * amount:
                break
        else:
            return False
        spare = nodes.capacities(each.columns)
        spare -= nodes.used.take(each.columns, axis=1)
        spare += left.amounts.take(each.columns, axis=1)
        spare[: len(each.use)] -= each.use
        each.can_spare(spare)
        return not self._is_too_full(each)

    def _needs(self, each: Reservation) -> Amounts:
        """Rows × columns of its nodes: so much more will be in use when it has begun than is now."""
        used = self._nodes.used.take(each.columns, axis=1)
        needs: Amounts = self._nodes.capacities(each.columns) - used - self._spare(each)
        return needs

    def _spare(self, each: Reservation) -> Amounts:
        """What it can spare, in all rows: the ledger may have more by now."""
        missing = len(self._nodes.used) - len(each.spare)
        if missing:
            new = self._nodes.capacities(each.columns)[-missing:]
            each.spare = np.concatenate((each.spare, new))
        return each.spare

    def _take(self, other: Reservation, columns: Columns, use: Amounts) -> None:
        """Somebody uses so much of these columns, too, when it begins."""
        mine, theirs = _common(columns, other.columns)
        if len(mine):
            self._spare(other)[: len(use), theirs] -= use.take(mine, axis=1)
            other.beside.clear()

    def _is_too_full(self, each: Reservation) -> bool:
        """It is to use of what there will be less than nothing to spare."""
        return each.spare.min() < 0 and bool((each.spare[: len(each.use)][each.use > 0] < 0).any())

    def _is_there(self, each: Reservation) -> bool:
        """Its nodes are there and take pods. Columns may have moved."""
        column, facts = self._nodes.column, self._nodes.facts
        names = set(each.nodes.values())
        if any(n not in column or n not in facts or facts[n].cordoned or not facts[n].ready for n in names):
            return False
        each.columns = np.array(sorted(column[name] for name in names), np.intp)
        return True


def _rows_above_zero(amounts: Amounts) -> list[int]:
    return [row for row, most in enumerate(amounts.max(axis=1).tolist()) if most > 0]


def held(message: str, gang: GangId) -> Explanation:
    """The reason of those who are kept back for this gang."""
    return Explanation(Code.HELD_FOR_RESERVATION, "reservation", message, blockers=(gang,))


def _common(one: Columns, other: Columns) -> tuple[Columns, Columns]:
    """Positions in each of the columns that are in both, ascending."""
    at = other.searchsorted(one)
    both = (other.take(at, mode="clip") == one).nonzero()[0]
    return both, at[both]
