"""The input of every explanation of a failed placement: the demand, and the ledger as it is now.

The methods only read numbers: what one pod requests, what the minimum takes at least, which nodes count, how
many pods of each pod set fit, and what keeps the next pod off each node. All reasons report these same
numbers, so they are computed once per case.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Final

import numpy as np

from muster.core.demand import NO_CONTEXT, Demand, Part, Request
from muster.core.placement import Fit, Infeasible
from muster.core.placement.greedy import Draft
from muster.core.placement.slots import Vector
from muster.core.words.amounts import PODS, bare, show
from muster.core.words.decisions import PodSetExplanation
from muster.core.words.gang import GangId, NodeName, Shape, Toleration
from muster.core.world import World
from muster.core.world.devices import WHOLE
from muster.core.world.eligibility import AVOIDED, Obstacle
from muster.core.world.gangs import GangState
from muster.core.world.nodes import ABSENT, Bools, Ints
from muster.names import GPU, GPU_SHARE

#: Gangs named as blockers, largest holders first.
BLOCKERS: Final = 5

_LIMITS: Final = (
    (Obstacle.SELECTOR, "selector"),
    (Obstacle.AFFINITY, "affinity"),
    (Obstacle.VOLUME, "volume"),
    (Obstacle.FEATURES, "features"),
    (Obstacle.TAINT, "taint"),
    (Obstacle.CORDON, "cordon"),
    (Obstacle.NOT_READY, "notReady"),
    (Obstacle.AVOIDED, "avoided"),
)


@dataclass(frozen=True)
class Case:
    """A demand whose minimum does not fit. `answer`: what is known beyond greedy placement."""

    world: World
    fit: Fit
    demand: Demand
    answer: Infeasible | None = None
    #: gangs by resource, the largest holders first: found once for all cases of a cycle
    holding: dict[str, list[GangState]] = field(default_factory=dict)
    _fits: dict[tuple[bool, bool, bool], bool] = field(default_factory=dict)

    @cached_property
    def pod_sets(self) -> tuple[PodSetExplanation, ...]:
        """How many pods of each part fit, in the order of a placement."""
        if len(self.demand.parts) == 1 and not self.demand.constrained:
            return (self._alone(),)
        demand, ledger, slots = self.demand, self.world.ledger, self.fit.slots
        with self.world.trial():
            draft = Draft(Request(demand, ()), ledger, slots)
            draft.fill_minimum()
            return self._short(draft)

    def _short(self, draft: Draft) -> tuple[PodSetExplanation, ...]:
        """What a placement of as much as fits has placed, and what limits the rest."""
        demand, slots = self.demand, self.fit.slots
        wanted = [max(part.need, n) for part, n in zip(demand.parts, draft.placed, strict=True)]
        for members, need in demand.joint:
            for p in members:
                missing = need - sum(wanted[q] for q in members)
                wanted[p] += min(max(missing, 0), demand.parts[p].count - wanted[p])
        return tuple(
            PodSetExplanation(
                part.pod_set,
                wanted[p],
                draft.placed[p],
                self.limits(slots.of(part.shape), draft.obstacles(p)) if draft.placed[p] < wanted[p] else {},
            )
            for p, part in enumerate(demand.parts)
            if wanted[p]
        )

    def _alone(self) -> PodSetExplanation:
        """Explain a single unconstrained part from its slots alone, without a placement."""
        (part,) = self.demand.parts
        vector = self.fit.slots.room(part.shape)
        wanted = max(part.need, self.demand.need)
        fits = min(vector.total, wanted)
        limits = self.limits(vector, (), vector.slots) if fits < wanted else {}
        return PodSetExplanation(part.pod_set, wanted, fits, limits)

    def fits(self) -> bool:
        """Whether greedy placement finds room for it as it is."""
        request = Request(self.demand, [range(part.count) for part in self.demand.parts], search=False)
        with self.world.trial():
            return bool(self.fit.fit(request))

    def fits_without(
        self, *, rules: bool = False, constraints: bool = False, avoidance: bool = False
    ) -> bool:
        """Whether there is room without regard to the topology, to other pods, or to what has failed where,
        as far as is known.

        Greedy placement finds out, or an exact search while problems are lent (`lending`).
        """
        if (known := self._fits.get((rules, constraints, avoidance))) is not None:
            return known
        fit, parts = self.fit, self.demand.parts
        if constraints:
            parts = tuple(replace(part, shape=_bare(part.shape), affinity=NO_CONTEXT) for part in parts)
        if avoidance:
            parts = tuple(replace(part, shape=_anywhere(part.shape)) for part in parts)
        demand = self.demand
        demand = self.world.demands.of(parts, demand.need, None if rules else demand.rules, demand.minima)
        request = Request(demand, [range(part.count) for part in parts], search=fit.exact.lent > 0)
        with self.world.trial():
            found = bool(fit.anywhere(request) if demand.rules is None else fit.fit(request))
        self._fits[rules, constraints, avoidance] = found
        return found

    def limits(
        self, vector: Vector, constraints: Iterable[tuple[str, Bools]] = (), more: Ints | int = 0
    ) -> Mapping[str, int]:
        """Count nodes by what keeps the next pod off them, given `more` pods; each node counts once."""
        obstacles = self.world.eligibility.of(vector.shape).obstacles
        left = obstacles & Obstacle.GONE == 0
        limits: dict[str, int] = {}

        def count(name: str, nodes: Bools) -> None:
            nonlocal left
            number = int(np.count_nonzero(nodes & left))
            if number:
                limits[name] = number
            left &= ~nodes

        for flag, name in _LIMITS:
            count(name, obstacles & flag != 0)
        for resource, row, amount in self._asked(vector):
            if not left.any():
                return limits
            taken = np.multiply(more, amount, dtype=np.int64)
            count(resource, self.world.nodes.free(row) - taken < amount)
        if vector.share:
            devices, free = self.world.nodes.devices, self.world.nodes.free
            count(GPU_SHARE, devices.slots(vector.share, free(devices.row)) - more < 1)
        if claims := vector.shape.claims:
            count("devices", self.world.nodes.claims.slots(claims) - more < 1)
        for name, blocked in constraints:
            count(name, blocked)
        return limits

    def kept_off(self) -> list[NodeName]:
        """Return the nodes that only avoidance keeps some pod off."""
        nodes, found = self.world.nodes, set[int]()
        for part in self.demand.parts:
            obstacles = self.world.eligibility.of(part.shape).obstacles
            found.update(np.flatnonzero(obstacles == Obstacle.AVOIDED).tolist())
        return [nodes.names[column] for column in sorted(found)]

    def asked(self, part: Part) -> list[tuple[str, int, int]]:
        """Return (resource, row, amount) of one pod: the scarce resource first, then by name, `pods` last."""
        return self._asked(self.fit.slots.of(part.shape))

    def _asked(self, vector: Vector) -> list[tuple[str, int, int]]:
        asked = self.world.nodes.asked(vector.shape.requests)
        return sorted(asked, key=lambda item: (item[0] != vector.resource, item[0] == PODS, item[0]))

    def row(self, resource: str) -> int:
        """Return the row of a resource, also of one that no node has."""
        return self.world.nodes.resources.get(resource, ABSENT)

    def matching(self, part: Part) -> Bools:
        """Return the nodes that this part's pods may use, were these ready and not cordoned."""
        return self.world.eligibility.of(part.shape).matching

    @cached_property
    def least(self) -> dict[str, int]:
        """What the minimum takes at least of each resource, whichever places make it up."""
        names = dict.fromkeys(resource for amounts in self._amounts.values() for resource in amounts)
        takes = [self._amounts[part.shape] for part in self.demand.parts]
        least = {name: self.demand.at_least([each.get(name, 0) for each in takes]) for name in names}
        return {name: amount for name, amount in least.items() if amount}

    @cached_property
    def _amounts(self) -> dict[Shape, dict[str, int]]:
        """By shape, what one pod takes of each resource."""
        shapes, asked = {part.shape for part in self.demand.parts}, self.world.nodes.asked
        return {shape: {name: amount for name, _, amount in asked(shape.requests)} for shape in shapes}

    def amount(self, part: Part, resource: str) -> int:
        """Return what one pod of a part takes of a resource."""
        return self._amounts[part.shape].get(resource, 0)

    def usable(self, resource: str) -> Bools:
        """Return the nodes that some part which requests this resource may use."""
        usable = np.zeros(len(self.world.nodes), np.bool_)
        for part in self.demand.parts:
            if self.amount(part, resource):
                usable |= self.world.eligibility.of(part.shape).eligible
        return usable

    def free(self, resource: str, usable: Bools) -> int:
        """Return what these nodes have free of a resource, all together."""
        nodes, row = self.world.nodes, self.row(resource)
        if row == nodes.resources.get(GPU_SHARE):  # a node that has lost a GPU in use takes no share
            usable = usable & (nodes.free(nodes.devices.row) >= 0)
        return int(np.maximum(nodes.free(row)[usable], 0).sum(dtype=np.int64))

    def total(self, resource: str, demanded: int) -> str:
        """Return the demand as a phrase: "16 GPUs asked as 4 × 4"."""
        terms = [
            f"{part.need} × {bare(resource, amount)}"
            for part in self.demand.parts
            if (amount := self.amount(part, resource)) and part.need
        ]
        if resource == PODS or not terms:
            return f"{show(resource, demanded)} asked"
        return f"{show(resource, demanded)} asked as {' + '.join(terms)}"

    def holders(self, resource: str, usable: Bools) -> tuple[GangId, ...]:
        """Return the gangs on some of these nodes that use most of a resource, at most `BLOCKERS`."""
        there = (state.id for state in self.holds(resource) if self.on(state, usable))
        return tuple(islice(there, BLOCKERS))

    def on(self, state: GangState, nodes: Bools) -> bool:
        """Whether a gang is on some of these nodes."""
        column = self.world.nodes.column
        return any(nodes[column[node]] for node in state.nodes if node in column)

    def holds(self, resource: str) -> list[GangState]:
        """Return all gangs that use some of a resource, the largest users first."""
        known = self.holding.get(resource)
        if known is None:
            gangs = [state for state in self.world.gangs.values() if state.usage]
            amounts = {state.id: held for state in gangs if (held := _held(state, resource)) > 0}
            names = sorted(amounts, key=lambda gang: (-amounts[gang], gang))
            known = self.holding[resource] = [self.world.gangs[name] for name in names]
        return known

    def named(self, part: Part, message: str) -> str:
        """Return the message, with the pod set's name if the demand has several."""
        return f"{part.pod_set}: {message}" if len(self.demand.parts) > 1 else message


def _anywhere(shape: Shape) -> Shape:
    """The shape of pods that use nodes also where pods have failed."""
    tolerated = Toleration(AVOIDED.key, None, AVOIDED.effect)
    return replace(shape, avoided=(), last=(), tolerations=(*shape.tolerations, tolerated))


def _bare(shape: Shape) -> Shape:
    """The shape without constraints besides room."""
    return replace(shape, ports=(), pod_affinity=(), pod_anti_affinity=(), spread=())


def _held(state: GangState, resource: str) -> int:
    """Return what a gang uses of a resource; of GPUs thousandths, as shares and whole devices compete."""
    if resource in (GPU, GPU_SHARE):
        return state.usage.get(GPU, 0) * WHOLE + state.usage.get(GPU_SHARE, 0)
    return state.usage.get(resource, 0)
