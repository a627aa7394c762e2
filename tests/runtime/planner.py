"""A scheduler for crash tests that is small enough to be looked through, and that can preempt.

First fit by name; one resource, of which every pod takes one unit. The pods of gangs with claims take one
device of their node as well. A gang takes its minimum and as many more as fit, or nothing. `preempts` names
gangs that may take the nodes of others: the test's own Evict.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from muster.core.words.decisions import Assign, Decision, Evict, Explanation, Victim, Wait
from muster.core.words.devices import BY_NUMBER, Allocation, DeviceId, DevicesChanged
from muster.core.words.events import (
    CommitFailed,
    Event,
    GangRemoved,
    GangSubmitted,
    NodeChanged,
    NodeRemoved,
    PlacesLost,
    PlacesRetired,
    PlanFound,
    PodsBound,
    PodsEnded,
)
from muster.core.words.gang import Code, Gang, GangId, NodeName, Place, PodId

#: What pods request that have a device by number.
RESOURCE: Final = "e.com/gpu"


@dataclass
class Planner:
    preempts: dict[str, str] = field(default_factory=dict)
    nodes: dict[NodeName, int] = field(default_factory=dict)
    gangs: dict[GangId, Gang] = field(default_factory=dict)
    pods: dict[PodId, PodsBound] = field(default_factory=dict)
    holds: dict[GangId, dict[Place, NodeName]] = field(default_factory=dict)
    planned: dict[GangId, dict[Place, NodeName]] = field(default_factory=dict)
    retired: dict[GangId, frozenset[Place]] = field(default_factory=dict)
    back_off: dict[GangId, float] = field(default_factory=dict)
    avoid: dict[GangId, dict[NodeName, float]] = field(default_factory=dict)
    told: dict[GangId, str] = field(default_factory=dict)
    evicted: set[tuple[GangId, frozenset[PodId]]] = field(default_factory=set)
    #: why starts have failed
    failed: list[str] = field(default_factory=list)
    #: gangs whose pods have a device each, and those of them that request it by number; the devices of each
    #: node, and those that places were promised
    claiming: set[str] = field(default_factory=set)
    by_number: set[str] = field(default_factory=set)
    devices: dict[NodeName, list[DeviceId]] = field(default_factory=dict)
    promised: dict[GangId, dict[Place, DeviceId]] = field(default_factory=dict)
    #: what claims have, and the pods for which they are reserved
    allocated: Callable[[], Iterable[tuple[DeviceId, list[PodId]]]] = lambda: ()

    def apply(self, event: Event) -> None:
        match event:
            case NodeChanged(name, capacity):
                self.nodes[name] = dict(capacity).get("cpu", 0) // 1000
            case NodeRemoved(name):
                self.nodes.pop(name, None)
                for held in self.holds.values():
                    for place in [place for place, node in held.items() if node == name]:
                        del held[place]
            case DevicesChanged(node, devices):
                self.devices[NodeName(node)] = sorted(device for device, _ in devices)
            case GangSubmitted(gang):
                if self.gangs.get(gang.id) != gang and self.back_off.get(gang.id) == float("inf"):
                    del self.back_off[gang.id]
                self.gangs[gang.id] = gang
            case GangRemoved(gang_id):
                for of in (self.gangs, self.holds, self.planned, self.retired, self.told):
                    of.pop(gang_id, None)
            case PodsBound(bound, _, _, gang_of):
                self.pods.update(dict.fromkeys(bound, event))
                if gang_of is not None:
                    held = self.holds.get(gang_of, {})
                    self.holds[gang_of] = {p: node for p, node in held.items() if p not in bound.values()}
            case PodsEnded(ended):
                for pod in ended:
                    self.pods.pop(pod, None)
            case PlacesRetired(gang_id, places):
                self.retired[gang_id] = places
            case PlanFound(gang_id, nodes):
                self.planned[gang_id] = dict(nodes)
            case PlacesLost(gang_id, places, excluded, until):
                for place in places:
                    self.holds.get(gang_id, {}).pop(place, None)
                self.avoid.setdefault(gang_id, {}).update(dict.fromkeys(excluded, until))
            case CommitFailed(gang_id, until, message):
                self.failed.append(message)
                self.holds.pop(gang_id, None)
                self.planned.pop(gang_id, None)
                self.back_off[gang_id] = until

    def decide(self, now: float) -> list[Decision]:
        decisions: list[Decision] = []
        self.back_off = {gang: until for gang, until in self.back_off.items() if until > now}
        for gang in sorted(self.gangs.values(), key=lambda gang: (gang.id not in self.preempts, gang.id)):
            if gang.gate is not None:
                decisions += self._wait(gang, gang.gate.code, gang.gate.message)
            elif gang.id not in self.back_off:
                decisions += self._place(gang, now)
        return decisions

    def wake_at(self) -> float | None:
        return min((until for until in self.back_off.values() if until != float("inf")), default=None)

    def _place(self, gang: Gang, now: float) -> list[Decision]:
        held = self.holds.setdefault(gang.id, {})
        filled = {bound.pods[pod] for pod, bound in self.pods.items() if bound.gang == gang.id}
        taken = filled | self.retired.get(gang.id, frozenset()) | held.keys()
        wanted = [Place(p.name, i) for p in gang.pod_sets for i in range(p.count)]
        vacant = [place for place in wanted if place not in taken]
        need = gang.min_count - (len(wanted) - len(vacant))
        if not vacant:
            self.planned.pop(gang.id, None)
            return []
        found = self._fit(gang, vacant, now)
        if len(found) >= max(need, 1):
            return [self._hold(gang, found)]
        victim = GangId(self.preempts.get(gang.id, ""))
        pods = frozenset(pod for pod, bound in self.pods.items() if bound.gang == victim)
        if pods and not held and not filled:
            found = self._fit(gang, vacant, now, without=victim)
            if len(found) >= max(need, 1):
                return [Evict((Victim(victim),), gang.id), self._hold(gang, found)]
        return (
            self._wait(gang, Code.INSUFFICIENT_CAPACITY, f"{need} more pods do not fit") if need > 0 else []
        )

    def _wait(self, gang: Gang, code: Code, message: str) -> list[Decision]:
        if self.told.get(gang.id) == message:
            return []
        self.told[gang.id] = message
        return [Wait(gang.id, Explanation(code, "place", message))]

    def _hold(self, gang: Gang, found: dict[Place, NodeName]) -> Assign:
        self.holds[gang.id].update(found)
        self.planned.pop(gang.id, None)
        self.told.pop(gang.id, None)
        if gang.id not in self.claiming:
            return Assign(gang.id, dict(found))
        promised = self.promised.setdefault(gang.id, {})
        names = (BY_NUMBER, RESOURCE) if gang.id in self.by_number else ("gpu", "gpu")
        claims = {place: (Allocation(names[0], ((names[1], promised[place]),)),) for place in found}
        return Assign(gang.id, dict(found), claims=claims)

    def _fit(
        self, gang: Gang, vacant: list[Place], now: float, without: GangId | None = None
    ) -> dict[Place, NodeName]:
        free = dict(sorted(self.nodes.items()))
        for pod in self.pods.values():
            if pod.node in free and (pod.gang is None or pod.gang != without):
                free[pod.node] -= 1
        for of, held in self.holds.items():
            for node in held.values():
                if node in free and of != without:
                    free[node] -= 1
        for node, until in self.avoid.get(gang.id, {}).items():
            if until > now:
                free.pop(node, None)
        devices = self._free_devices(without)
        promised: dict[Place, DeviceId] = {}
        found: dict[Place, NodeName] = {}
        planned = self.planned.get(gang.id, {})
        for place in sorted(vacant, key=lambda place: (place not in planned, place)):
            first = [planned[place]] if place in planned else []
            for node in [*first, *free]:
                has = devices.get(node)
                if free.get(node, 0) > 0 and (gang.id not in self.claiming or has):
                    found[place] = node
                    free[node] -= 1
                    if gang.id in self.claiming and has:
                        promised[place] = has.pop(0)
                    break
        self.promised.setdefault(gang.id, {}).update(promised)
        return found

    def _free_devices(self, without: GangId | None) -> dict[NodeName, list[DeviceId]]:
        """Devices that no pod on a node has and no place was promised, but for those of `without`."""
        leaving = {pod for pod, bound in self.pods.items() if without is not None and bound.gang == without}
        known = self.pods.keys() - leaving
        taken = {device for device, pods in self.allocated() if not known.isdisjoint(pods) or not pods}
        for of, places in self.promised.items():
            if of != without:
                taken |= {device for place, device in places.items() if place in self.holds.get(of, {})}
        return {
            node: [device for device in devices if device not in taken]
            for node, devices in self.devices.items()
        }
