"""What a gang still lacks: the places to be filled, its minimum, and what it requires of the topology.

A `Demand` says nothing of nodes. Equal ones are one object (`world/lacking.py`), so that an answer about one
holds for all gangs that lack the same: ten thousand identical pods are tried once per cycle. A `Request` is
one with all that its placement needs to know of the gang.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from muster.core.words.amounts import PODS, Key, Usage
from muster.core.words.events import NOTHING, Footprint
from muster.core.words.gang import GangId, Gather, Place, PodTerm, Shape, Spread

#: Defaults: for trials whose pods other pods need not see, for gangs without places, and without an order.
NO_FOOTPRINTS: Final[Mapping[str, Footprint]] = {}
NOWHERE: Final[Mapping[Place, int]] = {}
UNRANKED: Final[Mapping[str, Sequence[int]]] = {}


@dataclass(frozen=True, slots=True)
class AffinityContext:
    """The affinity context of one part of a demand."""

    #: the pod's footprint, reduced to what terms of its own shape read, so that more demands are equal
    footprint: Footprint = NOTHING
    #: required anti-affinity of pods on nodes that selects it
    pod_anti_affinity: frozenset[PodTerm] = frozenset()


NO_CONTEXT: Final = AffinityContext()


@dataclass(frozen=True, slots=True)
class Part:
    """What one pod set still lacks: up to `count` places, of which `need` are its minimum."""

    pod_set: str
    shape: Shape
    count: int
    need: int
    affinity: AffinityContext = NO_CONTEXT
    #: parts of one subgroup share a minimum (`Demand.minima`); "" = none
    subgroup: str = ""

    @property
    def constrained(self) -> bool:
        """Whether something besides room decides where its pods go (`placement/constraints.py`)."""
        shape = self.shape
        looks = (
            shape.ports
            or shape.pod_affinity
            or shape.pod_anti_affinity
            or shape.preferred_pod_affinity
            or shape.spread
        )
        return bool(looks) or self.affinity is not NO_CONTEXT

    @property
    def footprint(self) -> Footprint:
        """What the part's own pods must see of each other."""
        if self.affinity.footprint is NOTHING and self.shape.ports:
            return Footprint(ports=self.shape.ports)
        return self.affinity.footprint

    @property
    def usage(self) -> Usage:
        """What one of its pods uses."""
        return Usage.of_pod(self.shape.requests)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a gang requires of the network topology."""

    gather: tuple[Gather, ...] = ()
    #: the layer whose domains the gang shares with no other gang; "" = none
    exclusive: str = ""
    #: the gang, once some of its places are filled or held: these bind its other places; None before
    started: GangId | None = None
    #: by subgroup, the rules for its own pods; subgroups without any are left out
    subgroups: "tuple[tuple[str, Rules], ...]" = ()

    @property
    def in_multiples(self) -> bool:
        return any(rule.multiple > 1 for rule in self.gather)

    @property
    def each(self) -> "Iterator[tuple[str, Rules]]":
        """Yield the gang's own rules (under the name ""), and those of subgroups."""
        yield "", self
        yield from self.subgroups


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Demand:
    """What a gang still lacks; `need` is its minimum over all parts, at least the sum of all other minima."""

    parts: tuple[Part, ...]
    need: int
    rules: Rules | None = None
    #: subgroups that need more places than the minima of their parts, and how many each needs
    minima: tuple[tuple[str, int], ...] = ()

    #: minima over several parts: their indices, ascending, and the places needed; the one over all is last
    joint: tuple[tuple[Sequence[int], int], ...] = field(init=False, repr=False)
    #: some part has constraints besides room
    constrained: bool = field(init=False, repr=False)
    #: the places that the gang has already decide where its other places may be
    bound: bool = field(init=False, repr=False)
    #: it fits if there are enough slots, and only then: one pod set, no constraint but room
    fits_by_slots: bool = field(init=False, repr=False)
    #: some part asks for shares of GPUs
    sharing: bool = field(init=False, repr=False)
    #: some part has claims on devices
    claiming: bool = field(init=False, repr=False)
    #: a pod that starts can help it to fit: by affinity, or by evening out a required spread
    helped_by_arrivals: bool = field(init=False, repr=False)
    #: what the minimum uses at least of each resource, whichever places make it up; by name
    least: Usage = field(init=False, repr=False)
    #: what all of it uses of each resource, by name
    most: Usage = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts, rules, put = self.parts, self.rules, object.__setattr__
        shapes = [part.shape for part in parts]
        members = (
            ([p for p, part in enumerate(parts) if part.subgroup == name], n) for name, n in self.minima
        )
        put(self, "joint", (*members, (range(len(parts)), self.need)))
        constrained = any(part.constrained for part in parts)
        put(self, "constrained", constrained)
        put(self, "bound", rules is not None and rules.started is not None)
        put(self, "claiming", any(shape.claims for shape in shapes))
        by_slots = len(parts) == 1 and rules is None and not constrained
        put(self, "fits_by_slots", by_slots and not self.claiming)
        put(self, "sharing", any(shape.gpu_share for shape in shapes))
        helped = any(
            shape.pod_affinity or any(spread.required for spread in shape.spread) for shape in shapes
        )
        put(self, "helped_by_arrivals", helped)
        each, most = [part.usage for part in parts], Usage()
        names = sorted({PODS}.union(*each))
        least = {name: self.at_least([usage.get(name, 0) for usage in each]) for name in names}
        put(self, "least", Usage({name: amount for name, amount in least.items() if amount}))
        for part, usage in zip(parts, each, strict=True):
            most.add(usage, part.count)
        put(self, "most", Usage(sorted(most.items())))

    def at_least(self, worth: Sequence[int]) -> int:
        """Return what the minimum is worth at least if a place of each part is worth so much."""
        parts, found, sure = self.parts, 0, 0
        for n, part in zip(worth, parts, strict=True):
            found += n * part.need
            sure += part.need
        for members, need in self.joint:
            own = sure if len(members) == len(parts) else sum(parts[p].need for p in members)
            more = need - own
            found += more * min((worth[p] for p in members if parts[p].count > parts[p].need), default=0)
            sure += more
        return found

    def short(self, fits: Sequence[int]) -> int:
        """Return how many more places the minimum takes if so many of each part fit."""
        if len(self.parts) == 1:
            return max(self.need - min(fits[0], self.parts[0].count), 0)
        found, have, (*subgroups, (_, least)) = 0, [], self.joint
        for n, part in zip(fits, self.parts, strict=True):
            able = min(n, part.count)
            have.append(max(able, part.need))
            found += have[-1] - able
        more = sum(max(need - sum(have[p] for p in members), 0) for members, need in subgroups)
        return found + more + max(least - sum(have) - more, 0)

    def equal_but_for_anti_affinity(self, other: "Demand") -> bool:
        """Whether the two differ at most in the anti-affinity of other pods that keeps them off."""
        if self is other:
            return True
        if (self.need, self.rules, self.minima) != (other.need, other.rules, other.minima):
            return False
        if len(self.parts) != len(other.parts):
            return False
        return all(
            replace(mine, affinity=NO_CONTEXT) == replace(theirs, affinity=NO_CONTEXT)
            for mine, theirs in zip(self.parts, other.parts, strict=True)
        )


class Request(NamedTuple):
    """What is to be placed now, for one gang. Columns are those of `Nodes`, valid in this cycle only."""

    demand: Demand
    #: indices of each part's vacant places, ascending
    vacant: Sequence[Sequence[int]]
    #: places that have their own node, and keep it if possible: held since they were vacated, or planned
    preferred: Mapping[Place, int] = NOWHERE
    #: columns of the planned ones: what a plan promises was allowed then, whichever gang has the domain now
    planned: Sequence[int] = ()
    #: columns of the gang's other places, which stay there: bound, or held
    settled: Mapping[Place, int] = NOWHERE
    #: columns that must not be used
    excluded: npt.NDArray[np.intp] | None = None
    #: whether to search if greedy placement fails; without a search, failure is no proof
    search: bool = True
    #: whose turn a search is (`core/work.py`)
    namespace: str = ""
    #: by pod set, the rank of each index in the gang's own order; empty: one set after the other
    ranks: Mapping[str, Sequence[int]] = UNRANKED
    #: what other pods see of each pod set's pods
    footprints: Mapping[str, Footprint] = NO_FOOTPRINTS

    def keeping_off(self, columns: npt.NDArray[np.intp]) -> "Request":
        """The same request, with these columns excluded as well."""
        return self._replace(
            excluded=columns if self.excluded is None else np.union1d(columns, self.excluded)
        )


def affinity_context(
    shape: Shape, footprint: Footprint, pod_anti_affinity: frozenset[PodTerm]
) -> AffinityContext:
    terms: list[PodTerm | Spread] = [*shape.pod_affinity, *shape.pod_anti_affinity, *shape.spread]
    terms += [term for _, term in shape.preferred_pod_affinity]
    if not terms:
        return AffinityContext(NOTHING, pod_anti_affinity) if pod_anti_affinity else NO_CONTEXT
    keys = {requirement.key for term in terms for requirement in term.labels}
    labels = tuple((key, value) for key, value in footprint.labels if key in keys)
    return AffinityContext(replace(footprint, labels=labels), pod_anti_affinity)


def cut(demand: Demand, room: Mapping[Key, int], costs: Sequence[Mapping[Key, int]]) -> tuple[Part, ...]:
    """As many places of each part as there is room for, but at least the minimum.

    Parts without any are left out. `costs`: what a place of each part takes. What `room` does not name is not
    limited. A minimum over several parts is filled with the smallest pods that there is room for, else with
    the smallest; the rest of the room goes to the parts in their order.
    """
    left = dict(room)
    counts = [0] * len(demand.parts)
    limited = [{key: n for key, n in cost.items() if n > 0 and key in left} for cost in costs]

    def add(p: int, count: int) -> None:
        counts[p] += count
        for key, amount in limited[p].items():
            left[key] -= count * amount

    def size(p: int) -> float:
        return max((amount / max(room[key], 1) for key, amount in limited[p].items()), default=0.0)

    def fitting(p: int) -> int:
        missing = demand.parts[p].count - counts[p]
        return min([missing, *(max(left[key], 0) // amount for key, amount in limited[p].items())])

    for p, part in enumerate(demand.parts):
        add(p, part.need)
    smallest = sorted(range(len(demand.parts)), key=size)
    for members, need in demand.joint:
        for roomy in (True, False):
            for p in (p for p in smallest if p in members):
                missing = need - sum(counts[q] for q in members)
                add(p, max(min(missing, fitting(p) if roomy else demand.parts[p].count - counts[p]), 0))
    for p in range(len(demand.parts)):
        add(p, fitting(p))
    return tuple(
        replace(part, count=count) for part, count in zip(demand.parts, counts, strict=True) if count
    )
