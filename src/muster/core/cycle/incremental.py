"""Incremental cycles: nothing has happened that could start most waiting gangs, so these get no turn.

The last cycle refused every gang that still waits: the gang did not fit, or its start would have delayed the
one reservation. Both refusals stand while free room only shrinks and time passes, whatever gangs arrive that
rank behind the gang with the reservation. Then only gangs that have arrived since get a turn. If room has
been given back, gangs that may fit get a turn as well, provided that the reservation would be found again and
its gang still does not fit. So such a cycle costs one step per gang that may start and one test per demand,
however many gangs wait.

All other causes that could change a refusal are ruled out for all gangs together, not gang by gang: room that
departing victims will free; limits and shares of queues, and quotas; a possible victim of a waiting gang; a
reservation that begins; a gang that the last cycle visited without a lasting refusal. If one of them exists,
every gang gets its turn. What remains are clusters of one queue in which gangs lack only room and waiting is
not explained: replays of traces.
"""

from collections.abc import Collection, Iterable

from muster.core.parts import Parts
from muster.core.queueing.pending import PendingQueue
from muster.core.reservations.answer import Reservation
from muster.core.words.gang import GangId, QueueOrder
from muster.core.world.gangs import GangState
from muster.core.world.queues.account import Account


class IncrementalCycle:
    def __init__(self, parts: Parts) -> None:
        world, self._pending, self._infeasible = parts.world, parts.pending, parts.infeasible
        self._gangs, self._queues, self._quotas = world.gangs, world.queues, world.quotas
        self._preemption, self._reservations = parts.preemption, parts.reservations
        #: every gang that the last cycle visited has started or has a reservation
        self._settled = False
        #: `Queues.rules_version` in the last cycle
        self._rules = -1

    def lasts(self, now: float) -> Collection[GangId] | None:
        """Gangs that get a turn in this cycle, since no other gang can start; None: every gang gets one."""
        newcomers = self._pending.newcomers
        if len(self._pending) == len(newcomers) or not self._settled:
            return None  # every waiting gang is new, so none can be skipped
        account = self._free_queue()
        if account is None or self._pending.started.classes:
            return None
        line, made = self._pending.of_queue.get(account.name), self._reservations.made
        if line is None or not line.classes or not self._preemption.idle(account.name, -line.first[0]):
            return None  # a gang might preempt others
        turns = newcomers if self._infeasible.unchanged else newcomers | self._fitting(line)
        stands = all(self._waits_on(each, line, turns) for each in made) and self._reservations.can_resume(
            now
        )
        return turns if stands else None

    def note(self, served: Iterable[GangState]) -> None:
        """Record the end of a cycle that visited these gangs."""
        reserved = [each.gang for each in self._reservations.made]
        waiting = [state.id for state in served if state.demand is not None]
        self._settled = len(reserved) <= 1 and waiting in ([], reserved)
        self._rules = self._queues.rules_version

    def _free_queue(self) -> Account | None:
        """The only queue, unchanged, if its gangs may have all that they want, by rank; else None."""
        if self._rules != self._queues.rules_version or len(self._queues.accounts) != 1 or self._quotas:
            return None
        (account,) = self._queues.accounts.values()
        return account if account.free and account.rules.order is QueueOrder.PRIORITY else None

    def _fitting(self, line: PendingQueue) -> set[GangId]:
        """The first gang of each class, unless it is known not to fit."""
        heads = [(each.demand, each.entries[0][1]) for each in line.classes.values()]
        return {
            s.id for demand, s in heads if demand is None or not s.plain or demand not in self._infeasible
        }

    def _waits_on(self, reservation: Reservation, line: PendingQueue, turns: Iterable[GangId]) -> bool:
        """Whether the reserved gang waits as before, and all gangs that get a turn rank behind it."""
        state, demand = self._gangs.get(reservation.gang), reservation.demand
        if state is None or state.demand is not demand or not state.plain or demand not in self._infeasible:
            return False
        mine, others = line.key(state.id), map(line.key, turns)
        return mine is not None and all(mine < key for key in others if key is not None)
