"""Places demands of which subgroups have rules of their own (docs/topology.md, "Rules of a part").

Each of these subgroups is a *piece* that is placed as a gang with its rules would be; the rest of the demand
is one more piece. Pieces are placed one after the other, each as far as it goes. If a later one has no room,
the earlier ones are tried in other domains, depth first; then in another order; and then all of them with no
more pods than the minimum takes. If the whole gang has to gather as well, all of that is done within one of
its domains after the other.

Only domains are varied, and not where in a domain a piece is. So an answer "infeasible" stays open, unless
one piece alone is proven not to fit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations
from typing import Final

import numpy as np

from muster.core.demand import Demand, Part, Request, Rules, cut
from muster.core.placement.answer import Infeasible, Placed, Reason
from muster.core.placement.exact import Exact
from muster.core.placement.topology import SEARCHES, TRIES, TopologyPlacement
from muster.core.placement.topology.fill import hold
from muster.core.placement.topology.rules import Levels
from muster.core.words.gang import Place
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Columns, recent

#: Placements of pieces per request, and orders of the pieces.
PLACEMENTS: Final = 96
ORDERS: Final = 6
#: Demands whose pieces are remembered.
_KEPT: Final = 1024
#: Parts of a pod's size, by which the smallest pods are chosen.
_SIZES: Final = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A part of a demand that is placed by itself: a subgroup with rules ("" = all without)."""

    subgroup: str
    demand: Demand


def pieces(demand: Demand) -> list[Piece]:
    """Return the subgroups with rules, the largest first, and then the rest, if there is any."""
    assert demand.rules is not None
    ruled = dict(demand.rules.subgroups)
    by_name: dict[str, list[Part]] = {}
    for part in demand.parts:
        by_name.setdefault(part.subgroup if part.subgroup in ruled else "", []).append(part)
    found = []
    for name, parts in by_name.items():
        minima = tuple(
            each for each in demand.minima if each[0] == name or (not name and each[0] not in ruled)
        )
        jointly = dict(minima)
        need = sum(part.need for part in parts if part.subgroup not in jointly) + sum(jointly.values())
        found.append(Piece(name, Demand(tuple(parts), need, ruled.get(name), minima)))
    return sorted(found, key=lambda piece: (not piece.subgroup, -piece.demand.need))


class SubgroupPlacement:
    """Places requests whose demands have rules of subgroups, on one ledger."""

    def __init__(
        self,
        ledger: Ledger,
        topology: TopologyPlacement,
        exact: Exact,
        anywhere: Callable[[Request], Placed | Infeasible],
    ) -> None:
        """`anywhere`: places a request without rules (`Fit.anywhere`)."""
        self._ledger, self.topology, self.exact, self._anywhere = ledger, topology, exact, anywhere
        self._known: dict[Demand, tuple[list[Piece], list[Piece]]] = {}

    def place(self, request: Request) -> Placed | Infeasible:
        """As `Fit.fit`. Exclusive domains of other gangs are excluded already."""
        demand = request.demand
        whole, lean = recent(self._known, demand, self._divided, _KEPT)
        found = self._place(request._replace(search=False), whole, lean)
        if found or not (request.search and found.postponed):
            return found
        if not self.exact.grants(request.namespace, demand):
            return Infeasible(Reason.UNSEARCHED)
        with self.exact.lending(SEARCHES):
            found = self._place(request, whole, lean)
        return found if found or not found.postponed else Infeasible(Reason.BUDGET)

    def _divided(self, demand: Demand) -> tuple[list[Piece], list[Piece]]:
        """Return the pieces, and those with only the places that make up the minimum, if these are fewer."""
        whole = pieces(demand)
        if demand.need >= sum(part.count for part in demand.parts):
            return whole, []
        slots = self.topology.slots
        sizes = [{"": 1 + int(_SIZES * slots.room(part.shape).size)} for part in demand.parts]
        return whole, pieces(replace(demand, parts=cut(demand, {"": 0}, sizes)))

    def _place(self, request: Request, whole: list[Piece], lean: list[Piece]) -> Placed | Infeasible:
        attempt = _Attempt(self, request)
        for outside in self._grounds(request):
            within = request if outside is None else request.keeping_off(outside)
            for some in filter(None, (whole, lean)):
                for order in islice(permutations(some), ORDERS):
                    with self._ledger.log.trial() as tried:
                        placed = attempt.place(order, within)
                        if placed is not None and self._holds(request, placed):
                            tried.keep()
                            return Placed(placed)
                    if attempt.proven is not None:
                        return attempt.proven
        return Infeasible(Reason.UNSEARCHED if attempt.postponed else Reason.BUDGET)

    def _grounds(self, request: Request) -> Iterator[Columns | None]:
        """Yield where not to place the gang, for each domain in which it may be; None: it may be anywhere."""
        assert request.demand.rules is not None
        if not request.demand.rules.gather:
            yield None
            return
        if (search := self.topology.search(request)) is None:
            return
        everywhere = np.arange(len(self._ledger.nodes))
        for level, asked in search.tries():
            for number in search.domains.of(level, asked)[:TRIES].tolist():
                yield np.setdiff1d(everywhere, search.domains.columns(level, number))

    def _holds(self, request: Request, placed: dict[Place, int]) -> bool:
        """Whether this satisfies all minima, and the multiples of the whole gang."""
        demand, topology = request.demand, self.topology.topology
        counts = [sum(place.pod_set == part.pod_set for place in placed) for part in demand.parts]
        levels = Levels.of(demand.rules or Rules(), topology.layers)
        if levels is None or demand.short(counts):
            return False
        there = np.array(sorted(request.settled.values()), np.intp)
        return hold(levels.multiples, topology, np.array(sorted(placed.values()), np.intp), there)

    def placed(self, request: Request) -> Placed | Infeasible:
        """Place one piece."""
        if request.demand.rules is not None:
            return self.topology.place(request)
        return self._anywhere(request)

    def domain(self, demand: Demand, columns: Sequence[int]) -> Columns | None:
        """Return all columns of the domain in which a piece has to stay; None if it need not stay in one."""
        topology = self.topology.topology
        levels = Levels.of(demand.rules, topology.layers) if demand.rules is not None else None
        if levels is None or not levels.limit or not columns:
            return None
        return topology.columns(levels.limit, int(topology.levels[levels.limit].domains[columns[0]]))


class _Attempt:
    """The placement of one request's pieces."""

    def __init__(self, of: SubgroupPlacement, request: Request) -> None:
        self._of, self.left = of, PLACEMENTS
        self._log = of._ledger.log
        vacant = zip(request.demand.parts, request.vacant, strict=True)
        self._vacant = {part.pod_set: found or range(part.count) for part, found in vacant}
        #: a proof that one piece alone does not fit
        self.proven: Infeasible | None = None
        #: some search is still to be made
        self.postponed = False

    def place(self, some: Sequence[Piece], request: Request, depth: int = 0) -> dict[Place, int] | None:
        """Place these pieces, and return where; None, with the ledger as before, if that fails."""
        if not some:
            return {}
        own = self._own(some[0], request)
        tried_all = own.excluded is None
        while self.left:
            self.left -= 1
            with self._log.trial() as tried:
                placed = self._of.placed(own)
                if not placed:
                    self._note(placed, alone=not depth and tried_all)
                    return None
                rest = self.place(some[1:], request, depth + 1)
                if rest is not None:
                    tried.keep()
                    return {**placed.columns, **rest}
            domain = self._of.domain(own.demand, [*placed.columns.values()])
            if domain is None:
                return None
            own, tried_all = own.keeping_off(domain), False
        return None

    def _own(self, piece: Piece, request: Request) -> Request:
        names = {part.pod_set for part in piece.demand.parts}
        return request._replace(
            demand=piece.demand,
            search=request.search and self._of.exact.lent > 0,
            vacant=[self._vacant[part.pod_set][: part.count] for part in piece.demand.parts],
            preferred={p: c for p, c in request.preferred.items() if p.pod_set in names},
            settled={p: c for p, c in request.settled.items() if p.pod_set in names},
        )

    def _note(self, answer: Infeasible, *, alone: bool) -> None:
        self.postponed |= answer.postponed
        if alone and answer.proven:
            self.proven = answer
