"""Places gangs that have rules about the network topology (docs/concepts/topology.md, "Where the gang goes").

The rules are Koordinator's (apis/extension/network_topology.go; the algorithm is described in its "Network
Topology Aware Scheduling"). `candidates.py` lists a layer's domains that could hold the gang. One shape is
then placed by capacity (`fill.py`). For several shapes greedy placement decides, in many domains at once
(`batch.py`), then the exact methods, for at most `SEARCHES` domains. Multiples are exact for one shape; of
several shapes only greedy placement is tried, and an answer "infeasible" then says so.

Filled and held places constrain the others: a gang that must gather stays in the domain in which most of it
is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from muster.core.demand import Demand, Request
from muster.core.placement.answer import Infeasible, Placed, Reason
from muster.core.placement.exact import Exact
from muster.core.placement.greedy import Draft, Filled, fill_in_some_way, search
from muster.core.placement.slots import Slots
from muster.core.placement.topology.batch import first_that_holds
from muster.core.placement.topology.candidates import Candidates, Grouped, Totals
from muster.core.placement.topology.fill import InMultiples, Pods, deal, fill, hold
from muster.core.placement.topology.rank_order import in_rank_order
from muster.core.placement.topology.rules import Levels
from muster.core.words.gang import Layer, Place
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Columns, Ints, Nodes, recent
from muster.core.world.topology import Topology

#: Domains of one layer in which placement is tried; only gangs of several shapes ever need a second one.
TRIES: Final = 64
#: Domains for which an exact problem is solved, per request.
SEARCHES: Final = 8
#: Demands whose levels and groups are remembered.
_KEPT: Final = 1024


@dataclass(frozen=True, slots=True)
class Nearest:
    """The domain that comes nearest to holding a minimum, and how many of its pods fit there."""

    title: str
    #: by part
    fits: tuple[int, ...]
    #: the number of domains of which it is the best
    among: int
    #: its nodes
    columns: Columns


#: A demand's levels, its pods by shape, and the same with all pods as its minimum.
_Resolved = tuple[Levels, Grouped, Grouped]


class TopologyPlacement:
    """Places requests whose demands have rules, on one ledger."""

    def __init__(self, nodes: Nodes, topology: Topology, ledger: Ledger, slots: Slots, exact: Exact) -> None:
        self.nodes = nodes
        self.topology = topology
        self.ledger = ledger
        self.slots = slots
        self.exact = exact
        self.totals = Totals(nodes, topology)
        self._resolved: dict[tuple[Demand, tuple[Layer, ...]], _Resolved | None] = {}
        #: the layout of `Nodes` for which they are valid
        self._layout = -1

    def place(self, request: Request) -> Placed | Infeasible:
        """As `Fit.fit`."""
        search = self.search(request)
        if search is None:
            return Infeasible(Reason.TOTALS)
        with self.ledger.log.trial() as tried:
            placed = search.place()
            if not placed:
                return placed
            tried.keep()
        parts = request.demand.parts
        if self.topology.by_name and not request.ranks and len({part.shape for part in parts}) == len(parts):
            return placed  # it is in the order of the tree already
        return Placed(in_rank_order(placed.columns, request, self.topology.position))

    def search(self, request: Request) -> "Search | None":
        """Return the search for a request's placement; None if a required layer does not exist."""
        self.topology.refresh()
        if self._layout != self.nodes.layout:
            self._resolved.clear()
            self._layout = self.nodes.layout
        key = request.demand, self.topology.layers
        resolved = recent(self._resolved, key, lambda key: self._resolve(*key), _KEPT)
        return None if resolved is None else Search(self, request, *resolved)

    def _resolve(self, demand: Demand, layers: tuple[Layer, ...]) -> _Resolved | None:
        assert demand.rules is not None
        levels = Levels.of(demand.rules, layers)
        if levels is None:
            return None
        minimum = whole = Grouped.of(demand, self.nodes)
        if demand.need < minimum.size:
            parts = tuple(replace(part, need=part.count) for part in demand.parts)
            whole = Grouped.of(Demand(parts, minimum.size), self.nodes)
        return levels, minimum, whole


class Search:
    """The search for one request's placement among the domains."""

    def __init__(
        self, of: TopologyPlacement, request: Request, levels: Levels, minimum: Grouped, whole: Grouped
    ) -> None:
        self._of = of
        self._request = request
        self._topology = of.topology
        self._minimum, self._whole = minimum, whole
        self._limit, self._loosest, self._exclusive = levels.limit, levels.loosest, levels.exclusive
        self._multiples = levels.multiples
        self._node = len(of.topology.levels) - 1
        self._settled = np.array(sorted(request.settled.values()), np.intp)
        self.domains = Candidates(
            of.nodes, of.slots, of.topology, of.totals, request, levels, minimum, self._settled
        )
        self._several = len(minimum.groups) > 1
        #: whether domains can be evaluated without trials on the ledger
        self._aside = not (request.preferred or request.demand.constrained)
        demand = request.demand
        alone = self._multiples or demand.sharing or demand.claiming or of.slots.order.looks_at is None
        if self._several and alone:
            self._aside = False
        self._in_multiples: InMultiples | None = None
        self._granted: bool | None = None
        self._searches = 0
        #: why at least one domain is not ruled out
        self._open: Infeasible | None = None

    def grounds(self) -> list[Ints]:
        """Return the domains of the layers that the request prefers, has to itself or requires."""
        grounds = []
        for level in sorted({self._limit, self._loosest, self._exclusive}, reverse=True):
            home = self.domains.home(level) if level and len(self._settled) else None
            if level < self._limit or (level > self._limit and len(self._settled) and home is None):
                continue
            domains = self._topology.levels[level].domains.copy()
            if home is not None:
                domains[domains != home] = -1
            if self.domains.barred is not None:
                domains[self.domains.barred] = -1
            grounds.append(domains)
        return grounds

    def place(self) -> Placed | Infeasible:
        """Place and charge; if it is infeasible, the caller must roll back."""
        if placed := self._on_own_nodes():
            return placed
        for level, asked in self.tries():
            if placed := self._try(level, asked):
                return placed
        home = self.domains.home(self._limit) if self._limit else None
        infeasible = Infeasible(Reason.TOTALS) if self._open is None else self._open
        return replace(infeasible, home=(self._limit, home) if home is not None else None)

    def tries(self) -> Iterator[tuple[int, Grouped]]:
        """Yield where to look for what: all pods, the tightest level first, then the minimum."""
        for level in range(self._node, self._loosest - 1, -1):
            yield level, self._whole
        if self._whole is not self._minimum and self._limit == 0:
            for level in range(self._node, max(self._loosest, 1) - 1, -1):
                yield level, self._minimum
        if self._whole is not self._minimum or self._loosest != self._limit:
            yield self._limit, self._minimum

    def _on_own_nodes(self) -> Placed | None:
        """Let places keep their preferred nodes, if the rest of the minimum then fits nearby."""
        preferred = self._request.preferred
        if not preferred:
            return None
        columns = self._settled if len(self._settled) else np.array(sorted(preferred.values()), np.intp)
        for level in range(self._node, self._limit - 1, -1):
            number = self.domains.most(level, columns)
            if number is None:
                continue
            inside = set(self._topology.columns(level, number).tolist())
            if level == self._limit or inside.issuperset(preferred.values()):
                with self._of.ledger.log.trial() as tried:
                    placed = self._attempt(level, number, self._minimum, preferred)
                    if placed is None or all(placed.columns.get(p) != c for p, c in preferred.items()):
                        return None
                    tried.keep()
                    return placed
        return None

    # Domains of one level

    def _try(self, level: int, asked: Grouped) -> Placed | None:
        """Find the level's first domain that holds what is asked (the whole gang, or its minimum).

        Greedy placement is tried first: a domain that only a search would fill comes after all others.
        """
        candidates = self.domains.of(level, asked)
        some = candidates[:TRIES].tolist()
        if self._aside and (level or not self._several):
            if (choice := self.choose(level, some, asked)) is not None:
                number, filled = choice
                return self._charge(level, number, asked.demand, lambda draft: _take(draft, filled))
        else:
            preferred = self._request.preferred
            for number in some:
                # moving a place is better than letting the gang wait
                for own in (preferred, {}) if preferred else ({},):
                    if (placed := self._attempt(level, number, asked, own)) is not None:
                        return placed
        if self._several or asked.demand.constrained:
            for number in some:
                if (placed := self._exactly(level, number, asked.demand)) is not None:
                    return placed
        if len(candidates) > TRIES and level == self._limit and asked is self._minimum:
            self._leave_open(Infeasible(Reason.UNSEARCHED))
        return None

    def choose(
        self, level: int, numbers: Sequence[int], asked: Grouped
    ) -> tuple[int, Sequence[Filled]] | None:
        """Return the first domain that holds what is asked, and by part what goes where. Charge nothing."""
        if not self._several:
            for number in numbers:
                if (filled := self._fill_one_shape(level, number, asked)) is not None:
                    return number, filled
            return None
        of_shape = {vector.shape: vector for vector in self.domains.vectors}
        vectors = [of_shape[part.shape] for part in asked.demand.parts]
        domains = (self.domains.columns(level, number) for number in numbers)
        found = first_that_holds(self._of.nodes, self._of.slots.order, vectors, asked.demand, domains)
        return None if found is None else (numbers[found[0]], found[1])

    def _fill_one_shape(
        self, level: int, number: int, asked: Grouped, draft: Draft | None = None
    ) -> list[Filled] | None:
        """Return by part where pods of one shape go: as many as fit into a domain besides those of a draft.

        None if less than the minimum fits.
        """
        of, parts, (group,) = self._of, asked.demand.parts, asked.groups
        placed = [0] * len(parts) if draft is None else draft.placed
        least = asked.demand.short(placed)
        most = group.count - sum(placed)
        vector, free = of.slots.of(group.shape), self.domains.slots(0)
        if not self._multiples:
            filled = fill(Pods(of.nodes, self._topology, vector, free, most), level, number, least)
        else:
            divided, there = self._in_multiples, self._settled
            if draft is not None:
                divided, there = None, np.append(there, draft.columns).astype(np.intp)
                for _, blocked in draft.obstacles(0, skew=False):
                    free = np.where(blocked, 0, free)
            if divided is None:
                pods = Pods(of.nodes, self._topology, vector, free, most)
                divided = InMultiples(pods, self._multiples, there)
            if draft is None:
                self._in_multiples = divided
            filled = divided.fill(level, number, least)
        if filled is None:
            return None
        counts = [max(part.need - n, 0) for part, n in zip(parts, placed, strict=True)]
        left = int(filled[1].sum()) - sum(counts)
        for members, need in (*asked.demand.joint, (range(len(parts)), most + sum(placed))):
            for p in members:
                missing = need - sum(placed[q] + counts[q] for q in members)
                more = max(min(left, missing, parts[p].count - placed[p] - counts[p]), 0)
                counts[p] += more
                left -= more
        return deal(filled, counts)

    # On the ledger

    def _attempt(self, level: int, number: int, asked: Grouped, own: Mapping[Place, int]) -> Placed | None:
        """Place the minimum in this domain, with places on their `own` nodes, then more pods nearby."""

        def fill(draft: Draft) -> bool:
            return self._fill(draft, level, number, asked, own) and self._multiples_hold(draft)

        def fill_as_divided(draft: Draft) -> bool:
            return self._fill_as_divided(draft, level, number, asked) and self._multiples_hold(draft)

        placed = self._charge(level, number, asked.demand, fill)
        if placed is None and self._multiples and asked.demand.constrained and not self._several:
            placed = self._charge(level, number, asked.demand, fill_as_divided)
        return placed

    def _charge(
        self, level: int, number: int, demand: Demand, fill: Callable[[Draft], bool]
    ) -> Placed | None:
        """Fill a domain, and place as many more pods as fit: in it, then in wider ones up to the limit."""
        with self._of.ledger.log.trial() as tried:
            draft = self._draft(demand, self._within(level, number))
            if not fill(draft):
                return None
            tried.keep()
        wider = level
        while not self._multiples and sum(draft.placed) < self._minimum.size and wider >= self._limit:
            if wider < level:
                above = self._topology.above(np.array([number]), level, wider).item()
                draft.within = self._within(wider, above)
            draft.fill_up()
            wider -= 1
        return draft.places()

    def _fill(self, draft: Draft, level: int, number: int, asked: Grouped, own: Mapping[Place, int]) -> bool:
        if draft.constrained:
            return fill_in_some_way(draft, own)
        draft.prefer_all(own)
        if self._several:
            return draft.fill_minimum()
        filled = self._fill_one_shape(level, number, asked, draft)
        return filled is not None and _take(draft, filled)

    def _fill_as_divided(self, draft: Draft, level: int, number: int, asked: Grouped) -> bool:
        """Place constrained pods of one shape as multiples allow, if their constraints permit that."""
        filled = self._fill_one_shape(level, number, asked, draft)
        if filled is None:
            return False
        there: dict[Place, int] = {}
        parts, vacant = asked.demand.parts, self._request.vacant
        for part, indices, (columns, times) in zip(parts, vacant, filled, strict=True):
            own = (Place(part.pod_set, index) for index in indices)
            there.update(zip(own, np.repeat(columns, times).tolist(), strict=False))
        return draft.prefer_all(there) and draft.even()

    def _multiples_hold(self, draft: Draft) -> bool:
        """Whether the draft is in multiples: for several shapes or constraints, only chance makes it so."""
        if not self._multiples:
            return True
        return hold(self._multiples, self._topology, np.array(draft.columns, np.intp), self._settled)

    def _exactly(self, level: int, number: int, demand: Demand) -> Placed | None:
        """Try the exact methods in a domain after greedy placement has failed."""
        exact, request = self._of.exact, self._request
        if self._granted is None and not self._multiples:
            self._granted = request.search and exact.grants(request.namespace, self._minimum.demand)
        if not self._granted or self._searches >= SEARCHES:
            self._leave_open(Infeasible(Reason.UNSEARCHED))
            return None
        self._searches += 1
        columns = self._within(level, number)
        if demand.constrained:
            draft = self._draft(demand, columns)
            failure = search(draft)
            if failure is None:
                return draft.places()
            self._leave_open(Infeasible(failure))
            return None
        outside = None if columns is None else np.delete(np.arange(len(self._of.nodes)), columns)
        found = exact.place(request._replace(demand=demand, excluded=outside), granted=True)
        if found:
            return found
        if demand is self._minimum.demand and not found.proven:
            self._leave_open(found)
        return None

    def _draft(self, demand: Demand, within: Columns | None) -> Draft:
        request = self._request._replace(demand=demand, excluded=None)
        return Draft(request, self._of.ledger, self._of.slots, within)

    def _within(self, level: int, number: int) -> Columns | None:
        """Return the columns of a domain that may be used; None = all columns."""
        unlimited = level == 0 and self.domains.barred is None
        return None if unlimited else self.domains.columns(level, number)

    def _leave_open(self, infeasible: Infeasible) -> None:
        """Record a reason that is no proof: at least one domain is not ruled out."""
        if self._open is None or not self._open.open:
            self._open = infeasible

    # Why not

    def nearest(self, home: tuple[int, int] | None) -> Nearest | None:
        if not self._limit:
            return None
        level, topology = self._limit, self._topology
        numbers = np.flatnonzero(topology.levels[level].labelled)
        if home is not None:
            numbers = np.array([home[1]], np.intp)
        if not len(numbers):
            return None
        number = int(numbers[self.domains.useful(level)[numbers].argmax()])
        with self._of.ledger.log.trial():
            draft = self._draft(self._minimum.demand, self._within(level, number))
            draft.fill_minimum()
            fits = tuple(draft.placed)
        return Nearest(topology.title(level, number), fits, len(numbers), topology.columns(level, number))


def _take(draft: Draft, filled: Sequence[Filled]) -> bool:
    for p, some in enumerate(filled):
        draft.take(p, some)
    return True
