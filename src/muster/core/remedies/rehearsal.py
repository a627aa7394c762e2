"""A rehearsal: the next cycle as it would go if one thing were different, played for real and undone.

What is said to start a gang must be true when the gang is served: after those before it have had their
chance, with entitlements divided anew and reservations found anew. So the one thing is really changed (the
gang is edited, another is ended), what follows from it is settled, and gangs take their `Turns` and are
placed, up to the one that is asked about. Then the ledger is rolled back and every state that was touched is
put back.

Two things are not played: exact searches, and victims of those that come before. Where one of them could
matter, or more than `most` placements would have to be tried, a rehearsal knows nothing, and says no. An
*outlook* further ahead, from one end to the next, goes on without them: it is expected, not promised.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any, Final

import numpy as np

from muster.core.admission import Admission, Full
from muster.core.backfill import Reservations
from muster.core.backfill.timetable import Reservation
from muster.core.cluster import Cluster
from muster.core.exact import Verdict
from muster.core.fit import Claim
from muster.core.gang import Gang, GangId, NodeName, Place
from muster.core.gangs import GangState
from muster.core.lines import Lines
from muster.core.misfits import Misfits
from muster.core.nodes import Columns
from muster.core.order import Standing, Turn, Turns
from muster.core.placement import Want, short_of_slots
from muster.core.preemption import Preemption
from muster.core.preemption.victims import Found
from muster.core.settlement import Settlement
from muster.core.starts import Starts

#: Places of gangs in front that count as much as one more placement that is tried.
PLACES: Final = 64


@dataclass(frozen=True, slots=True)
class Outlook:
    """When a gang would start. `at` is infinite if that takes ends of which nobody knows when they come.

    So it is, too, if it has not started when all have ended: then nobody is `endless`.
    """

    at: float
    #: who would have ended by then, in that order, and on which nodes each was
    ended: tuple[tuple[GangId, frozenset[NodeName]], ...]
    #: where the gang would be
    nodes: frozenset[NodeName] = frozenset()
    #: what ends at no time that is known
    endless: tuple[GangId, ...] = ()


_Placed = dict[Place, int] | Verdict | Reservation | None


class _Unsure(Exception):
    """It depends on something that is not played."""


class Rehearsal:
    def __init__(
        self,
        cluster: Cluster,
        admission: Admission,
        lines: Lines,
        misfits: Misfits,
        preemption: Preemption,
        reservations: Reservations,
        starts: Starts,
        settlement: Settlement,
        in_order: Callable[[Turns], Iterable[Turn]],
    ) -> None:
        """`in_order`: the turns of a cycle as they are taken."""
        self._ledger, self._slots, self._pods = cluster.ledger, cluster.slots, cluster.pods
        self._fit, self._ends, self._queues = cluster.fit, cluster.ends, cluster.queues
        self._quotas = cluster.quotas
        self._wants = cluster.wants
        self._admission, self._lines = admission, lines
        self._misfits, self._preemption, self._reservations = misfits, preemption, reservations
        self._starts, self._settlement, self._in_order = starts, settlement, in_order
        #: how many placements were tried, ever
        self.trials = 0
        self._last = 0
        self._saved: dict[GangId, tuple[GangState, dict[str, Any]]] = {}  # Any: a state's fields
        #: what those want who are asked about
        self._wanted: set[Want | None] = set()
        #: whether it may end others, and whom it would end
        self._preempts = False
        self._found: Found | None = None
        #: wants that did not fit in this rehearsal
        self._tried: set[Want] = set()
        #: room has been given: what did not fit in the last cycle may fit
        self._freed = False
        #: so may victims be found where there were none: queues are entitled to something else
        self._anew = False
        #: who has been given places since reservations were made
        self._started: list[GangState] = []
        #: only what is certain counts
        self._strict = True

    @property
    def as_of(self) -> tuple[Hashable, ...]:
        """As long as it is the same, so is what a rehearsal says."""
        return self._ledger.nodes.revision, self._settlement.accounted, self._admission.rules

    @property
    def timed(self) -> bool:
        """What it says changes as time goes on, too: somebody has a reservation."""
        return bool(self._reservations.made)

    def starts(self, state: GangState, gang: Gang, most: int) -> bool:
        """Whether it would certainly start now as this `gang`."""
        with self._undone(most, strict=True, freed=False):
            self._edit(state, gang)
            shares = [account.entitled for account in self._queues.accounts.values()]
            self._queues.entitle()
            self._anew = [account.entitled for account in self._queues.accounts.values()] != shares
            self._reservations.begin(self._settlement.now, unchanged=True)
            try:
                return any(self._play({state.id: state}))
            except _Unsure:
                return False

    def starts_without(self, other: GangState, asked: Sequence[GangState], most: int) -> dict[GangId, bool]:
        """Which of those who are asked about would certainly start now if another ended.

        `asked` in serving order; those for whom it would go another way than for the first are left out.
        """
        left, starting = {state.id: state for state in asked}, set[GangId]()
        if not self._leaves(other):
            with self._undone(most, strict=True, freed=True):
                self._end(other)
                self._queues.entitle()
                self._anew = True
                self._reservations.begin(self._settlement.now, unchanged=False)
                try:
                    for gang, _ in self._play(left):
                        starting.add(gang)
                except _Unsure:
                    pass
        if asked[0].id not in left:
            return self.starts_without(other, asked[:1], most)
        return {gang: gang in starting for gang in left}

    def victims(self, state: GangState, most: int) -> Found | None:
        """Whom it would end now, and start, if it might preempt."""
        if self._preemption.departures or state.gang is None:
            return None
        self._found, self._preempts = None, True
        try:
            starts = self.starts(state, replace(state.gang, preempts=True), most)
        finally:
            self._preempts = False
        return self._found if starts else None

    def outlooks(
        self, asked: Sequence[GangState], most: int, *, beyond: bool
    ) -> dict[GangId, Outlook | None]:
        """When they start if everybody ends as expected and nobody comes; None: that is not found out.

        `asked` in serving order. One future is played for all of them; those for whom it would be another one
        than for the first are left out. `beyond`: in the end what gives no run time ends as well, to see
        whether that would help; it takes as long as there are gangs.
        """
        first = asked[0].id
        if asked[0].nodes:
            asked = asked[:1]  # it does not wait for its own end, but those behind it do
        found: dict[GangId, Outlook | None] = {first: None}
        left = {state.id: state for state in asked}
        ended: list[tuple[GangId, frozenset[NodeName]]] = []
        endless: tuple[GangId, ...] = ()
        self._anew = True
        self._started.clear()
        with self._undone(most, strict=False, freed=True):
            while left and self.trials < self._last:
                now, ending = self._next_ends(but=first if first in left else None)
                if now == inf:
                    now = self._settlement.now
                    endless += tuple(each.id for each in ending)
                    if not ending or not beyond:
                        never = Outlook(inf, tuple(ended), endless=endless if ending else ())
                        found.update(dict.fromkeys(left, never if ended or endless else None))
                        break
                for each in ending:
                    ended.append((each.id, frozenset(each.nodes)))
                    self._end(each)
                    left.pop(each.id, None)
                for each in self._started:
                    self._line_up(each)
                self._settlement.now = now
                self._queues.entitle()
                self._tried.clear()
                # They count on every end that is expected, and are as they were unless somebody has started.
                self._reservations.begin(now, unchanged=not self._started)
                self._started.clear()
                try:
                    for gang, where in self._play(left):
                        names = self._ledger.nodes.names
                        nodes = frozenset(names[column] for column in where.tolist())
                        found[gang] = Outlook(inf if endless else now, tuple(ended), nodes, endless)
                except _Unsure:
                    break
                left = {gang: state for gang, state in left.items() if found.get(gang) is None}
        if found[first] is None and first not in left:  # others came before it in a later turn
            return self.outlooks(asked[:1], most, beyond=beyond)
        return found

    def _next_ends(self, *, but: GangId | None) -> tuple[float, list[GangState]]:
        """The gangs that end next, all that end at one time, `but` one."""
        first, ending = inf, list[GangState]()
        for end, state in self._ends.after(self._settlement.now, but=but):
            if ending and end > first:
                break
            first = end
            ending.append(state)
        return first, ending

    def _leaves(self, state: GangState) -> bool:
        """Room of its pods is promised to somebody already, or room of others to it."""
        departures = self._preemption.departures
        return state.id in departures or not departures.leaving.keys().isdisjoint(state.pods)

    # -- changes, and how they are undone

    @contextmanager
    def _undone(self, most: int, *, strict: bool, freed: bool) -> Iterator[None]:
        """Whatever is changed in here is as it was afterwards."""
        self._last, self._strict, self._freed = self.trials + most, strict, freed
        now, mark = self._settlement.now, self._ledger.mark()
        with self._reservations.set_aside(), self._queues.set_aside(), self._quotas.set_aside():
            try:
                yield
            finally:
                self._ledger.rollback(mark)
                self._settlement.now = now
                for state, values in self._saved.values():
                    if (
                        state.stamp != values["stamp"]
                    ):  # what was remembered of it meanwhile is not what it is
                        values["stamp"] = state.stamp + 1
                    _put_back(state, values)
                    self._settlement.account(state)
                    _put_back(state, values)
                    self._line_up(state)
                self._saved.clear()
                self._tried.clear()
        self._queues.entitle()

    def _save(self, state: GangState) -> None:
        """From here on the state is changed in copies."""
        if state.id not in self._saved:
            values = {name: getattr(state, name) for name in _FIELDS}
            self._saved[state.id] = state, values
            for name, value in values.items():
                if isinstance(value, dict | set):
                    setattr(state, name, value.copy())

    def _edit(self, state: GangState, gang: Gang) -> None:
        self._save(state)
        state.gang = gang
        self._settlement.account(state)
        self._line_up(state)

    def _end(self, state: GangState) -> None:
        self._save(state)
        self._ends.give([state])
        self._quotas.give(state)
        state.gang = state.back_off = None
        for what in (state.pods, state.filled, state.leaving, state.holds, state.planned, state.avoided):
            what.clear()
        state.usage.clear()
        state.nodes.clear()
        self._settlement.account(state)
        self._line_up(state)

    def _line_up(self, state: GangState) -> None:
        if state.want is not None or (state.gang is not None and state.gang.gate is not None):
            self._lines.put(state)
        else:
            self._lines.drop(state.id)

    # -- the cycle

    def _play(self, asked: dict[GangId, GangState]) -> Iterator[tuple[GangId, Columns]]:
        """Gangs take their turns until all who are asked about have had theirs: who of them starts, where.

        What becomes of a gang does not depend on those behind it. So if somebody starts behind one who is
        asked about and waits, he is taken back; and those after him, for whom he would have started, are
        asked about no more.
        """
        to_come, one_waits = set(asked), False
        self._wanted = {state.want for state in asked.values()}
        turns = Turns(
            self._lines, self._queues, self._admission, (), self._hopeless, self._may_fit, seen=False
        )
        for turn in self._in_order(turns):
            gang = turn.state.id
            mine, last = gang in to_come, to_come == {gang}
            where = self._place(turn, mine=mine, last=last, keep=not one_waits)
            if mine and where is not None:
                to_come.remove(gang)
                yield gang, where
            elif mine and turn.state.waits:
                to_come.remove(gang)
                one_waits = True
            if where is not None and one_waits:
                for other in to_come:
                    del asked[other]
                return
            if not to_come:
                return

    def _hopeless(self, state: GangState, want: Want | Full, over: bool) -> bool:
        """As `Starts.hopeless`."""
        if state.want in self._wanted:
            return False  # one refusal passes over all of a kind, and one of them is to have his turn
        if isinstance(want, Full):
            return not self._may_end_others(state, want.want)
        if self._reservations.refusal(state, want) is not None:
            return True
        if not state.plain or not self._is_misfit(want) or self._may_end_others(state, want):
            return False
        return over or not (state.waits and self._reservations.wanted(want))

    def _may_fit(self, want: Want) -> bool:
        return not self._is_misfit(want)

    def _is_misfit(self, want: Want) -> bool:
        """Known not to fit, by what is not altered by this rehearsal."""
        if want in self._tried:
            return True
        if self._freed:
            return want.rules is None and short_of_slots(want, self._slots)
        verdicts = self._misfits.verdicts
        if want not in verdicts:
            return False
        verdict = verdicts[want]
        return verdict is None or not verdict.postponed or want.fits_by_slots

    def _may_end_others(self, state: GangState, want: Want) -> bool:
        if self._anew:
            return self._strict and self._preemption.conceivable(state, want)
        return self._preemption.helps(state, want)

    def _place(self, turn: Turn, *, mine: bool, last: bool, keep: bool) -> Columns | None:
        """As `Starts.place`, without what is not played: where it starts, if it does.

        `mine`: it is asked about; `last`: nobody behind it is; `keep`: it starts for those behind it, too.
        """
        state, want = turn.state, turn.offer.want
        departures = self._preemption.departures
        if not want.parts:
            return None
        if state.back_off is not None or state.id in departures.whole:
            return None
        if self._reservations.refusal(state, want) is not None:
            return None
        if state.id in departures or any(not promise.told for promise in state.holds.values()):
            self._unsure()
            return None
        if self._wants.newly_concerned(state):
            raise _Unsure  # somebody who keeps it off has started here: it wants something else now
        vacant = turn.offer.vacant
        if last and not (state.begun or self._preempts):
            vacant = [()] * len(want.parts)  # that it starts is asked, not which place goes where
        claim = self._starts.claim(state, want)._replace(vacant=vacant, search=False)
        mark, before = self._ledger.mark(), self._ledger.nodes.used.copy()
        try:
            placed = self._placed(turn, claim, mine=mine, last=last)
        except _Unsure:
            self._ledger.rollback(mark)
            raise
        if isinstance(placed, dict) and (mine or placed):
            where = np.flatnonzero((self._ledger.nodes.used[: len(before)] > before).any(axis=0))
            if not keep:
                self._ledger.rollback(mark)
                return where
            devices = self._fit.devices(want, placed, mark) if not last else {}
            self._ledger.commit(mark)
            if not last:
                self.trials += len(placed) // PLACES
                self._save(state)
                self._starts.promise(state, placed, devices)
                self._settlement.account(state)
                self._started.append(state)
            return where
        self._ledger.rollback(mark)
        waits = state.waits and turn.standing is not Standing.OVER and not turn.offer.full
        if waits and self._reservations.wanted(want) and not last:
            self.trials += 1
            self._reservations.wait(state, claim)
        return None

    def _placed(self, turn: Turn, claim: Claim, *, mine: bool, last: bool) -> _Placed:
        """Where it fits; charged, unless it does not."""
        state, want = turn.state, turn.offer.want
        placed: _Placed = None
        if not (turn.offer.full or (state.plain and self._is_misfit(want))):
            if self.trials >= self._last:
                raise _Unsure
            self.trials += 1
            placed = self._reservations.fit(state, claim)
        if isinstance(placed, Verdict):
            if state.plain:
                self._tried.add(want)
            if not (last or placed.proven or want.fits_by_slots):
                self._unsure()
        if isinstance(placed, dict | Reservation):
            return placed
        if mine and self._preempts:
            return self._fit_without_victims(state, claim)
        if not last and self._may_end_others(state, want):
            self._unsure()
        return None

    def _fit_without_victims(self, state: GangState, claim: Claim) -> _Placed:
        found = self._found = self._preemption.would_find(state, claim._replace(search=True))
        return None if found is None else self._starts.fit_without(state, found, claim)

    def _unsure(self) -> None:
        if self._strict:
            raise _Unsure


def _put_back(state: GangState, values: Mapping[str, Any]) -> None:  # Any: a state's fields
    for name, value in values.items():
        setattr(state, name, value)


_FIELDS: Final = tuple(field.name for field in fields(GangState))
