"""Handlers of events: facts, in any order in which watches can produce them.

A fact changes what is known about one gang, one pod or one node, charges the ledger at once, and touches the
gangs that it concerns. What follows from it (what a gang lacks now, what its queue uses) is computed later,
once per cycle (`World.settle`). A repeated event changes nothing.

When a pod ends, its place is held for its replacement if its gang goes on. When a pod is bound, it fills its
place, on whatever node it is. If it is what was promised there, the charge of the promise becomes the pod's.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf

from muster.core.words import events
from muster.core.words.events import Event, PodsBound
from muster.core.words.gang import Amounts, Gang, GangId, NodeName, Place, PodId
from muster.core.world.budgets import Budgets
from muster.core.world.completions import Completions
from muster.core.world.eligibility import Eligibility
from muster.core.world.exclusive_domains import ExclusiveDomains
from muster.core.world.failed_starts import FailedStarts
from muster.core.world.gangs import (
    BackOff,
    Gangs,
    GangState,
    Hold,
    fill,
    footprint,
    give_back,
    hold,
    occupy,
    pod_set_of,
    stands,
    vacate,
)
from muster.core.world.lacking import Demands
from muster.core.world.ledger import Charged, Choose, Ledger
from muster.core.world.nodes import Nodes
from muster.core.world.pending_evictions import PendingEvictions
from muster.core.world.queues import Queues
from muster.core.world.quotas import Quotas
from muster.core.world.topology import Topology
from muster.core.world.trial import UndoLog


class Handlers:
    """What is known of the cluster: each fact has one owner, listed here. Events are applied to these."""

    def __init__(
        self,
        hold: float,
        nodes: Nodes,
        eligibility: Eligibility,
        device: Choose,
        duration: Callable[[Gang], float],
    ) -> None:
        """Empty, but for `nodes`. `hold`: as in `Config`; `device` and `duration`: as in `Ledger` and
        `Completions`.
        """
        self.hold, self.nodes, self.eligibility = hold, nodes, eligibility
        self.gangs, self.pods = Gangs(), dict[PodId, PodsBound]()
        self.log = UndoLog()
        self.ledger = Ledger(nodes, device, self.log)
        self.topology = Topology(nodes)
        self.exclusive_domains = ExclusiveDomains(nodes, self.topology, self.gangs, self.pods, self.log)
        self.queues = Queues(nodes, eligibility, self.log, self.topology)
        self.quotas, self.budgets = Quotas(self.log), Budgets()
        self.pending_evictions = PendingEvictions(
            self.ledger, self.exclusive_domains, self.pods, self.gangs, self.log
        )
        self.completions = Completions(self.gangs, self.pods, self.ledger, self.pending_evictions, duration)
        self.failed_starts = FailedStarts()
        self.demands = Demands(self.ledger.footprints, self.failed_starts)
        #: gangs by the origin that they share
        self.siblings: dict[str, set[GangId]] = {}
        #: nodes that may have less room than is promised there: they changed, or unplanned pods were bound
        #: there
        self.unexpected: set[NodeName] = set()
        #: nodes that were removed since the last cycle
        self.removed: set[NodeName] = set()
        #: `AntiAffinity.as_of` up to which gangs know the anti-affinity that keeps them off nodes
        self.carried = 0
        #: time of the last cycle, or of a dry run
        self.now = 0.0
        #: how often a gang was accounted for, or got promised pods, ever
        self.accounted = 0

    def apply(self, event: Event) -> None:
        """Record one event. A repeated event changes nothing."""
        match event:
            case PodsBound():
                self._pods_bound(event)
            case events.PodsEnded():
                self._pods_ended(event)
            case events.GangSubmitted():
                self._gang_submitted(event)
            case events.GangRemoved():
                self._gang_removed(event)
            case events.NodeChanged():
                if _recovered(self.nodes.facts.get(event.name), event):
                    self.failed_starts.forget(event.name)
                if self.nodes.change(event):
                    self.unexpected.add(event.name)
                    self._end_endless_back_offs()
            case events.NodeRemoved():
                if self.nodes.remove(event.name):
                    self.removed.add(event.name)
                    self.failed_starts.forget(event.name)
            case events.StartFailed():
                self.failed_starts.record(event)
            case events.AvoidanceChanged():
                self.failed_starts.follow(event.rules)
            case events.PlacesRetired():
                self._places_retired(event)
            case events.PlanFound():
                self._plan_found(event)
            case events.PlacesLost():
                self._places_lost(event)
            case events.CommitFailed():
                self._commit_failed(event)
            case events.LayersChanged():
                self.topology.change(event.layers)
            case events.QueueChanged():
                if self.queues.change(event.queue.name, event.queue):
                    self.gangs.touched.update(self.gangs)  # their requests may count now, or no longer
            case events.QueueRemoved():
                if self.queues.change(event.name, None):
                    self.gangs.touched.update(self.gangs)
            case events.BudgetChanged():
                self.budgets.change(event.namespace, event.name, event)
            case events.BudgetRemoved():
                self.budgets.change(event.namespace, event.name, None)
            case events.QuotaChanged():
                self.quotas.change((event.namespace, event.name), event.room)
            case events.QuotaRemoved():
                self.quotas.change((event.namespace, event.name), ())

    def _pods_bound(self, event: PodsBound) -> None:
        if self._keep_promise(event):
            return
        for pod in event.pods:
            one = _one(event, pod)
            if one is event or not self._keep_promise(one):
                self._pod_bound(pod, one)

    def _keep_promise(self, event: PodsBound) -> bool:
        """Record pods that are all new, promised together and charged already. False: they are not."""
        state = self.gangs.get(event.gang) if event.gang is not None else None
        if state is None or not self.pods.keys().isdisjoint(event.pods):
            return False
        places = [place for place in dict.fromkeys(event.pods.values()) if place is not None]
        promises = [state.holds.get(place) for place in places]
        promise = promises[0] if promises else None
        if promise is None or promises.count(promise) < len(event.pods) or not _keeps(event, promise):
            return False
        for place in places:
            del state.holds[place]
        self.ledger.rename(event.node, promise.footprint, event.footprint, len(places))
        if promise.device is not None:
            event = _with_device(event, promise.device)
        self.pods.update(dict.fromkeys(event.pods, event))
        # Lapsed places are wanted again now, a plan may be complete, or a victim may have one more pod.
        more = state.lapsed or state.planned or self.pending_evictions
        (self.gangs.touched if more else self.gangs.kept).add(state.id)
        self.accounted += 1
        fill(state, event.pods, event.at)
        self.pending_evictions.pods_bound(event.pods.keys(), state.id)
        if event.footprint.leaving:
            self.pending_evictions.pods_seen(event.pods, deleted=True)
        return True

    def _pod_bound(self, pod: PodId, event: PodsBound) -> None:
        """Record a single pod that was not promised on this node."""
        place, known = event.pods[pod], self.pods.get(pod)
        vacated: list[tuple[PodId, Place]] = []
        if known is not None:
            if event.footprint.device is None and (known.node, known.requests) == (
                event.node,
                event.requests,
            ):
                event = _with_device(event, known.footprint.device)
            if _one(known, pod) == event:
                return
            self._give_back(known, 1)
            vacated = vacate(self.gangs[known.gang], [pod]) if known.gang is not None else []
        device = self.ledger.take(event.node, event.requests, event.footprint.device, event.footprint)
        self.unexpected.add(event.node)
        self.pods[pod] = _with_device(event, device)
        self.pending_evictions.pods_seen([pod], deleted=event.footprint.leaving)
        if event.gang is None:
            self.exclusive_domains.foreign(event.node, 1)
        else:
            state = self.gangs.touch(event.gang)
            if place is not None:
                give_back(state, [place], self.ledger)
            fill(state, event.pods, event.at)
            self.pending_evictions.pods_bound(event.pods.keys(), state.id)
            if place is None and known is not None and known.gang == event.gang:
                state.leaving.update(vacated)
            occupy(state, event.node, event.requests, 1)

    def _pods_ended(self, event: events.PodsEnded) -> None:
        for bound, pods in _rows([(pod, self.pods.pop(pod)) for pod in event.pods if pod in self.pods]):
            self.pending_evictions.pods_seen(pods, deleted=False)
            self._give_back(bound, len(pods))
            self._leave(pods, bound, event.at)

    def _leave(self, pods: Sequence[PodId], ended: PodsBound, at: float) -> None:
        """Hold the place of each ended pod for its replacement, unless another pod fills it."""
        leaving = self.pending_evictions.pods_ended(pods)
        if ended.gang is None:
            return
        state = self.gangs[ended.gang]
        for pod, vacated in vacate(state, pods):
            if state.gang is None or pod in leaving:
                continue
            pod_set = pod_set_of(state, vacated)
            if pod_set is None or _undone(state):
                continue
            requests = pod_set.shape.requests
            if _asks_for_more(requests, ended.requests):
                continue  # the replacement needs more than the pod used: quotas and caps must admit it first
            if vacated not in state.holds and ended.node in self.nodes.facts:
                pod_footprint = footprint(state.gang, pod_set)
                device = ended.footprint.device if requests == ended.requests else None
                device = self.ledger.take(ended.node, requests, device, pod_footprint)
                until = at + self.hold
                hold(state, vacated, Hold(ended.node, pod_set.shape, False, until, device, pod_footprint))

    def _give_back(self, bound: PodsBound, times: int) -> None:
        """Give back what `times` of these pods took."""
        self.ledger.give(Charged.of(bound), times)
        if bound.gang is None:
            self.exclusive_domains.foreign(bound.node, -times)
        else:
            occupy(self.gangs.touch(bound.gang), bound.node, bound.requests, -times)

    def _gang_submitted(self, event: events.GangSubmitted) -> None:
        state = self.gangs.touch(event.gang.id)
        gang = event.gang
        if state.gang is not None:
            gang = replace(gang, submitted=min(gang.submitted, state.gang.submitted))
        if gang == state.gang:
            return
        self._related(state, gang.origin)
        state.gang = gang
        self.gangs.arrivals += 1
        state.arrived = self.gangs.arrivals
        for place, promise in state.holds.items():
            if (pod_set := pod_set_of(state, place)) is not None:
                self.ledger.rename(promise.node, promise.footprint, pod_footprint := footprint(gang, pod_set))
                state.holds[place] = promise._replace(footprint=pod_footprint)
                state.stamp += 1
        state.lapsed.clear()
        if state.back_off is not None and state.back_off.until == inf:
            state.back_off = None

    def _related(self, state: GangState, origin: str) -> None:
        """Record the siblings of a gang: those of its origin from now on."""
        before = state.gang.origin if state.gang is not None else ""
        if before == origin:
            return
        if before:
            self.siblings[before].discard(state.id)
            if not self.siblings[before]:
                del self.siblings[before]
        if origin:
            self.siblings.setdefault(origin, set()).add(state.id)

    def _gang_removed(self, event: events.GangRemoved) -> None:
        state = self.gangs.touch(event.gang)
        self.pending_evictions.give_up(event.gang)
        give_back(state, list(state.holds), self.ledger)
        self._related(state, "")
        state.gang = state.back_off = state.explanation = None
        state.avoided.clear()
        state.retired = frozenset()
        state.planned.clear()
        state.leaving.clear()

    def _places_retired(self, event: events.PlacesRetired) -> None:
        state = self.gangs.touch(event.gang)
        state.retired = event.places
        state.stamp += 1
        for retired in event.places:
            state.planned.pop(retired, None)

    def _plan_found(self, event: events.PlanFound) -> None:
        state = self.gangs.touch(event.gang)
        for place, node in event.nodes.items():
            if not (place in state.filled or place in state.holds or place in state.retired):
                state.planned[place] = node
        for victim in event.victims:
            self.pending_evictions.found(event.gang, victim)

    def _places_lost(self, event: events.PlacesLost) -> None:
        state = self.gangs.touch(event.gang)
        give_back(state, event.places, self.ledger)
        for lost in event.places:
            state.planned.pop(lost, None)
        for node in event.excluded:
            state.avoided[node] = max(event.until, state.avoided.get(node, event.until))

    def _commit_failed(self, event: events.CommitFailed) -> None:
        state = self.gangs.touch(event.gang)
        self.pending_evictions.give_up(event.gang)
        give_back(state, list(state.holds), self.ledger)
        state.planned.clear()
        state.back_off = BackOff(event.until, event.message)

    def _end_endless_back_offs(self) -> None:
        # A gang that has been touched since the last cycle may not be in `timed` yet.
        for gang in self.gangs.touched.union(self.gangs.timed):
            state = self.gangs[gang]
            if state.back_off is not None and state.back_off.until == inf:
                state.back_off = None
                self.gangs.touched.add(gang)


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
    if one.footprint.device is not None:
        return False
    this = one.node, one.requests, one.gang, one.footprint
    return this == (other.node, other.requests, other.gang, other.footprint)


def _keeps(event: PodsBound, promise: Hold) -> bool:
    """Whether the pods are what was promised, on the promised node. With a device: only for a single pod.

    A pod without a device on record has the promised one.
    """
    if promise.node != event.node or promise.requests != event.requests:
        return False
    device = event.footprint.device
    if promise.device is None:
        return device is None
    return len(event.pods) == 1 and (device is None or device == promise.device)


def _with_device(event: PodsBound, device: int | None) -> PodsBound:
    if device == event.footprint.device:
        return event
    return replace(event, footprint=replace(event.footprint, device=device))


def _asks_for_more(requests: Amounts, used: Amounts) -> bool:
    before = dict(used)
    return requests != used and any(amount > before.get(resource, 0) for resource, amount in requests)
