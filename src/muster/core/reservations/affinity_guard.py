"""The affinity guard: whether a reserved gang still fits at its time beside the pods of a gang that passes.

A passing gang can take away more than capacity. The anti-affinity of one of the two may exclude the other,
the reserved gang's spread may become uneven, or a domain that one of them needs exclusively may hold the
other. No amount says which places that costs. So it is tried: the reserved gang is placed on the ledger as
it will be at its time, with the passing gang there. The gang may pass if the reserved gang fits, wherever.

Reservations respect each other from the start: each is found beside the pods of those before it
(`beside_reserved`).

A trial costs a placement. It is made only where pods can affect each other: if the reserved gang has such
constraints, or the passing gang keeps others off.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from muster.core.demand import Demand, Request
from muster.core.placement import Fit
from muster.core.reservations.answer import Reservation
from muster.core.words.events import Footprint
from muster.core.world import World
from muster.core.world.footprints import selects
from muster.core.world.nodes import Columns


class AffinityGuard:
    def __init__(self, world: World, fit: Fit) -> None:
        self._ledger, self._fit, self._demands = world.ledger, fit, world.demands

    def concerns(self, each: Reservation, request: Request) -> bool:
        """Whether pods placed by this request may keep the reserved gang off nodes that have capacity."""
        if each.start == inf:  # it has no time that it could miss
            return False
        return each.demand.constrained or _alone(each.demand) or _alone(request.demand) or _keeps_off(request)

    def beside_passer(self, request: Request, passer: Request, columns: Columns) -> Request:
        """This request once the passing gang's pods are on these columns."""
        if _keeps_off(passer):  # so far the request does not know that the passing gang keeps it off
            request = self._demands.in_trial(request)
        if _alone(passer.demand):
            request = request.keeping_off(self._fit.exclusive_domains.domains(passer.demand, columns))
        return request

    def beside_reserved(self, request: Request, standing: Iterable[Reservation], start: float) -> Request:
        """Put the pods of these reservations on the ledger, for a request that begins at `start`.

        Returns the request as it is beside them: kept off the nodes that their anti-affinity excludes, and
        off domains that one of the two needs exclusively. Pods that start after `start` satisfy no affinity.
        """
        has_affinity = any(part.shape.pod_affinity for part in request.demand.parts)
        alone, kept_off = _alone(request.demand), False
        for each in standing:
            if not (alone or request.demand.constrained or _alone(each.demand) or _keeps_off(each.request)):
                continue
            later = has_affinity and each.at > start
            kept_off |= _keeps_off(each.request)
            for footprint, columns in self._groups(each):
                if later:
                    request = self._keeping_away(request, footprint, columns)
                    footprint = replace(footprint, namespace="")
                for column in columns:
                    self._ledger.take_at(column, (), 1, footprint)
            for demand in (request.demand, each.demand):
                if _alone(demand):
                    request = request.keeping_off(self._fit.exclusive_domains.domains(demand, each.columns))
        return self._demands.in_trial(request) if kept_off else request

    def _groups(self, each: Reservation) -> Iterator[tuple[Footprint, list[int]]]:
        """The footprint of each of its pod sets, and the columns of its pods."""
        column = self._ledger.nodes.column
        for pod_set, footprint in each.request.footprints.items():
            nodes = [node for place, node in each.nodes.items() if place.pod_set == pod_set]
            yield footprint, [column[node] for node in nodes if node in column]

    def _keeping_away(self, request: Request, footprint: Footprint, columns: Sequence[int]) -> Request:
        """The request, off the domains of these pods, as far as its anti-affinity selects them."""
        for term in {
            term
            for part in request.demand.parts
            for term in part.shape.pod_anti_affinity
            if selects(term, footprint)
        }:
            index = self._ledger.footprints.domains.of(term.key).index
            theirs = index[list(columns)]
            request = request.keeping_off(np.flatnonzero(np.isin(index, theirs[theirs >= 0])))
        return request


def _alone(demand: Demand) -> bool:
    """Whether it needs exclusive domains."""
    return demand.rules is not None and bool(demand.rules.exclusive)


def _keeps_off(request: Request) -> bool:
    return any(footprint.pod_anti_affinity for footprint in request.footprints.values())
