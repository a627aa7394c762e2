"""Quiet cycles: nothing has happened that could start any of those who wait, so most of them have no turn.

In the last cycle everybody who waits still was refused: he did not fit, or he would have delayed the one
reservation. Neither changes while room is only taken and time passes, whoever comes after the gang that has
the reservation: then only those have a turn who have come since. Where room has been given, whoever may fit
in it has one as well, as long as the reservation would be found again and its gang still does not fit. So
such a cycle costs as much as there are gangs that may start, and one question for each want, however many
wait.

What else could change a refusal is ruled out for all together, not gang by gang: room that will be there
when victims have gone; limits and shares of queues, and quotas; somebody whom one of those who wait could
end; a reservation that begins; and anybody who was looked at in the last cycle and was not refused for good.
Else everybody has his turn. What is left are clusters of one queue with nothing but room in the way, where
nobody is told why he waits: replays of traces.
"""

from collections.abc import Collection, Iterable

from muster.core.backfill import Reservations
from muster.core.backfill.timetable import Reservation
from muster.core.cluster import Cluster
from muster.core.gang import GangId, QueueOrder
from muster.core.gangs import GangState
from muster.core.lines import Line, Lines
from muster.core.misfits import Misfits
from muster.core.preemption import Preemption
from muster.core.queues.account import Account


class Quiet:
    def __init__(
        self,
        cluster: Cluster,
        lines: Lines,
        misfits: Misfits,
        preemption: Preemption,
        reservations: Reservations,
    ) -> None:
        self._gangs, self._queues, self._quotas = cluster.gangs, cluster.queues, cluster.quotas
        self._lines, self._misfits = lines, misfits
        self._preemption, self._reservations = preemption, reservations
        #: everybody who was looked at in the last cycle has started or has a reservation
        self._settled = False
        #: `Queues.plantings` in the last cycle
        self._rules = -1

    def lasts(self, now: float) -> Collection[GangId] | None:
        """Who has a turn in this cycle, as nobody else can start; None: everybody has."""
        newcomers = self._lines.newcomers
        if len(self._lines) == len(newcomers) or not self._settled:
            return None  # if whoever waits is new, nobody is spared
        account = self._free_queue()
        if account is None or self._lines.begun.files:
            return None
        line, made = self._lines.of_queue.get(account.name), self._reservations.made
        if line is None or not line.files or not self._preemption.idle(account.name, -line.first[0]):
            return None  # somebody might end others
        turns = newcomers if self._misfits.stand else newcomers | self._fitting(line)
        stands = all(self._waits_on(each, line, turns) for each in made) and self._reservations.stand(now)
        return turns if stands else None

    def note(self, served: Iterable[GangState]) -> None:
        """A cycle is over, in which these were looked at."""
        reserved = [each.gang for each in self._reservations.made]
        waiting = [state.id for state in served if state.want is not None]
        self._settled = len(reserved) <= 1 and waiting in ([], reserved)
        self._rules = self._queues.plantings

    def _free_queue(self) -> Account | None:
        """The only queue, as in the last cycle, if everybody in it may have what he wants, by rank."""
        if self._rules != self._queues.plantings or len(self._queues.accounts) != 1 or self._quotas:
            return None
        (account,) = self._queues.accounts.values()
        return account if account.free and account.rules.order is QueueOrder.PRIORITY else None

    def _fitting(self, line: Line) -> set[GangId]:
        """Of each file the first gang, if it is not known not to fit."""
        heads = [(file.want, file.entries[0][1]) for file in line.files.values()]
        return {s.id for want, s in heads if want is None or not s.plain or want not in self._misfits}

    def _waits_on(self, reservation: Reservation, line: Line, turns: Iterable[GangId]) -> bool:
        """Whether the gang that has it waits as before, and all who have a turn come after it."""
        state, want = self._gangs.get(reservation.gang), reservation.want
        if state is None or state.want is not want or not state.plain or want not in self._misfits:
            return False
        mine, others = line.key(state.id), map(line.key, turns)
        return mine is not None and all(mine < key for key in others if key is not None)
