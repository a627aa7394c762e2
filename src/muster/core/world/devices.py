"""Shared GPUs: what shares have left on each device of each node, in thousandths.

A pod asks for whole devices (`nvidia.com/gpu`), or for a share of one: so many thousandths of the resource
`muster.dev/gpu-share`, of which each device has 1000. A device with a share on it is *open*: it is kept for
shares until the last of them has ended, and is charged to its node as one whole device. So the row of
`nvidia.com/gpu` in `Nodes` says how many devices are empty, whatever pods use the others, and gangs without
shares pay nothing for gangs with shares. What is free of `muster.dev/gpu-share` has no row of its own. It is
computed here, as the thousandths of empty and open devices together: an upper bound of what shares can use.
How many shares the devices really take is `slots`.

Devices of a node are numbered from 0 as they open. A number says which pods share a device; it is not the
driver's number: empty devices are all alike, and the node itself keeps shared and whole ones apart. So
nothing depends on which device breaks. If more are open or in whole use than a node has, the row reads -1
and the node takes neither pods with whole GPUs nor further shares.

The amounts are kept by node name, as a column lasts only for one layout, and as a table (numbers × columns)
for whole vectors of nodes at a time. How many devices are empty is the caller's to say: `Nodes` knows it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.core.words.gang import NodeName

#: Thousandths of one device.
WHOLE: Final = 1000
#: Devices that are counted on one node; thousandths of so many still fit 32 bits.
_MOST: Final = 2**20

_Ints = npt.NDArray[np.int32]
_Row = _Ints | npt.NDArray[np.int64]
_Columns = npt.NDArray[np.intp]
#: One device: its node and its number there.
Device = tuple[NodeName, int]
#: By device, for callers without shares.
NO_SHARES: Final[Mapping[Device, int]] = {}


class Devices:
    def __init__(self, row: int) -> None:
        #: of whole devices, in `Nodes`
        self.row = row
        #: thousandths in use by number of device, 0 where it is not open; no zero at the end, no empty list
        self._used: dict[NodeName, list[int]] = {}
        #: the columns; `Nodes` replaces both when they move
        self.names: Sequence[NodeName] = ()
        self.column: Mapping[NodeName, int] = {}
        #: numbers × columns, and the columns for which it was made
        self._left: _Ints = np.zeros((0, 0), np.int32)
        self._made_for: Mapping[NodeName, int] = self.column

    def take(self, node: NodeName, share: int, device: int) -> int:
        """Use a share of this device (below zero: give it back), even if it exceeds what is left.

        Returns 1 if that opens the device, -1 if it closes it, else 0.
        """
        used = self._used.setdefault(node, [])
        used += [0] * (device + 1 - len(used))
        before = used[device]
        after = used[device] = before + share
        while used and not used[-1]:
            used.pop()
        if not used:
            del self._used[node]
        column = self.column.get(node)
        if column is not None and self._made_for is self.column:
            if more := max(device + 1 - len(self._left), 0):
                self._left = np.vstack((self._left, np.zeros((more, len(self.names)), np.int32)))
            self._left[device, column] = _left(after)
        return bool(after) - bool(before)

    def best_fit(self, node: NodeName, share: int) -> int:
        """The open device with the least left that fits, the lowest number of several; else a new one."""
        used = self._used.get(node, [])
        fitting = [(-amount, i) for i, amount in enumerate(used) if 0 < amount <= WHOLE - share]
        return min(fitting)[1] if fitting else self.unopened(node)

    def unopened(self, node: NodeName) -> int:
        """The lowest number that is not open."""
        used = self._used.get(node, [])
        return used.index(0) if 0 in used else len(used)

    def used(self, node: NodeName) -> list[int]:
        """Thousandths in use by shares, by number; 0 and beyond the end: not open."""
        return self._used.get(node, [])

    def shared(self, columns: _Columns) -> dict[Device, int]:
        """Thousandths in use by shares on each open device of these nodes."""
        names = map(self.names.__getitem__, columns.tolist() if self._used else ())
        here = filter(self._used.__contains__, names)
        return {(node, i): used for node in here for i, used in enumerate(self._used[node]) if used}

    def opened(self, shares: Mapping[Device, int]) -> list[int]:
        """Columns of the devices that have no shares but these, one entry for each device."""
        column, used = self.column, self._used
        return [column[node] for (node, i), share in shares.items() if used[node][i] == share]

    def left(self, columns: _Columns | None = None) -> _Ints:
        """Numbers × columns: thousandths left on open devices, 0 on others."""
        if self._made_for is not self.column:
            self._made_for, here = self.column, self._used.keys() & self.column.keys()
            most = max((len(self._used[node]) for node in here), default=0)
            self._left = np.zeros((most, len(self.names)), np.int32)
            for node in here:
                self._left[: len(self._used[node]), self.column[node]] = [*map(_left, self._used[node])]
        return self._left if columns is None else self._left[:, columns]

    def slots(self, share: int, empty: _Row, columns: _Columns | None = None) -> _Ints:
        """How many such shares each node's devices take; `empty`: the devices that are, -1 if overdrawn."""
        slots = whole_slots(share, empty)
        for left in self.left(columns):
            slots += left // share
        slots[empty < 0] = 0
        return slots

    def slots_at(self, share: int, empty: int, column: int) -> int:
        if empty < 0:
            return 0
        open_ = sum((WHOLE - used) // share for used in self._open_at(column))
        return min(empty, _MOST) * (WHOLE // share) + open_

    def thousandths(self, empty: _Row, columns: _Columns | None = None) -> _Ints:
        """All that is free on each node, of empty and of open devices."""
        free = whole_slots(1, np.maximum(empty, 0))
        free += self.left(columns).sum(axis=0, dtype=np.int32)
        return free

    def thousandths_at(self, empty: int, column: int) -> int:
        return self.slots_at(1, max(empty, 0), column)

    def _open_at(self, column: int) -> list[int]:
        """Thousandths in use on each device of a node that has some left."""
        return [used for used in self._used.get(self.names[column], ()) if 0 < used < WHOLE]


def whole_slots(share: int, empty: _Row) -> _Ints:
    """How many such shares so many empty devices take."""
    return np.minimum(empty, _MOST).astype(np.int32) * np.int32(WHOLE // share)


def _left(used: int) -> int:
    return max(WHOLE - used, 0) if used else 0
