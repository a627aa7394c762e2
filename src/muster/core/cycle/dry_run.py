"""A dry run: the next cycle with one change made, in a trial that is undone.

A remedy must be true when the gang is served: after the gangs before it, with entitlements and reservations
recomputed. So the change is really made (the gang is edited, another ends), the accounts are updated, and
gangs take their turns and are placed, up to the one in question. Then the trial is undone.

A dry run omits two things: exact searches, and victims of the gangs in front. If one of them could matter, or
more than `most` placements would have to be tried, the result is unknown, and the dry run answers no. An
*outlook* further ahead, from one end to the next, continues without them: it is an estimate, not a promise.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import Final

import numpy as np

from muster.core.cycle.charged_domains import Overcharged
from muster.core.cycle.start import PlacementStep
from muster.core.demand import Demand, Request
from muster.core.explain.question import STEPS, Outlook
from muster.core.parts import Parts
from muster.core.placement import Infeasible, Placed
from muster.core.preemption import Victims
from muster.core.queueing import Attempt, Attempts, Tier
from muster.core.reservations.answer import WouldDelay
from muster.core.words.gang import Gang, GangId, NodeName
from muster.core.world.gangs import GangState
from muster.core.world.nodes import Columns

#: So many places that get a node count as one more placement that is tried.
PLACES: Final = 64
#: Steps (`core/work.py`) of a time at which gangs end, besides those of the gangs that are tried then; and of
#: each gang that ends, besides those of the ledger.
ENDS: Final = 10
END: Final = 3


class _Unsure(Exception):
    """Raised if the result depends on something that a dry run omits."""


class DryRun:
    def __init__(self, hold: float, parts: Parts, in_order: Callable[[Attempts], Iterable[Attempt]]) -> None:
        """`hold`: as in `Config`. `in_order` sorts the attempts of a cycle as they are taken."""
        self._world = world = parts.world
        self._nodes, self._queues = world.nodes, world.queues
        self._pending_evictions = world.pending_evictions
        self._infeasible, self._admission, self._pending = parts.infeasible, parts.admission, parts.pending
        self._preemption, self._reservations = parts.preemption, parts.reservations
        self._step = PlacementStep(hold, parts, self, search=False)
        self._in_order = in_order
        #: how many placements were tried in total
        self.trials = 0
        self._most = 0
        #: the equivalence classes of the gangs in question
        self._wanted: set[object] = set()
        #: those of them that were skipped
        self._refused: set[object] = set()
        #: the gang that may preempt here, and the victims that it would preempt
        self._preempting: GangId | None = None
        self._found: Victims | None = None
        #: the answer about it does not depend on what a dry run omits
        self._sure = True
        #: the gang that is placed is in front of one in question
        self._in_front = False
        #: whether entitlements changed: victims may be found where there were none
        self._shares_changed = False
        #: gangs that were given places since reservations were made
        self._started: list[GangState] = []
        #: whether only certain results count
        self._strict = True

    @property
    def as_of(self) -> tuple[Hashable, ...]:
        """A version of the state: while it is the same, so are the results of dry runs."""
        return (
            self._nodes.revision,
            self._world.accounted,
            self._queues.rules_version,
            self._world.quotas.version,
        )

    @property
    def timed(self) -> bool:
        """Whether results also change with time, because there are reservations."""
        return bool(self._reservations.made)

    def starts(self, state: GangState, gang: Gang, most: int) -> bool:
        """Whether the gang, edited to `gang`, would certainly start now."""
        with self._trial(most, strict=True):
            self._edit(state, gang)
            shares = [account.entitled for account in self._queues.accounts.values()]
            self._queues.entitle()
            self._shares_changed = [account.entitled for account in self._queues.accounts.values()] != shares
            self._reservations.begin(self._world.now, unchanged=True)
            try:
                return any(self._play({state.id: state}))
            except _Unsure:
                self._sure = False
                return False

    def starts_without(self, other: GangState, asked: Sequence[GangState], most: int) -> dict[GangId, bool]:
        """Return which of the gangs in `asked` would certainly start now if another ended.

        `asked` in serving order; gangs for which the dry run would differ from the first gang's are left out.
        """
        left, starting = {state.id: state for state in asked}, set[GangId]()
        if not self._leaves(other):
            with self._trial(most, strict=True):
                self._end(other)
                self._queues.entitle()
                self._shares_changed = True
                self._reservations.begin(self._world.now, unchanged=False)
                try:
                    for gang, _ in self._play(left):
                        starting.add(gang)
                except _Unsure:
                    pass
        if asked[0].id not in left:
            return self.starts_without(other, asked[:1], most)
        return {gang: gang in starting for gang in left}

    def preempts(self, state: GangState, most: int) -> tuple[Victims | None, bool]:
        """Return the victims with which the gang would start now if it might preempt, or None.

        Second, whether that is certain.
        """
        if self._pending_evictions or state.gang is None:
            return None, False
        self._found, self._preempting, self._sure = None, state.id, True
        starts = self.starts(state, replace(state.gang, preempts=True), most)
        self._preempting = None
        return (self._found if starts else None), self._sure

    def outlooks(
        self, asked: Sequence[GangState], most: int, until: int, *, beyond: bool
    ) -> dict[GangId, Outlook | None]:
        """Return when gangs start if all gangs end as expected and none arrives; None: not found out.

        `asked` in serving order. One future is simulated for all of them; gangs for which it would differ
        from the first gang's are left out. `until`: no gang ends if `Nodes.steps` would be above it then, and
        starts after that are not found out. `beyond`: finally gangs without a run time end as well, to see
        whether that would help.
        """
        first = asked[0].id
        if asked[0].nodes:
            asked = asked[:1]  # it does not wait for its own end, but gangs behind it do
        found: dict[GangId, Outlook | None] = {first: None}
        left = {state.id: state for state in asked}
        ended: list[tuple[GangId, frozenset[NodeName]]] = []
        endless: tuple[GangId, ...] = ()
        self._shares_changed = True
        self._started.clear()
        with self._trial(most, strict=False):
            while left and self.trials < self._most:
                now, ending = self._next_ends(but=first if first in left else None)
                if now == inf:
                    now = self._world.now
                    endless += tuple(each.id for each in ending)
                    if not ending or not beyond:
                        never = Outlook(inf, tuple(ended), endless=endless if ending else ())
                        found.update(dict.fromkeys(left, never if ended or endless else None))
                        break
                steps = self._nodes.steps + ENDS + END * len(ending)
                if steps > until:
                    break
                self._nodes.steps = steps
                for each in ending:
                    ended.append((each.id, frozenset(each.nodes)))
                    self._end(each)
                    left.pop(each.id, None)
                self._pending.update(self._started)
                self._world.now = now
                self._queues.entitle()
                # Reservations account for every expected end, and are unchanged unless a gang has started.
                self._reservations.begin(now, unchanged=not self._started)
                self._started.clear()
                try:
                    for gang, where in self._play(left):
                        names = self._nodes.names
                        nodes = frozenset(names[column] for column in where.tolist())
                        found[gang] = Outlook(inf if endless else now, tuple(ended), nodes, endless)
                except _Unsure:
                    break
                left = {gang: state for gang, state in left.items() if found.get(gang) is None}
        if found[first] is None and first not in left:  # in a later cycle others were served before it
            return self.outlooks(asked[:1], most, until, beyond=beyond)
        return found

    def _next_ends(self, *, but: GangId | None) -> tuple[float, list[GangState]]:
        """Return the next time at which gangs end, and all gangs that end then, except `but`."""
        first, ending = inf, list[GangState]()
        for end, state in self._world.completions.after(self._world.now, but=but):
            if ending and end > first:
                break
            first = end
            ending.append(state)
        return first, ending

    def _leaves(self, state: GangState) -> bool:
        """Whether room of its pods is promised to another gang already, or room of other gangs to it."""
        pending = self._pending_evictions
        return state.id in pending or not pending.leaving.keys().isdisjoint(state.pods)

    # -- changes

    @contextmanager
    def _trial(self, most: int, *, strict: bool) -> Iterator[None]:
        """Undo on exit all changes made inside the block."""
        self._most, self._strict = self.trials + most, strict
        now = self._world.now
        with self._world.trial():
            self._reservations.save()
            yield
        self._world.now = now
        self._queues.entitle()

    def _save(self, state: GangState) -> None:
        """Let the trial restore the gang, and after that its position in the pending queue."""
        self._world.log.push(self._pending.update, (state,))
        self._world.save(state)

    def _edit(self, state: GangState, gang: Gang) -> None:
        self._save(state)
        state.gang = gang
        self._world.account_for(state)
        self._pending.update((state,))

    def _end(self, state: GangState) -> None:
        self._save(state)
        self._world.completions.give([state])
        self._world.quotas.give(state)
        state.gang = state.back_off = None
        for what in (state.pods, state.filled, state.leaving, state.holds, state.planned, state.avoided):
            what.clear()
        state.usage.clear()
        state.nodes.clear()
        self._world.account_for(state)
        self._pending.update((state,))

    # -- the cycle

    def _play(self, asked: dict[GangId, GangState]) -> Iterator[tuple[GangId, Columns]]:
        """Let gangs attempt to start until all in `asked` have been served; yield which of these start, and
        where.

        A gang's result does not depend on the gangs behind it. So if a gang starts behind one in `asked` that
        waits, the start is taken back. The remaining gangs in `asked`, for which it would have started, are
        removed from `asked`. If reservations last until the next cycle that is played, the gang that waits
        gets its own, and all gangs behind it are removed: theirs might hold up a gang in front of it.
        """
        to_come, one_waits = set(asked), False
        lasting = self._reservations.keeps and not self._strict
        self._wanted = {state.peers for state in asked.values()} - {None}
        self._refused.clear()
        attempts = Attempts(self._pending, self._queues, self._admission, self._cannot_start, self._may_fit)
        for attempt in self._in_order(attempts):
            skipped = {gang for gang in to_come if asked[gang].peers in self._refused}
            one_waits, to_come = one_waits or bool(skipped), to_come - skipped
            if not to_come or (one_waits and lasting):
                break
            gang = attempt.state.id
            mine, last = gang in to_come, to_come == {gang} and not lasting
            where = self._place(attempt, last=last, keep=not one_waits)
            if mine and where is not None:
                to_come.remove(gang)
                yield gang, where
            elif mine and attempt.state.waits and not attempt.borrows:  # else it has another attempt
                to_come.remove(gang)
                one_waits = True
            if not to_come or (one_waits and (lasting or where is not None)):
                break
        else:
            return  # the remaining gangs wait
        for other in to_come:
            del asked[other]

    def _cannot_start(self, state: GangState, demand: Demand, tier: Tier, cap_exceeded: bool) -> bool:
        """As `PlacementStep.cannot_start`, but for gangs in question: one refusal would skip a whole class.

        Beyond entitlement a class in question is skipped like any other, as it must not decide which queue is
        next. All of its gangs wait then.
        """
        refused = not self._is_open(demand) and self._step.cannot_start(state, demand, tier, cap_exceeded)
        if state.peers not in self._wanted:
            return refused
        if refused and tier is Tier.BORROWING:
            self._refused.add(state.peers)
            return True
        return False

    def _may_fit(self, demand: Demand) -> bool:
        return self._is_open(demand) or demand not in self._infeasible

    def _is_open(self, demand: Demand) -> bool:
        """Whether greedy placement has failed on what is free, and an exact search is still to be made."""
        answer = self._infeasible.answer(demand)
        postponed = answer is not None and answer.postponed and not demand.fits_by_slots
        return postponed and self._infeasible.known(demand)

    def _place(self, attempt: Attempt, *, last: bool, keep: bool) -> Columns | None:
        """Place the gang as the cycle does, less what a dry run omits; return its columns if it starts.

        `last`: no gang behind it is in question; `keep`: its start stays for gangs behind it.
        """
        state, demand = attempt.state, attempt.demand
        if self._world.demands.newly_concerned(state):
            raise _Unsure  # a gang with anti-affinity to it has started here: its demand differs now
        if self._step.passed_over(attempt):
            return None
        if not (state.plain and demand in self._infeasible):
            if self.trials >= self._most:
                raise _Unsure
            self.trials += 1
        exclusive = demand.rules is not None and bool(demand.rules.exclusive)
        if last and not (state.begun or self._preempting or exclusive or self._reservations.of(state.id)):
            # Whether it starts matters, not which place is on which node. (It does if the gang is exclusive:
            # that is charged with the domains of its places, `ChargedDomains.judge`.)
            attempt = replace(attempt, vacant=[()] * len(demand.parts))
        before, self._in_front, steps = self._nodes.used.copy(), not last, self._nodes.steps
        with self._world.trial() as trial:
            answer = self._step.answer(attempt, trial)
            where = np.flatnonzero((self._nodes.used[: len(before)] > before).any(axis=0))
            if keep and answer.starts:
                trial.keep()
        self.trials += (self._nodes.steps - steps) // STEPS + len(answer.columns) // PLACES
        match answer.outcome:
            case Placed() if last or (answer.starts and not keep):
                return where
            case Placed() if answer.starts:
                self._world.log.push(self._pending.update, (state,))
                self._started.append(state)
            case (Infeasible() | WouldDelay()) as no if no.postponed and not (last or demand.fits_by_slots):
                self._unsure()
        if not last or isinstance(answer.outcome, Overcharged):  # that may borrow next (`Attempt.borrows`)
            self.trials += not answer.starts and self._step.reserves(attempt)
            self._step.conclude(attempt, answer, self._world.now)
        return where if answer.starts else None

    # -- what a dry run omits

    def may_help(self, state: GangState, demand: Demand) -> bool:
        """Whether victims may help the gang (`VictimSearch`)."""
        if state.id == self._preempting:
            return True
        if self._shares_changed:
            return self._strict and self._preemption.may_help(state, demand, from_scratch=True)
        return self._preemption.may_help(state, demand)

    def victims(self, state: GangState, request: Request) -> Victims | None:
        """No victims, unless it is asked which ones there would be."""
        if state.id == self._preempting:
            self._found, _ = self._preemption.search(state, request._replace(search=True))
            return self._found
        if self._in_front:
            self._unsure()
        return None

    def _unsure(self) -> None:
        if self._strict:
            raise _Unsure
