"""One waiting gang, and the means to try changes without side effects.

Changes are tried twice. `fits` checks whether there is room, on the ledger as it is, which is cheap enough to
find the largest number of pods by bisection. `starts` makes a dry run of the next cycle with the change, and
only what it confirms is reported.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Final, Protocol

from muster.core.demand import Demand, Part, Request
from muster.core.explain.case import Case
from muster.core.explain.remedies.rehearsal import Outlook, Rehearsal
from muster.core.preemption import Preemption, Victims
from muster.core.reservations import Reservations
from muster.core.words.decisions import Explanation, PodSetExplanation
from muster.core.words.gang import Gang, GangId
from muster.core.world.gangs import GangState

NOW: Final = "would start now"
LATER: Final = "would start"
#: Placements that one dry run may try, and one whole outlook.
MOST: Final = 25
#: The cost of a search for victims, in placements.
VICTIMS: Final = 20
FAR: Final = 50


class Admission(Protocol):
    """Whether queues and quotas admit a start: `muster.core.queueing.admission`."""

    @property
    def rules(self) -> object:
        """A value that differs after each change of rules."""
        ...

    def allows(self, state: GangState, demand: Demand) -> bool: ...

    def admits(self, state: GangState) -> bool:
        """Whether the gang lacks only room, possibly room below a hard cap."""
        ...

    def elsewhere(self, state: GangState) -> Iterator[str]:
        """Yield other queues that would admit the gang, by name."""
        ...


@dataclass
class Foresight:
    """Results for several gangs at once, valid as long as nothing changes."""

    #: by a gang that ends: which gangs start then
    ends: dict[GangId, dict[GangId, bool]] = field(default_factory=dict)
    outlooks: dict[GangId, Outlook | None] = field(default_factory=dict)


@dataclass
class Question:
    """What would start one gang. `request`: what it would be placed with; `case`: why that does not fit."""

    state: GangState
    gang: Gang
    explanation: Explanation
    request: Request
    case: Case
    admission: Admission
    preemption: Preemption
    reservations: Reservations
    rehearsal: Rehearsal
    now: float
    #: the gangs of its queue for which the effect of other gangs' ends is examined, in serving order
    asked: Sequence[GangState]
    foresight: Foresight
    #: how many times as much as usual may be tried
    patience: int = 1
    #: how many placements were tried
    trials: int = 0

    @property
    def demand(self) -> Demand:
        return self.request.demand

    @property
    def short(self) -> list[tuple[Part, PodSetExplanation]]:
        """Return the pod sets that do not get all the pods they want."""
        parts = {part.pod_set: part for part in self.demand.parts}
        return [(parts[told.name], told) for told in self.case.pod_sets if told.fits < told.wanted]

    @property
    def short_of_quota(self) -> bool:
        """Whether a ResourceQuota has no room for the gang's pods."""
        quotas = self.case.world.quotas
        return quotas.concern(self.state) and quotas.exceeded(self.state, self.demand) is not None

    def fits(self, demand: Demand) -> bool:
        """Whether the queue admits this demand now, and there is room for it beside all reservations."""
        if not self.admission.allows(self.state, demand):
            return False
        if self.reservations.refusal(self.state, demand) is not None:
            return False
        with self.reservations.set_aside():
            return self._placed(demand, lambda request: self.reservations.fit(self.state, request))

    def has_room(self, without: GangState | None = None) -> bool:
        """Whether there is room for the gang's demand, regardless of its queue and of reservations."""
        with self._gone(without):
            return self._placed(self.demand, self.case.fit.fit)

    def _placed(self, demand: Demand, fit: Callable[[Request], object]) -> bool:
        self.trials += 1
        ledger = self.case.world.ledger
        # No vacant places: which pod would be placed where is not needed, and costs most of a trial.
        nowhere: list[Sequence[int]] = [()] * len(demand.parts)
        with ledger.trial():
            return bool(fit(self.request._replace(demand=demand, vacant=nowhere, preferred={}, search=False)))

    def starts(self, gang: Gang) -> bool:
        """Whether the gang, edited to `gang`, starts in the next cycle (`Rehearsal.starts`)."""
        with self._counted():
            self.trials += 1
            return self.rehearsal.starts(self.state, gang, MOST * self.patience)

    def starts_without(self, other: GangState) -> bool:
        """Whether the gang starts in the next cycle if another ends (`Rehearsal.starts_without`)."""
        known = self.foresight.ends.setdefault(other.id, {})
        if self.state.id not in known:
            on = dropwhile(lambda each: each is not self.state, self.asked)
            asked = [each for each in on if each.id not in known]
            with self._counted():
                self.trials += 1
                known |= self.rehearsal.starts_without(other, asked, MOST * self.patience * len(asked))
        return known[self.state.id]

    def victims(self) -> Victims | None:
        """Return the victims that the gang would preempt if it might (`Rehearsal.victims`)."""
        self.trials += VICTIMS
        return self.rehearsal.victims(self.state, MOST * self.patience)

    def outlook(self) -> Outlook | None:
        """Return when the gang starts if no other gang arrives (`Rehearsal.outlooks`)."""
        known = self.foresight.outlooks
        if self.state.id not in known:
            asked = [
                each for each in self.asked if each.id not in known and self.reservations.of(each.id) is None
            ]
            with self._counted():
                most = FAR * self.patience * len(asked)
                known |= self.rehearsal.outlooks(asked, most, beyond=self.patience > 1)
        return known[self.state.id]

    @contextmanager
    def _counted(self) -> Iterator[None]:
        before = self.rehearsal.trials
        yield
        self.trials += self.rehearsal.trials - before

    @contextmanager
    def _gone(self, other: GangState | None) -> Iterator[None]:
        """Run the block with no pod of the other gang on any node."""
        with self.case.world.trial():
            if other is not None:
                self.case.world.ends.give([other])
            yield
