"""Which gang is next: among the files of one queue, and among several queues.

Both are heaps, so that taking the next costs a replacement, not a search. A gang is tested when it becomes
the head of its queue: a gang that is known not to start is skipped, with all of its file behind it. Where
heads decide which queue is next, they are tested again once a gang has started: a head that no longer fits
must not hold back the gangs behind it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from itertools import pairwise
from typing import Any

from muster.core.demand import Demand
from muster.core.queueing.pending import Head
from muster.core.words.gang import QueueOrder
from muster.core.world.queues.account import Account


class Cursor:
    """A cursor over the gangs of one queue, merged from its files: next is the first of their heads.

    In a fair queue the heads of each namespace are compared among themselves, and the next namespace is the
    one with the least share.
    """

    def __init__(self, account: Account, heads: list[Head], hopeless: Callable[[Head], bool]) -> None:
        """`hopeless`: whether a head, and all of its file behind it, is skipped."""
        self.account = account
        self._hopeless = hopeless
        #: the head that was found last: not tested again
        self._found: Head | None = None
        #: heads by namespace in a fair queue, else all under ""
        self._heads: dict[str, list[Head]] = {}
        if account.rules.order is QueueOrder.FAIR:
            for head in heads:
                gang = head[0][1].gang
                self._heads.setdefault(gang.namespace if gang is not None else "", []).append(head)
        else:
            self._heads[""] = heads
        for some in self._heads.values():
            heapify(some)

    @property
    def head(self) -> Head | None:
        """The gang that is next; None: no gang is left."""
        while heads := self._next():
            head = heads[0]
            if head is self._found or not self._hopeless(head):
                self._found = head
                return head
            heappop(heads)
        self._found = None
        return None

    def ask_again(self) -> bool:
        """Test the head again. Return whether another gang is the head now."""
        before, self._found = self._found, None
        return self.head is not before

    @property
    def demand(self) -> Demand | None:
        """What the head that was found last wants."""
        return self._found[2].demand if self._found is not None else None

    def next(self) -> None:
        """Take the head out."""
        heads = self._next()
        _, position, file = heads[0]
        position += 1
        if position < len(file.entries):
            heapreplace(heads, (file.entries[position], position, file))
        else:
            heappop(heads)

    def leave(self) -> Head:
        """Take the head out, and all of its file behind it."""
        return heappop(self._next())

    def _next(self) -> list[Head]:
        """The heap of heads whose first is next; empty if no gang is left."""
        if len(self._heads) == 1:
            (heads,) = self._heads.values()
            return heads
        waiting = ((self.account.share_of(name), name) for name, heads in self._heads.items() if heads)
        _, least = min(waiting, default=(0.0, None))
        return self._heads[least] if least is not None else []


class FairOrder:
    """Which queue is next: at each level of the tree the one with the least key, down to a leaf.

    There is a heap per level. The caller that takes a walk from here may change its head, and what its queues
    use, before it takes the next. Then keys change only on the path of that walk, which costs one replacement
    per level. A walk that is alone stays first until it has no head left.
    """

    def __init__(
        self,
        root: Account,
        walks: Mapping[Account, Cursor],
        key: Callable[[Account, Cursor], tuple[Any, ...]],
        starts: Callable[[], int] = lambda: 0,
        fits: Callable[[Demand], bool] = lambda _: True,
    ) -> None:
        """When `starts` has changed, heads whose want is known not to fit (`fits`) are tested again."""
        self._root, self._walks, self._key = root, walks, key
        self._starts, self._fits = starts, fits
        #: by inner queue. A key (Any: comparable) ends with the queue's name, so that no two keys are equal
        self._heaps: dict[Account, list[tuple[Any, Account]]] = {}

    def __iter__(self) -> Iterator[Cursor]:
        walks = {account: walk for account, walk in self._walks.items() if walk.head is not None}
        if len(walks) == 1:
            (walk,) = walks.values()
            while walk.head is not None:
                yield walk
            return
        below: dict[Account, dict[Account, None]] = {}
        for account in walks:
            for child, parent in pairwise((*account.path, self._root)):
                if child in (children := below.setdefault(parent, {})):
                    break
                children[child] = None
        self._grow(self._root, below)
        while (first := self._first(self._root)) is not None:
            starts = self._starts()
            yield first
            if starts != self._starts() and self._lost(walk for walk in walks.values() if walk is not first):
                self._grow(self._root, below)
            else:
                self._moved(first)

    def _lost(self, walks: Iterable[Cursor]) -> bool:
        """Whether any of these walks has another head now because its head no longer fits."""
        by_want: dict[Demand, list[Cursor]] = {}
        for walk in walks:
            if (demand := walk.demand) is not None:
                by_want.setdefault(demand, []).append(walk)
        gone = [walk for demand, some in by_want.items() if not self._fits(demand) for walk in some]
        return any([walk.ask_again() for walk in gone])  # noqa: C419 (all of them are asked)

    def _moved(self, walk: Cursor) -> None:
        """Update the heaps after the head of the first walk, or what its queues use, has changed."""
        for child, parent in pairwise((*walk.account.path, self._root)):
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
        walk = self._walks.get(account)
        return walk if walk is not None and walk.head is not None else None
