"""Namespaces' ResourceQuotas: what pods that are still to be created may ask for.

The API server charges a quota when a pod is created, not when it is bound. So a gang whose pods exist is
charged already, and is not checked again. A gang that is started before its pods are created (a suspended
Job, a JobSet) would fail too late, with half of its pods refused. Its uncreated places are checked here. Once
it has been given places, their future charge is kept for it until its pods exist and the API server's own
count includes them. No gang keeps quota without holding places.

Which quotas count for a pod, and what each charges, is computed from the pod's template before the core
(`PodSet.quotas`); the core gets no event of a quota that does not limit pods.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from muster.core.demand import Demand
from muster.core.words.gang import Amounts, Gang, GangId, PodSet
from muster.core.words.wording import bare
from muster.core.world.gangs import GangState
from muster.core.world.trial import UndoLog

#: Namespace and name.
Name = tuple[str, str]


class Quotas:
    def __init__(self, log: UndoLog) -> None:
        self._log = log
        self._rooms: dict[Name, dict[str, int]] = {}
        self._promised: dict[Name, dict[str, int]] = {}
        self._of: dict[GangId, list[tuple[Name, Amounts]]] = {}
        #: counts changes of what quotas have left
        self.changes = 0

    def __bool__(self) -> bool:
        """Whether there are any quotas."""
        return bool(self._rooms)

    def change(self, name: Name, room: Amounts) -> bool:
        """Record what the quota has left, as the API server reports. False if nothing changed."""
        if self._rooms.get(name) == dict(room):
            return False
        self._rooms[name] = dict(room)
        self.changes += 1
        return True

    def remove(self, name: Name) -> bool:
        self.changes += 1
        return self._rooms.pop(name, None) is not None

    def settle(self, state: GangState) -> None:
        """Update what is kept for a gang's pods that have places and are not created yet."""
        if not self._rooms and state.id not in self._of:
            return
        for name, amounts in self._of.pop(state.id, ()):
            _add(self._promised[name], amounts, -1)
        kept = [
            (_name(state.gang, pod_set, quota), _times(amounts, count))
            for pod_set in (state.gang.pod_sets if state.gang is not None else ())
            if state.gang is not None and (count := min(pod_set.uncreated, _held(state, pod_set.name)))
            for quota, amounts in pod_set.quotas
        ]
        if kept:
            self._of[state.id] = kept
        for name, amounts in kept:
            _add(self._promised.setdefault(name, {}), amounts, 1)

    def concern(self, state: GangState) -> bool:
        """Whether any pod of the gang is still to be charged to a quota."""
        gang = state.gang
        return bool(self._rooms) and gang is not None and any(p.uncreated and p.quotas for p in gang.pod_sets)

    def exceeded(self, state: GangState, demand: Demand) -> str | None:
        """A message about a quota that has less left than the minimum of `demand` needs; None: no quota."""
        needed: dict[Name, dict[str, int]] = {}
        for name, amounts in self._minimum(state, demand):
            _add(needed.setdefault(name, {}), amounts, 1)
        for name, asked in sorted(needed.items()):
            room, promised = self._rooms.get(name, {}), self._promised.get(name, {})
            for resource, amount in sorted(asked.items()):
                left, kept = room.get(resource), promised.get(resource, 0)
                if left is None or amount <= left - kept:
                    continue
                others = f", of which {_bare(resource, kept)} are kept for gangs that start" if kept else ""
                rest, asks = _bare(resource, max(left, 0)), _bare(resource, amount)
                return (
                    f"ResourceQuota {name[1]} of namespace {name[0]} has {rest} of {resource} left{others}; "
                    f"the pods that are to be created ask for {asks}"
                )
        return None

    def frees(self, other: GangState, state: GangState) -> bool:
        """Whether pods of `other` are charged to a quota that counts for pods of `state`."""
        gang = state.gang
        assert gang is not None
        names = {_name(gang, pod_set, quota) for pod_set in gang.pod_sets for quota, _ in pod_set.quotas}
        return any(name in names for name, _ in _charged(other))

    def give(self, state: GangState) -> None:
        """Give back what the pods of a gang are charged, in a trial."""
        for name, amounts in _charged(state) if self._rooms else ():
            room = self._rooms.get(name, {})
            given = tuple((resource, amount) for resource, amount in amounts if resource in room)
            _add(room, given, 1)
            self._log.push(_add, room, given, -1)

    def charges(self, state: GangState) -> dict[str, dict[str, int]]:
        """What one more place of each pod set is charged, by resources of quotas, named as by `room`."""
        gang = state.gang
        assert gang is not None
        return {
            pod_set.name: {
                _told(_name(gang, pod_set, quota), resource): amount
                for quota, amounts in pod_set.quotas
                for resource, amount in amounts
            }
            for pod_set in gang.pod_sets
            if pod_set.uncreated > _held(state, pod_set.name)
        }

    def room(self, state: GangState) -> dict[str, int]:
        """What the quotas that count for the gang's pods have left."""
        gang = state.gang
        assert gang is not None
        names = {_name(gang, pod_set, quota) for pod_set in gang.pod_sets for quota, _ in pod_set.quotas}
        return {
            _told(name, resource): amount - self._promised.get(name, {}).get(resource, 0)
            for name in sorted(names)
            for resource, amount in self._rooms.get(name, {}).items()
        }

    def _minimum(self, state: GangState, demand: Demand) -> Iterator[tuple[Name, Amounts]]:
        """What the minimum is charged; its rest beyond the parts' minima uses uncharged pod sets first."""
        gang = state.gang
        assert gang is not None
        sets: Mapping[str, PodSet] = {pod_set.name: pod_set for pod_set in gang.pod_sets}
        rest = demand.need - sum(part.need for part in demand.parts)
        for part in sorted(demand.parts, key=lambda part: bool(sets[part.pod_set].uncreated)):
            pod_set = sets[part.pod_set]
            count = part.need + max(min(rest, part.count - part.need), 0)
            rest -= count - part.need
            held = _held(state, part.pod_set)
            more = min(pod_set.uncreated, held + count) - min(pod_set.uncreated, held)
            if more > 0:
                for quota, amounts in pod_set.quotas:
                    yield _name(gang, pod_set, quota), _times(amounts, more)


def _charged(state: GangState) -> Iterator[tuple[Name, Amounts]]:
    """What the gang's pods on nodes are charged."""
    if state.gang is None:
        return
    places = (place or state.leaving.get(pod) for pod, place in state.pods.items())
    counts = Counter(place.pod_set for place in places if place is not None)
    for pod_set in state.gang.pod_sets:
        if count := counts[pod_set.name]:
            for quota, amounts in pod_set.quotas:
                yield _name(state.gang, pod_set, quota), _times(amounts, count)


def _name(gang: Gang, pod_set: PodSet, quota: str) -> Name:
    return pod_set.namespace or gang.namespace, quota


def _told(name: Name, resource: str) -> str:
    return f"{name[0]}/{name[1]}: {resource}"


def _held(state: GangState, pod_set: str) -> int:
    """The number of places of a pod set that are promised to the gang and not filled."""
    return sum(place.pod_set == pod_set and promise.told for place, promise in state.holds.items())


def _times(amounts: Amounts, count: int) -> Amounts:
    return tuple((resource, count * amount) for resource, amount in amounts)


def _bare(resource: str, amount: int) -> str:
    """An amount of a quota's resource, such as requests.cpu, limits.memory or pods, as text."""
    return bare(resource.removeprefix("requests.").removeprefix("limits."), amount)


def _add(sums: dict[str, int], amounts: Amounts, sign: int) -> None:
    for resource, amount in amounts:
        sums[resource] = sums.get(resource, 0) + sign * amount
