"""One gang that waits, and the means to try changes without leaving a trace.

Changes are tried twice. `fits` asks whether there is room, on the ledger as it is, which is cheap enough to
look for the largest number of pods by halves. `starts` rehearses the next cycle with the change made, and
only what it confirms is told.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Final, Protocol

from muster.core.backfill import Reservations
from muster.core.decisions import Explanation, PodSetExplanation
from muster.core.explain.case import Case
from muster.core.fit import Claim
from muster.core.gang import Gang, GangId
from muster.core.gangs import GangState
from muster.core.placement import Part, Want
from muster.core.preemption import Preemption
from muster.core.preemption.victims import Found
from muster.core.remedies.rehearsal import Outlook, Rehearsal

NOW: Final = "would start now"
LATER: Final = "would start"
#: Placements that one rehearsal may try, and one outlook from end to end.
MOST: Final = 25
#: What a search for victims counts, in placements.
VICTIMS: Final = 20
FAR: Final = 50


class Admission(Protocol):
    """What queues and quotas say to a start: `muster.core.admission`."""

    @property
    def rules(self) -> object:
        """Something else after each change of rules."""
        ...

    def allows(self, state: GangState, want: Want) -> bool: ...

    def admits(self, state: GangState) -> bool:
        """Whether room is all that it lacks, be it below a hard cap."""
        ...

    def elsewhere(self, state: GangState) -> Iterator[str]:
        """Other queues that would let it start, by name."""
        ...


@dataclass
class Foresight:
    """What was found out for several gangs at once, as long as nothing changes."""

    #: who starts if another ends, by that other
    ends: dict[GangId, dict[GangId, bool]] = field(default_factory=dict)
    outlooks: dict[GangId, Outlook | None] = field(default_factory=dict)


@dataclass
class Question:
    """What would start this gang? `claim` is what it would be placed with, `case` why that does not fit."""

    state: GangState
    gang: Gang
    explanation: Explanation
    claim: Claim
    case: Case
    admission: Admission
    preemption: Preemption
    reservations: Reservations
    rehearsal: Rehearsal
    now: float
    #: the gangs of its queue for which it is asked what the ends of others mean, in serving order
    asked: Sequence[GangState]
    foresight: Foresight
    #: how many times as much as usual may be tried
    patience: int = 1
    #: how many placements were tried
    trials: int = 0

    @property
    def want(self) -> Want:
        return self.claim.want

    @property
    def short(self) -> list[tuple[Part, PodSetExplanation]]:
        """The pod sets that do not get what they want."""
        parts = {part.pod_set: part for part in self.want.parts}
        return [(parts[told.name], told) for told in self.case.pod_sets if told.fits < told.wanted]

    @property
    def short_of_quota(self) -> bool:
        """A ResourceQuota has no room for its pods."""
        quotas = self.case.cluster.quotas
        return quotas.concern(self.state) and quotas.exceeded(self.state, self.want) is not None

    def fits(self, want: Want) -> bool:
        """Whether its queue lets it have this now, and there is room for it beside all reservations."""
        if not self.admission.allows(self.state, want):
            return False
        if self.reservations.refusal(self.state, want) is not None:
            return False
        with self.reservations.set_aside():
            return self._placed(want, lambda claim: self.reservations.fit(self.state, claim))

    def has_room(self, without: GangState | None = None) -> bool:
        """Whether there is room for what it wants, whatever its queue says and whoever has a reservation."""
        with self._gone(without):
            return self._placed(self.want, self.case.cluster.fit.fit)

    def _placed(self, want: Want, fit: Callable[[Claim], object]) -> bool:
        self.trials += 1
        ledger = self.case.cluster.ledger
        # No vacant places: which pod would go where is nobody's question, and costs most of a trial.
        nowhere: list[Sequence[int]] = [()] * len(want.parts)
        mark = ledger.mark()
        placed = fit(self.claim._replace(want=want, vacant=nowhere, preferred={}, search=False))
        ledger.rollback(mark)
        return isinstance(placed, dict)

    def starts(self, gang: Gang) -> bool:
        """Whether it starts in the next cycle as this gang (`Rehearsal.starts`)."""
        with self._counted():
            self.trials += 1
            return self.rehearsal.starts(self.state, gang, MOST * self.patience)

    def starts_without(self, other: GangState) -> bool:
        """Whether it starts in the next cycle if another ends (`Rehearsal.starts_without`)."""
        known = self.foresight.ends.setdefault(other.id, {})
        if self.state.id not in known:
            on = dropwhile(lambda each: each is not self.state, self.asked)
            asked = [each for each in on if each.id not in known]
            with self._counted():
                self.trials += 1
                known |= self.rehearsal.starts_without(other, asked, MOST * self.patience * len(asked))
        return known[self.state.id]

    def victims(self) -> Found | None:
        """Whom it would end if it might (`Rehearsal.victims`)."""
        self.trials += VICTIMS
        return self.rehearsal.victims(self.state, MOST * self.patience)

    def outlook(self) -> Outlook | None:
        """When it starts if nobody comes (`Rehearsal.outlooks`)."""
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
        """With nothing of another gang on any node."""
        ledger = self.case.cluster.ledger
        mark = ledger.mark()
        if other is not None:
            self.case.cluster.ends.give([other])
        try:
            yield
        finally:
            ledger.rollback(mark)
