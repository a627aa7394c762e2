"""One gang that waits, and the means to try changes on the ledger without leaving a trace."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol

from muster.core.decisions import Explanation, PodSetExplanation
from muster.core.exact import Verdict
from muster.core.explain.case import Case
from muster.core.fit import Claim
from muster.core.gangs import GangState
from muster.core.placement import Part, Want

NOW: Final = "would start now"
LATER: Final = "would start"


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

    def gone(self, other: GangState) -> AbstractContextManager[None]:
        """As if another gang used nothing."""
        ...


@dataclass
class Question:
    """What would start this gang? `claim` is what it would be placed with, `case` why that does not fit."""

    state: GangState
    explanation: Explanation
    claim: Claim
    case: Case
    admission: Admission
    now: float
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

    def fits(self, want: Want, *, anywhere: bool = False) -> bool:
        """Whether this would start now: it fits, delays nobody, and its queue would let it.

        `anywhere`: whatever its queue says.
        """
        if not anywhere and not self.admission.allows(self.state, want):
            return False
        self.trials += 1
        ledger = self.case.cluster.ledger
        # No vacant places: which pod would go where is nobody's question, and costs most of a trial.
        nowhere: list[Sequence[int]] = [()] * len(want.parts)
        claim = replace(self.claim, want=want, vacant=nowhere, preferred={}, search=False)
        reservations = self.case.cluster.reservations
        before = ledger.nodes.used.copy() if reservations.binding else None
        mark = ledger.mark()
        fits = not isinstance(self.case.cluster.fit.fit(claim), Verdict)
        if fits and before is not None:
            fits = reservations.spares(self.state, before)
        ledger.rollback(mark)
        return fits

    @contextmanager
    def gone(self, other: GangState) -> Iterator[None]:
        """With nothing of another gang on any node."""
        ledger = self.case.cluster.ledger
        mark = ledger.mark()
        pods = (self.case.cluster.pods[pod] for pod in sorted(other.pods))
        bound = [(pod.node, pod.requests, pod.presence.device, pod.presence) for pod in pods]
        held = [(h.node, h.requests, h.device, h.presence) for _, h in sorted(other.holds.items())]
        for node, requests, device, presence in [*bound, *held]:
            if node in ledger.nodes.column:
                ledger.give(node, requests, device, presence)
        try:
            with self.admission.gone(other):
                yield
        finally:
            ledger.rollback(mark)
