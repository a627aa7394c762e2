"""Keeps the state around `commit.step`: what the core has assigned, and what each gang waits for.

The committer is pure except for its own state: it receives decisions, changes and outcomes, and returns
the writes to make now. Its driver makes the writes, in any order between gangs, and reports the outcomes.
The committer skips a gang while writes for it are under way or the mirror does not show their effects yet.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from muster.core.words.decisions import Assign, Decision, Evict, Explanation, Release, Wait
from muster.core.words.decisions import Victim as ChosenVictim
from muster.core.words.devices import Allocation, DevicesChanged
from muster.core.words.events import CommitFailed, Event, NodeRemoved, PlacesLost, PodsBound
from muster.core.words.gang import GangId, NodeName, Place
from muster.effects.execute import Outcome
from muster.kube.errors import Conflict
from muster.runtime.budget import WriteBudget
from muster.runtime.commit.outcomes import learn, repeated
from muster.runtime.commit.refreshes import Refreshes
from muster.runtime.commit.refusals import readmitted
from muster.runtime.commit.step import step
from muster.runtime.commit.view import NEVER, GangView, Limits, RetryState, Unfenced, Victim
from muster.runtime.consent import agreed, key_of
from muster.runtime.observed import (
    Observed,
    foreign,
    is_shared,
    look_up,
    lost,
    namesakes,
    record_of,
    victim_of,
)
from muster.runtime.plan_record import (
    PlacementPlan,
    Plan,
    RecreationPlan,
    VictimRef,
)
from muster.runtime.writes import Expectation, Write, aim, expectation
from muster.translate.disclosure import EVERYTHING, Disclosure
from muster.translate.pods import live

#: Seconds after which a gang is stepped even if the mirror has not shown what was expected. Every write
#: is conditional, so acting on an outdated picture fails but does no harm.
LONGEST_WAIT: Final = 5.0


@dataclass(slots=True)
class _Commit:
    """The state that the committer keeps for one gang."""

    state: RetryState = field(default_factory=RetryState)
    assigned: dict[Place, NodeName] = field(default_factory=dict)
    #: which shared GPU of its node each place was assigned; valid as long as the place is assigned
    devices: dict[Place, int] = field(default_factory=dict)
    #: the devices that the claims of each place's pod were assigned; valid as long as the place is assigned
    allocations: dict[Place, tuple[Allocation, ...]] = field(default_factory=dict)
    #: victims that the core has chosen for this gang; writes of these victims may still be under way
    named: tuple[ChosenVictim, ...] = ()
    #: the same victims with their pods and owners looked up, until they are gone
    chosen: tuple[VictimRef, ...] = ()
    #: gangs of which pods are to leave for this one, and those that leave as a whole and still have live pods
    awaited: set[GangId] = field(default_factory=set)
    ending: set[GangId] = field(default_factory=set)
    explanation: Explanation | None = None
    working: bool = False
    #: what the last writes were for, and how often they have been repeated in a row
    tried: tuple[object, ...] = ()
    repeats: int = 0
    expected: list[Expectation] = field(default_factory=list)
    expected_until: float = 0.0
    timer: float = NEVER  # the gang's earliest timer that is still to come

    def spare(self) -> None:
        """Spares the victims that are in no plan yet; the gang's next step frees them."""
        self.named, self.chosen = (), ()

    def take_back(self, events: Iterable[Event]) -> None:
        """Removes at once the assignments that the core takes back when it receives these events."""
        for event in events:
            match event:
                case PlacesLost(places=places):
                    for place in places:
                        self.assigned.pop(place, None)
                case CommitFailed():
                    self.assigned.clear()
                    self.spare()


class Committer:
    def __init__(
        self,
        observed: Observed,
        epoch: int,
        limits: Limits | None = None,
        names: Disclosure = EVERYTHING,
        budget: WriteBudget | None = None,
    ) -> None:
        """`names`: which other gangs what it writes may name; `budget`: of refreshes, its own by default."""
        self.epoch, self.names = epoch, names
        self.limits = limits or Limits()
        self._observed = observed
        self._commits: dict[GangId, _Commit] = {}
        self._changed: dict[GangId, None] = {}  # a set that keeps its order
        self._timers: list[tuple[float, GangId]] = []
        #: victims that are whole gangs → beneficiary. From the lookup of its pods until they are gone, a
        #: victim belongs to its beneficiary: a pod that it bound in the meantime would be left behind
        self._ending: dict[GangId, GangId] = {}
        self._refreshes = Refreshes(budget or WriteBudget())
        #: gangs that must not be written to yet
        self._unfenced: Mapping[GangId, Unfenced] = {}
        #: gangs that wait for pods of this one to leave
        self._awaited_by: dict[GangId, set[GangId]] = {}
        #: nodes removed since the last step; gangs that were assigned to them are to be stepped
        self._removed: set[NodeName] = set()
        #: nodes whose devices have changed since; gangs that were assigned devices
        self._redeviced: set[str] = set()
        self._allocating: dict[GangId, None] = {}

    def adopt(self, now: float) -> None:
        """Takes over the plans that are open now, of any epoch; called once, when recovery starts."""
        for gang in self._observed.planned():
            commit = self._commit(gang)
            uids = frozenset(plan.uid for plan in self._observed.plans(gang))
            commit.state = replace(commit.state, adopted=uids)
            self._refresh(gang, now)  # notes the gang's victims, before any of them is stepped
            self.changed(gang)

    def changed(self, gang: GangId) -> None:
        """Marks a gang as changed, and with it the gangs that wait for its pods to leave."""
        self._changed[gang] = None
        self._changed.update(dict.fromkeys(self._awaited_by.get(gang, ())))

    def renewed(self, gang: GangId) -> None:
        """Takes a change of a gang's pods that decides nothing: it may still be what a write waits for."""
        for one in (gang, *self._awaited_by.get(gang, ())):
            if (commit := self._commits.get(one)) is not None and commit.expected:
                self._changed[one] = None

    def hold_back(self, unfenced: Mapping[GangId, Unfenced]) -> None:
        """Replaces the set of gangs that must not be written to: exactly these, from now on."""
        before, self._unfenced = self._unfenced, unfenced
        for gang in sorted(before.keys() ^ unfenced.keys()):
            self.changed(gang)

    def readmitted(self, now: float) -> tuple[Event, ...]:
        """Takes a change of admission: retries what was refused. Returns the events that end back-offs."""
        events: list[Event] = []
        for gang, commit in sorted(self._commits.items()):
            if commit.state.refusals or commit.state.retries:
                if commit.state.until > now:
                    events.append(CommitFailed(gang, now, "an admission policy or webhook has changed"))
                commit.state = readmitted(commit.state, now)
                self.changed(gang)
        return tuple(events)

    def recorded(self, gang: GangId) -> Plan:
        """Returns the open plan of a gang that has one, with only those of its victims that count."""
        plan = self._observed.plans(gang)[-1]
        if isinstance(plan, RecreationPlan):
            return plan
        return replace(plan, victims=self._counting(gang, plan))

    def decided(self, decision: Decision) -> None:
        match decision:
            case Assign(gang, nodes, devices, claims):
                commit = self._commit(gang)
                commit.assigned.update(nodes)
                commit.devices = {p: d for p, d in commit.devices.items() if p not in nodes} | dict(devices)
                if commit.allocations or claims:
                    kept = {p: of for p, of in commit.allocations.items() if p not in nodes}
                    commit.allocations = {**kept, **claims}
                    self._allocating[gang] = None
                commit.explanation = None
                self.changed(gang)
            case Evict(victims, beneficiary):
                commit = self._commit(beneficiary)
                commit.named += victims
                for victim in victims:
                    commit.awaited.add(victim.gang)
                    self._awaited_by.setdefault(victim.gang, set()).add(beneficiary)
                    if not victim.pods:
                        self._commit(victim.gang).assigned.clear()
                self.changed(beneficiary)
            case Release(gang, places):
                commit = self._commit(gang)
                for place in places:
                    commit.assigned.pop(place, None)
                if not commit.assigned:
                    commit.spare()
                self.changed(gang)
            case Wait(gang, explanation):
                self._commit(gang).explanation = explanation
                self.changed(gang)

    def observe(self, event: Event) -> None:
        """Takes an event that the core receives, too.

        An assigned place that is filled needs no more work, and one on a removed node is lost. One whose node
        has other devices may have lost them, or no longer has to wait for them.
        """
        if isinstance(event, NodeRemoved):
            self._removed.add(event.name)
        elif isinstance(event, DevicesChanged):
            self._redeviced.add(event.node)
        elif isinstance(event, PodsBound) and event.gang is not None:
            for place in event.pods.values():
                if place is not None:
                    self._commit(event.gang).assigned.pop(place, None)

    def is_ending(self, gang: GangId) -> bool:
        """Whether the gang is the victim of another gang, and not gone yet."""
        return gang in self._ending

    def due(self, now: float) -> list[GangId]:
        """Returns the gangs to step now, in order of change; each is returned once and then forgotten.

        A gang that is not free is forgotten, too: it waits for a change, and that change marks it again.
        """
        while self._timers and self._timers[0][0] <= now:
            _, gang = heapq.heappop(self._timers)
            self.changed(gang)
            if commit := self._commits.get(gang):
                commit.timer = NEVER
        if removed := self._removed:
            for gang, commit in self._commits.items():
                if not removed.isdisjoint(commit.assigned.values()):
                    self.changed(gang)
            removed.clear()
        if redeviced := self._redeviced:
            for gang in list(self._allocating):
                assigned = commit.assigned if (commit := self._commits.get(gang)) is not None else {}
                if not assigned:
                    del self._allocating[gang]
                elif not redeviced.isdisjoint(assigned.values()):
                    self.changed(gang)
            redeviced.clear()
        for gang in self._refreshes.due(now):
            self.changed(gang)
        due, self._changed = self._changed, {}
        return [gang for gang in due if self._is_free(gang, now)]

    def next_timer(self) -> float | None:
        timers = (self._timers[0][0] if self._timers else None, self._refreshes.next())
        return min((timer for timer in timers if timer is not None), default=None)

    def work(self, gang: GangId, now: float) -> tuple[tuple[Write, ...], tuple[Event, ...]]:
        """Returns the writes to make for this gang, and events for the core. Report outcomes to `done`."""
        self._refresh(gang, now)
        if gang in self._ending:
            return (), ()
        commit, view = self._commit(gang), self.view(gang, now)
        view = replace(view, refreshes=self._refreshes.take(gang))
        taken = step(view, commit.state, now, self.limits)
        if taken.wants is not None:
            self._refreshes.want(gang, taken.wants)
        commit.state = taken.state
        commit.working = bool(taken.writes)
        self._wake(gang, taken.wake, now)
        commit.take_back(taken.events)
        if taken.events:
            self.changed(gang)  # fewer places are assigned now: something else to do or to wait for
        if view.group is None and not taken.writes and not view.plans:
            self._commits.pop(gang, None)
            self._refreshes.forget(gang)
        return taken.writes, taken.events

    def done(self, gang: GangId, outcomes: Sequence[Outcome[Write]], now: float) -> tuple[Event, ...]:
        """Takes the outcomes of a gang's writes, and returns the events for the core."""
        commit = self._commit(gang)
        commit.working = False
        events: tuple[Event, ...] = ()
        for outcome in outcomes:
            commit.state, learnt = learn(gang, commit.state, outcome.effect, outcome.error, now, self.limits)
            events += learnt
            if outcome.error is None or isinstance(outcome.error, Conflict):
                expected = expectation(outcome.effect, outcome.revision)
                commit.expected += [expected] if expected is not None else []
        commit.expected_until = now + LONGEST_WAIT
        if commit.state.retry_at <= now:  # else a write has failed, and has a pause of its own
            aims = tuple(aim(outcome.effect) for outcome in outcomes)
            commit.repeats = commit.repeats + 1 if any(one in commit.tried for one in aims[:1]) else 0
            commit.tried = aims
            commit.state = repeated(commit.state, commit.repeats, now, self.limits)
        commit.take_back(events)
        self.changed(gang)
        return events

    def view(self, gang: GangId, now: float) -> GangView:
        """Returns what is known of a gang now; changes nothing."""
        observed, commit = self._observed, self._commit(gang)
        group = observed.groups.get(gang)
        plans = tuple(observed.plans(gang))
        return GangView(
            id=gang,
            epoch=self.epoch,
            group=group,
            record=record_of(observed, group),
            plans=plans,
            assigned=commit.assigned,
            nodes=observed.nodes,
            devices=commit.devices,
            allocations=commit.allocations,
            chosen=commit.chosen,
            victims=self._victims(gang),
            namesakes=tuple(namesakes(observed, plans[-1])) if plans else (),
            explanation=commit.explanation,
            unfenced=foreign(observed, group, now) or self._unfenced.get(gang),
            owner_shared=group is not None and is_shared(observed, group),
            present=observed.present,
            find=observed.find,
            holders=observed.holders,
            by_number=observed.by_number,
            names=self.names,
            lost=partial(lost, observed, now=now),
        )

    # -- below: in order of call

    def _commit(self, gang: GangId) -> _Commit:
        commit = self._commits.get(gang)
        if commit is None:
            commit = self._commits[gang] = _Commit()
        return commit

    def _refresh(self, gang: GangId, now: float) -> None:
        """Brings a gang's victims up to date: looks up the newly chosen, and forgets those that are gone."""
        commit = self._commit(gang)
        group = self._observed.groups.get(gang)
        if group is None or group.finished:
            commit.spare()
        commit.chosen += tuple(look_up(self._observed, victim, now) for victim in commit.named)
        commit.named = ()
        chosen = [
            victim for victim in (victim_of(self._observed, each) for each in commit.chosen) if victim.pods
        ]
        commit.chosen = tuple(victim.recorded for victim in chosen)
        self._note_endings(gang, [*self._victims(gang), *chosen])

    def _is_free(self, gang: GangId, now: float) -> bool:
        """Whether no writes are under way, neither for the gang nor for the victims to be looked up."""
        named = self._commits[gang].named if gang in self._commits else ()
        return self._is_at_rest(gang, now) and all(self._is_at_rest(victim.gang, now) for victim in named)

    def _is_at_rest(self, gang: GangId, now: float) -> bool:
        commit = self._commits.get(gang)
        if commit is None:
            return True
        if commit.working:
            return False
        find = self._observed.find
        if commit.expected:
            commit.expected = [e for e in commit.expected if not e.met(find(e.kind, e.key))]
            if commit.expected and now < commit.expected_until:
                self._wake(gang, commit.expected_until, now)
                return False
            commit.expected.clear()
        return True

    def _wake(self, gang: GangId, at: float, now: float) -> None:
        commit = self._commit(gang)
        if now < at < commit.timer:
            commit.timer = at
            heapq.heappush(self._timers, (at, gang))

    def _victims(self, gang: GangId) -> tuple[Victim, ...]:
        """Returns the victims of the newest plan as they are now."""
        plans = self._observed.plans(gang)
        if not plans or not isinstance(plans[-1], PlacementPlan):
            return ()
        counting = self._counting(gang, plans[-1])
        key = key_of(gang, plans[-1], self._observed) if counting else ""
        return tuple(replace(victim_of(self._observed, victim), key=key) for victim in counting)

    def _counting(self, gang: GangId, plan: PlacementPlan) -> tuple[VictimRef, ...]:
        """Returns the victims of a plan that count: those that the core has chosen, and those that agree."""
        chosen = self._commit(gang).chosen
        return tuple(v for v in plan.victims if v in chosen or agreed(plan, gang, v, self._observed))

    def _note_endings(self, gang: GangId, victims: Sequence[Victim]) -> None:
        """Pauses the commits of victims while their pods live; afterwards each is a gang like any other."""
        commit = self._commit(gang)
        staying = {victim.recorded.gang for victim in victims if victim.pods}
        for victim in commit.awaited - staying:
            waiting = self._awaited_by[victim]
            waiting.discard(gang)
            if not waiting:
                del self._awaited_by[victim]
        for victim in staying:
            self._awaited_by.setdefault(victim, set()).add(gang)
        ending = {v.recorded.gang for v in victims if v.recorded.whole and any(map(live, v.pods))}
        for victim in sorted(commit.ending - ending):
            if self._ending.get(victim) == gang:
                del self._ending[victim]
                self._changed[victim] = None
        self._ending.update(dict.fromkeys(ending, gang))
        commit.awaited, commit.ending = staying, ending
