"""One waiting gang, and the means to try changes without side effects.

Only what `starts` or `starts_without` confirms, by a dry run of the next cycle with the change, is reported.
`fits` and `has_room` check whether there is room, on the ledger as it is. They are cheap enough to find the
largest number of pods by bisection, and to pass over gangs whose end is not enough.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Final, Protocol

from muster.core.demand import Demand, Part, Request
from muster.core.explain.case import Case
from muster.core.parts import Parts
from muster.core.preemption import Victims
from muster.core.words.decisions import Explanation, PodSetExplanation
from muster.core.words.gang import Gang, GangId, NodeName
from muster.core.world.gangs import GangState

NOW: Final = "would start now"
LATER: Final = "would start"
NOT: Final = "not by preemption"
#: Steps (`core/work.py`) after which a question in a cycle tries nothing more.
PATIENCE: Final = 2_000
#: So many steps of a placement count as one more placement that is tried.
STEPS: Final = 50
#: Placements that one dry run may try, and one whole outlook.
MOST: Final = 25
#: The cost of a search for victims, in placements.
VICTIMS: Final = 20
FAR: Final = 50


@dataclass(frozen=True, slots=True)
class Outlook:
    """When a gang would start. `at` is infinite if that requires ends whose time is unknown.

    It is also infinite if the gang has not started when all others have ended: then `endless` is empty.
    """

    at: float
    #: the gangs that would have ended by then, in that order, and the nodes of each
    ended: tuple[tuple[GangId, frozenset[NodeName]], ...]
    #: where the gang would be
    nodes: frozenset[NodeName] = frozenset()
    #: the gangs whose end is unknown
    endless: tuple[GangId, ...] = ()


class DryRun(Protocol):
    """The next cycle with one change made, in a trial: `muster.core.cycle.dry_run` says what its answers are.

    `most`: how many placements may be tried for an answer.
    """

    #: how many placements were tried in total, here or in a dry run
    trials: int

    @property
    def as_of(self) -> Hashable: ...

    @property
    def timed(self) -> bool: ...

    def starts(self, state: GangState, gang: Gang, most: int) -> bool: ...

    def starts_without(
        self, other: GangState, asked: Sequence[GangState], most: int
    ) -> dict[GangId, bool]: ...

    def preempts(self, state: GangState, most: int) -> tuple[Victims | None, bool]: ...

    def outlooks(
        self, asked: Sequence[GangState], most: int, until: int, *, beyond: bool
    ) -> dict[GangId, Outlook | None]: ...


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
    parts: Parts
    dry_run: DryRun
    now: float
    #: the gangs of its queue for which the effect of other gangs' ends is examined, in serving order
    asked: Sequence[GangState]
    foresight: Foresight
    #: how many times as much as usual may be tried
    patience: int = 1
    #: `Nodes.steps` after which nothing more is tried
    until: int = field(init=False)

    def __post_init__(self) -> None:
        self.until = self.parts.world.nodes.steps + PATIENCE * self.patience

    @property
    def exhausted(self) -> bool:
        """Whether so much has been tried that all further answers are no."""
        return self.parts.world.nodes.steps > self.until

    @property
    def demand(self) -> Demand:
        return self.request.demand

    @property
    def short(self) -> list[tuple[Part, PodSetExplanation]]:
        """Return the pod sets that do not get all the pods they want."""
        parts = {part.pod_set: part for part in self.demand.parts}
        return [(parts[told.name], told) for told in self.case.pod_sets if told.fits < told.wanted]

    def fits(self, demand: Demand) -> bool:
        """Whether the queue admits this demand now, and there is room for it beside all reservations."""
        reservations = self.parts.reservations
        if self.exhausted or not self.parts.admission.allows(self.state, demand):
            return False
        if reservations.refusal(self.state, demand) is not None:
            return False
        with self.parts.world.trial():
            reservations.save()
            return self._placed(demand, lambda request: reservations.fit(self.state, request))

    def has_room(self, without: GangState) -> bool:
        """Whether there would be room if another gang ended, regardless of queues and of reservations."""
        if self.exhausted:
            return False
        with self.parts.world.trial():
            self.parts.world.completions.give([without])
            return self._placed(self.demand, self.parts.fit.fit)

    def _placed(self, demand: Demand, fit: Callable[[Request], object]) -> bool:
        """In a trial: whether a request for this demand fits."""
        # No vacant places: which pod would be placed where is not needed, and costs most of a trial.
        nowhere: list[Sequence[int]] = [()] * len(demand.parts)
        steps = self.parts.world.nodes.steps
        found = fit(self.request._replace(demand=demand, vacant=nowhere, preferred={}, search=False))
        self.dry_run.trials += 1 + (self.parts.world.nodes.steps - steps) // STEPS
        return bool(found)

    def starts(self, gang: Gang) -> bool:
        """Whether the gang, edited to `gang`, starts in the next cycle (`DryRun.starts`)."""
        self.dry_run.trials += 1
        return not self.exhausted and self.dry_run.starts(self.state, gang, MOST * self.patience)

    def starts_without(self, other: GangState) -> bool:
        """Whether the gang starts in the next cycle if another ends (`DryRun.starts_without`)."""
        known = self.foresight.ends.setdefault(other.id, {})
        if self.exhausted:
            return known.get(self.state.id, False)
        if self.state.id not in known:
            on = dropwhile(lambda each: each is not self.state, self.asked)
            asked = [each for each in on if each.id not in known]
            self.dry_run.trials += 1
            known |= self.dry_run.starts_without(other, asked, MOST * self.patience * len(asked))
        return known[self.state.id]

    def victims(self) -> tuple[Victims | None, bool]:
        """Return the victims if it might preempt, and whether that is certain (`DryRun.preempts`)."""
        self.dry_run.trials += VICTIMS
        if self.exhausted:
            return None, False
        return self.dry_run.preempts(self.state, MOST * self.patience)

    def outlook(self) -> Outlook | None:
        """Return when the gang starts if no other gang arrives (`DryRun.outlooks`)."""
        known, reserved = self.foresight.outlooks, self.parts.reservations.of
        if self.exhausted:
            return known.get(self.state.id)
        if self.state.id not in known:
            # Those in front may be unknown, too: their question may have been given up.
            on = dropwhile(lambda each: each is not self.state, self.asked)
            asked = [each for each in on if each.id not in known and reserved(each.id) is None]
            most = FAR * self.patience * len(asked)
            known |= self.dry_run.outlooks(asked, most, self.until, beyond=self.patience > 1)
        return known[self.state.id]
