"""Places gangs that have rules about the network topology.

The rules (koordinator, apis/extension/network_topology.go; the algorithm is described in its "Network
Topology Aware Scheduling"):

- `MustGather` LAYER: all pods in one domain of the layer. If there are several such rules, all must hold.
- `PreferGather` LAYER: all pods in one domain if possible; several layers are tried from the tightest to the
  loosest, and then the whole cluster.
- a multiple N of a LAYER: in any one domain of it the number of the gang's pods is a multiple of N.

Whatever the rule, the gang is placed in the tightest domain that holds all of it, of any layer below the
required one; of several such domains in the fullest (`shortlist.py`). If no permitted domain holds all of it,
and its minimum is smaller, the minimum is gathered and the other pods are placed as near to it as possible.

The slots of every shape, summed over the domains (`survey.py`), tell for each domain whether it could hold
the gang. For pods of one shape that is sufficient, and `descent.py` places them inside. For several shapes it
is a necessary condition, and the usual rungs decide inside a domain: greedily, many domains at once
(`bay.py`), then exactly (`exact.py`), for at most `SEARCHES` domains. Multiples of one shape are decided
exactly, by counting (`multiples.py`). Multiples of several shapes are decided only by filling one domain
after the other, and an answer "infeasible" then says so. Only the chosen placement is charged to the ledger.

Filled and held places constrain the others: a gang that must gather stays in the domain in which most of it
is. Finally its pods are assigned to its nodes in rank order (`neighbours.py`).
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from muster.core.demand import Demand, Request
from muster.core.placement.answer import Infeasible, Placed, Reason
from muster.core.placement.constraints.search import search
from muster.core.placement.exact import Exact
from muster.core.placement.greedy import Filled, Trial, fill_in_some_way
from muster.core.placement.order import Vector
from muster.core.placement.slots import Slots
from muster.core.placement.topology.batch import Bays
from muster.core.placement.topology.fill import deal, descend
from muster.core.placement.topology.multiples import Counting
from muster.core.placement.topology.rank_order import arrange
from muster.core.placement.topology.rules import Levels
from muster.core.placement.topology.shortlist import Asked, Shortlist
from muster.core.placement.topology.totals import Survey
from muster.core.words.gang import Layer, Place
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Bools, Columns, Ints, Nodes
from muster.core.world.topology import Topology

#: Domains of one layer in which placement is tried; only gangs of several shapes ever need a second one.
TRIES: Final = 64
#: Domains for which an exact problem is solved, per request.
SEARCHES: Final = 8

#: Demands whose `Brief` is remembered.
_KEPT: Final = 1024

#: How many nodes the domains of one batch may have together: in the first batch, and later.
_FEW: Final = 100
_MANY: Final = 2048


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


@dataclass(frozen=True, slots=True)
class Choice:
    """A domain, and where each part's pods go in it; not charged yet."""

    level: int
    number: int
    demand: Demand
    #: by part
    filled: Sequence[Filled]


@dataclass(frozen=True, slots=True, eq=False)
class Brief:
    """What is computed once per demand. `whole`: the demand with all pods as its minimum."""

    layers: tuple[Layer, ...]
    levels: Levels
    asked: Asked
    whole: Asked

    @staticmethod
    def of(demand: Demand, layers: tuple[Layer, ...], nodes: Nodes) -> "Brief | None":
        """Compute the brief of a demand; None if a required layer does not exist."""
        assert demand.rules is not None
        levels = Levels.of(demand.rules, layers)
        if levels is None:
            return None
        asked = whole = Asked.of(demand, nodes)
        if demand.need < asked.size:
            parts = tuple(replace(part, need=part.count) for part in demand.parts)
            whole = Asked.of(Demand(parts, asked.size), nodes)
        return Brief(layers, levels, asked, whole)


class TopologyPlacement:
    """Places claims whose wants have rules, on one ledger."""

    def __init__(self, nodes: Nodes, topology: Topology, ledger: Ledger, slots: Slots, exact: Exact) -> None:
        self.nodes = nodes
        self.topology = topology
        self.ledger = ledger
        self.slots = slots
        self.exact = exact
        self.survey = Survey(nodes, topology)
        #: the least recently used is dropped first
        self._briefs: dict[Demand, Brief] = {}

    def place(self, request: Request) -> Placed | Infeasible:
        """As `Fit.fit`."""
        search = self.search(request)
        if search is None:
            return Infeasible(Reason.TOTALS)
        tried = self.ledger.trial()
        placed = search.place()
        if not placed:
            tried.undo()
            return placed
        tried.keep()
        parts = request.demand.parts
        if self.topology.by_name and not request.ranks and len({part.shape for part in parts}) == len(parts):
            return placed  # it is in the order of the tree already
        return Placed(arrange(placed.columns, request, self.topology.position))

    def search(self, request: Request) -> "Search | None":
        """Return the search for a request's placement; None if a required layer does not exist."""
        self.topology.refresh()
        demand, layers = request.demand, self.topology.layers
        brief = self._briefs.pop(demand, None)
        if brief is None or brief.layers is not layers:
            brief = Brief.of(demand, layers, self.nodes)
        if brief is None:
            return None
        self._briefs[demand] = brief
        if len(self._briefs) > _KEPT:
            del self._briefs[next(iter(self._briefs))]
        return Search(self, request, brief)

    def grounds(self, request: Request) -> list[Ints]:
        """As `Fit.grounds`."""
        search = self.search(request)
        return [] if search is None else search.grounds()

    def multiplies(self, demand: Demand) -> bool:
        """Whether pods must come in multiples."""
        return demand.rules is not None and any(rule.multiple > 1 for rule in demand.rules.gather)

    def nearest(
        self, demand: Demand, infeasible: Infeasible | None, excluded: Columns | None
    ) -> Nearest | None:
        """As `Fit.nearest`."""
        search = self.search(Request(demand, [range(part.count) for part in demand.parts], excluded=excluded))
        return None if search is None else search.nearest(infeasible.home if infeasible is not None else None)


class Search:
    """The search for one request's placement among the domains."""

    def __init__(self, gathering: TopologyPlacement, request: Request, brief: Brief) -> None:
        self._of = gathering
        self._request = request
        self._topology = gathering.topology
        self._asked, self._whole = brief.asked, brief.whole
        self._limit, self._loosest = brief.levels.limit, brief.levels.loosest
        self._exclusive = brief.levels.exclusive
        self._multiples = brief.levels.multiples
        self._node = len(self._topology.levels) - 1
        self._barred = self._bar(brief.levels.required)
        groups = brief.asked.groups
        self._shortlist = Shortlist(
            gathering.nodes, gathering.slots, self._topology, gathering.survey, groups, self._barred
        )
        #: whether domains can be evaluated without trials on the ledger
        self._apart = not (request.preferred or request.demand.constrained) and (
            len(groups) == 1
            or (
                gathering.slots.order.looks_at is not None
                and not self._multiples
                and not any(group.shape.gpu_share for group in groups)
            )
        )
        self._settled = np.array(sorted(request.settled.values()), np.intp)
        self._counted: Counting | None = None
        self._granted: bool | None = None
        self._searches = 0
        self._open: Infeasible | None = None

    def grounds(self) -> list[Ints]:
        """Return the domains of the layers that the request prefers, has to itself or requires."""
        grounds = []
        for level in sorted({self._limit, self._loosest, self._exclusive}, reverse=True):
            home = self._home(level) if level and len(self._settled) else None
            if level < self._limit or (level > self._limit and len(self._settled) and home is None):
                continue
            domains = self._topology.levels[level].domains.copy()
            if home is not None:
                domains[domains != home] = -1
            if self._barred is not None:
                domains[self._barred] = -1
            grounds.append(domains)
        return grounds

    def place(self) -> Placed | Infeasible:
        """Place and charge; if it is infeasible, the caller must roll back."""
        if (placed := self._own_nodes()) is not None:
            return placed
        found = self.choose()
        if isinstance(found, Choice):
            return self._charge(found)
        return self._infeasible() if found is None else found

    def choose(self) -> "Choice | Placed | None":
        """Return nodes and counts; or places on nodes, charged, if that took trials on the ledger."""
        for level in range(self._node, self._loosest - 1, -1):
            if (found := self._try(level, self._whole)) is not None:
                return found
        if self._whole is not self._asked or self._loosest != self._limit:
            for level in self._levels_for_minimum():
                if (found := self._try(level, self._asked)) is not None:
                    return found
        return None

    def _levels_for_minimum(self) -> Iterator[int]:
        """Yield the levels to try for the minimum if not all pods fit together, preferred ones first."""
        if self._limit == 0 and self._whole is not self._asked:
            yield from range(self._node, max(self._loosest, 1) - 1, -1)
        yield self._limit

    def _own_nodes(self) -> Placed | None:
        """Let places keep their preferred nodes, if the rest of the minimum then fits nearby."""
        preferred = self._request.preferred
        if not preferred:
            return None
        columns = self._settled if len(self._settled) else np.array(sorted(preferred.values()), np.intp)
        for level in range(self._node, self._limit - 1, -1):
            number = self._most(level, columns)
            if number is None:
                continue
            inside = set(self._topology.columns(level, number).tolist())
            if level == self._limit or inside.issuperset(preferred.values()):
                tried = self._of.ledger.trial()
                placed = self._attempt(level, number, self._asked, preferred)
                if placed is not None and any(placed.columns.get(p) == c for p, c in preferred.items()):
                    tried.keep()
                    return placed
                tried.undo()
                return None
        return None

    def _infeasible(self) -> Infeasible:
        home = self._home(self._limit) if self._limit else None
        infeasible = Infeasible(Reason.TOTALS) if self._open is None else self._open
        return replace(infeasible, home=(self._limit, home) if home is not None else None)

    # Domains of one level

    def _try(self, level: int, asked: Asked) -> "Choice | Placed | None":
        """Find the level's first domain that holds what is asked (the whole gang, or its minimum).

        Greedy placement is tried first: a domain that only a search would fill comes after all others.
        """
        candidates = self._candidates(level, asked)
        some = candidates[:TRIES].tolist()
        if (found := self._greedily(level, some, asked)) is not None:
            return found
        if len(asked.groups) > 1 or asked.demand.constrained:
            for number in some:
                if (placed := self._search(self._columns(level, number), asked.demand)) is not None:
                    return placed
        if len(candidates) > TRIES and level == self._limit and asked is self._asked:
            self._leave_open(Infeasible(Reason.UNSEARCHED))
        return None

    def _candidates(self, level: int, asked: Asked) -> Columns:
        """Return the domains in the order to try them; only the domain of the gang's other places, if any."""
        home = None
        if level and len(self._settled):
            home = self._home(level)
            if home is None and level > self._limit:
                return np.zeros(0, np.intp)
        elastic = asked is self._asked and level == self._limit and asked.demand.need < asked.size
        return self._shortlist.of(level, asked, home, most_first=elastic)

    def _greedily(self, level: int, numbers: Sequence[int], asked: Asked) -> "Choice | Placed | None":
        several = len(asked.groups) > 1
        if not self._apart or (several and level == 0):
            for number in numbers:
                if (placed := self._attempt(level, number, asked, self._request.preferred)) is not None:
                    return placed
                # moving a place is better than letting the gang wait
                if (
                    self._request.preferred
                    and (placed := self._attempt(level, number, asked, {})) is not None
                ):
                    return placed
            return None
        if several:
            return self._together(level, numbers, asked.demand)
        for number in numbers:
            filled = self._descend(level, number, asked)
            if filled is not None:
                return Choice(level, number, asked.demand, filled)
        return None

    def _together(self, level: int, numbers: Sequence[int], demand: Demand) -> "Choice | None":
        """Find a domain for several shapes: many domains at once, without the ledger."""
        if not numbers:
            return None
        nodes, order = self._of.nodes, self._of.slots.order
        of_shape = {vector.shape: vector for vector in self._shortlist.vectors}
        vectors = [of_shape[part.shape] for part in demand.parts]
        by_size = sorted(range(len(vectors)), key=lambda p: -vectors[p].size)
        tried = 0
        for domains in self._batches(level, numbers):
            found = Bays(nodes, order, vectors, domains).fill(demand.parts, demand.need, by_size)
            if found is not None:
                first, filled = found
                return Choice(level, numbers[tried + first], demand, filled)
            tried += len(domains)
        return None

    def _batches(self, level: int, numbers: Sequence[int]) -> Iterator[list[Columns]]:
        """Yield the domains' columns in batches: a small one, as it likely suffices, then large ones."""
        batch: list[Columns] = []
        together = _FEW
        for number in numbers:
            columns = self._columns(level, number)
            assert columns is not None
            if batch and (len(batch) + 1) * len(columns) > together:
                yield batch
                batch, together = [], _MANY
            batch.append(columns)
        if batch:
            yield batch

    def _descend(
        self, level: int, number: int, asked: Asked, trial: Trial | None = None
    ) -> list[Filled] | None:
        """Return by part where pods of one shape go: as many as fit into a domain besides those of a trial.

        None if less than the minimum fits.
        """
        group, parts = asked.groups[0], asked.demand.parts
        placed = [0] * len(parts) if trial is None else trial.placed
        least = max(asked.demand.need, group.need) - sum(placed)
        most = group.count - sum(placed)
        vector = self._of.slots.of(group.shape)
        if not self._multiples:
            filled = descend(self._of.nodes, self._topology, vector, self._barred, level, number, least, most)
        elif trial is not None:
            there = np.append(self._settled, trial.columns).astype(np.intp)
            counting = self._counting(vector, there, most, trial)
            filled = counting.fill(level, number, max(least, 0))
        else:
            self._counted = self._counted or self._counting(vector, self._settled, most)
            filled = self._counted.fill(level, number, least)
        if filled is None:
            return None
        counts = [max(part.need - n, 0) for part, n in zip(parts, placed, strict=True)]
        left = int(filled[1].sum()) - sum(counts)
        for p, part in enumerate(parts):
            more = min(left, part.count - placed[p] - counts[p])
            counts[p] += more
            left -= more
        return deal(filled, counts)

    def _counting(self, vector: Vector, there: Columns, most: int, trial: Trial | None = None) -> Counting:
        free = vector.slots.astype(np.int64)
        if self._barred is not None:
            free[self._barred] = 0
        if trial is not None:
            for _, blocked in trial.obstacles(0, skew=False):
                free[blocked] = 0
        return Counting(self._topology, self._multiples, free, there, most)

    # On the ledger

    def _charge(self, choice: Choice) -> Placed:
        """Charge what was chosen, and then as many more pods as fit, as near as possible."""
        trial = self._trial(choice.demand, self._columns(choice.level, choice.number))
        for p, filled in enumerate(choice.filled):
            trial.take(p, filled)
        self._widen(trial, choice.level, choice.number)
        return trial.places(self._request.vacant)

    def _attempt(self, level: int, number: int, asked: Asked, own: Mapping[Place, int]) -> Placed | None:
        """Place the minimum in this domain on the ledger itself, then as many more as fit nearby.

        `own`: nodes that places keep if they are in the domain. None if the minimum does not fit.
        """
        ledger = self._of.ledger
        ways: list[Callable[[Trial], bool]] = [lambda trial: self._fill(trial, level, number, asked, own)]
        if self._multiples and asked.demand.constrained and len(asked.groups) == 1:
            ways.append(lambda trial: self._count_out(trial, level, number, asked))
        for fill in ways:
            tried = ledger.trial()
            trial = self._trial(asked.demand, self._columns(level, number))
            if fill(trial) and self._in_multiples(trial):
                self._widen(trial, level, number)
                tried.keep()
                return trial.places(self._request.vacant)
            tried.undo()
        return None

    def _fill(self, trial: Trial, level: int, number: int, asked: Asked, own: Mapping[Place, int]) -> bool:
        if trial.constrained:
            return fill_in_some_way(trial, asked.demand, own)
        trial.prefer_all(own)
        if len(asked.groups) == 1:
            return self._complete(trial, level, number, asked)
        return trial.fill_minimum(asked.demand.need)

    def _complete(self, trial: Trial, level: int, number: int, asked: Asked) -> bool:
        """Place the missing pods, of one shape, in this domain beside those that kept their own nodes."""
        if sum(trial.placed) >= asked.size:
            return True
        filled = self._descend(level, number, asked, trial)
        if filled is None:
            return False
        for p, some in enumerate(filled):
            trial.take(p, some)
        return True

    def _count_out(self, trial: Trial, level: int, number: int, asked: Asked) -> bool:
        """Place pods of one shape as multiples allow, and return whether their constraints permit that."""
        filled = self._descend(level, number, asked, trial)
        if filled is None:
            return False
        there: dict[Place, int] = {}
        for part, vacant, (columns, times) in zip(
            asked.demand.parts, self._request.vacant, filled, strict=True
        ):
            own = (Place(part.pod_set, index) for index in vacant)
            there.update(zip(own, np.repeat(columns, times).tolist(), strict=False))
        return trial.prefer_all(there) and trial.even()

    def _in_multiples(self, trial: Trial) -> bool:
        """Whether the trial is in multiples: for several shapes or constraints, only chance makes it so."""
        new = np.array(trial.columns, np.intp)
        return not self._multiples or self._multiples.hold(self._topology, new, self._settled)

    def _trial(self, demand: Demand, within: Columns | None) -> Trial:
        return Trial(demand.parts, None, self._of.ledger, self._of.slots, within, self._request.presences)

    def _widen(self, trial: Trial, level: int, number: int) -> None:
        """Place as many more pods as fit: in the domain, then in the next wider ones up to the limit."""
        wider = level
        while not self._multiples and sum(trial.placed) < self._asked.size and wider >= self._limit:
            if wider < level:
                above = self._topology.above(np.array([number]), level, wider).item()
                trial.within = self._columns(wider, above)
            trial.fill_up()
            wider -= 1

    def _search(self, columns: Columns | None, demand: Demand) -> Placed | None:
        """Try the exact rungs after the greedy one has failed."""
        if self._multiples:
            self._leave_open(Infeasible(Reason.UNSEARCHED))
            return None
        if not self._request.search:
            self._granted = False
        elif self._granted is None:
            self._granted = self._of.exact.turn(self._asked.demand)
        if not self._granted or self._searches >= SEARCHES:
            self._leave_open(Infeasible(Reason.UNSEARCHED))
            return None
        self._searches += 1
        if demand.constrained:
            return self._walk(columns, demand)
        outside = None
        if columns is not None:
            mask = np.ones(len(self._of.nodes), np.bool_)
            mask[columns] = False
            outside = np.flatnonzero(mask)
        inside = self._request.preferred
        found = self._of.exact.place(demand, self._request.vacant, inside, outside, granted=True)
        if not found:
            if demand is self._asked.demand and not found.proven:
                self._leave_open(found)
            return None
        return found

    def _walk(self, columns: Columns | None, demand: Demand) -> Placed | None:
        """Search pod by pod after constraints besides room have defeated greedy placement."""
        trial = self._trial(demand, columns)
        failure = search(trial, demand)
        if failure is None:
            return trial.places(self._request.vacant)
        self._leave_open(Infeasible(failure))
        return None

    def _leave_open(self, infeasible: Infeasible) -> None:
        """Record a reason that is no proof: at least one domain is not ruled out."""
        if self._open is None or not self._open.open:
            self._open = infeasible

    # Which columns

    def _bar(self, required: Sequence[int]) -> Bools | None:
        """Return the columns not to use: excluded ones, and those in no domain of a required layer."""
        excluded = self._request.excluded
        if excluded is None and not required:
            return None
        barred = np.zeros(len(self._of.nodes), np.bool_)
        if excluded is not None:
            barred[excluded] = True
        for level in required:
            barred |= self._topology.levels[level].domains < 0
        return barred if barred.any() else None

    def _columns(self, level: int, number: int) -> Columns | None:
        """Return the columns of a domain that may be used; None = all columns."""
        if level == 0 and self._barred is None:
            return None
        columns = self._topology.columns(level, number)
        return columns if self._barred is None else columns[~self._barred[columns]]

    def _home(self, level: int) -> int | None:
        """Return the domain with most of the gang's settled places, inside that of the required layer."""
        settled = self._settled
        if level > self._limit > 0 and (home := self._most(self._limit, settled)) is not None:
            settled = settled[self._topology.levels[self._limit].domains[settled] == home]
        return self._most(level, settled)

    def _most(self, level: int, columns: Columns) -> int | None:
        domains = self._topology.levels[level].domains[columns]
        found = Counter(domains[domains >= 0].tolist())
        return min(found, key=lambda number: (-found[number], number), default=None)

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
        number = int(numbers[self._shortlist.useful(level)[numbers].argmax()])
        tried = self._of.ledger.trial()
        trial = self._trial(self._asked.demand, self._columns(level, number))
        trial.fill_minimum(self._asked.demand.need)
        fits = tuple(trial.placed)
        tried.undo()
        return Nearest(topology.title(level, number), fits, len(numbers), topology.columns(level, number))
