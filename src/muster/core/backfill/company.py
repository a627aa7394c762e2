"""The affinity guard: whether a reserved gang still fits at its time beside the pods of a gang that passes.

A passing gang can take away more than capacity. The anti-affinity of one of the two may exclude the other,
the reserved gang's spread may become uneven, or a domain that one of them needs exclusively may hold the
other. No amount says which places that costs. So it is tried: the reserved gang is placed on the ledger as
it will be at its time, with the passing gang there. The gang may pass if the reserved gang fits, wherever.

Reservations respect each other from the start: each is found beside the pods of those before it (`meet`).

A trial costs a placement. It is made only where pods can affect each other: if the reserved gang has such
constraints, or the passing gang keeps others off.
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
        """Whether pods placed by this claim may keep the reserved gang off nodes that have capacity."""
        if each.start == inf:  # it has no time that it could miss
            return False
        return each.want.constrained or _alone(each.want) or _alone(claim.want) or _keeps_off(claim)

    def knowing(self, claim: Claim, passer: Claim, columns: Columns) -> Claim:
        """This claim once the passing gang's pods are on these columns."""
        if _keeps_off(passer):  # so far the claim does not know that the passing gang keeps it off
            claim = self._wants.anew(claim)
        if _alone(passer.want):
            claim = claim.keeping_off(self._fit.exclusion.domains(passer.want, columns))
        return claim

    def meet(self, claim: Claim, standing: Iterable[Reservation], start: float) -> Claim:
        """Put the pods of these reservations on the ledger, for a claim that begins at `start`.

        Returns the claim as it is beside them: kept off the nodes that their anti-affinity excludes, and off
        domains that one of the two needs exclusively. Pods that start after `start` satisfy no affinity.
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
        """The footprint of each of its pod sets, and the columns of its pods."""
        column = self._ledger.nodes.column
        for pod_set, who in each.claim.presences.items():
            nodes = [node for place, node in each.nodes.items() if place.pod_set == pod_set]
            yield who, [column[node] for node in nodes if node in column]

    def _keeping_away(self, claim: Claim, who: Presence, columns: Sequence[int]) -> Claim:
        """The claim, off the domains of these pods, as far as its anti-affinity selects them."""
        for term in {term for part in claim.want.parts for term in part.shape.apart if selects(term, who)}:
            index = self._ledger.presences.domains.of(term.key).index
            theirs = index[list(columns)]
            claim = claim.keeping_off(np.flatnonzero(np.isin(index, theirs[theirs >= 0])))
        return claim


def _alone(want: Want) -> bool:
    """Whether it needs exclusive domains."""
    return want.rules is not None and bool(want.rules.exclusive)


def _keeps_off(claim: Claim) -> bool:
    return any(who.apart for who in claim.presences.values())
