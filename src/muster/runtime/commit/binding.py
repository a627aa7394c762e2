"""Binds pods to the nodes of their places."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.api.core_v1 import Pod
from muster.core.words.gang import NodeName, Place
from muster.effects import Bind
from muster.runtime.commit.context import Context
from muster.runtime.commit.places import minimum_met
from muster.runtime.commit.refusals import blocking, is_excluded, refusals
from muster.runtime.commit.view import NEVER
from muster.runtime.plan import PlacementPlan, mark


@dataclass(frozen=True, slots=True)
class Bindable:
    #: places to fill now, with their pod and node
    places: Mapping[Place, tuple[Pod, NodeName]]
    #: when the first excluded pod may be tried again
    excluded_until: float


def bindable(context: Context) -> Bindable:
    """Returns the missing places whose pod exists; a pod that was refused is excluded for a while."""
    places, refused = context.places, refusals(context)
    found: dict[Place, tuple[Pod, NodeName]] = {}
    until = NEVER
    for place, node in places.missing.items():
        pod = places.ready.get(place)
        if pod is None:
            continue
        if place in refused and is_excluded(refused[place], context.now):
            until = min(until, refused[place].until)
        else:
            found[place] = (pod, node)
    return Bindable(found, until)


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
