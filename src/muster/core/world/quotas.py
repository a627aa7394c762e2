"""Namespaces' ResourceQuotas: what pods that are still to be created may ask for (docs/concepts/queues.md).

The API server charges a quota when a pod is created, not when it is bound. So only a gang's uncreated places
are checked here. Once the gang has been given places, their future charge is kept for it until its pods exist
and the API server's own count includes them. No gang keeps quota without holding places.

Which quotas count for a pod, and what each charges, is computed from the pod's template before the core
(`PodSet.quotas`); the core gets no event of a quota that does not limit pods.
"""

from collections import Counter
from math import inf
from typing import NamedTuple

from muster.core.demand import Demand
from muster.core.words.amounts import PODS, Sums, Usage, bare
from muster.core.words.gang import Amounts, GangId, PodSet
from muster.core.world.gangs import GangState
from muster.core.world.trial import UndoLog
from muster.names import GPU, GPU_SHARE

#: Namespace and name.
Name = tuple[str, str]


class Charged(NamedTuple):
    """A resource that a ResourceQuota counts: requests.cpu, limits.memory, pods."""

    namespace: str
    quota: str
    resource: str


Charges = Sums[Charged]


class Quotas(dict[Charged, int]):
    """What each quota has left, as the API server reports. False: there are no quotas."""

    def __init__(self, log: UndoLog) -> None:
        super().__init__()
        self._log = log
        self._reported: dict[Name, Amounts] = {}
        #: what each quota never exceeds
        self._hard: dict[Name, Amounts] = {}
        #: what is kept for pods that have places and are not created yet, in all and by gang
        self._promised = Charges()
        self.kept: dict[GangId, Charges] = {}
        #: counts changes of what quotas have left
        self.version = 0

    def change(self, name: Name, room: Amounts, hard: Amounts = ()) -> bool:
        """Record what the quota has left, as the API server reports; nothing: it is removed.

        Return whether what it never exceeds has changed.
        """
        before = self._reported.pop(name, ())
        if room:
            self._reported[name] = room
        if before != room:
            for resource, _ in before:
                del self[Charged(*name, resource)]
            self.update({Charged(*name, resource): amount for resource, amount in room})
            self.version += 1
        changed = self._hard.pop(name, ()) != hard
        if hard:
            self._hard[name] = hard
        return changed

    def settle(self, state: GangState, surcharge: Usage | None = None) -> None:
        """Update what is kept for a gang's pods that have places and are not created yet.

        `surcharge`: what the gang is charged with for exclusive domains, besides what it uses.
        """
        self._promised.add(self.kept.pop(state.id, Charges()), -1)
        kept = Charges()
        for pod_set in state.gang.pod_sets if state.gang is not None else ():
            if count := min(pod_set.uncreated, _held(state, pod_set.name)):
                kept.add(_charges(state, pod_set), count)
        if surcharge:
            kept.add(_of_domains(state, surcharge))
        if kept:
            self.kept[state.id] = kept
            self._promised.add(kept)

    def overcharged(self, state: GangState, more: Usage) -> str | None:
        """Say which quota has less left than exclusive domains, charged with so much more, would take."""
        for key, amount in sorted(_of_domains(state, more).items()):
            if key in self and amount > self[key] - self._promised[key]:
                left = _bare(key.resource, max(self[key] - self._promised[key], 0))
                return (
                    f"ResourceQuota {key.quota} of namespace {key.namespace} has {left} of {key.resource} "
                    f"left; a domain of its own is charged as a whole: {_bare(key.resource, amount)} more"
                )
        return None

    def apply_to(self, state: GangState) -> bool:
        """Whether any pod of the gang is still to be charged to a quota."""
        gang = state.gang
        return gang is not None and any(p.uncreated and p.quotas for p in gang.pod_sets)

    def exceeded(self, state: GangState, demand: Demand) -> str | None:
        """Say which quota has less left than the minimum of `demand` needs; None: no quota."""
        if not self.apply_to(state):
            return None
        needed, room = self._minimum(state, demand), self.room(state)
        for key, amount in sorted(needed.items()):
            if key in room and amount > room[key]:
                resource, kept = key.resource, self._promised[key]
                others = f", of which {_bare(resource, kept)} are kept for gangs that start" if kept else ""
                rest, asks = _bare(resource, max(self[key], 0)), _bare(resource, amount)
                return (
                    f"ResourceQuota {key.quota} of namespace {key.namespace} has {rest} of {resource} "
                    f"left{others}; the pods that are to be created ask for {asks}"
                )
        return None

    def exceeded_ever(self, state: GangState, demand: Demand, domains: Usage) -> bool:
        """Whether the minimum of `demand` needs more than a quota may ever have.

        `domains`: what exclusive domains are charged with at least, nothing without any.
        """
        if not self._hard or not self.apply_to(state):
            return False
        needed = self._minimum(state, demand)
        for key, amount in _of_domains(state, domains).items() if domains else ():
            needed[key] = max(needed[key], amount)
        return any(amount > self._most(key) for key, amount in needed.items())

    def _most(self, key: Charged) -> float:
        hard = dict(self._hard.get((key.namespace, key.quota), ()))
        return hard.get(key.resource, inf)

    def frees(self, other: GangState, state: GangState) -> bool:
        """Whether pods of `other` are charged to a quota that counts for pods of `state`."""
        names = {key[:2] for key in self.room(state)}
        return any(key[:2] in names for key in _charged(other))

    def give(self, state: GangState) -> None:
        """Give back what the pods of a gang are charged, in a trial."""
        given = _charged(state) if self else Charges()
        self._give(given)
        self._log.push(self._give, given, -1)

    def _give(self, charges: Charges, times: int = 1) -> None:
        for key, amount in charges.items():
            if key in self:
                self[key] += times * amount

    def costs(self, state: GangState, demand: Demand) -> list[Charges]:
        """What one more place of each part is charged."""
        assert state.gang is not None
        charges = {
            pod_set.name: _charges(state, pod_set)
            for pod_set in state.gang.pod_sets
            if pod_set.uncreated > _held(state, pod_set.name)
        }
        return [charges.get(part.pod_set, Charges()) for part in demand.parts]

    def room(self, state: GangState) -> dict[Charged, int]:
        """What the quotas that count for the gang's pods have left, less what is kept for other pods."""
        assert state.gang is not None
        keys = {key for pod_set in state.gang.pod_sets for key in _charges(state, pod_set)}
        return {key: self[key] - self._promised[key] for key in sorted(keys & self.keys())}

    def _minimum(self, state: GangState, demand: Demand) -> Charges:
        """What the minimum is charged; its rest beyond the parts' minima uses uncharged pod sets first."""
        assert state.gang is not None
        sets, charges = {pod_set.name: pod_set for pod_set in state.gang.pod_sets}, Charges()
        counts = [part.need for part in demand.parts]
        for members, need in demand.joint:
            for p in sorted(members, key=lambda p: bool(sets[demand.parts[p].pod_set].uncreated)):
                rest = need - sum(counts[q] for q in members)
                counts[p] += max(min(rest, demand.parts[p].count - counts[p]), 0)
        for part, count in zip(demand.parts, counts, strict=True):
            pod_set, held = sets[part.pod_set], _held(state, part.pod_set)
            more = min(pod_set.uncreated, held + count) - min(pod_set.uncreated, held)
            if more > 0:
                charges.add(_charges(state, pod_set), more)
        return charges


def _charged(state: GangState) -> Charges:
    """What the gang's pods on nodes are charged."""
    places = (place or state.leaving.get(pod) for pod, place in state.pods.items())
    counts = Counter(place.pod_set for place in places if place is not None)
    charges = Charges()
    for pod_set in state.gang.pod_sets if state.gang is not None else ():
        if count := counts[pod_set.name]:
            charges.add(_charges(state, pod_set), count)
    return charges


def _of_domains(state: GangState, more: Usage) -> Charges:
    """What quotas are charged with for domains: of the resources that they count for the gang's pods."""
    charges = Charges()
    for pod_set in state.gang.pod_sets if state.gang is not None else ():
        for key in _charges(state, pod_set):
            resource = key.resource.removeprefix("requests.")
            amount = more[GPU_SHARE] // 1000 if resource == GPU else more[resource]
            if amount and resource != PODS:
                charges[key] = amount
    return charges


def _charges(state: GangState, pod_set: PodSet) -> Charges:
    """What one pod of the set is charged."""
    namespace = pod_set.namespace or (state.gang.namespace if state.gang is not None else "")
    return Charges(
        {Charged(namespace, quota, r): amount for quota, amounts in pod_set.quotas for r, amount in amounts}
    )


def _held(state: GangState, pod_set: str) -> int:
    """The number of places of a pod set that are promised to the gang and not filled."""
    return sum(place.pod_set == pod_set and promise.announced for place, promise in state.holds.items())


def _bare(resource: str, amount: int) -> str:
    """An amount of a quota's resource as text."""
    return bare(resource.removeprefix("requests.").removeprefix("limits."), amount)
