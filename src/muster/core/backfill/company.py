"""Company: whether who passes a reserved gang leaves it able to bear those around it when its time has come.

Room is not all that a passer can take away. A gang may keep away from pods of his, he may keep away from it,
its spread may become uneven, or a domain that one of the two wants alone may have the other in it. Which of
a gang's places that spoils is no amount that could be kept up to date, so it is tried: the reserved gang is
placed on the ledger as it will be at its time, with the passer there. He passes if it fits, wherever.

Reservations leave each other able to bear it from the first: each is found beside the pods of those before it
(`meet`).

Trying costs a placement, and is asked only where company can matter: a reserved gang that minds it, or a
passer who keeps others off.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from muster.core.backfill.timetable import Reservation
from muster.core.cluster import Cluster
from muster.core.events import Presence
from muster.core.nodes import Columns
from muster.core.placement import Claim, Want
from muster.core.presences import selects


class Company:
    def __init__(self, cluster: Cluster) -> None:
        self._ledger, self._fit, self._wants = cluster.ledger, cluster.fit, cluster.wants

    def matters(self, each: Reservation, claim: Claim) -> bool:
        """Whether those who are placed by this claim may keep the reserved gang off nodes that have room."""
        if each.start == inf:  # it has no time that it could miss
            return False
        return each.want.constrained or _alone(each.want) or _alone(claim.want) or _keeps_off(claim)

    def knowing(self, claim: Claim, passer: Claim, columns: Columns) -> Claim:
        """This claim once those are there who have been placed on these columns by the passer's."""
        if _keeps_off(passer):  # it has not been known so far that he keeps it off
            claim = self._wants.anew(claim)
        if _alone(passer.want):
            claim = claim.keeping_off(self._fit.exclusion.domains(passer.want, columns))
        return claim

    def meet(self, claim: Claim, standing: Iterable[Reservation], start: float) -> Claim:
        """Put those who have these reservations on the ledger, as others see them, for who begins at `start`.

        Returns the claim as it is beside them: kept off by whom it has not known, and from domains that
        one of the two wants alone. Who comes later than `start` is no company that a gang could wait for.
        """
        waits_for_company = any(part.shape.near for part in claim.want.parts)
        alone, kept_off = _alone(claim.want), False
        for each in standing:
            if not (alone or claim.want.constrained or _alone(each.want) or _keeps_off(each.claim)):
                continue
            later = waits_for_company and each.at > start
            kept_off |= _keeps_off(each.claim)
            for who, columns in self._groups(each):
                if later:
                    claim = self._keeping_away(claim, who, columns)
                    who = replace(who, namespace="")
                for column in columns:
                    self._ledger.take_at(column, (), 1, who)
            for want in (claim.want, each.want):
                if _alone(want):
                    claim = claim.keeping_off(self._fit.exclusion.domains(want, each.columns))
        return self._wants.anew(claim) if kept_off else claim

    def _groups(self, each: Reservation) -> Iterator[tuple[Presence, list[int]]]:
        """What others see of each of its pod sets, and the columns of its pods."""
        column = self._ledger.nodes.column
        for pod_set, who in each.claim.presences.items():
            nodes = [node for place, node in each.nodes.items() if place.pod_set == pod_set]
            yield who, [column[node] for node in nodes if node in column]

    def _keeping_away(self, claim: Claim, who: Presence, columns: Sequence[int]) -> Claim:
        """Off the domains in which these will be, as far as its anti-affinity keeps it from them."""
        for term in {term for part in claim.want.parts for term in part.shape.apart if selects(term, who)}:
            index = self._ledger.presences.domains.of(term.key).index
            theirs = index[list(columns)]
            claim = claim.keeping_off(np.flatnonzero(np.isin(index, theirs[theirs >= 0])))
        return claim


def _alone(want: Want) -> bool:
    """It wants domains for itself."""
    return want.rules is not None and bool(want.rules.exclusive)


def _keeps_off(claim: Claim) -> bool:
    return any(who.apart for who in claim.presences.values())
