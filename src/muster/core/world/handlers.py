"""Handlers of events: facts, in any order in which watches can produce them.

A fact changes what is known about one gang, one pod or one node, charges the ledger at once, and touches the
gangs that it concerns. What follows from it (what a gang lacks now, what its queue uses) is computed later,
once per cycle (`World.settle`). A repeated event changes nothing.

When a pod ends, its place is held for its replacement if its gang goes on. When a pod is bound, it fills its
place, on whatever node it is. If it is what was promised there, the charge of the promise becomes the pod's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

from muster.core.words import events
from muster.core.words.devices import DeviceId, DeviceKindChanged, DeviceKindRemoved, DevicesChanged
from muster.core.words.events import Event, PodsBound
from muster.core.words.gang import Amounts, Gang, NodeName, Place, PodId
from muster.core.world import World
from muster.core.world.gangs import (
    BackOff,
    GangState,
    Hold,
    fill,
    footprint,
    give_back,
    having,
    hold,
    occupy,
    pod_set_of,
    stands,
    vacate,
)
from muster.core.world.ledger import Charged


def apply(world: World, event: Event) -> None:
    """Record one event. A repeated event changes nothing."""
    match event:
        case PodsBound():
            _pods_bound(world, event)
        case events.PodsEnded():
            _pods_ended(world, event)
        case events.GangSubmitted():
            _gang_submitted(world, event)
        case events.GangRemoved():
            _gang_removed(world, event)
        case events.NodeChanged():
            if world.nodes.claims.devices:
                event = world.nodes.claims.described(event)
            if _recovered(world.nodes.facts.get(event.name), event):
                world.failed_starts.forget(event.name)
            if world.nodes.change(event):
                world.unexpected.add(event.name)
                _end_endless_back_offs(world)
        case events.NodeRemoved():
            if world.nodes.remove(event.name):
                world.removed.add(event.name)
                world.failed_starts.forget(event.name)
        case DevicesChanged():
            had = world.nodes.claims.resources_of(NodeName(event.node))
            if world.nodes.claims.change(event):
                _devices_changed(world, NodeName(event.node), had)
        case DeviceKindChanged():
            for name in world.nodes.claims.change_kind(event.id, event.kind):
                _devices_changed(world, name, world.nodes.claims.resources_of(name))
        case DeviceKindRemoved():
            world.nodes.claims.forget_kind(event.id)
        case events.StartFailed():
            world.failed_starts.record(event)
        case events.AvoidanceChanged():
            world.failed_starts.follow(event.rules)
        case events.PlacesRetired():
            _places_retired(world, event)
        case events.PlanFound():
            _plan_found(world, event)
        case events.PlacesLost():
            _places_lost(world, event)
        case events.CommitFailed():
            _commit_failed(world, event)
        case events.LayersChanged():
            world.topology.change(event.layers)
        case events.OutOfReach():
            if (hints := dict(event.hints)) != world.hints:
                world.hints = hints
                world.nodes.revision += 1
        case events.QueueChanged():
            if world.queues.change(event.queue.name, event.queue):
                world.gangs.touched.update(world.gangs)  # their requests may count now, or no longer
        case events.QueueRemoved():
            if world.queues.change(event.name, None):
                world.gangs.touched.update(world.gangs)
        case events.BudgetChanged():
            world.budgets.change(event.namespace, event.name, event)
        case events.BudgetRemoved():
            world.budgets.change(event.namespace, event.name, None)
        case events.QuotaChanged():
            _quota_changed(world, event.namespace, event.name, event.room, event.hard)
        case events.QuotaRemoved():
            _quota_changed(world, event.namespace, event.name)


def _devices_changed(world: World, name: NodeName, had: Sequence[str]) -> None:
    """Let a node have its devices in place of those that were these resources."""
    nodes = world.nodes
    if (fact := nodes.facts.get(name)) is None:
        return
    if not nodes.change(nodes.claims.described(fact, had)):
        nodes.reread(name)
    world.unexpected.add(name)
    _end_endless_back_offs(world)


def _quota_changed(world: World, namespace: str, name: str, room: Amounts = (), hard: Amounts = ()) -> None:
    if world.quotas.change((namespace, name), room, hard):  # its gangs' requests may count now, or no longer
        gangs = (state.gang for state in world.gangs.values())
        world.gangs.touched.update(gang.id for gang in gangs if gang and namespace in gang.namespaces)


def _pods_bound(world: World, event: PodsBound) -> None:
    if _keep_promise(world, event):
        return
    for pod in event.pods:
        one = _one(event, pod)
        if one is event or not _keep_promise(world, one):
            _pod_bound(world, pod, one)


def _keep_promise(world: World, event: PodsBound) -> bool:
    """Record pods that are all new, promised together and charged already. False: they are not."""
    state = world.gangs.get(event.gang) if event.gang is not None else None
    if state is None or not world.pods.keys().isdisjoint(event.pods):
        return False
    places = [place for place in dict.fromkeys(event.pods.values()) if place is not None]
    promises = [state.holds.get(place) for place in places]
    promise = promises[0] if promises else None
    if promise is None or promises.count(promise) < len(event.pods) or not _keeps(event, promise):
        return False
    for place in places:
        del state.holds[place]
    world.ledger.rename(event.node, promise.footprint, event.footprint, len(places))
    event = _with_devices(event, promise.device, promise.footprint.devices)
    world.pods.update(dict.fromkeys(event.pods, event))
    # Lapsed places are wanted again now, a plan may be complete, or a victim may have one more pod.
    more = state.lapsed or state.planned or world.pending_evictions
    (world.gangs.touched if more else world.gangs.kept).add(state.id)
    world.accounted += 1
    fill(state, event.pods, event.at)
    world.pending_evictions.pods_bound(event.pods.keys(), state.id)
    if event.footprint.leaving:
        world.pending_evictions.pods_seen(event.pods, deleted=True)
    return True


def _pod_bound(world: World, pod: PodId, event: PodsBound) -> None:
    """Record a single pod that was not promised on this node."""
    place, known = event.pods[pod], world.pods.get(pod)
    vacated: list[tuple[PodId, Place]] = []
    if known is not None:
        if event.footprint.device is None and (known.node, known.requests) == (
            event.node,
            event.requests,
        ):
            event = _with_devices(event, known.footprint.device, known.footprint.devices)
        if _one(known, pod) == event:
            return
        _give_back(world, known, 1)
        vacated = vacate(world.gangs[known.gang], [pod]) if known.gang is not None else []
    device = world.ledger.take(event.node, event.requests, event.footprint.device, event.footprint)
    world.unexpected.add(event.node)
    world.pods[pod] = _with_devices(event, device, event.footprint.devices)
    world.pending_evictions.pods_seen([pod], deleted=event.footprint.leaving)
    if event.gang is None:
        world.exclusive_domains.foreign(event.node, 1)
    else:
        state = world.gangs.touch(event.gang)
        if place is not None:
            give_back(state, [place], world.ledger)
        fill(state, event.pods, event.at)
        world.pending_evictions.pods_bound(event.pods.keys(), state.id)
        if place is None and known is not None and known.gang == event.gang:
            state.leaving.update(vacated)
        occupy(state, event.node, event.requests, 1)


def _pods_ended(world: World, event: events.PodsEnded) -> None:
    for bound, pods in _rows([(pod, world.pods.pop(pod)) for pod in event.pods if pod in world.pods]):
        world.pending_evictions.pods_seen(pods, deleted=False)
        _give_back(world, bound, len(pods))
        _leave(world, pods, bound, event.at)


def _leave(world: World, pods: Sequence[PodId], ended: PodsBound, at: float) -> None:
    """Hold the place of each ended pod for its replacement, unless another pod fills it."""
    leaving = world.pending_evictions.pods_ended(pods)
    if ended.gang is None:
        return
    state = world.gangs[ended.gang]
    for pod, vacated in vacate(state, pods):
        if state.gang is None or pod in leaving:
            continue
        pod_set = pod_set_of(state, vacated)
        if pod_set is None or _undone(state):
            continue
        requests = pod_set.shape.requests
        if _asks_for_more(requests, ended.requests):
            continue  # the replacement needs more than the pod used: quotas and caps must admit it first
        if vacated not in state.holds and ended.node in world.nodes.facts:
            pod_footprint, device = footprint(state.gang, pod_set), None
            if requests == ended.requests:
                pod_footprint = having(pod_footprint, ended.footprint.devices)
                device = ended.footprint.device
            device = world.ledger.take(ended.node, requests, device, pod_footprint)
            until = at + world.hold
            hold(state, vacated, Hold(ended.node, pod_set.shape, False, until, device, pod_footprint))


def _give_back(world: World, bound: PodsBound, times: int) -> None:
    """Give back what `times` of these pods took."""
    world.ledger.give(Charged.of(bound), times)
    if bound.gang is None:
        world.exclusive_domains.foreign(bound.node, -times)
    else:
        occupy(world.gangs.touch(bound.gang), bound.node, bound.requests, -times)


def _gang_submitted(world: World, event: events.GangSubmitted) -> None:
    state = world.gangs.touch(event.gang.id)
    gang = event.gang
    if state.gang is not None:
        gang = replace(gang, submitted=min(gang.submitted, state.gang.submitted))
    if gang == state.gang:
        return
    if state.gang is not None and state.gang.gate not in (None, gang.gate):
        state.explanation = None  # it was told of its gate: while reasons are postponed, that would stand
    if state.gang is None or _demand(gang) != _demand(state.gang):
        state.lapsed.clear()
    _related(world, state, gang.origin)
    state.gang = gang
    world.gangs.arrivals += 1
    state.arrived = world.gangs.arrivals
    for place, promise in state.holds.items():
        if (pod_set := pod_set_of(state, place)) is not None:
            pod_footprint = having(footprint(gang, pod_set), promise.footprint.devices)
            world.ledger.rename(promise.node, promise.footprint, pod_footprint)
            state.holds[place] = promise._replace(footprint=pod_footprint)
            state.stamp += 1
    if state.back_off is not None and state.back_off.until == inf:
        state.back_off = None


def _demand(gang: Gang) -> tuple[object, ...]:
    return gang.pod_sets, gang.min_count, gang.subgroups


def _related(world: World, state: GangState, origin: str) -> None:
    """Record the siblings of a gang: those of its origin from now on."""
    before = state.gang.origin if state.gang is not None else ""
    if before == origin:
        return
    if before:
        world.siblings[before].discard(state.id)
        if not world.siblings[before]:
            del world.siblings[before]
    if origin:
        world.siblings.setdefault(origin, set()).add(state.id)


def _gang_removed(world: World, event: events.GangRemoved) -> None:
    state = world.gangs.touch(event.gang)
    world.pending_evictions.give_up(event.gang)
    give_back(state, list(state.holds), world.ledger)
    _related(world, state, "")
    state.gang = state.back_off = state.explanation = None
    state.avoided.clear()
    state.retired = frozenset()
    state.planned.clear()
    state.leaving.clear()


def _places_retired(world: World, event: events.PlacesRetired) -> None:
    state = world.gangs.touch(event.gang)
    state.retired = event.places
    state.stamp += 1
    for retired in event.places:
        state.planned.pop(retired, None)


def _plan_found(world: World, event: events.PlanFound) -> None:
    state = world.gangs.touch(event.gang)
    for place, node in event.nodes.items():
        if not (place in state.filled or place in state.holds or place in state.retired):
            state.planned[place] = node
    for victim in event.victims:
        world.pending_evictions.found(event.gang, victim)


def _places_lost(world: World, event: events.PlacesLost) -> None:
    state = world.gangs.touch(event.gang)
    give_back(state, event.places, world.ledger)
    for lost in event.places:
        state.planned.pop(lost, None)
    for node in event.excluded:
        state.avoided[node] = max(event.until, state.avoided.get(node, event.until))


def _commit_failed(world: World, event: events.CommitFailed) -> None:
    state = world.gangs.touch(event.gang)
    world.pending_evictions.give_up(event.gang)
    give_back(state, list(state.holds), world.ledger)
    state.planned.clear()
    state.back_off = BackOff(event.until, event.message)


def _end_endless_back_offs(world: World) -> None:
    # A gang that has been touched since the last cycle may not be in `timed` yet.
    for gang in world.gangs.touched.union(world.gangs.timed):
        state = world.gangs[gang]
        if state.back_off is not None and state.back_off.until == inf:
            state.back_off = None
            world.gangs.touched.add(gang)


def _undone(state: GangState) -> bool:
    """Whether the start of a gang has failed: its pods are deleted on purpose, and have no replacements."""
    return state.back_off is not None and not stands(state)


def _recovered(before: events.NodeChanged | None, now: events.NodeChanged) -> bool:
    """Whether a node is ready, or schedulable, after it was not."""
    if before is None:
        return False
    return (before.cordoned and not now.cordoned) or (now.ready and not before.ready)


def _one(event: PodsBound, pod: PodId) -> PodsBound:
    """The fact about this one of its pods."""
    return event if len(event.pods) == 1 else replace(event, pods={pod: event.pods[pod]})


def _rows(pods: Iterable[tuple[PodId, PodsBound]]) -> list[tuple[PodsBound, list[PodId]]]:
    """Runs of pods that take the same from one node, for the same gang; a pod on a device is alone."""
    rows: list[tuple[PodsBound, list[PodId]]] = []
    for pod, bound in pods:
        if rows and (rows[-1][0] is bound or _alike(rows[-1][0], bound)):
            rows[-1][1].append(pod)
        else:
            rows.append((bound, [pod]))
    return rows


def _alike(one: PodsBound, other: PodsBound) -> bool:
    if one.footprint.device is not None or one.footprint.devices:
        return False
    this = one.node, one.requests, one.gang, one.footprint
    return this == (other.node, other.requests, other.gang, other.footprint)


def _keeps(event: PodsBound, promise: Hold) -> bool:
    """Whether the pods are what was promised, on the promised node. With a device: only for a single pod.

    A pod without devices on record has the promised ones.
    """
    if promise.node != event.node or promise.requests != event.requests:
        return False
    promised, devices = promise.footprint.devices, event.footprint.devices
    if devices not in ((), promised) or (promised and len(event.pods) > 1):
        return False
    device = event.footprint.device
    if promise.device is None:
        return device is None
    return len(event.pods) == 1 and (device is None or device == promise.device)


def _with_devices(event: PodsBound, device: int | None, devices: tuple[DeviceId, ...]) -> PodsBound:
    """The fact with these devices; those of claims only if it names none."""
    seen = event.footprint
    if device == seen.device and (seen.devices or not devices):
        return event
    return replace(event, footprint=replace(seen, device=device, devices=seen.devices or devices))


def _asks_for_more(requests: Amounts, used: Amounts) -> bool:
    before = dict(used)
    return requests != used and any(amount > before.get(resource, 0) for resource, amount in requests)
