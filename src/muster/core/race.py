"""Who is next: of the files of one queue, and of several queues.

Both are kept as heaps of what comes first, so that the next costs a replacement, not a search. Nothing is
asked of anybody before he is next: whoever is known to be hopeless is passed over then, with all his file
behind him.
"""

from collections.abc import Callable, Iterator, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from itertools import pairwise
from typing import Any

from muster.core.gang import QueueOrder
from muster.core.lines import Head
from muster.core.queues.account import Account


class Walk:
    """A way along the gangs of one queue, from its files: next is the first of their heads.

    In a fair queue the heads of each namespace are compared among themselves, and the next namespace is the
    one with the least share.
    """

    def __init__(self, account: Account, heads: list[Head], hopeless: Callable[[Head], bool]) -> None:
        """`hopeless`: whether a head, and all of its file behind it, is passed over."""
        self.account = account
        self._hopeless = hopeless
        #: the head that was found last: not asked about again
        self._found: Head | None = None
        #: of each namespace, in a fair queue
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
        """Of whom it is the turn now; None: nobody is left."""
        while heads := self._next():
            head = heads[0]
            if head is self._found or not self._hopeless(head):
                self._found = head
                return head
            heappop(heads)
        return None

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
        """The heads of which the first is next; none if nobody is left."""
        if len(self._heads) == 1:
            (heads,) = self._heads.values()
            return heads
        waiting = ((self.account.share_of(name), name) for name, heads in self._heads.items() if heads)
        _, least = min(waiting, default=(0.0, None))
        return self._heads[least] if least is not None else []


class Race:
    """Which queue is next: at each level of the tree the one with the least key, down to a leaf.

    A heap per level. Whoever takes a walk from here may change its head, and what its queues use, before he
    takes the next: keys change only on the path of that walk, so it costs one replacement per level. Who is
    alone is first as long as he goes on.
    """

    def __init__(
        self, root: Account, walks: Mapping[Account, Walk], key: Callable[[Account, Walk], tuple[Any, ...]]
    ) -> None:
        self._root, self._walks, self._key = root, walks, key
        #: by inner queue. A key (Any: comparable) ends with the queue's name, so that no two are equal
        self._heaps: dict[Account, list[tuple[Any, Account]]] = {}

    def __iter__(self) -> Iterator[Walk]:
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
            yield first
            self._moved(first)

    def _moved(self, walk: Walk) -> None:
        """The head of the first walk, or what its queues use, has changed."""
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
            best = self._first(child)
            assert best is not None
            heappush(heap, (self._key(child, best), child))

    def _first(self, account: Account) -> Walk | None:
        while (heap := self._heaps.get(account)) is not None:
            if not heap:
                return None
            account = heap[0][1]
        walk = self._walks.get(account)
        return walk if walk is not None and walk.head is not None else None
