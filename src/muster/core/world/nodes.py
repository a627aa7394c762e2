"""The nodes, as a structure of arrays: per resource one contiguous row of integers with a cell per node.

"How many pods fit on each of 10,000 nodes" is one SIMD division per resource, about thirty times faster than
over an array of node records. Columns stand in order of node name, so that the first of several equal nodes
is always the one with the smallest name. New nodes, and nodes with a resource that no node has had, are
collected and merged in once per cycle (`settle`).
That moves columns, so column numbers are valid only until the next `settle`, and everything that lasts longer
is kept by name.

Units are the caller's integers (milli-CPU, bytes, pieces). A row is int32, and becomes int64 with the first
capacity above 2^31-1: bytes are counted exactly, and rows of everything else stay half as wide and four times
as fast to divide (decision 18). A capacity above 2^46 counts as 2^46 and a request above it fits nowhere, so
sums over 100,000 nodes, and products of slots and requests, stay below 2^63. `free` is capacity minus used,
and any amount below zero (a node that shrank, a foreign pod that was forced on it) reads -1: no room.

The resource `pods` is implicit: every pod takes one, whatever it requests, and a node whose capacity
does not name `pods` sets no limit. A node has none of any other resource that it does not name. Shares of
GPUs are kept by device (`devices.py`); their row is only read.

Only nodes make rows, since pods may name any number of resources. All resources that no node has are the one
row `ABSENT`, of which nothing is ever free or used, so a pod that requests one fits nowhere. Pods that were
bound all the same are charged by name, until a node has the resource: then it gets a row, with that use. The
row stays if no node has the resource any more.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from muster.core.words.amounts import PODS, Sums, Usage
from muster.core.words.events import NodeChanged
from muster.core.words.gang import Amounts, NodeName
from muster.core.work import in_steps
from muster.core.world.claims import NodeClaims
from muster.core.world.devices import Devices, whole_slots
from muster.core.world.trial import Version
from muster.names import GPU, GPU_SHARE

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
#: One resource: int32, or int64 where some node has more.
Row = Ints | Longs
Bools = npt.NDArray[np.bool_]
Columns = npt.NDArray[np.intp]

Entry = TypeVar("Entry")
Key = TypeVar("Key")
Value = TypeVar("Value")
Array = TypeVar("Array", Columns, Longs)

#: What a pod takes, resolved: (row of the resource, amount above zero).
RowAmounts = tuple[tuple[int, int], ...]
#: One node by column, or by name if it has none, with a number of pods; or distinct columns, with one each.
Where = int | NodeName | Columns
Times = int | Longs


class Taken(NamedTuple):
    """What is charged for a pod: by row, and by name for resources that no node has."""

    row_amounts: RowAmounts
    absent: Amounts


#: The row of all resources that no node has.
ABSENT: Final = 1
#: The most that an int32 row holds.
UNLIMITED: Final = 2**31 - 1
#: The largest capacity that is counted of any resource; 64 TiB of bytes.
LARGEST: Final = 2**46
#: Distinct requests whose resolved form is cached.
_REMEMBERED: Final = 10_000
#: Steps of choices of devices that take as long as a vector operation.
_OF_DEVICES: Final = 4
#: Up to so many changed nodes are updated one by one; more as a vector.
_FEW: Final = 16


class Nodes:
    """Capacity, use and facts of every node.

    `layout` changes when columns move, or nodes get rows. `changes` is a log of columns whose amounts or
    facts changed, one by one or as arrays of distinct columns. `fact_changes` is a log of columns whose facts
    (labels, taints, cordon, readiness) changed. Caches keep a position in these logs and catch up when they
    are read; a position of before `layout` changed is too far behind.
    `revision` counts every change.
    """

    def __init__(self) -> None:
        self.names: list[NodeName] = []
        self.column: dict[NodeName, int] = {}
        self.facts: dict[NodeName, NodeChanged] = {}
        #: row by resource, but for those that are `ABSENT`
        self.resources: dict[str, int] = {PODS: 0}
        self.layout = 0
        self.revision = 0
        #: counts vector operations over the nodes, and what takes as long: in these, work is budgeted
        #: (`core/work.py`). Whether a cache has the result makes no difference; devices are an exception,
        #: which are decided once (`claims.py`).
        self.steps = 0
        self.capacity_revision = 0
        #: while it stays the same, no demand fits that did not fit: free room only shrinks
        self.room = Version()
        self.changes: Log[int | Columns] = Log()
        self.fact_changes: Log[int] = Log()
        #: what changed between two positions of the log, as of the last call of `changed`
        self._changed: tuple[tuple[int, int], list[int] | Columns | None] = ((-1, -1), None)
        self._new: set[NodeName] = set()
        #: nodes that pods keep off for now, and those that they use last, because pods have failed there
        self.avoided: frozenset[NodeName] = frozenset()
        self.last: frozenset[NodeName] = frozenset()
        #: use that has no cell: of resources without a row, and on nodes that have no column now, as they are
        #: not merged in yet, removed, or not known yet
        self._elsewhere: dict[NodeName, Sums[str]] = {}
        self._resolved: dict[Amounts, Taken] = {}
        #: row of GPU_SHARE, once a pod has asked for a share; -1 before
        self._shares = -1
        self._capacity: Longs = np.zeros((2, 0), np.int64)
        self._free: list[Row] = [np.zeros(0, np.int32), np.zeros(0, np.int32)]
        #: by row, the largest amount that its type holds, and the resource
        self._mosts, self._names = [UNLIMITED, UNLIMITED], [PODS, ""]
        self.used: Longs = np.zeros((2, 0), np.int64)
        self.devices = Devices(self.row(GPU))
        self.claims = NodeClaims(self.worked)

    def __len__(self) -> int:
        """The number of columns, those of removed nodes included."""
        return len(self.names)

    # Facts

    def change(self, fact: NodeChanged) -> bool:
        """Record a node's facts. False if nothing changed."""
        if self.facts.get(fact.name) == fact:
            return False
        self.facts[fact.name] = fact
        self.revision += 1
        column = self.column.get(fact.name)
        if column is None or any(resource not in self.resources for resource, _ in fact.capacity):
            self._new.add(fact.name)
        else:
            self._write(column, fact)
        return True

    def remove(self, name: NodeName) -> bool:
        """Forget a node, but not its charges, in case it returns. False if it is not known."""
        if self.facts.pop(name, None) is None:
            return False
        self.revision += 1
        self._new.discard(name)
        column = self.column.get(name)
        if column is not None:
            self._write(column, NodeChanged(name, ((PODS, 0),), ready=False))
        return True

    def reread(self, name: NodeName) -> None:
        """Let all that depends on a node's facts be computed again."""
        self.revision += 1
        if (column := self.column.get(name)) is not None:
            self._write(column, self.facts[name])

    def set_apart(self, avoided: frozenset[NodeName], last: frozenset[NodeName]) -> None:
        """Record which nodes pods keep off, and which they use last."""
        changed = (avoided ^ self.avoided) | (last ^ self.last)
        self.avoided, self.last = avoided, last
        for name in sorted(changed & self.column.keys() & self.facts.keys()):
            self.reread(name)

    def settle(self) -> None:
        """Merge new nodes and resources in. Columns move, and those of removed nodes are dropped."""
        if not self._new:
            return
        for fact in self.facts.values():
            for resource, _ in fact.capacity:
                self.row(resource)
        for name, column in self.column.items():
            used = {resource: self.used.item(row, column) for resource, row in self.resources.items()}
            self._elsewhere.setdefault(name, Sums()).add(used)
        self.names = sorted(self.facts)
        self.column = {name: column for column, name in enumerate(self.names)}
        size = len(self.names)
        self._capacity = np.zeros((len(self._free), size), np.int64)
        self._free = [np.zeros(size, row.dtype) for row in self._free]
        self.used = np.zeros_like(self._capacity)
        for column, name in enumerate(self.names):
            elsewhere = self._elsewhere.get(name, Sums[str]())
            for resource in elsewhere.keys() & self.resources.keys():
                self.used[self.resources[resource], column] = elsewhere.pop(resource)
        self._elsewhere = {name: used for name, used in self._elsewhere.items() if used}
        for column, name in enumerate(self.names):
            self._write(column, self.facts[name])
        self._new.clear()
        self.changes.clear()
        self.fact_changes.clear()
        self.layout += 1
        self.devices.names, self.devices.column = self.names, self.column
        self.claims.names, self.claims.column = self.names, self.column

    # Amounts

    def row_amounts(self, requests: Amounts) -> RowAmounts:
        """What one pod with these requests needs on its node, one of `pods` included.

        If no node has some of it, one of `ABSENT` stands for all of that.
        """
        row_amounts, absent = self.taken(requests)
        return tuple(sorted((*row_amounts, (ABSENT, 1)))) if absent else row_amounts

    def taken(self, requests: Amounts) -> Taken:
        """What is charged for one pod with these requests, one of `pods` included."""
        taken = self._resolved.get(requests)
        if taken is None:
            taken = self.by_row((resource, amount) for resource, _, amount in self.asked(requests))
            if not taken.absent:  # then it stays as it is
                if len(self._resolved) >= _REMEMBERED:
                    self._resolved.clear()
                self._resolved[requests] = taken
        return taken

    def asked(self, requests: Amounts) -> Iterator[tuple[str, int, int]]:
        """Resource, row and amount of all that one pod with these requests needs, one of `pods` first."""
        yield PODS, self.resources[PODS], 1
        for resource, amount in requests:
            if amount > 0 and resource != PODS:
                row = self.row(resource) if resource == GPU_SHARE else self.resources.get(resource, ABSENT)
                yield resource, row, min(amount, LARGEST + 1)

    def by_row(self, amounts: Iterable[tuple[str, int]]) -> Taken:
        """Split amounts into those of resources that have a row, and those of all others."""
        rows, absent = [], []
        for resource, amount in amounts:
            if (row := self.resources.get(resource)) is None:
                absent.append((resource, amount))
            else:
                rows.append((row, amount))
        return Taken(tuple(sorted(rows)), tuple(absent))

    def worked(self, steps: int) -> None:
        """Count steps of choices of devices (`allocation.py`), however many nodes there are."""
        self.steps += -(-steps // (_OF_DEVICES * in_steps(len(self.names))))

    def charge(self, where: Where, row_amounts: RowAmounts, times: Times) -> None:
        """Use `times` (negative: give back) the demand."""
        self.steps += 1
        all_used, all_free, capacity, mosts = self.used, self._free, self._capacity, self._mosts
        if not isinstance(times, int):
            assert isinstance(where, np.ndarray)
            for row, amount in row_amounts:
                after = all_used[row][where] + times * amount
                all_used[row][where] = after
                left = np.maximum(capacity[row][where] - after, -1)
                all_free[row][where] = np.minimum(left, mosts[row], out=left)
            self.revision += 1
            self.changes.append(owned(where), len(where))
        elif isinstance(where, int):
            for row, amount in row_amounts:
                used = all_used.item(row, where) + times * amount
                all_used[row, where] = used
                free = capacity.item(row, where) - used
                most = mosts[row]
                # use may be negative between two events: a victim has ended, and then its beneficiary
                all_free[row][where] = free if 0 <= free <= most else min(max(free, -1), most)
            self.revision += 1
            self.changes.append(where)
        else:
            assert isinstance(where, str)
            self.charge_by_name(where, [(self._names[row], amount) for row, amount in row_amounts], times)

    def charge_by_name(self, name: NodeName, amounts: Iterable[tuple[str, int]], times: int) -> None:
        """Use what has no cell: of resources without a row, or on a node without a column."""
        elsewhere = self._elsewhere.setdefault(name, Sums())
        for resource, amount in amounts:
            elsewhere.count(resource, times * amount)
        if not elsewhere:
            del self._elsewhere[name]

    def charge_share(self, name: NodeName, share: int, device: int) -> None:
        """Use thousandths of a device (negative: give them back). An open device is charged whole."""
        opened = self.devices.take(name, share, device)
        self.charge(self.column.get(name, name), ((self.devices.row, 1),), opened)

    def changed(self, position: int) -> list[int] | Columns | None:
        """Distinct columns that have changed since a position of the log: few as a list, more as an array.

        None: nearly all have changed, or the log no longer reaches back so far.
        """
        key = (position, self.changes.end)
        if self._changed[0] != key:  # the shapes of one gang fall behind, and catch up, together
            self._changed = key, self._merge(self.changes.since(position))
        return self._changed[1]

    def _merge(self, entries: list[int | Columns] | None) -> list[int] | Columns | None:
        if entries is None:
            return None
        singly = {entry for entry in entries if isinstance(entry, int)}
        together = [entry for entry in entries if not isinstance(entry, int)]
        number = len(singly) + sum(map(len, together))
        if number <= _FEW:
            return list(singly.union(*(columns.tolist() for columns in together)))
        if number >= len(self.names):
            return None
        if len(together) == 1 and not singly:
            return together[0]
        once = np.zeros(len(self.names), np.bool_)
        once[list(singly)] = True
        for columns in together:
            once[columns] = True
        return np.flatnonzero(once)

    def free(self, row: int) -> Row:
        """Free amount of a resource per node; -1 where the node is overdrawn. Read-only for callers."""
        if row == self._shares:
            return self.thousandths()
        return self._free[row]

    def all_free(self, row: int) -> int:
        """Free amount of a resource, all nodes together."""
        return int(np.maximum(self.free(row), 0).sum(dtype=np.int64))

    def free_at(self, row: int, column: int) -> int:
        if row == self._shares:
            return self.thousandths_at(column)
        return self._free[row].item(column)

    def overdrawn(self, name: NodeName) -> dict[str, int]:
        """Return the excess of each overcommitted resource of the node. Shares count as their GPUs."""
        if (column := self.column.get(name)) is None:
            return {}
        over = {
            resource: self.used.item(row, column) - self._capacity.item(row, column)
            for resource, row in self.resources.items()
            if row != self._shares
        }
        over |= self._elsewhere.get(name, {})
        return {resource: amount for resource, amount in over.items() if amount > 0}

    @property
    def elsewhere(self) -> bool:
        """Whether pods may use nodes that are not known, or not known yet."""
        return bool(self._elsewhere)

    def used_off(self, columns: Columns) -> Usage:
        """Return what is used on these nodes and on nodes that are not known."""
        sums = self.used[:, columns].sum(axis=1)
        used = Sums({resource: int(sums[row]) for resource, row in self.resources.items() if sums[row]})
        names = [*map(self.names.__getitem__, columns.tolist())]
        off = {*names}
        for name, amounts in self._elsewhere.items():
            if name in off:
                used.add(amounts)
            elif name not in self.column:
                used.add(amounts)
                names.append(name)
        # The shares on an open device are counted themselves.
        used.count(GPU, -sum(bool(share) for name in names for share in self.devices.used(name)))
        return Usage.of(used.items())

    def thousandths(self, columns: Columns | None = None) -> Ints:
        """Thousandths of GPUs that are free on each node, of empty and of open devices."""
        empty = self._free[self.devices.row]
        return self.devices.thousandths(empty if columns is None else empty[columns], columns)

    def thousandths_at(self, column: int) -> int:
        return self.devices.thousandths_at(self._free[self.devices.row].item(column), column)

    def capacity(self, row: int) -> Row:
        if row == self._shares:
            return whole_slots(1, self._capacity[self.devices.row])
        capacity: Longs = self._capacity[row]
        return capacity

    def capacities(self, columns: Columns) -> Longs:
        """Rows × these columns: the capacity of these nodes for every resource."""
        capacities = self._capacity.take(columns, axis=1)
        if self._shares >= 0:
            capacities[self._shares] = self.capacity(self._shares)[columns]
        return capacities

    def capacity_at(self, row: int, column: int) -> int:
        return self._capacity.item(row, column)

    def share(self, row_amounts: RowAmounts) -> int:
        """Thousandths of one GPU that a pod of this demand takes; 0 = none."""
        if self._shares < 0:
            return 0
        return next((amount for row, amount in row_amounts if row == self._shares), 0)

    def device_rows(self, row_amounts: RowAmounts) -> list[int]:
        """Rows of devices (resources with a domain, such as nvidia.com/gpu) that the demand does not use."""
        asked = {self._shares, *(row for row, _ in row_amounts)}
        if self.share(row_amounts):
            asked.add(self.devices.row)
        return [row for r, row in self.resources.items() if "/" in r and row not in asked]

    def resource(self, row: int) -> str:
        """The resource of a row; "" for `ABSENT`."""
        return self._names[row]

    def row(self, resource: str) -> int:
        """The row of a resource that nodes have, or an order looks at; a new row if it has none."""
        if (row := self.resources.get(resource)) is not None:
            return row
        row = self.resources[resource] = len(self._names)
        self._names.append(resource)
        size = self.used.shape[1]
        self._free.append(np.zeros(size, np.int32))
        self._mosts.append(UNLIMITED)
        more = np.zeros((1, size), np.int64)
        self.used, self._capacity = np.vstack((self.used, more)), np.vstack((self._capacity, more))
        if resource == GPU_SHARE:
            self._shares = row
        return row

    def _write(self, column: int, fact: NodeChanged) -> None:
        amounts = {PODS: UNLIMITED, **dict(fact.capacity)}
        for resource, row in self.resources.items():
            amount = min(max(amounts.get(resource, 0), 0), LARGEST)
            if amount > self._mosts[row]:
                self._mosts[row] = LARGEST
                self._free[row] = self._free[row].astype(np.int64)
            self._capacity[row, column] = amount
            self._free[row][column] = min(max(amount - self.used.item(row, column), -1), self._mosts[row])
        self.capacity_revision += 1
        self.room.change()
        self.changes.append(column)
        self.fact_changes.append(column)


def quotient(amounts: Row, amount: int) -> Row:
    """Each of these amounts divided by one above zero, which may exceed what their type holds."""
    if amount == 1:
        return amounts
    if amount > UNLIMITED and amounts.dtype == np.int32:
        return np.zeros_like(amounts)
    return amounts // amount


def owned(array: Array) -> Array:
    """The same values, not as a view, since a log would keep the larger array alive."""
    return array if array.base is None else array.copy()


def recent(cache: dict[Key, Value], key: Key, make: Callable[[Key], Value], most: int) -> Value:
    """Return the key's value in a cache, made if it is not there. Of more than `most`, the oldest in use is
    dropped.

    Unlike one of `functools.lru_cache`, such a cache can be saved.
    """
    value = cache.pop(key, None)
    if value is None:
        value = make(key)
    cache[key] = value
    if len(cache) > most:
        del cache[next(iter(cache))]
    return value


class Log(Generic[Entry]):
    """A log of changes, in order. A reader that is too far behind has to recompute everything."""

    #: columns kept, an array counting as all of its columns; a reader that has missed more recomputes
    #: everything, which costs less
    BOUND: Final = 65_536

    def __init__(self) -> None:
        #: position behind the last entry
        self.end = 0
        self._start = 0
        self._entries: list[Entry] = []
        self._columns = 0

    def append(self, entry: Entry, columns: int = 1) -> None:
        """Append an entry that covers `columns` columns."""
        self._entries.append(entry)
        self.end += 1
        self._columns += columns
        if self._columns > self.BOUND:
            self.clear()

    def clear(self) -> None:
        self.end = self._start = self.end + 1  # no reader is as far as that
        self._entries, self._columns = [], 0

    def since(self, position: int) -> list[Entry] | None:
        """The entries since a position, possibly repeated; None if they are no longer kept."""
        if position < self._start:
            return None
        return self._entries[position - self._start :]
