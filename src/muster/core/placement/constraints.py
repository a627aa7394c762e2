"""What keeps pods off nodes besides room: host ports, pod affinity and anti-affinity, topology spread.

`Constraints` evaluates one part of a demand against the pods that are on the nodes at that moment: pods of
other gangs, foreign pods, and placed pods of the same trial. The semantics are kube-scheduler's
(pkg/scheduler/framework/plugins: nodeports, interpodaffinity, podtopologyspread), for a group at once
(docs/concepts/constraints.md). Pods with affinity to each other that find no such pod *open* a domain: the
first pod may be placed anywhere, as in Kubernetes, and the others join it. Water filling gives a spread's
room per domain (`level`).

Affinity and anti-affinity hold when a pod is placed and cannot be broken by what the gang places
afterwards, so a trial's own order is the proof. A spread is checked at the end (`even`), in every domain
where the gang has placed a pod. Preferences order nodes in the same vectors and block none.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster.core.demand import AffinityContext
from muster.core.placement.slots import Vector
from muster.core.words.gang import PodTerm, Shape, Spread
from muster.core.world.eligibility import Eligibility, Obstacle
from muster.core.world.footprints import Carrying, Matching, Using, selects
from muster.core.world.labels import Domain
from muster.core.world.ledger import Ledger
from muster.core.world.nodes import Bools, Columns, Ints, Longs

#: The domain that a group has opened: one number per affinity term.
Opening = tuple[int, ...]


class Constraints:
    """The constraints of one part's pods; each call reads the ledger as it is at that moment."""

    def __init__(
        self, shape: Shape, concern: AffinityContext, ledger: Ledger, eligibility: Eligibility
    ) -> None:
        self._shape = shape
        self._footprint = concern.footprint
        self._carried = sorted(concern.pod_anti_affinity, key=repr)
        self._eligibility, self._count = eligibility, ledger.footprints.count
        self._domain = ledger.footprints.domains.of
        self._near = Matching(shape.pod_affinity) if shape.pod_affinity else None
        #: the part's pods satisfy their own affinity
        self._meets_itself = bool(shape.pod_affinity) and all(
            selects(t, self._footprint) for t in shape.pod_affinity
        )
        self.hard = [s for s in shape.spread if s.required]
        self._soft = [s for s in shape.spread if not s.required]
        #: domains that must not be opened
        self.barred: set[Opening] = set()
        #: the domain that was opened last, if it looked large enough
        self.opened: Opening | None = None

    @property
    def terms(self) -> int:
        """How many vectors `obstacles` reads at most."""
        shape = self._shape
        return len(shape.pod_affinity) + len(shape.pod_anti_affinity) + len(self._carried) + len(self.hard)

    # One pod

    def obstacles(self, *, skew: bool = True) -> Iterator[tuple[str, Bools]]:
        """Yield each constraint's name and the nodes that it blocks for the next pod.

        Without `skew`, a spread blocks only nodes without its labels: more pods may even it out.
        """
        if self._shape.ports:
            yield "ports", self._count(Using(self._shape.ports)) > 0
        apart = [(term.key, self._count(Matching((term,)))) for term in self._shape.pod_anti_affinity]
        apart += [(term.key, self._count(Carrying(term))) for term in self._carried]
        if apart:
            yield "podAntiAffinity", np.logical_or.reduce([self._crowded(*each) for each in apart])
        if self._near is not None:
            yield "podAffinity", self._lonely()
        if self.hard:
            yield "spread", np.logical_or.reduce([self._too_many(spread, skew) for spread in self.hard])

    def even(self, columns: Sequence[int]) -> bool:
        """Whether every required spread holds where this part's pods have been put."""
        for spread in self.hard:
            domain, counts, counted = self._spread(spread)
            used = np.unique(domain.index[np.array(columns, np.intp)])
            if (used < 0).any() or (counts[used] - fewest(spread, counts, counted) > spread.max_skew).any():
                return False
        return True

    # A group

    def choose(self, vector: Vector, count: int, ideal: int, usable: Bools | None) -> tuple[Columns, Longs]:
        """Return distinct columns and the pods for each: `count`, or as many as fit in this order of nodes.

        If a domain is opened, one that holds `ideal` pods is preferred. Only `usable` columns (None = all).
        """
        caps = np.minimum(vector.slots, count)
        if usable is not None:
            caps *= usable
        for _, blocked in self.obstacles():
            caps[blocked] = 0
        if self._shape.ports:
            np.minimum(caps, 1, out=caps)
        order = self._order(vector, caps)
        for term in self._shape.pod_anti_affinity:
            if selects(term, self._footprint):
                order = _one_each(order, self._domain(term.key), caps)
        if self._near is not None and self._opens(self._met()):
            order = self._open(order, caps, count, ideal)
        left = np.zeros_like(caps)
        left[order] = caps[order]
        limits, needs = self._levels(left, count)
        return pour(order, caps[order].astype(np.int64), limits, needs, self._evenly(left, count), count)

    # Pods that are there

    def _crowded(self, key: str, count: Ints) -> Bools:
        """Return the nodes whose domain has a counted pod."""
        domain = self._domain(key)
        if domain.single:
            crowded: Bools = (count > 0) & (domain.index >= 0)
            return crowded
        return domain.where(domain.sums(count) > 0)

    def _lonely(self) -> Bools:
        """Return the nodes where the pod's affinity is not satisfied."""
        met = self._met()
        missing: Bools = np.logical_or.reduce([domain.index < 0 for domain, _ in met])
        if not self._opens(met):
            for domain, found in met:
                missing |= ~domain.where(found)
        return missing

    def _opens(self, met: list[tuple[Domain, Bools]]) -> bool:
        """Whether the first pod may go anywhere: no pod satisfies its affinity, and the pod itself would."""
        return self._meets_itself and not any(found.any() for _, found in met)

    def _met(self) -> list[tuple[Domain, Bools]]:
        """Return the domains of each affinity term, and which of them have a pod that satisfies all terms."""
        assert self._near is not None
        count = self._count(self._near)
        domains = [self._domain(term.key) for term in self._shape.pod_affinity]
        return [(domain, domain.sums(count) > 0) for domain in domains]

    def _too_many(self, spread: Spread, skew: bool) -> Bools:
        """Return the nodes that a required spread blocks; as in `obstacles`."""
        domain = self._domain(spread.key)
        blocked: Bools = domain.index < 0
        if skew:
            _, counts, counted = self._spread(spread)
            least = fewest(spread, counts, counted)
            blocked |= domain.where(counts + self._selects(spread) - least > spread.max_skew)
        return blocked

    def _selects(self, spread: Spread) -> bool:
        return selects(self.term(spread), self._footprint)

    def term(self, spread: Spread) -> PodTerm:
        return PodTerm(spread.key, spread.labels, (self._footprint.namespace,))

    def _spread(self, spread: Spread) -> tuple[Domain, Longs, Bools]:
        """Return a spread's domains, each one's pods on nodes that count, and which have such nodes."""
        domain = self._domain(spread.key)
        count = self._count(Matching((self.term(spread),), leaving=False))
        nodes = self.counting(spread)
        counts = domain.sums(count * nodes)
        counted = np.zeros(domain.count, np.bool_)
        counted[domain.index[nodes]] = True
        return domain, counts, counted

    def counting(self, spread: Spread) -> Bools:
        """Return the nodes that a spread counts: those with all its keys, and that its policies include."""
        obstacles = self._eligibility.of(self._shape).obstacles
        keeping = Obstacle.GONE
        if spread.honor_affinity:
            keeping |= Obstacle.SELECTOR | Obstacle.AFFINITY
        if spread.honor_taints:
            keeping |= Obstacle.TAINT | Obstacle.CORDON | Obstacle.NOT_READY
        nodes: Bools = (obstacles & np.uint16(keeping)) == 0
        for other in self.hard if spread.required else self._soft:
            nodes &= self._domain(other.key).index >= 0
        return nodes

    # Order and limits

    def _order(self, vector: Vector, caps: Ints) -> Columns:
        """Return the columns with room, the best first, ties to the smallest name."""
        columns = np.flatnonzero(caps)
        keys: list[npt.NDArray[np.signedinteger]] = [vector.key[columns]]
        for spread in self._soft:
            domain, counts, _ = self._spread(spread)
            keys.append(np.where(domain.index < 0, 2**31 - 1, domain.at(counts))[columns])
        if self._shape.preferred_pod_affinity:
            pull = np.zeros(len(caps), np.int64)
            for weight, term in self._shape.preferred_pod_affinity:
                domain = self._domain(term.key)
                count = domain.sums(self._count(Matching((term,))))
                if weight > 0 and selects(term, self._footprint) and not count.any():
                    count = _widest(domain, caps, columns)
                pull -= weight * domain.at(count)
            keys.append(pull[columns])
        if vector.rank is not None:
            keys.append(vector.rank[columns])
        if len(keys) == 1:
            return columns[np.argsort(keys[0], kind="stable")]
        return columns[np.lexsort(keys)]

    def _open(self, order: Columns, caps: Ints, count: int, ideal: int) -> Columns:
        """Return one domain's columns: the tightest that holds `ideal`, else `count`, else the largest."""
        domains = [self._domain(term.key) for term in self._shape.pod_affinity]
        numbers = np.array([domain.index[order] for domain in domains])
        openings, of = np.unique(numbers, axis=1, return_inverse=True)
        of = of.reshape(-1)
        room = np.bincount(of, weights=caps[order], minlength=openings.shape[1]).astype(np.int64)
        names = np.full(len(room), len(caps), np.int64)
        np.minimum.at(names, of, order)
        for i in range(len(room)):
            if tuple(openings[:, i].tolist()) in self.barred:
                room[i] = 0
        self.opened = None
        if not room.any():
            return order[:0]
        holding = [np.flatnonzero(room >= size) for size in (ideal, count) if (room >= size).any()]
        if holding:
            best = min(holding[0].tolist(), key=lambda i: (room[i], names[i]))
            self.opened = tuple(openings[:, best].tolist())
        else:
            best = min(range(len(room)), key=lambda i: (-room[i], names[i]))
        inside: Columns = order[of == best]
        return inside

    def _levels(self, left: Ints, count: int) -> "tuple[list[Limit], list[Limit]]":
        """Return, per required spread, each domain's room, and the pods it must get to make that room."""
        limits, needs = [], []
        for spread in self.hard:
            if not self._selects(spread):
                continue
            domain, counts, counted = self._spread(spread)
            room, need = level(spread, counts, counted, domain.sums(left), count)
            limits.append(Limit(domain.index, room))
            if need.any():
                needs.append(Limit(domain.index, need))
        return limits, needs

    def _evenly(self, left: Ints, count: int) -> "list[Limit]":
        """Return equal shares per domain, as far as room allows, for preferences about the own group."""
        shares = []
        for spread in self._soft:
            if self._selects(spread):
                domain, counts, _ = self._spread(spread)
                shares.append(share(domain, counts, left, count))
        for weight, term in self._shape.preferred_pod_affinity:
            if weight < 0 and selects(term, self._footprint):
                domain = self._domain(term.key)
                counts = domain.sums(self._count(Matching((term,))))
                shares.append(share(domain, counts, left, count))
        return shares


def _widest(domain: Domain, caps: Ints, columns: Columns) -> Longs:
    """Return 1 for the domain with most room, else 0: pods that prefer each other's company start there."""
    most = domain.sums(caps)
    chosen = np.zeros(domain.count, np.int64)
    if most.any():
        first = np.full(domain.count, len(caps), np.int64)
        there = columns[domain.index[columns] >= 0]
        np.minimum.at(first, domain.index[there], there)
        chosen[min(np.flatnonzero(most).tolist(), key=lambda d: (-most[d], first[d]))] = 1
    return chosen


def _one_each(order: Columns, domain: Domain, caps: Ints) -> Columns:
    """Keep only the best column of each domain, for one pod; columns in no domain stay as they are."""
    index = domain.index[order]
    _, first = np.unique(index, return_index=True)
    keep = index < 0
    keep[first] = True
    inside = order[keep & (index >= 0)]
    caps[inside] = np.minimum(caps[inside], 1)
    return order[keep]


@dataclass(slots=True)
class Limit:
    """How many more pods each domain takes: `room`, by number of the domain."""

    index: Ints
    room: Longs


def pour(
    order: Columns,
    caps: Longs,
    limits: Sequence[Limit],
    needs: Sequence[Limit],
    shares: Sequence[Limit],
    count: int,
) -> tuple[Columns, Longs]:
    """Fill columns in order: first what domains need, then equal shares, then any column with room."""
    given = np.zeros(len(order), np.int64)
    rounds = filter(len, [needs, *([need] for need in needs if len(needs) > 1), shares])
    for further in [*rounds, ()]:
        left = count - int(given.sum())
        if left <= 0:
            break
        more = _fill(order, caps - given, [*limits, *further], left)
        given += more
        for limit in (*limits, *needs, *shares):
            index = limit.index[order]
            taken = np.bincount(index[index >= 0], weights=more[index >= 0], minlength=len(limit.room))
            limit.room = np.maximum(limit.room - taken.astype(np.int64), 0)
    chosen = given > 0
    return order[chosen], given[chosen]


def _fill(order: Columns, caps: Longs, limits: Sequence[Limit], count: int) -> Longs:
    """Return per column of the order as many pods as it and its domains take, up to `count` in total."""
    rooms: dict[int, tuple[Ints, Longs]] = {}
    for limit in limits:
        known = rooms.get(id(limit.index))
        room = limit.room if known is None else np.minimum(known[1], limit.room)
        rooms[id(limit.index)] = (limit.index[order], room)
    if len(rooms) > 1:
        return _fill_one_by_one(caps, list(rooms.values()), count)
    for index, room in rooms.values():
        by_domain = np.argsort(index, kind="stable")
        grouped = index[by_domain]
        filled = np.cumsum(caps[by_domain])
        start = np.searchsorted(grouped, grouped)
        before = filled - caps[by_domain]
        before -= before[start]
        allowed = np.empty_like(caps)
        limited = np.where(grouped >= 0, np.append(room, 0)[grouped], 0)
        allowed[by_domain] = np.clip(limited - before, 0, caps[by_domain])
        caps = allowed
    filled = np.cumsum(caps)
    given: Longs = np.clip(count - (filled - caps), 0, caps)
    return given


def _fill_one_by_one(caps: Longs, rooms: Sequence[tuple[Ints, Longs]], count: int) -> Longs:
    given = np.zeros(len(caps), np.int64)
    indices = [index.tolist() for index, _ in rooms]
    left = [room.tolist() for _, room in rooms]
    for i, cap in enumerate(caps.tolist()):
        times = min(cap, count)
        for index, room in zip(indices, left, strict=True):
            times = min(times, room[index[i]]) if index[i] >= 0 else 0
        if times > 0:
            given[i] = times
            count -= times
            for index, room in zip(indices, left, strict=True):
                room[index[i]] -= times
            if not count:
                break
    return given


def level(spread: Spread, counts: Longs, counted: Bools, most: Longs, count: int) -> tuple[Longs, Longs]:
    """Return per domain the room for `count` pods within the skew, and the pods needed to make this room.

    The lowest level L with Σ min(most, L + skew - counts) ≥ count; domains below L must be filled up to it.
    If there is none, the highest level that domains can be filled to: then not all pods find room.
    """

    def room(level: int) -> Longs:
        return np.where(counted, np.clip(level + spread.max_skew - counts, 0, most), 0)

    def need(level: int) -> Longs:
        return np.where(counted, np.maximum(level - counts, 0), 0)

    low = fewest(spread, counts, counted)
    fixed = int(np.count_nonzero(counted)) < spread.min_domains or not counted.any()
    high = low if fixed else max(low, min(low + count, int((counts + most)[counted].min())))
    low = bisect_left(range(high), True, low, high, key=lambda level: int(room(level).sum()) >= count)
    if int(need(low).sum()) > count:
        low -= 1
    return room(low), need(low)


def fewest(spread: Spread, counts: Longs, counted: Bools) -> int:
    """Return the pods of the domain with the fewest; 0 if there are fewer than `minDomains` domains."""
    there = counts[counted]
    return int(there.min()) if len(there) >= max(spread.min_domains, 1) else 0


def share(domain: Domain, counts: Longs, left: Ints, count: int) -> Limit:
    """Return per domain an equal share of `count` pods; pods already there count towards it."""
    most = domain.sums(left)

    def room(level: int) -> Longs:
        return np.clip(level - counts, 0, most)

    highest = int(counts.max(initial=0)) + count
    enough = bisect_left(range(highest), True, key=lambda level: int(room(level).sum()) >= count)
    return Limit(domain.index, room(enough))
