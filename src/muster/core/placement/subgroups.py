"""Places demands of which subgroups have rules of their own (docs/concepts/topology.md, "Rules of a part").

Each of these subgroups is a *piece* that is placed as a gang with its rules would be; the rest of the demand
is one more piece. Pieces are placed one after the other, each as far as it goes. If a later one has no room,
the earlier ones are tried in other domains, depth first; then in another order; and then all of them with no
more pods than the minimum takes. If the whole gang has to gather as well, all of that is done within one of
its domains after the other.

Only domains are varied so far, and not where in a domain a piece is. If that fails, a problem is solved for
the minimum of all pieces together, for some combinations of domains. An answer "infeasible" stays open,
unless one piece alone is proven not to fit.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations, product
from typing import Final, NamedTuple

import numpy as np

from muster.core.demand import Demand, Part, Request, Rules, cut
from muster.core.placement.answer import Infeasible, Placed, Reason
from muster.core.placement.exact import Exact
from muster.core.placement.topology import SEARCHES, TRIES, TopologyPlacement
from muster.core.placement.topology.fill import hold
from muster.core.placement.topology.rank_order import in_rank_order
from muster.core.placement.topology.rules import Levels
from muster.core.words.gang import Place
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Columns, recent

#: Placements of pieces per request, and as many combinations of domains; and orders of the pieces.
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


class _Divided(NamedTuple):
    """The pieces of a demand."""

    whole: list[Piece]
    #: with only the places that make up the minimum; empty if the whole has no more
    lean: list[Piece]
    #: the demand with only these places
    least: Demand


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
        self._known: dict[Demand, _Divided] = {}

    def place(self, request: Request) -> Placed | Infeasible:
        """As `Fit.fit`. Exclusive domains of other gangs are excluded already."""
        demand = request.demand
        divided = recent(self._known, demand, self._divided, _KEPT)
        found = self._place(request._replace(search=False), divided)
        if found or found.proven or not request.search:
            return found
        if not self.exact.grants(request.namespace, demand):
            return Infeasible(Reason.UNSEARCHED)
        if found.postponed:
            with self.exact.lending(SEARCHES):
                found = self._place(request, divided)
            if found or found.proven:
                return found
        with self.exact.lending(SEARCHES):
            return self._place_jointly(request, divided) or Infeasible(Reason.BUDGET)

    def _divided(self, demand: Demand) -> _Divided:
        whole = pieces(demand)
        if demand.need >= sum(part.count for part in demand.parts):
            return _Divided(whole, [], demand)
        slots = self.topology.slots
        sizes = [{"": 1 + int(_SIZES * slots.room(part.shape).size)} for part in demand.parts]
        least = replace(demand, parts=cut(demand, {"": 0}, sizes))
        return _Divided(whole, pieces(least), least)

    def _place(self, request: Request, divided: _Divided) -> Placed | Infeasible:
        attempt = _Attempt(self, request)
        for within in self._grounds(request):
            for some in filter(None, (divided.whole, divided.lean)):
                for order in islice(permutations(some), ORDERS):
                    with self._ledger.log.trial() as tried:
                        placed = attempt.place(order, within)
                        if placed is not None and self._holds(request, placed):
                            tried.keep()
                            return Placed(placed)
                    if attempt.proven is not None:
                        return attempt.proven
        return Infeasible(Reason.UNSEARCHED if attempt.postponed else Reason.BUDGET)

    def _place_jointly(self, request: Request, divided: _Divided) -> Placed | None:
        """Place the minimum of all pieces exactly, in one combination of their domains after the other."""
        some, attempt = divided.lean or divided.whole, _Attempt(self, request)
        ruled = [piece for piece in some if piece.subgroup]
        multiples = any(piece.demand.rules and piece.demand.rules.in_multiples for piece in ruled)
        if request.demand.constrained or multiples:
            return None

        def combinations() -> Iterator[tuple[Request, tuple[Columns, ...]]]:
            for within in self._grounds(request):
                for outside in product(*(self._outsides(attempt.own(piece, within)) for piece in ruled)):
                    yield within, outside

        for within, outside in islice(combinations(), PLACEMENTS):
            if not self.exact.lent:
                break
            barred = dict(zip((piece.subgroup for piece in ruled), outside, strict=True))
            with self._ledger.log.trial() as tried:
                found = self.exact.place_apart(attempt.own(Piece("", divided.least), within), barred)
                if found and self._holds(request, found.columns):
                    tried.keep()
                    return Placed(self._in_order(found, [attempt.own(piece, within) for piece in some]))
        return None

    def _outsides(self, own: Request) -> list[Columns]:
        """Return, for each domain in which a piece may be, the columns outside."""
        if (search := self.topology.search(own)) is None:
            return []
        *_, (level, asked) = search.tries()
        numbers = search.domains.of(level, asked)[:SEARCHES].tolist()
        return [self._outside(search.domains.columns(level, number)) for number in numbers]

    def _outside(self, columns: Columns) -> Columns:
        outside = np.ones(len(self._ledger.nodes), np.bool_)
        outside[columns] = False
        return np.flatnonzero(outside)

    def _in_order(self, found: Placed, owns: Sequence[Request]) -> dict[Place, int]:
        """Return the same nodes, with the pods of each piece in the order of their ranks."""
        placed: dict[Place, int] = {}
        for own in owns:
            sets = {part.pod_set for part in own.demand.parts}
            mine = {place: column for place, column in found.columns.items() if place.pod_set in sets}
            placed |= in_rank_order(mine, own, self.topology.topology.position)
        return placed

    def _grounds(self, request: Request) -> Iterator[Request]:
        """Yield the request; if the gang has to gather, kept off all but one domain, for each domain."""
        assert request.demand.rules is not None
        if not request.demand.rules.gather:
            yield request
            return
        if (search := self.topology.search(request)) is None:
            return
        for level, asked in search.tries():
            for number in search.domains.of(level, asked)[:TRIES].tolist():
                yield request.keeping_off(self._outside(search.domains.columns(level, number)))

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
        own = self.own(some[0], request)
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

    def own(self, piece: Piece, request: Request) -> Request:
        """Return the request for one piece."""
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
