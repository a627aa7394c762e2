"""Searches for victims that failed, until something changes that decides about victims."""

from math import inf

from muster.core.demand import Demand
from muster.core.preemption.running import RunningGangs
from muster.core.words.gang import Gang
from muster.core.world import World


class FailedSearches:
    def __init__(self, world: World, running: RunningGangs) -> None:
        self._world, self._running = world, running
        #: demands of a queue for which there were no victims, and the highest priority that looked for them
        self._failed: dict[tuple[Demand, str], int] = {}
        #: of the queues in the last cycle, and of what decides about victims
        self._rules = (-1, -1)
        self._versions = (-1, -1, -1)
        #: when the next minimum run time ends, or a pod that is being deleted no longer counts as leaving
        self.due = inf

    def next_cycle(self, now: float, changed: bool) -> None:
        """Begin a cycle. `changed`: the nodes have changed, or capacity was freed."""
        queues = self._world.queues
        # Entitlements matter only where something can be reclaimed.
        reclaims = len(self._running.priorities) > 1
        rules = queues.rules_version, queues.entitlement_version if reclaims else -1
        if changed or now >= self.due or rules != self._rules:
            self._failed.clear()
            self._rules, self.due = rules, inf

    def has(self, gang: Gang, demand: Demand) -> bool:
        """Whether a search has failed for this demand of its queue, at this priority or a higher one."""
        world = self._world
        versions = self._running.version, world.budgets.changes, world.exclusive_domains.released
        if versions != self._versions:
            self._failed.clear()
            self._versions = versions
        failed = self._failed.get((demand, gang.queue))
        return failed is not None and gang.priority <= failed

    def add(self, gang: Gang, demand: Demand) -> None:
        self._failed[demand, gang.queue] = gang.priority
