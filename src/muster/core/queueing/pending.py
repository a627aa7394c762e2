"""Pending queues: gangs that lack something, in the order in which they are served.

The order is maintained, not computed per cycle: a gang is inserted when its state changes, and a cycle walks
along the order (`attempts.py`). In a pending queue, gangs whose attempts have one answer are in one
*equivalence class*, each class in order, and the walk merges the classes (`fair_order.py`). So one refusal
skips all gangs of a class, and the cost of a cycle grows with the number of different demands, not of waiting
gangs.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from muster.core.demand import Demand
from muster.core.words.gang import Gang, GangId, QueueOrder
from muster.core.world.gangs import GangState
from muster.core.world.queues import Queues

#: Rank or, in a queue of order fifo, age and id; no two keys of a queue are equal.
Key = tuple[Any, ...]  # Any: ranks and ages are never compared with each other


@dataclass(slots=True, eq=False)
class EquivalenceClass:
    """Gangs of one kind in their order. Whether they may start, and whether they fit, has one answer."""

    demand: Demand | None
    entries: list[tuple[Key, GangState]] = field(default_factory=list)

    def head(self, position: int = 0) -> "Head":
        return Head(*self.entries[position], position, self)


class Head(NamedTuple):
    """The next gang of a class. Heads of one queue are ordered by key."""

    key: Key
    state: GangState
    position: int
    peers: EquivalenceClass

    @property
    def demand(self) -> Demand | None:
        return self.peers.demand

    @property
    def behind(self) -> "Head | None":
        """The next gang of its class; None: there is none."""
        position = self.position + 1
        return self.peers.head(position) if position < len(self.peers.entries) else None


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
        return kind if self._duration is None else (*kind, self._duration(gang))


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
            if state.lacks:
                self.put(state)
            else:
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
