"""Pending queues: gangs that lack something, in the order in which they are served.

The order is maintained, not computed per cycle: a gang is inserted when its state changes, and a cycle walks
along the order (`order.py`). In the line of a queue, gangs that want the same are in one *file*, each file in
order, and the walk merges the files (`race.py`). So one refusal skips all gangs that want the same, and the
cost of a cycle grows with the number of different wants, not of waiting gangs.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.core.demand import Demand
from muster.core.words.gang import Gang, GangId, QueueOrder
from muster.core.world.gangs import GangState
from muster.core.world.queues import Queues

#: Rank or, in a queue of order fifo, age and id; no two keys of a line are equal.
Key = tuple[Any, ...]  # Any: ranks and ages are never compared with each other


@dataclass(slots=True, eq=False)
class EquivalenceClass:
    """Gangs of one kind in their order. Whether they may start, and whether they fit, has one answer."""

    demand: Demand | None
    entries: list[tuple[Key, GangState]] = field(default_factory=list)


#: The next gang of a file: its entry, the position of the entry, the file.
Head = tuple[tuple[Key, GangState], int, EquivalenceClass]


class PendingQueue:
    """Gangs that lack something, in the order in which they are served."""

    def __init__(self, duration: Callable[[Gang], float] | None = None) -> None:
        """`duration`: how long a gang runs, if answers depend on that as well."""
        self._duration = duration
        self.files: dict[Hashable, EquivalenceClass] = {}
        self._standing: dict[GangId, tuple[Hashable, Key]] = {}
        #: the least key, if it is known
        self._first: Key | None = None

    def __len__(self) -> int:
        return len(self._standing)

    def __iter__(self) -> Iterator[GangState]:
        if not self.files:
            return iter(())
        entries = (entry for file in self.files.values() for entry in file.entries)
        return (state for _, state in sorted(entries))

    @property
    def first(self) -> Key:
        """The least key of all gangs in this line, which must not be empty."""
        if self._first is None:
            self._first = min(file.entries[0][0] for file in self.files.values())
        return self._first

    def heads(self) -> "list[Head]":
        """The first gang of each file."""
        return [(file.entries[0], 0, file) for file in self.files.values()]

    def heads_of(self, gangs: Iterable[GangId]) -> "list[Head]":
        """The first of these gangs in each file."""
        first: dict[Hashable, Key] = {}
        for kind, key in [self._standing[gang] for gang in gangs if gang in self._standing]:
            first[kind] = min(key, first.get(kind, key))
        heads = []
        for kind, key in first.items():
            file = self.files[kind]
            position = bisect_left(file.entries, (key,))
            heads.append((file.entries[position], position, file))
        return heads

    def key(self, gang: GangId) -> Key | None:
        """The key of a gang; None: it is not in this line."""
        return self._standing[gang][1] if gang in self._standing else None

    def put(self, state: GangState, order: QueueOrder = QueueOrder.PRIORITY) -> bool:
        """Insert a gang by its present state, or move it. False if its position is unchanged."""
        kind = self._kind(state, order)
        # Keys have equal length: while a queue's order changes, its gangs have keys of either kind.
        key: Key = (0, *state.rank[1:]) if order is QueueOrder.FIFO else state.rank
        if self._standing.get(state.id) == (kind, key):
            return False
        self.drop(state.id)
        self._standing[state.id] = kind, key
        file = self.files.get(kind)
        if file is None:
            file = self.files[kind] = EquivalenceClass(state.demand)
        file.demand = state.demand
        insort(file.entries, (key, state))
        if self._first is not None and key < self._first:
            self._first = key
        return True

    def drop(self, gang: GangId) -> None:
        kind, key = self._standing.pop(gang, (None, None))
        if key is None:
            return
        if key == self._first:
            self._first = None
        entries = self.files[kind].entries
        del entries[bisect_left(entries, (key,))]
        if not entries:
            del self.files[kind]

    def _kind(self, state: GangState, order: QueueOrder) -> Hashable:
        """The kind of a gang. If a gang does not start, no gang of its kind with a lower rank does.

        Whether it fits depends only on what it wants. Whether its queue allows it depends on its namespace
        and user, and whether a ResourceQuota does on what is still to be charged. Whether victims can be
        found depends on its priority too, which does not order a fifo queue. Whether it may backfill depends
        on how long it runs.
        """
        gang = state.gang
        if not state.plain or gang is None:
            return state.id
        charged = tuple(
            [(s.name, s.namespace, s.uncreated, s.quotas) for s in gang.pod_sets if s.uncreated and s.quotas]
        )
        if charged and state.begun:
            return state.id  # places that it holds are charged already
        kind: tuple[Hashable, ...]
        kind = state.demand, gang.namespace, gang.user, gang.preempts, state.begun, charged
        if order is QueueOrder.FIFO:
            kind = *kind, gang.priority
        return kind if self._duration is None else (*kind, self._duration(gang))


class PendingQueues:
    """The line of every gang that lacks something: that of begun gangs, of gated gangs, or of its queue."""

    def __init__(self, queues: Queues, duration: Callable[[Gang], float] | None = None) -> None:
        """`duration`: as in `PendingQueue`."""
        self._queues, self._duration = queues, duration
        self.begun, self.gated = PendingQueue(), PendingQueue()
        self.of_queue: dict[str, PendingQueue] = {}
        self._where: dict[GangId, PendingQueue] = {}
        #: gangs that have entered a line, or moved within it, since the last walk
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
            line = self.gated
        elif first_claim(state):
            line = self.begun
        else:
            name = state.gang.queue
            known = self.of_queue.get(name)
            line = self.of_queue.setdefault(name, PendingQueue(self._duration)) if known is None else known
            account = self._queues.find(name)
            order = account.rules.order if account is not None else order
        before = self._where.get(state.id)
        if before is not line:
            if before is not None:
                before.drop(state.id)
            self._where[state.id] = line
        if line.put(state, order):
            self.newcomers.add(state.id)

    def drop(self, gang: GangId) -> None:
        line = self._where.pop(gang, None)
        if line is not None:
            line.drop(gang)


def first_claim(state: GangState) -> bool:
    """Whether the gang has begun and lacks what it has a request to: its minimum, planned or held places."""
    if not state.begun:
        return False
    return state.waits or bool(state.planned) or any(not hold.told for hold in state.holds.values())
