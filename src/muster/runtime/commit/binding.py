"""Binds pods to the nodes of their places."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.api.core_v1 import Pod
from muster.core.words.gang import NodeName, Place, PodId
from muster.effects import Bind
from muster.runtime.commit.context import Context
from muster.runtime.commit.places import minimum_met
from muster.runtime.commit.view import NEVER, RetryState
from muster.runtime.plan import PlacementPlan, mark


@dataclass(frozen=True, slots=True)
class Bindable:
    #: places to fill now, with their pod and node
    places: Mapping[Place, tuple[Pod, NodeName]]
    #: when the first excluded pod may be tried again
    excluded_until: float


def bindable(context: Context) -> Bindable:
    """Returns the missing places whose pod exists; a pod that two nodes refused is excluded for a while."""
    places, state = context.places, context.state
    found: dict[Place, tuple[Pod, NodeName]] = {}
    until = NEVER
    for place, node in places.missing.items():
        pod = places.ready.get(place)
        if pod is None:
            continue
        if is_excluded(state, pod, context.now):
            until = min(until, state.refusals[PodId(pod.metadata.uid)].until)
        else:
            found[place] = (pod, node)
    return Bindable(found, until)


def binds(context: Context, bindable: Bindable, attempt: int, *, planned: bool = True) -> Iterator[Bind]:
    view = context.view
    for place in sorted(bindable.places):
        pod, node = bindable.places[place]
        yield Bind(pod, place, node, mark(view.epoch, attempt, place), view.devices.get(place), planned)


def why_unreachable(context: Context, plan: PlacementPlan) -> str:
    """Why the minimum cannot be reached whatever pods arrive: members refused everywhere. Empty if it can."""
    places, state = context.places, context.state
    refused = {place: pod for place, pod in places.ready.items() if is_excluded(state, pod, context.now)}
    possible = (plan.nodes.keys() | places.settled | places.missing.keys()) - refused.keys()
    if not refused or minimum_met(context.group.gang, possible):
        return ""
    place = min(refused)
    pod = refused[place]
    return f"pod {pod.metadata.name} ({place}): {state.refusals[PodId(pod.metadata.uid)].message}"


def is_excluded(state: RetryState, pod: Pod, now: float) -> bool:
    refusal = state.refusals.get(PodId(pod.metadata.uid))
    return refusal is not None and now < refusal.until
