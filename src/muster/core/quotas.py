"""Namespaces' ResourceQuotas: what pods that are still to be created may ask for.

The API server charges a quota when a pod is created, not when it is bound. So a gang whose pods are there has
paid already, and is not checked again. One that is started first and then has its pods made (a suspended Job,
a JobSet) would find out too late, with half of its pods refused. Its uncreated places are checked here,
and once it has been given places, what they will be charged is kept for it until its pods are there and
the API server's own count has them. Nothing keeps quota without holding places.

Which quotas count for a pod, and what each charges, is worked out from its template before the core
(`PodSet.quotas`); a quota that says nothing about pods is not told at all.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from muster.core.gang import Amounts, Gang, GangId, PodSet
from muster.core.gangs import GangState
from muster.core.placement import Want
from muster.core.wording import bare

#: Namespace and name.
Name = tuple[str, str]


class Quotas:
    def __init__(self) -> None:
        self._rooms: dict[Name, dict[str, int]] = {}
        self._promised: dict[Name, dict[str, int]] = {}
        self._of: dict[GangId, list[tuple[Name, Amounts]]] = {}
        #: counts changes of what quotas have left
        self.changes = 0

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._rooms)

    def change(self, name: Name, room: Amounts) -> bool:
        """What the quota has left, as the API server says. False if nothing changed."""
        if self._rooms.get(name) == dict(room):
            return False
        self._rooms[name] = dict(room)
        self.changes += 1
        return True

    def remove(self, name: Name) -> bool:
        self.changes += 1
        return self._rooms.pop(name, None) is not None

    def settle(self, state: GangState) -> None:
        """Bring up to date what is kept for a gang's pods that have places and are not there yet."""
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
        """Whether any of its pods is still to be charged to a quota."""
        gang = state.gang
        return bool(self._rooms) and gang is not None and any(p.uncreated and p.quotas for p in gang.pod_sets)

    def exceeded(self, state: GangState, want: Want) -> str | None:
        """Where the minimum of what is wanted would ask for more than is left."""
        demand: dict[Name, dict[str, int]] = {}
        for name, amounts in self._minimum(state, want):
            _add(demand.setdefault(name, {}), amounts, 1)
        for name, asked in sorted(demand.items()):
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
        """Whether pods of this other gang are charged to a quota that counts for pods of this one."""
        gang = state.gang
        assert gang is not None
        names = {_name(gang, pod_set, quota) for pod_set in gang.pod_sets for quota, _ in pod_set.quotas}
        return any(name in names for name, _ in _charged(other))

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """What is given back in here (`give`) is taken again afterwards."""
        rooms = {name: dict(room) for name, room in self._rooms.items()}
        try:
            yield
        finally:
            self._rooms = rooms

    def give(self, state: GangState) -> None:
        """What the pods that a gang has are charged is left again, in a trial."""
        for name, amounts in _charged(state) if self._rooms else ():
            room = self._rooms.get(name, {})
            _add(room, tuple((resource, amount) for resource, amount in amounts if resource in room), 1)

    def charges(self, state: GangState) -> dict[str, dict[str, int]]:
        """What one more place of each pod set costs, by resources of quotas (`room` names them alike)."""
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
        """What the quotas that count for its pods have left."""
        gang = state.gang
        assert gang is not None
        names = {_name(gang, pod_set, quota) for pod_set in gang.pod_sets for quota, _ in pod_set.quotas}
        return {
            _told(name, resource): amount - self._promised.get(name, {}).get(resource, 0)
            for name in sorted(names)
            for resource, amount in self._rooms.get(name, {}).items()
        }

    def _minimum(self, state: GangState, want: Want) -> Iterator[tuple[Name, Amounts]]:
        """What the minimum is charged, its open rest made of the parts that are charged least often."""
        gang = state.gang
        assert gang is not None
        sets: Mapping[str, PodSet] = {pod_set.name: pod_set for pod_set in gang.pod_sets}
        rest = want.need - sum(part.need for part in want.parts)
        for part in sorted(want.parts, key=lambda part: bool(sets[part.pod_set].uncreated)):
            pod_set = sets[part.pod_set]
            count = part.need + max(min(rest, part.count - part.need), 0)
            rest -= count - part.need
            held = _held(state, part.pod_set)
            more = min(pod_set.uncreated, held + count) - min(pod_set.uncreated, held)
            if more > 0:
                for quota, amounts in pod_set.quotas:
                    yield _name(gang, pod_set, quota), _times(amounts, more)


def _charged(state: GangState) -> Iterator[tuple[Name, Amounts]]:
    """What the pods that a gang has on nodes are charged."""
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
    """Places of a pod set that are promised to the gang and not filled."""
    return sum(place.pod_set == pod_set and promise.told for place, promise in state.holds.items())


def _times(amounts: Amounts, count: int) -> Amounts:
    return tuple((resource, count * amount) for resource, amount in amounts)


def _bare(resource: str, amount: int) -> str:
    """An amount of what a quota calls requests.cpu, limits.memory or pods."""
    return bare(resource.removeprefix("requests.").removeprefix("limits."), amount)


def _add(sums: dict[str, int], amounts: Amounts, sign: int) -> None:
    for resource, amount in amounts:
        sums[resource] = sums.get(resource, 0) + sign * amount
