"""Binds pods to the nodes of their places, once their volumes are made and their devices allocated."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from muster.api import kinds
from muster.api.core_v1 import Pod
from muster.core.words.gang import NodeName, Place
from muster.effects import Allocate, Bind, Patch
from muster.runtime.commit.claims import pending, select, selected, unprovisionable
from muster.runtime.commit.context import Context
from muster.runtime.commit.places import minimum_met
from muster.runtime.commit.refusals import blocking, is_excluded, refusals
from muster.runtime.commit.view import NEVER
from muster.runtime.plan_record import PlacementPlan, mark
from muster.runtime.writes import Provision


@dataclass(frozen=True, slots=True)
class Bindable:
    #: places to fill now, with their pod and node
    places: Mapping[Place, tuple[Pod, NodeName]]
    #: when the first excluded pod may be tried again
    excluded_until: float
    #: places whose pod has claims whose volumes are still to be made, and what is to be written for that
    unprovisioned: Mapping[Place, tuple[Patch, ...]] = field(default_factory=dict)
    #: those of them whose volume cannot be made on their node
    unprovisionable: Mapping[Place, NodeName] = field(default_factory=dict)
    #: places whose pod has claims that lack devices, and what is to be written for that
    unallocated: Mapping[Place, tuple[Provision, ...]] = field(default_factory=dict)

    @property
    def possible(self) -> Set[Place]:
        """The places that can be filled, now or once the volumes and devices are there."""
        return self.places.keys() | self.unprovisioned.keys() | self.unallocated.keys()

    @property
    def writes(self) -> Mapping[object, Provision | Patch]:
        """What is to be written before these can be bound; several pods may share a claim."""
        found: dict[object, Provision | Patch] = {}
        for patch in (patch for patches in self.unprovisioned.values() for patch in patches):
            found[kinds.PERSISTENT_VOLUME_CLAIM, patch.namespace, patch.name] = patch
        for write in (write for writes in self.unallocated.values() for write in writes):
            if isinstance(write, Allocate):
                found[kinds.RESOURCE_CLAIM, write.claim.key] = write
            else:
                found[write.kind, f"{write.namespace}/{write.name}"] = write
        return found


def bindable(context: Context) -> Bindable:
    """Returns the missing places whose pod exists; a pod that was refused is excluded for a while."""
    places, claims, refused = context.places, context.claims, refusals(context)
    found: dict[Place, tuple[Pod, NodeName]] = {}
    until = NEVER
    unprovisioned: dict[Place, tuple[Patch, ...]] = {}
    unallocated: dict[Place, tuple[Provision, ...]] = {}
    impossible: dict[Place, NodeName] = {}
    for place, node in places.missing.items():
        pod = places.ready.get(place)
        if pod is None:
            continue
        if place in refused and is_excluded(refused[place], context.now):
            until = min(until, refused[place].until)
            continue
        if claims.any and place in claims.unmade:
            continue
        volumes = pending(context.view.find, pod) if pod.spec.volumes else []
        if volumes:
            unprovisioned[place] = tuple(
                select(claim, node) for claim in volumes if not selected(claim, node)
            )
            if any(unprovisionable(context.state, claim, node) for claim in volumes):
                impossible[place] = node
        if claims.any and place in claims.unserved:
            unallocated[place] = claims.unserved[place]
        elif not volumes:
            found[place] = (pod, node)
    return Bindable(found, until, unprovisioned, impossible, unallocated)


def binds(context: Context, bindable: Bindable, attempt: int, *, planned: bool = True) -> Iterator[Bind]:
    """Yields the binds to make now: first only those that were refused before.

    If they are refused again, nothing else has been bound that would have to be given back.
    """
    view = context.view
    doubtful = bindable.places.keys() & refusals(context).keys()
    for place in sorted(doubtful or bindable.places):
        pod, node = bindable.places[place]
        yield Bind(pod, place, node, mark(view.epoch, attempt, place), view.devices.get(place), planned)


def why_unreachable(context: Context, plan: PlacementPlan) -> str:
    """Why the minimum cannot be reached whatever pods arrive: members were refused. Empty if it can."""
    places = context.places
    blocked = blocking(context)
    possible = (plan.nodes.keys() | places.settled | places.missing.keys()) - blocked.keys()
    if not blocked or minimum_met(context.group.gang, possible):
        return ""
    return blocked[min(blocked)].message
