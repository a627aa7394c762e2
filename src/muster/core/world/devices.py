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
for whole vectors of nodes at a time.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from muster.core.words.gang import NodeName
from muster.names import GPU

if TYPE_CHECKING:
    from muster.core.world.nodes import Columns, Ints, Nodes, RowAmounts

#: Thousandths of one device.
WHOLE: Final = 1000
#: Devices that are counted on one node; thousandths of so many still fit 32 bits.
_MOST: Final = 2**20

#: One device: its node and its number there.
Device = tuple[NodeName, int]
#: By device, for callers without shares.
NO_SHARES: Final[Mapping[Device, int]] = {}
#: Which device of the column a pod of this demand and this share is to take.
Choose = Callable[[int, "RowAmounts", int], int]


class Devices:
    def __init__(self, nodes: "Nodes") -> None:
        self._nodes = nodes
        self.row = nodes.row(GPU)
        #: thousandths in use by number of device, 0 where it is not open; no zero at the end, no empty list
        self._used: dict[NodeName, list[int]] = {}
        self._layout = -1
        self._left: Ints = np.zeros((0, 0), np.int32)

    def best_fit(self, node: NodeName, share: int) -> int:
        """The open device with the least left that fits, the lowest number of several; else a new one."""
        used = self._used.get(node, [])
        fitting = [(-amount, i) for i, amount in enumerate(used) if 0 < amount <= WHOLE - share]
        return min(fitting)[1] if fitting else self.unopened(node)

    def unopened(self, node: NodeName) -> int:
        """The lowest number that is not open."""
        used = self._used.get(node, [])
        return used.index(0) if 0 in used else len(used)

    def take(self, node: NodeName, share: int, device: int) -> None:
        """Use a share of this device, even if it exceeds what is left: a recorded share is always charged."""
        used = self._used.setdefault(node, [])
        used += [0] * (device + 1 - len(used))
        used[device] += share
        self._note(node, device, opened=used[device] == share)

    def give(self, node: NodeName, share: int, device: int) -> None:
        used = self._used[node]
        used[device] -= share
        closed = not used[device]
        while used and not used[-1]:
            used.pop()
        if not used:
            del self._used[node]
        self._note(node, device, opened=-closed)

    def used(self, node: NodeName) -> list[int]:
        """Thousandths in use by shares, by number; 0 and beyond the end: not open."""
        return self._used.get(node, [])

    def shared(self, columns: "Columns") -> dict[Device, int]:
        """Thousandths in use by shares on each open device of these nodes."""
        names = map(self._nodes.names.__getitem__, columns.tolist() if self._used else ())
        here = filter(self._used.__contains__, names)
        return {(node, i): used for node in here for i, used in enumerate(self._used[node]) if used}

    def opened(self, shares: Mapping[Device, int]) -> list[int]:
        """Columns of the devices that have no shares but these, one entry for each device."""
        column, used = self._nodes.column, self._used
        return [column[node] for (node, i), share in shares.items() if used[node][i] == share]

    def left(self, columns: "Columns | None" = None) -> "Ints":
        """Numbers × columns: thousandths left on open devices, 0 on others."""
        if self._layout != self._nodes.layout:
            self._tabulate()
        return self._left if columns is None else self._left[:, columns]

    def slots(self, share: int, columns: "Columns | None" = None) -> "Ints":
        """How many such shares each node's devices take."""
        empty = self._nodes.free(self.row) if columns is None else self._nodes.free(self.row)[columns]
        slots = np.minimum(empty, _MOST) * np.int32(WHOLE // share)
        for left in self.left(columns):
            slots += left // share
        slots[empty < 0] = 0
        return slots

    def slots_at(self, share: int, column: int) -> int:
        empty = self._nodes.free_at(self.row, column)
        if empty < 0:
            return 0
        slots = min(empty, _MOST) * (WHOLE // share)
        for used in self._used.get(self._nodes.names[column], ()):
            if 0 < used < WHOLE:
                slots += (WHOLE - used) // share
        return slots

    def slots_when_empty(self, share: int) -> "Ints":
        return np.minimum(self._nodes.capacity(self.row), _MOST) * np.int32(WHOLE // share)

    def thousandths(self, columns: "Columns | None" = None) -> "Ints":
        """All that is free on each node, of empty and of open devices."""
        empty = self._nodes.free(self.row) if columns is None else self._nodes.free(self.row)[columns]
        free: Ints = np.minimum(np.maximum(empty, 0), _MOST) * np.int32(WHOLE)
        free += self.left(columns).sum(axis=0, dtype=np.int32)
        return free

    def thousandths_at(self, column: int) -> int:
        open_ = (WHOLE - used for used in self._used.get(self._nodes.names[column], ()) if 0 < used < WHOLE)
        return min(max(self._nodes.free_at(self.row, column), 0), _MOST) * WHOLE + sum(open_)

    def capacity(self) -> "Ints":
        """Thousandths of all devices of each node."""
        return np.minimum(self._nodes.capacity(self.row), _MOST) * np.int32(WHOLE)

    def _note(self, node: NodeName, device: int, opened: int) -> None:
        """Bring the row of whole devices and the table up to date."""
        column = self._nodes.column.get(node)
        row_amounts = ((self.row, 1),)
        if column is None:
            self._nodes.charge_elsewhere(node, row_amounts, opened)
            return
        self._nodes.charge(column, row_amounts, opened)
        if self._layout != self._nodes.layout:
            return
        if device >= len(self._left):
            grown = np.zeros((device + 1, len(self._nodes)), np.int32)
            grown[: len(self._left)] = self._left
            self._left = grown
        used = self._used.get(node, [])
        self._left[device, column] = _left(used[device]) if device < len(used) else 0

    def _tabulate(self) -> None:
        here = {node: used for node, used in self._used.items() if node in self._nodes.column}
        numbers = max(map(len, here.values()), default=0)
        self._left = np.zeros((numbers, len(self._nodes)), np.int32)
        for node, used in here.items():
            self._left[: len(used), self._nodes.column[node]] = [_left(amount) for amount in used]
        self._layout = self._nodes.layout


def _left(used: int) -> int:
    return max(WHOLE - used, 0) if used else 0
