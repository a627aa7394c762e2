"""Places exclusive gangs in domains with which their queue and namespace may be charged.

Such a gang is charged with all of its domains (`world/exclusive_domains.py`), and placement does not know
what they may cost. If they cost too much where placement would have the gang, it is placed in cheaper ones,
and then its minimum only, before it has to wait.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from muster.core.demand import Request
from muster.core.parts import Parts
from muster.core.placement import Infeasible, Placed
from muster.core.preemption import Victims
from muster.core.queueing import Attempt, Tier
from muster.core.reservations.answer import WouldDelay
from muster.core.words.amounts import Usage
from muster.core.words.decisions import Explanation
from muster.core.words.gang import Code


@dataclass(frozen=True, slots=True)
class Overcharged:
    """It fits in domains that its queue or its namespace may not be charged with."""

    refusal: Explanation

    def __bool__(self) -> Literal[False]:
        return False


class ChargedDomains:
    def __init__(self, parts: Parts) -> None:
        self._world, self._reservations = parts.world, parts.reservations
        self._demands = parts.world.demands

    def fit(self, attempt: Attempt, request: Request) -> Placed | Infeasible | WouldDelay | Overcharged:
        """Place an exclusive gang beside the reservations, in domains that it may be charged with."""
        first: Overcharged | None = None
        for tried in self._ever_cheaper(attempt, request):
            with self._world.trial() as trial:
                outcome: Placed | Infeasible | WouldDelay | Overcharged
                outcome = self._reservations.fit(attempt.state, tried)
                if isinstance(outcome, Placed):
                    outcome = self.judge(attempt, outcome, None)
                if outcome:
                    trial.keep()
            if outcome or (first is None and not isinstance(outcome, Overcharged)):
                return outcome
            if isinstance(outcome, Overcharged):
                first = first or outcome
        assert first is not None, "else it has been returned"
        return first

    def _ever_cheaper(self, attempt: Attempt, request: Request) -> Iterator[Request]:
        """Yield the request, and others if it costs too much: first off the domains that cost too much by
        themselves, then for the minimum only.
        """
        yield request
        state, demand = attempt.state, request.demand
        if state.nodes:  # what it has decides where it may grow
            return
        dear = [
            columns
            for size, columns in self._world.exclusive_domains.sizes(demand)
            if self._refusal(attempt, size) is not None
        ]
        off = request.keeping_off(np.concatenate(dear)) if dear else request
        if dear:
            yield off
        if len(demand.parts) == 1 and (part := demand.parts[0]).count > demand.need:
            minimum = self._demands.of_parts(demand, [replace(part, count=demand.need)])
            yield off._replace(demand=minimum, vacant=[request.vacant[0][: demand.need]])

    def judge(self, attempt: Attempt, placed: Placed, victims: Victims | None) -> Placed | Overcharged:
        """Whether queue and namespace may be charged with these domains once the victims have left.

        Places of an open plan of an earlier leader were allowed then.
        """
        state, world = attempt.state, self._world
        names = world.nodes.names
        if all(state.planned.get(place) == names[column] for place, column in placed.columns.items()):
            return placed
        parts = {part.pod_set: part.usage for part in attempt.demand.parts}
        usage = Usage()
        for place in placed.columns:
            usage.add(parts[place.pod_set])
        more = world.exclusive_domains.charge(state, placed.columns.values(), usage)
        with world.trial():
            for victim in victims.gangs if victims is not None else ():
                gone = world.gangs[victim.gang]
                if gone.gang is not None and not victim.pods:
                    freed = Usage.of(gone.usage.items())
                    freed.add(world.exclusive_domains.surcharges.get(gone.id, Usage()))
                    world.queues.give(gone.gang.queue, freed)
            refusal = self._refusal(attempt, more)
        return placed if refusal is None else Overcharged(refusal)

    def _refusal(self, attempt: Attempt, more: Usage) -> Explanation | None:
        """Why a gang may not have domains that charge it with so much more; None: it may."""
        state, queues = attempt.state, self._world.queues
        assert state.gang is not None
        account = queues.find(state.gang.queue)
        if account is None:
            return None
        if not account.free:
            whole = f"as a {state.gang.exclusive} of its own is charged as a whole"
            if told := account.cap_exceeded(more, new=not state.begun):
                return Explanation(Code.QUOTA_EXCEEDED, "queue", f"{told}, {whole}")
            borrows, everything = attempt.tier is Tier.BORROWING, queues.root.entitled
            if not borrows and (told := account.share_exceeded(more, everything)):
                return Explanation(Code.OVER_SHARE, "queue", f"{told}, {whole}")
        told = self._world.quotas.overcharged(state, more)
        return Explanation(Code.QUOTA_EXCEEDED, "queue", told) if told else None
