"""What each gang lacks: a demand, computed from what it asks for and the places that it has.

Equal demands of different gangs are one object: whether a demand fits, whether its queue admits it and why it
waits are computed once for all gangs that want the same, and cached by identity.
"""

from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from muster.core.demand import AffinityContext, Demand, Part, Request, Rules, affinity_context
from muster.core.words.events import Footprint
from muster.core.words.gang import Gang, Gather, Place, PodSet, PodTerm, Shape
from muster.core.world.claims import NodeClaims
from muster.core.world.failed_starts import ANYWHERE, FailedStarts, KeepOff
from muster.core.world.footprints import Footprints, selects
from muster.core.world.gangs import GangState, footprint, indices

#: A demand, the indices of each part's vacant places, and what other pods see of each pod set's pods.
_Lack = tuple[Demand, tuple[Sequence[int], ...], dict[str, Footprint]]
#: What makes two demands equal.
_Fields = tuple[tuple[Part, ...], int, Rules | None, tuple[tuple[str, int], ...]]
#: Kinds of gangs whose demands are cached.
_KEPT: Final = 1024


class Demands:
    """Computes what gangs want; equal demands are one object."""

    def __init__(self, footprints: Footprints, failed_starts: FailedStarts, claims: NodeClaims) -> None:
        self._footprints, self._keep_off = footprints, failed_starts.of_origin
        self._claims = claims
        #: weak: cached results about a demand keep it alive, so it makes no difference when a demand without
        #: them is freed
        self._known: WeakValueDictionary[_Fields, Demand] = WeakValueDictionary()
        #: demands of gangs that have no places yet, by what they ask for, as of this anti-affinity, and of
        #: what nodes have as devices
        self._whole: dict[tuple[object, ...], _Lack | None] = {}
        self._as_of: object = None

    def of(
        self,
        parts: tuple[Part, ...],
        need: int,
        rules: Rules | None,
        minima: tuple[tuple[str, int], ...] = (),
    ) -> Demand:
        key = (parts, need, rules, minima)
        demand = self._known.get(key)
        if demand is None:
            demand = self._known[key] = Demand(*key)
        return demand

    def of_parts(self, demand: Demand, parts: Iterable[Part]) -> Demand:
        """The same demand with other parts; all of its minima stay."""
        return self.of(tuple(parts), demand.need, demand.rules, demand.minima)

    def settle(self, state: GangState) -> None:
        """Update `state.demand` and `state.vacant`. No demand: the gang lacks nothing, or is gated.

        A place whose hold is unannounced counts as vacant: it still needs its Assign.
        """
        state.demand, state.vacant = None, ()
        gang = state.gang
        if gang is None:
            return
        state.rank = (-gang.priority, gang.submitted, state.id)
        if gang.gate is not None:
            return
        state.carried = self._footprints.carried.as_of
        if state.begun or state.retired or state.lapsed:
            lack = self._lack(state, gang)
        else:
            lack = self._all(state, gang)
        if lack is not None:
            state.demand, state.vacant, state.footprints = lack

    def in_trial(self, request: Request) -> Request:
        """The same request on the ledger of a trial, where new pods' anti-affinity may keep it off nodes."""
        parts = []
        for part in request.demand.parts:
            pod_footprint = request.footprints[part.pod_set]
            apart = part.affinity.pod_anti_affinity | self._footprints.carried.selecting(pod_footprint)
            parts.append(replace(part, affinity=affinity_context(part.shape, pod_footprint, apart)))
        return request._replace(demand=self.of_parts(request.demand, parts))

    def only(self, request: Request, places: Collection[Place]) -> Request:
        """The same request for these places and no others; the minimum must be among them."""
        if len(places) == sum(map(len, request.vacant)):
            return request
        parts, vacant = [], []
        for part, lacking in zip(request.demand.parts, request.vacant, strict=True):
            if some := [index for index in lacking if Place(part.pod_set, index) in places]:
                parts.append(replace(part, count=len(some)))
                vacant.append(some)
        return request._replace(demand=self.of_parts(request.demand, parts), vacant=vacant)

    def _all(self, state: GangState, gang: Gang) -> _Lack | None:
        """The demand of a gang without places, which is the same for every such gang of its kind."""
        carried = self._footprints.carried
        as_of = carried, carried.as_of, self._claims.resources
        if self._as_of != as_of or len(self._whole) >= _KEPT:
            self._whole.clear()
            self._as_of = as_of
        keep_off = self._keep_off.get(gang.origin or gang.id, ANYWHERE)
        asked = gang.pod_sets, gang.subgroups, gang.min_count, gang.namespace, gang.gather, gang.exclusive
        key = *asked, keep_off
        try:
            return self._whole[key]
        except KeyError:
            lack = self._whole[key] = self._lack(state, gang)
            return lack

    def _lack(self, state: GangState, gang: Gang) -> _Lack | None:
        announced = (place for place, promise in state.holds.items() if promise.announced)
        taken = indices(state.filled, state.retired, announced)
        vacant = [_vacant(p.count, taken.get(p.name)) for p in gang.pod_sets]
        done = [p.count - len(v) for p, v in zip(gang.pod_sets, vacant, strict=True)]
        overall = max(gang.min_count - sum(done), 0)
        needs = [max(p.min_count - d, 0) for p, d in zip(gang.pod_sets, done, strict=True)]
        rooms = [len(v) for v in vacant]
        minima, overall = _minima(gang, done, needs, rooms, overall)
        if not (overall or any(vacant) or any(needs)):
            return None
        if state.lapsed:
            vacant, needs = self._without_lapsed(state, vacant, needs, overall)
        chosen = [
            (p, footprint(gang, p), v, n)
            for p, v, n in zip(gang.pod_sets, vacant, needs, strict=True)
            if v or n
        ]
        own = {term for p in gang.pod_sets for term in p.shape.pod_anti_affinity}
        keep_off = self._keep_off.get(gang.origin or gang.id, ANYWHERE)
        parts = tuple(
            Part(p.name, self._asked(p.shape, keep_off), len(v), n, self._concern(p, f, own), p.subgroup)
            for p, f, v, n in chosen
        )
        if not parts and not overall:
            return None
        demand = self.of(parts, max(overall, sum(needs)), _rules(state, gang), minima)
        return demand, tuple(v for _, _, v, _ in chosen), {p.name: f for p, f, _, _ in chosen}

    def _asked(self, shape: Shape, keep_off: KeepOff) -> Shape:
        """The shape of pods that keep off these nodes, and need devices for what nodes have as devices."""
        if self._claims.resources:
            shape = self._claims.with_devices(shape)
        if not any(keep_off):
            return shape
        return replace(shape, avoided=keep_off.avoided, last=keep_off.last)

    def newly_concerned(self, state: GangState) -> bool:
        """Whether new anti-affinity since `settle` keeps pods of this gang off nodes."""
        if state.demand is None or state.carried == self._footprints.carried.as_of:
            return False
        return any(
            self._footprints.carried.selecting(state.footprints[part.pod_set])
            - part.affinity.pod_anti_affinity
            for part in state.demand.parts
        )

    def _concern(self, pod_set: PodSet, pod_footprint: Footprint, own: Set[PodTerm]) -> AffinityContext:
        """`own`: the anti-affinity of the gang's pod sets, which keeps them off each other."""
        carried = self._footprints.carried
        apart = carried.selecting(pod_footprint) if carried.as_of else frozenset()
        if own:
            apart |= {term for term in own if selects(term, pod_footprint)}
        return affinity_context(pod_set.shape, pod_footprint, apart)

    def _without_lapsed(
        self, state: GangState, vacant: list[Sequence[int]], needs: list[int], overall: int
    ) -> tuple[list[Sequence[int]], list[int]]:
        """`vacant` and `needs` without the lapsed places, if the minimum does not need them."""
        assert state.gang is not None
        if overall > 0 or any(needs):
            return vacant, needs
        kept: list[Sequence[int]] = [
            [i for i in v if Place(p.name, i) not in state.lapsed]
            for p, v in zip(state.gang.pod_sets, vacant, strict=True)
        ]
        return kept, needs


def _minima(
    gang: Gang, done: Sequence[int], needs: list[int], rooms: Sequence[int], overall: int
) -> tuple[tuple[tuple[str, int], ...], int]:
    """What subgroups need besides their pod sets' `needs`, and what the gang needs in all.

    What the other pod sets cannot contribute to a minimum over several, each pod set must: `needs` is raised.
    """
    sets, room, more = gang.pod_sets, sum(rooms), 0
    minima: list[tuple[str, int]] = []
    for i, size in enumerate(rooms):
        needs[i] = max(needs[i], overall - (room - size))
    for subgroup in gang.subgroups:
        members = [i for i, p in enumerate(sets) if p.subgroup == subgroup.name]
        lacking, own = subgroup.min_count - sum(done[i] for i in members), sum(rooms[i] for i in members)
        lacking = max(lacking, overall - (room - own), 0)
        for i in members:
            needs[i] = max(needs[i], lacking - (own - rooms[i]))
        if lacking > (sure := sum(needs[i] for i in members)):
            minima.append((subgroup.name, lacking))
            more += lacking - sure
    return tuple(minima), max(overall, sum(needs) + more)


def _rules(state: GangState, gang: Gang) -> Rules | None:
    """What the gang requires of the topology, or None. A gang that has begun is bound by its own places.

    So its rules equal those of no other gang. Multiples are dropped once a place is retired, because what is
    left need not be a multiple.
    """
    own = [(subgroup.name, subgroup.gather) for subgroup in gang.subgroups if subgroup.gather]
    if not (gang.gather or gang.exclusive or own):
        return None

    def gather(rules: tuple[Gather, ...]) -> tuple[Gather, ...]:
        return tuple(replace(rule, multiple=1) for rule in rules) if state.retired else rules

    started = state.id if state.begun else None
    subgroups = tuple((name, Rules(gather(rules), started=started)) for name, rules in own)
    return Rules(gather(gang.gather), gang.exclusive, started, subgroups)


def _vacant(count: int, taken: set[int] | None) -> Sequence[int]:
    if not taken:
        return range(count)
    if len(taken) == count and max(taken) < count:
        return ()
    return [i for i in range(count) if i not in taken]
