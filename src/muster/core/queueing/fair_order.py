"""Which gang is next: among the equivalence classes of one queue, and among several queues.

Both are heaps, so that taking the next costs a replacement, not a search. A gang is tested when it becomes
the head of its queue: a gang that is known not to start is skipped, with all of its class behind it. Where
heads decide which queue is next, they are tested again once a gang has started: a head that no longer fits
must not hold back the gangs behind it.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from itertools import pairwise, takewhile
from typing import Any

from muster.core.demand import Demand
from muster.core.queueing.pending import EquivalenceClass, Head
from muster.core.words.gang import QueueOrder
from muster.core.world.gangs import GangState
from muster.core.world.queues.account import Account


class Cursor:
    """A cursor over the gangs of one queue, merged from its classes: next is the first of their heads.

    In a fair queue the heads of each namespace are compared among themselves, and the next namespace is the
    one with the least share.
    """

    def __init__(
        self, account: Account, heads: Iterable[Head], skips: Callable[[Account, Head], bool]
    ) -> None:
        """`skips`: whether a head, and all of its class behind it, is skipped."""
        self.account = account
        self._skips = skips
        #: the head that was found last: not tested again
        self.found: Head | None = None
        #: heads by namespace in a fair queue, else all under ""
        self._heaps: dict[str, list[Head]] = {}
        fair = account.rules.order is QueueOrder.FAIR
        for head in heads:
            gang = head.state.gang
            self._heaps.setdefault(gang.namespace if fair and gang is not None else "", []).append(head)
        for heap in self._heaps.values():
            heapify(heap)
        #: the only heap, if it is not empty
        self._only = heap if len(self._heaps) == 1 else []

    @property
    def head(self) -> Head | None:
        """The gang that is next; None: no gang is left."""
        while heap := self._only or self._next():
            head = heap[0]
            if head is self.found or not self._skips(self.account, head):
                self.found = head
                return head
            heappop(heap)
        self.found = None
        return None

    def test_again(self) -> bool:
        """Test the head again. Return whether another gang is the head now."""
        before, self.found = self.found, None
        return self.head is not before

    def next(self) -> None:
        """Take the head out."""
        heap = self._next()
        if (behind := heap[0].behind) is not None:
            heapreplace(heap, behind)
        else:
            heappop(heap)

    def alike(self, peers: EquivalenceClass, until: Callable[[GangState], object]) -> list[GangState]:
        """Take out the gangs of this class that are next, up to a gang of another class, or one for which
        `until` is true."""
        heap = self._next()
        if not heap or heap[0].peers is not peers:
            return []
        position, entries, others = heap[0].position, peers.entries, heap[1:3]
        last = bisect_left(entries, (min(others).key,)) if others else len(entries)
        some = [*takewhile(lambda state: not until(state), [state for _, state in entries[position:last]])]
        if (position := position + len(some)) < len(entries):
            heapreplace(heap, peers.head(position))
        else:
            heappop(heap)
        return some

    def leave(self) -> Head:
        """Take the head out, and all of its class behind it."""
        return heappop(self._next())

    def _next(self) -> list[Head]:
        """The heap of heads whose first is next; empty if no gang is left."""
        if len(self._heaps) == 1:
            return self._only
        used, share = self.account.by_namespace, self.account.share
        waiting = ((share(used.get(name, {})), name) for name, heap in self._heaps.items() if heap)
        _, least = min(waiting, default=(0.0, None))
        return self._heaps[least] if least is not None else []


class FairOrder:
    """Which queue is next: at each level of the tree the one with the least key, down to a leaf.

    There is a heap per level. The caller that takes a cursor from here may change its head, and what its
    queues use, before it takes the next. Then keys change only on the path of that cursor, which costs one
    replacement per level. A cursor that is alone stays first until it has no head left.
    """

    def __init__(
        self,
        root: Account,
        cursors: Iterable[Cursor],
        key: Callable[[Account, Cursor], tuple[Any, ...]],
        starts: Callable[[], int] = lambda: 0,
        fits: Callable[[Demand], bool] = lambda _: True,
    ) -> None:
        """When `starts` has changed, heads whose demand is known not to fit (`fits`) are tested again."""
        self._root, self._key, self._starts, self._fits = root, key, starts, fits
        self._cursors = {cursor.account: cursor for cursor in cursors}
        #: by inner queue. A key (Any: comparable) ends with the queue's name, so that no two keys are equal
        self._heaps: dict[Account, list[tuple[Any, Account]]] = {}

    def __iter__(self) -> Iterator[Cursor]:
        cursors = {account: each for account, each in self._cursors.items() if each.head is not None}
        if len(cursors) == 1:
            (cursor,) = cursors.values()
            while cursor.head is not None:
                yield cursor
            return
        below: dict[Account, dict[Account, None]] = {}
        for account in cursors:
            for child, parent in pairwise((*account.path, self._root)):
                if child in (children := below.setdefault(parent, {})):
                    break
                children[child] = None
        self._grow(self._root, below)
        while (first := self._first(self._root)) is not None:
            starts = self._starts()
            yield first
            others = (each for each in cursors.values() if each is not first)
            if starts != self._starts() and self._lose_heads(others):
                self._grow(self._root, below)
            else:
                self._moved(first)

    def _lose_heads(self, cursors: Iterable[Cursor]) -> bool:
        """Whether any of these cursors has another head now because its head no longer fits."""
        by_demand: dict[Demand, list[Cursor]] = {}
        for cursor in cursors:
            if (found := cursor.found) is not None and (demand := found.peers.demand) is not None:
                by_demand.setdefault(demand, []).append(cursor)
        gone = [each for demand, some in by_demand.items() if not self._fits(demand) for each in some]
        return any([cursor.test_again() for cursor in gone])  # noqa: C419 (all of them are tested)

    def _moved(self, cursor: Cursor) -> None:
        """Update the heaps after the head of the first cursor, or what its queues use, has changed."""
        for child, parent in pairwise((*cursor.account.path, self._root)):
            heap = self._heaps[parent]
            best = self._first(child)
            if best is None:
                heappop(heap)
            elif (key := self._key(child, best)) != heap[0][0]:
                heapreplace(heap, (key, child))

    def _grow(self, account: Account, below: Mapping[Account, Mapping[Account, None]]) -> None:
        heap = self._heaps[account] = []
        for child in below.get(account, ()):
            if child in below:
                self._grow(child, below)
            if (best := self._first(child)) is not None:
                heappush(heap, (self._key(child, best), child))

    def _first(self, account: Account) -> Cursor | None:
        while (heap := self._heaps.get(account)) is not None:
            if not heap:
                return None
            account = heap[0][1]
        cursor = self._cursors.get(account)
        return cursor if cursor is not None and cursor.head is not None else None
