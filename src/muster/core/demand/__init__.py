"""What a gang still lacks: the places to be filled, its minimum, and what it requires of the topology.

A `Demand` says nothing of nodes. Equal ones are one object (`world/lacking.py`), so that an answer about one
holds for all gangs that lack the same. A `Request` is one with all that its placement needs to know of the
gang.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from muster.core.demand.affinity import NO_CONCERN, Concern, constrained
from muster.core.words.events import NOTHING, Presence
from muster.core.words.gang import GangId, Gather, Place, Shape

#: Defaults: for trials whose pods other pods need not see, for gangs without places, and without an order.
NOBODY: Final[Mapping[str, Presence]] = {}
NOWHERE: Final[Mapping[Place, int]] = {}
UNRANKED: Final[Mapping[str, Sequence[int]]] = {}


@dataclass(frozen=True, slots=True)
class Part:
    """What one pod set still wants: up to `count` places, of which `need` are its minimum."""

    pod_set: str
    shape: Shape
    count: int
    need: int
    concern: Concern = NO_CONCERN
    #: something besides room decides where its pods go
    constrained: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "constrained", constrained(self.shape, self.concern))

    @property
    def presence(self) -> Presence:
        """What the part's own pods must see of each other."""
        if self.concern.presence is NOTHING and self.shape.ports:
            return Presence(ports=self.shape.ports)
        return self.concern.presence


@dataclass(frozen=True, slots=True)
class Rules:
    """What a gang requires of the network topology."""

    gather: tuple[Gather, ...] = ()
    #: the layer whose domains the gang shares with no other gang; "" = none
    exclusive: str = ""
    #: the gang, once some of its places are filled or held: these bind its other places; None before
    begun: GangId | None = None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Demand:
    """What a gang still wants; `need` is its minimum over all parts, at least the sum of theirs.

    Equal demands are one object (ensured by `lacking.py`), so that a result for one holds for all: ten
    thousand identical pods are tried once per cycle.
    """

    parts: tuple[Part, ...]
    need: int
    rules: Rules | None = None
    #: some part has constraints besides room
    constrained: bool = field(init=False)
    #: where its places may be depends on where the gang's other places are
    bound: bool = field(init=False)
    #: it fits if, and only if, there are enough slots: pods of one set, and no constraint but room
    fits_by_slots: bool = field(init=False)
    #: some part asks for shares of GPUs
    sharing: bool = field(init=False)
    #: a pod that starts can help it to fit: by affinity towards that pod, or by evening out a required spread
    sociable: bool = field(init=False)

    def __post_init__(self) -> None:
        parts, rules, put = self.parts, self.rules, object.__setattr__
        put(self, "constrained", any(part.constrained for part in parts))
        put(self, "bound", rules is not None and rules.begun is not None)
        put(self, "fits_by_slots", len(parts) == 1 and rules is None and not self.constrained)
        put(self, "sharing", any(part.shape.gpu_share for part in parts))
        put(self, "sociable", any(_sociable(part.shape) for part in parts))

    def same_but_for_company(self, other: "Demand") -> bool:
        """Whether the two differ at most in the anti-affinity of other pods that keeps them off."""
        if self is other:
            return True
        if (self.need, self.rules, len(self.parts)) != (other.need, other.rules, len(other.parts)):
            return False
        return all(
            replace(mine, concern=NO_CONCERN) == replace(theirs, concern=NO_CONCERN)
            for mine, theirs in zip(self.parts, other.parts, strict=True)
        )


def _sociable(shape: Shape) -> bool:
    return bool(shape.near) or any(spread.required for spread in shape.spread)


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
    #: by pod set, the rank of each index in the gang's own order; empty: one set after the other
    ranks: Mapping[str, Sequence[int]] = UNRANKED
    #: what other pods see of each pod set's pods
    presences: Mapping[str, Presence] = NOBODY

    def keeping_off(self, columns: npt.NDArray[np.intp]) -> "Request":
        """The same request, with these columns excluded as well."""
        return self._replace(
            excluded=columns if self.excluded is None else np.union1d(columns, self.excluded)
        )
