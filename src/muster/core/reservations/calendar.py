"""The calendar: which places are reserved from when, and what that leaves to others until then.

A reservation names a gang, its places and the time from which it has them. What matters to other gangs is
what its nodes can *spare* at that time: their capacity, less what then still runs there, what other
reservations hold there then, and what the reserved gang itself will use. A gang that starts now and still
runs at that time takes from this amount, and may do so as long as it suffices. A gang that has ended by then
does not matter to the reservation. Use on a node rises only when a reservation begins, so only these instants
are checked.

The spare amount has a value per row of the ledger and column, below zero where too much is in use. It follows
from the ledger and from the ends of running gangs (`recompute`, `stands`). It says nothing about constraints
between pods: those are checked where places are chosen.

For shared GPUs, sums per node do not suffice: two shares of 550 leave 450 twice, and no room for a third. A
reservation therefore has its shares on devices, by number, and knows what will be in use on each device of
its nodes then. Numbers of devices that close in between are used again, which does no harm: if no device by
number is ever overcommitted, and no more devices are open or in whole use than the node has, then all shares
can be put on real ones. What a reservation *uses* of the row of GPUs is whole ones alone. A device that is
open for shares is taken off what its node can spare once, whichever gangs are on it. The sum of thousandths
is kept like any other row, but is only an upper bound of what fits as shares.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from heapq import heapify, heappop, heappush
from itertools import chain
from math import inf
from typing import NamedTuple

import numpy as np

from muster.core.demand import Request
from muster.core.placement.slots import Vector
from muster.core.reservations.answer import Amounts, Reservation
from muster.core.words.gang import GangId
from muster.core.world.completions import Completions
from muster.core.world.devices import WHOLE, Device
from muster.core.world.ledger import Ledger, Share
from muster.core.world.nodes import Columns

#: What is charged for reservations: row, columns and amounts, or thousandths of a device.
Withheld = tuple[int, Columns, Amounts] | Share


class Instant(NamedTuple):
    """What some nodes can spare at some time, and what is in use of their shared GPUs then."""

    columns: Columns
    spare: Amounts
    shared: dict[Device, int]


class Calendar(dict[GangId, Reservation]):
    """The reservations by gang. A trial restores them."""

    def __init__(self, ledger: Ledger, ends: Completions) -> None:
        super().__init__()
        self._nodes, self._ledger, self._log, self._completions = ledger.nodes, ledger, ledger.log, ends
        #: the layout of `Nodes` when all was last computed
        self._layout = -1

    def reset(self, *reservations: Reservation) -> None:
        """Replace all reservations by these, unchanged."""
        self._log.push(self.reset, *self.values())
        self.clear()
        self.update({each.gang: each for each in reservations})

    def _set_spare(self, each: Reservation, spare: Amounts, shared: dict[Device, int]) -> None:
        self._log.push(each.set_spare, each.spare, each.shared)
        each.set_spare(spare, shared)

    def add(self, new: Reservation) -> None:
        """Add a reservation. What each reservation uses here is subtracted from what the others can spare.

        If the new one is so late that another has less than nothing to spare, the other is delayed too
        (`recompute`).
        """
        for other in self.values():
            if other.at <= new.at < other.until:
                self._take(new, other.columns, other.use, other.shares)
            if new.at <= other.at < new.until:
                self._take(other, new.columns, new.use, new.shares)
        self.reset(*self.values(), new)

    def drop(self, gang: GangId) -> None:
        old = self.get(gang)
        if old is None:
            return
        self.reset(*(each for each in self.values() if each is not old))
        shares = {device: -share for device, share in old.shares.items()}
        for other in self.values():
            if old.at <= other.at < old.until:
                self._take(other, old.columns, -old.use, shares)

    def start(
        self, columns: Columns, use: Amounts, shares: Mapping[Device, int], until: float, *, late: bool
    ) -> Reservation | None:
        """Take off what a gang uses that starts now and stays until then.

        Returns the first reservation found that this delays, for the caller to undo all; None: it delays
        none. `late`: it starts even so.
        """
        for other in self.values():
            if other.at < until:
                before = self._spare(other)
                self._take(other, columns, use, shares)
                if late or other.spare is before:
                    continue
                over = any(other.shared.get(device, 0) > WHOLE for device in shares)
                if over or (other.spare < np.minimum(before, 0)).any():
                    return other
        return None

    def beside(self, other: Reservation, vector: Vector) -> int:
        """An upper bound of the pods of a shape that fit now without delaying it."""
        known, pods = other.beside.get(vector.shape, (-1, 0))
        if known != vector.position:
            slots, spare = vector.slots[other.columns], self._spare(other)
            room = reduce(np.minimum, [spare[row] // amount for row, amount in vector.row_amounts])
            pods = vector.total - int(np.maximum(slots - np.maximum(room, 0), 0).sum())
            other.beside[vector.shape] = vector.position, pods
        return pods

    def standing(self, start: float, until: float, *, as_promised: bool = False) -> list[Reservation]:
        """Those with places at any time from `start` to `until`.

        `as_promised`: each is over when it was first to be over, however late it may begin by now.
        """
        later = [each for each in self.values() if each.at < until]
        return [each for each in later if (each.gone if as_promised else each.until) > start]

    def withhold(self, standing: Sequence[Reservation], start: float, *, sharing: bool) -> list[Withheld]:
        """Charge the ledger, as it is at `start`, with what these reservations need of it from then on.

        For a gang that asks for shares of GPUs (`sharing`) it is charged device by device: then only what the
        gang can have all the time is left, though by other device numbers it might have more. For other gangs
        open devices are as good as whole ones.

        Returns what was charged.
        """
        if not standing:
            return []
        going_on = [each for each in standing if each.at < start]
        instants = [
            Instant(each.columns, self._spare(each), each.shared) for each in standing if each.at >= start
        ]
        if going_on or sharing:
            instants.append(self._now(standing if sharing else going_on, going_on))
        if len(instants) == 1:
            columns, needed = instants[0].columns, np.maximum(self._needs(instants[0]), 0)
        else:
            columns, needed = np.arange(len(self._nodes)), np.zeros_like(self._nodes.used)
            for each in instants:
                needed[:, each.columns] = np.maximum(needed[:, each.columns], self._needs(each))
        charged: list[Withheld] = []
        if sharing:
            gpus = needed[self._nodes.devices.row]
            gpus += self._nodes.used[self._nodes.devices.row, columns]
            charged += self._keep_shares(instants)
            gpus -= self._nodes.used[self._nodes.devices.row, columns]  # those that have been opened now
        charged += self._keep(needed, columns)
        if sharing:
            charged += self._shut(instants)
        return charged

    def give_back(self, charged: Iterable[Withheld]) -> None:
        """Undo `withhold`."""
        for each in charged:
            match each:
                case Share():
                    self._ledger.keep(each, -1)
                case row, columns, amounts:
                    self._ledger.take_at(columns, ((row, 1),), -amounts)

    def _now(self, standing: Sequence[Reservation], going_on: Sequence[Reservation]) -> Instant:
        """What can be spared on the ledger as it is of the nodes of all these, some of which have begun."""
        columns = reduce(np.union1d, (each.columns for each in standing))
        spare = self._nodes.capacities(columns) - self._nodes.used.take(columns, axis=1)
        instant = Instant(columns, spare, self._nodes.devices.shared(columns))
        for each in going_on:
            self._subtract(instant, each.columns, each.use, each.shares)
        return instant

    def _keep_shares(self, instants: Sequence[Instant]) -> Iterator[Share]:
        """Charge each device with the most that is in use of it at any of these instants."""
        for (node, device), then in chain.from_iterable(each.shared.items() for each in instants):
            used = self._nodes.devices.used(node)
            if (more := then - (used[device] if device < len(used) else 0)) > 0:
                self._ledger.keep(share := Share(node, more, device))
                yield share

    def _keep(self, amounts: Amounts, columns: Columns) -> Iterator[Withheld]:
        """Charge all but shares of GPUs."""
        for row in np.flatnonzero(amounts.any(axis=1)).tolist():
            if not self._nodes.share(((row, 1),)):
                some = amounts[row].nonzero()[0]
                self._ledger.take_at(columns[some], ((row, 1),), amounts[row, some])
                yield row, columns[some], amounts[row, some]

    def _shut(self, instants: Sequence[Instant]) -> Iterator[Share]:
        """Charge what is left on open devices that shares could keep open for longer than can be spared.

        At an instant at which a device is closed, a share on it takes a whole GPU. As many such devices are
        left uncharged as there are GPUs to spare then besides those that are free anyway. These are the ones
        with the most left: a share that would fit on another fits on a free one as well.
        """
        devices, names = self._nodes.devices, self._nodes.names
        for columns, spare, shared in instants:
            for at in np.flatnonzero(devices.left(columns).any(axis=0)).tolist():
                column, gpus = columns.item(at), spare[devices.row].item(at)
                left = (
                    Share(names[column], WHOLE - used, device)
                    for device, used in enumerate(devices.used(names[column]))
                    if 0 < used < WHOLE and (names[column], device) not in shared
                )
                if closed := sorted(left):
                    free = max(self._nodes.free_at(devices.row, column), 0)
                    for share in closed[: max(len(closed) + free - gpus, 0)]:
                        self._ledger.keep(share)
                        yield share

    def recompute(self, now: float) -> set[GangId]:
        """Compute again what all can spare, and which reservations still hold.

        If a gang still runs that was to have ended, the reservation that begins is delayed until it has, and
        so are those after it; their places and their order stay. A reservation whose nodes have disappeared,
        or stay too full, is dropped. Returns the gangs whose time has changed or that have lost theirs.
        """
        before = {each.gang: each.at for each in self.values()}
        relaid, self._layout = self._layout != self._nodes.layout, self._nodes.layout
        self._log.push(self.reset, *self.values())
        for each in list(self.values()):
            self._log.push(each.set_spare, each.spare, each.shared)
            if relaid:  # what its request says of columns is set again when the gang is tried
                each.request = Request(each.demand, each.request.vacant, footprints=each.request.footprints)
            if not self._is_there(each):
                del self[each.gang]
        trial, ends, gone = self._log.trial(), [*self._completions.after(now)], 0
        then = self._nodes.used.copy()
        there: list[Reservation] = []
        coming = [(max(each.at, now), number, each) for number, each in enumerate(self.values())]
        heapify(coming)
        while coming:
            at = coming[0][0]
            beginning: list[Reservation] = []
            while gone < len(ends) and ends[gone][0] <= at:
                self._completions.leave(ends[gone][1], then)
                gone += 1
            for over in [other for other in there if other.until <= at]:
                there.remove(over)
                then[: len(over.use), over.columns] -= over.use
            while coming and coming[0][0] == at:
                _, number, each = heappop(coming)
                each = each if each.at == at else each.delayed(at)
                then[: len(each.use), each.columns] += each.use
                there.append(each)
                self._spare_of(each, then, there)
                if not self._is_too_full(each):
                    beginning.append(each)
                    continue
                there.pop()
                then[: len(each.use), each.columns] -= each.use
                names = {*each.nodes.values()}
                ending = (end for end, state in ends[gone:] if not names.isdisjoint(state.nodes))
                later = min((other.until for other in there), default=inf)
                if (later := min(later, next(ending, inf))) < inf:
                    heappush(coming, (later, number, each))
                else:
                    del self[each.gang]
            for each in beginning:
                self[each.gang] = each
                if len(beginning) > 1:
                    self._spare_of(each, then, there)
        trial.undo()
        return {gang for gang, at in before.items() if (new := self.get(gang)) is None or new.at != at}

    def _spare_of(self, each: Reservation, then: Amounts, there: Iterable[Reservation]) -> None:
        """Set what it can spare when this is in use and these reservations have begun."""
        spare = self._nodes.capacities(each.columns) - then.take(each.columns, axis=1)
        each.set_spare(spare, self._nodes.devices.shared(each.columns))
        for other in there:
            if other.shares:
                self._subtract_shares(Instant(each.columns, spare, each.shared), other.shares)

    def stands(self, each: Reservation, now: float) -> bool:
        """Whether a search would find its time again: it fits then as it did, and at no earlier time.

        False where amounts cannot show that. What it can spare is computed again.
        """
        nodes, demand = self._nodes, each.demand
        if not demand.fits_by_slots or each.start == inf or each.at <= now:
            return False
        row_amounts, left = (
            nodes.row_amounts(demand.parts[0].shape.requests),
            self._completions.usage_ending_by(each.at),
        )
        if left is None or nodes.share(row_amounts):
            return False
        for row, amount in reversed(row_amounts):  # pods, which are seldom short, come last
            if nodes.all_free(row) + left.before[row] < demand.need * amount:
                break
        else:
            return False
        spare = nodes.capacities(each.columns)
        spare -= nodes.used.take(each.columns, axis=1)
        spare += left.amounts.take(each.columns, axis=1)
        spare[: len(each.use)] -= each.use
        self._set_spare(each, spare, nodes.devices.shared(each.columns))
        return not self._is_too_full(each)

    def _needs(self, each: Instant) -> Amounts:
        """How much more will be in use then than now, rows × columns of its nodes."""
        used = self._nodes.used.take(each.columns, axis=1)
        needs: Amounts = self._nodes.capacities(each.columns) - used - each.spare
        return needs

    def _spare(self, each: Reservation) -> Amounts:
        """What it can spare, in all rows: the ledger may have more by now."""
        missing = len(self._nodes.used) - len(each.spare)
        if missing:
            new = self._nodes.capacities(each.columns)[-missing:]
            each.spare = np.concatenate((each.spare, new))
        return each.spare

    def _take(self, other: Reservation, columns: Columns, use: Amounts, shares: Mapping[Device, int]) -> None:
        """Another gang uses this of these columns, too, when it begins; below zero: no longer."""
        instant = Instant(other.columns, self._spare(other).copy(), {**other.shared})
        if self._subtract(instant, columns, use, shares):
            self._set_spare(other, instant.spare, instant.shared)

    def _subtract(
        self, instant: Instant, columns: Columns, use: Amounts, shares: Mapping[Device, int]
    ) -> bool:
        """Take off what a gang uses then. False: it uses nothing of these nodes."""
        mine, theirs = _common(columns, instant.columns)
        if not len(mine):
            return False
        instant.spare[: len(use), theirs] -= use.take(mine, axis=1)
        if shares:
            self._subtract_shares(instant, shares)
        return True

    def _subtract_shares(self, instant: Instant, shares: Mapping[Device, int]) -> None:
        gpus = instant.spare[self._nodes.devices.row]
        for at, device, share in self._on(instant.columns, shares):
            before = instant.shared.pop(device, 0)
            if before + share:
                instant.shared[device] = before + share
            gpus[at] -= (before + share > 0) - (before > 0)

    def _on(self, columns: Columns, shares: Mapping[Device, int]) -> list[tuple[int, Device, int]]:
        """Those of the shares that are on these nodes, and the position of the node."""
        position = {column: at for at, column in enumerate(columns.tolist())}
        at = {device: position.get(self._nodes.column.get(device[0], -1)) for device in shares}
        return [(there, device, shares[device]) for device, there in at.items() if there is not None]

    def _is_too_full(self, each: Reservation) -> bool:
        """Whether it would use a resource of which less than nothing is to spare."""
        if each.spare.min() < 0 and (each.spare[: len(each.use)][each.use > 0] < 0).any():
            return True
        gpus = each.spare[self._nodes.devices.row]
        return bool(each.shares) and any(
            each.shared[device] > WHOLE or gpus[at] < 0
            for at, device, _ in self._on(each.columns, each.shares)
        )

    def _is_there(self, each: Reservation) -> bool:
        """Whether its nodes exist and accept pods. Columns may have moved, so they are set again."""
        column, facts = self._nodes.column, self._nodes.facts
        names = set(each.nodes.values())
        if any(n not in column or n not in facts or facts[n].cordoned or not facts[n].ready for n in names):
            return False
        each.columns = np.array(sorted(column[name] for name in names), np.intp)
        return True


def _common(one: Columns, other: Columns) -> tuple[Columns, Columns]:
    """Positions in each of the columns that are in both, ascending."""
    at = other.searchsorted(one)
    both = (other.take(at, mode="clip") == one).nonzero()[0]
    return both, at[both]
