"""Pending queues: gangs that lack something, in the order in which they are served, and which is next.

The order is maintained, not computed per cycle: a gang is inserted when its state changes, and a cycle walks
along the order (`Attempts`). In a pending queue, gangs whose attempts have one answer are in one
*equivalence class*, each class in order, and the walk merges the classes. So one refusal skips all gangs of a
class, and the cost of a cycle grows with the number of different demands, not of waiting gangs.

Among the classes of one queue, and among several queues, heaps say which gang is next, so that taking it
costs a replacement, not a search. A gang is tested when it becomes the head of its queue: a gang that is
known not to start is skipped, with all of its class behind it. Where heads decide which queue is next, they
are tested again once a gang has started: a head that no longer fits must not hold back the gangs behind it.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from itertools import pairwise, takewhile
from typing import Any

from muster.core.demand import Demand
from muster.core.words.gang import Gang, GangId, QueueOrder
from muster.core.world.gangs import GangState
from muster.core.world.queues import Queues
from muster.core.world.queues.account import Account

#: Rank or, in a queue of order fifo, age and id; no two keys of a queue are equal.
Key = tuple[Any, ...]  # Any: ranks and ages are never compared with each other


@dataclass(slots=True, eq=False)
class EquivalenceClass:
    """Gangs of one kind in their order. Whether they may start, and whether they fit, has one answer."""

    demand: Demand | None
    entries: list[tuple[Key, GangState]] = field(default_factory=list)

    def head(self, position: int = 0) -> "Head":
        return *self.entries[position], position, self


#: A gang that is next of its class: its key, its state, and its position in the class. Heads of one queue are
#: ordered by key.
Head = tuple[Key, GangState, int, EquivalenceClass]


class PendingQueue:
    """Gangs that lack something, in the order in which they are served."""

    def __init__(self, duration: Callable[[Gang], float] | None = None) -> None:
        """`duration`: how long a gang runs, if answers depend on that as well."""
        self._duration = duration
        self.classes: dict[Hashable, EquivalenceClass] = {}
        self._position: dict[GangId, tuple[Hashable, Key]] = {}
        #: the least key, if it is known
        self._first: Key | None = None

    def __len__(self) -> int:
        return len(self._position)

    def __iter__(self) -> Iterator[GangState]:
        entries = [entry for each in self.classes.values() for entry in each.entries]
        return (state for _, state in sorted(entries))

    @property
    def first(self) -> Key:
        """The least key of all gangs in this queue, which must not be empty."""
        if self._first is None:
            self._first = min(each.entries[0][0] for each in self.classes.values())
        return self._first

    def heads(self) -> list[Head]:
        """The first gang of each class."""
        return [each.head() for each in self.classes.values()]

    def heads_of(self, gangs: Iterable[GangId]) -> list[Head]:
        """The first of these gangs in each class."""
        first: dict[Hashable, Key] = {}
        for kind, key in [self._position[gang] for gang in gangs if gang in self._position]:
            first[kind] = min(key, first.get(kind, key))
        classes = [(self.classes[kind], key) for kind, key in first.items()]
        return [each.head(bisect_left(each.entries, (key,))) for each, key in classes]

    def key(self, gang: GangId) -> Key | None:
        """The key of a gang; None: it is not in this queue."""
        return self._position[gang][1] if gang in self._position else None

    def put(self, state: GangState, order: QueueOrder = QueueOrder.PRIORITY) -> bool:
        """Insert a gang by its present state, or move it. False if its position is unchanged."""
        kind = self._kind(state, order)
        # Keys have equal length: while a queue's order changes, its gangs have keys of either kind.
        key: Key = (0, *state.rank[1:]) if order is QueueOrder.FIFO else state.rank
        if (before := self._position.get(state.id)) is not None:
            if before == (kind, key):
                self.classes[kind].demand = state.demand
                return False
            self.drop(state.id)
        self._position[state.id] = kind, key
        peers = self.classes.get(kind)
        if peers is None:
            peers = self.classes[kind] = EquivalenceClass(state.demand)
        peers.demand = state.demand
        state.peers = None if state.begun or state.demand is None else peers
        insort(peers.entries, (key, state))
        if self._first is not None and key < self._first:
            self._first = key
        return True

    def drop(self, gang: GangId) -> None:
        kind, key = self._position.pop(gang, (None, None))
        if key is None:
            return
        if key == self._first:
            self._first = None
        entries = self.classes[kind].entries
        del entries[bisect_left(entries, (key,))]
        if not entries:
            del self.classes[kind]

    def _kind(self, state: GangState, order: QueueOrder) -> Hashable:
        """The kind of a gang. If a gang does not start, no gang of its kind with a lower rank does.

        Whether it fits depends only on what it lacks. Whether its queue allows it depends on its namespaces
        and user, and whether a ResourceQuota does on what is still to be charged. Whether victims can be
        found depends on its priority too, which does not order a fifo queue. Whether it may backfill depends
        on how long it runs.
        """
        gang = state.gang
        if not state.plain or gang is None:
            return state.id
        charged: tuple[Hashable, ...] = ()
        for s in gang.pod_sets:
            if s.namespace or (s.quotas and s.uncreated):
                charged = *charged, (s.name, s.namespace, s.uncreated, s.quotas)
        if charged and state.begun:
            return state.id  # places that it holds are charged already
        kind: tuple[Hashable, ...]
        kind = state.demand, gang.namespace, gang.user, gang.preempts, state.begun, charged
        if order is QueueOrder.FIFO:
            kind = *kind, gang.priority
        return kind if self._duration is None else (*kind, self._duration(gang), gang.limit)


class PendingQueues:
    """The pending queue of every gang that lacks something: of started or gated gangs, or of its queue."""

    def __init__(self, queues: Queues, duration: Callable[[Gang], float] | None = None) -> None:
        """`duration`: as in `PendingQueue`."""
        self._queues, self._duration = queues, duration
        self.started, self.gated = PendingQueue(), PendingQueue()
        self.of_queue: dict[str, PendingQueue] = {}
        self._where: dict[GangId, PendingQueue] = {}
        #: gangs that have entered a pending queue, or moved within it, since the last walk
        self.newcomers: set[GangId] = set()

    def __len__(self) -> int:
        """The number of gangs that lack something."""
        return len(self._where)

    def update(self, changed: Iterable[GangState]) -> None:
        """Put gangs that have changed where they belong now."""
        for state in changed:
            if state.demand is not None or state.lacks:
                self.put(state)
            elif state.id in self._where:
                self.drop(state.id)

    def put(self, state: GangState) -> None:
        assert state.gang is not None
        order = QueueOrder.PRIORITY
        if state.demand is None:
            pending = self.gated
        elif first_claim(state):
            pending = self.started
        else:
            name = state.gang.queue
            if name not in self.of_queue:
                self.of_queue[name] = PendingQueue(self._duration)
            pending, account = self.of_queue[name], self._queues.find(name)
            order = account.rules.order if account is not None else order
        if (before := self._where.get(state.id)) is not pending:
            if before is not None:
                before.drop(state.id)
            self._where[state.id] = pending
        if pending.put(state, order):
            self.newcomers.add(state.id)

    def drop(self, gang: GangId) -> None:
        if (pending := self._where.pop(gang, None)) is not None:
            pending.drop(gang)


def first_claim(state: GangState) -> bool:
    """Whether the gang has started and lacks what it has a claim to: its minimum, planned or held places."""
    if not state.begun:
        return False
    return state.waits or bool(state.planned) or any(not hold.announced for hold in state.holds.values())


class Cursor:
    """A cursor over the gangs of one queue, merged from its classes: next is the first of their heads.

    In a fair queue the heads of each namespace are compared among themselves, and the next namespace is the
    one with the least share. A heap of namespaces says which: what changes the use of one namespace costs one
    entry.
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
        if account.rules.order is QueueOrder.FAIR:
            for head in heads:
                gang = head[1].gang
                self._heaps.setdefault(gang.namespace if gang is not None else "", []).append(head)
        else:
            self._heaps[""] = [*heads]
        for heap in self._heaps.values():
            heapify(heap)
        #: the only heap, if it is not empty
        self._only = heap if len(self._heaps) == 1 else []
        #: namespaces with heads by share; those whose share has changed since are in it again
        self._order: list[tuple[float, str]] = []
        self._shares: dict[str, float] = {}
        #: what `_shares` was computed from, and how many of these moves it includes
        self._moves: list[str] | None = None
        self._entitled: Mapping[str, int] = {}
        self._included = 0

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
        return self.head() is not before

    def next(self) -> None:
        """Take the head out."""
        heap = self._only or self._next()
        _, _, position, peers = heap[0]
        if (position := position + 1) < len(peers.entries):
            heapreplace(heap, peers.head(position))
        else:
            heappop(heap)

    def alike(self, peers: EquivalenceClass, until: Callable[[GangState], object]) -> list[GangState]:
        """Take out the gangs of this class that are next, up to a gang of another class, or one for which
        `until` is true."""
        heap = self._next()
        if not heap or heap[0][3] is not peers:
            return []
        position, entries, others = heap[0][2], peers.entries, heap[1:3]
        last = bisect_left(entries, (min(others)[0],)) if others else len(entries)
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
        self._update_shares()
        while order := self._order:
            share, name = order[0]
            if self._shares[name] == share and (heap := self._heaps[name]):
                return heap
            heappop(order)  # out of date, or no head is left: heads never come back
        return []

    def _update_shares(self) -> None:
        """Take in the namespaces whose use has changed; all of them after a change of the entitlement."""
        account = self.account
        used, moves = account.by_namespace, account.moves
        if moves is not self._moves or account.entitled is not self._entitled:
            self._moves, self._entitled, self._included = moves, account.entitled, len(moves)
            waiting = [name for name, heap in self._heaps.items() if heap]
            self._shares = {name: account.share(used.get(name, {})) for name in waiting}
            self._order = [(share, name) for name, share in self._shares.items()]
            heapify(self._order)
        for name in moves[self._included :] if self._included < len(moves) else ():
            if name in self._shares:
                self._shares[name] = share = account.share(used.get(name, {}))
                heappush(self._order, (share, name))
        self._included = len(moves)


class FairOrder:
    """Which queue is next: at each level of the tree the one with the least key, down to a leaf.

    There is a heap per level. The caller that takes a cursor from here may change its head, and what its
    queues use, before it takes the next. Then keys change only on the path of that cursor, which costs one
    replacement per level; where a queue has borrowed for a start, the keys of all queues below it change. A
    cursor that is alone stays first until it has no head left.
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
        cursors = {account: each for account, each in self._cursors.items() if each.head() is not None}
        if len(cursors) == 1:
            (cursor,) = cursors.values()
            while cursor.head() is not None:
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
                continue
            moved = first.account
            if starts != self._starts():  # what a queue has borrowed more is divided among all below it
                above = (each for each in reversed(moved.path) if each.children and each.surplus())
                if (borrower := next(above, None)) is not None:
                    self._grow(borrower, below)
                    moved = borrower
            self._moved(moved)

    def _lose_heads(self, cursors: Iterable[Cursor]) -> bool:
        """Whether any of these cursors has another head now because its head no longer fits."""
        by_demand: dict[Demand, list[Cursor]] = {}
        for cursor in cursors:
            if (found := cursor.found) is not None and (demand := found[3].demand) is not None:
                by_demand.setdefault(demand, []).append(cursor)
        gone = [each for demand, some in by_demand.items() if not self._fits(demand) for each in some]
        return any([cursor.test_again() for cursor in gone])  # noqa: C419 (all of them are tested)

    def _moved(self, account: Account) -> None:
        """Update the heaps above the first queue after its head, or what it uses, has changed."""
        for child, parent in pairwise((*account.path, self._root)):
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
        return cursor if cursor is not None and cursor.head() is not None else None


def share(account: Account, cursor: Cursor) -> tuple[Any, ...]:  # Any: comparable
    """The key of a queue within its entitlement: its share."""
    return account.share(account.used), account.name


def share_after(account: Account, cursor: Cursor) -> tuple[Any, ...]:  # Any: comparable
    """The key of a queue beyond its entitlement, which depends on the gang that is next."""
    head = cursor.head()
    assert head is not None
    _, state, _, peers = head
    assert peers.demand is not None
    least = peers.demand.least
    entitled, after = account.entitled_after(least), account.used.plus(least)
    exceeds = any(r in entitled and after[r] > entitled[r] for r in least)
    return exceeds, account.last_borrowed, account.share(after), state.rank[0], account.name
