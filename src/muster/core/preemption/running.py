"""Running gangs that may be preempted: how many of which priority there are in each queue."""

from collections import Counter

from muster.core.words.gang import Gang, GangId
from muster.core.world.gangs import GangState


class RunningGangs:
    def __init__(self) -> None:
        #: by queue, how many gangs with pods have which priority; no zeros. Read-only for callers
        self.priorities: dict[str, Counter[int]] = {}
        #: each of these gangs, and its state's stamp
        self._noted: dict[GangId, tuple[Gang, int]] = {}
        #: counts changes of gangs that have as many pods as their minimum: with one of them as a victim, a
        #: search that failed may succeed
        self.version = 0

    def lowest(self, queue: str) -> int | None:
        """The lowest priority of a running gang of this queue; None: none runs."""
        return min(self.priorities.get(queue, ()), default=None)

    def note(self, state: GangState) -> None:
        """Record a changed gang: whether it runs, and as what."""
        gang = state.gang if state.pods and state.gang is not None and state.gang.preemptible else None
        old, stamp = self._noted.get(state.id, (None, -1))
        if gang is old and (gang is None or stamp == state.stamp):
            return
        if gang is not old:
            if old is not None:
                del self._noted[state.id]
                self._count(old, -1)
            if gang is not None:
                self._count(gang, 1)
        if gang is not None:
            self._noted[state.id] = gang, state.stamp
            self.version += len(state.filled) + len(state.retired) >= gang.min_count

    def _count(self, gang: Gang, more: int) -> None:
        priorities = self.priorities.setdefault(gang.queue, Counter())
        priorities[gang.priority] += more
        if not priorities[gang.priority]:
            del priorities[gang.priority]
        if not priorities:
            del self.priorities[gang.queue]
