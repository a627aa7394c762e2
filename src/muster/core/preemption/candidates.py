"""Which gangs may be victims, what is lost with each, and what each frees.

A candidate is a standing gang with its *units*. A surplus unit is a pod that the gang can spare, the highest
index first. Of these only so many can be taken, in any order (`Candidate.spare`). The last unit is all the
rest: below its minimum a gang is evicted as a whole or not at all. So the last unit is taken only with all
others.
Of equal pods on one node only as many are surplus units as can be taken together, and in all no more than
`OTHERS` beyond as many as the gang can spare. All other pods are evicted only with the whole gang.

docs/concepts/preemption.md says which gangs are never victims, and what is lost. Whether a gang's rank
protects it depends on the preemptor, which passes a test of gangs that it may evict. A pod that is known to
run, but not since when, counts as bound now.

What the eviction of a gang frees is cached until the gang changes. So a search among 600 gangs on 8,000
places computes it only for those that have changed, and is arithmetic on arrays for the rest.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple

import numpy as np

from muster.core.demand import Demand
from muster.core.words.amounts import Usage
from muster.core.words.events import PodsBound
from muster.core.words.gang import Amounts, Gang, GangId, NodeName, Place, PodId, gpus
from muster.core.world.gangs import GangState, Hold, satisfied, stands, starting
from muster.core.world.nodes import Columns, Longs, Nodes, RowAmounts

#: How many gangs' units are cached; if there are more, the cache is cleared from time to time.
_KEPT: Final = 100_000
#: If gangs of lower priorities use so many times the preemptor's minimum, others are left out at first.
AMPLE: Final = 2
#: Surplus units of a gang beyond as many as it can spare: of larger gangs the other pods of lower indices are
#: evicted only with the whole gang.
OTHERS: Final = 64


@dataclass(frozen=True, slots=True)
class EvictionUnit:
    """Pods that are evicted together, and what their end frees."""

    pods: tuple[PodId, ...]
    #: all that is left of the gang; its held places are released, too
    core: bool
    #: of a surplus unit, its pod set
    pod_set: str
    #: of each kind of demand the columns on which it is given back, distinct, and how often
    taken: tuple[tuple[RowAmounts, Columns, Longs], ...]
    #: the same in sum
    freed: Usage
    #: part of it is a share of a GPU
    shares: bool
    #: since when (seconds since the epoch; None = not known), and how many GPUs or CPUs
    running: tuple[tuple[float | None, float], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    gang: Gang
    units: tuple[EvictionUnit, ...]
    #: work lost by each unit
    lost: tuple[float, ...]
    #: how many surplus units can be taken without the last one: of each pod set, and in all (the name "")
    spare: Mapping[str, int]


class _Cached(NamedTuple):
    stamp: int
    gang: Gang
    #: it stands
    met: bool
    units: tuple[EvictionUnit, ...]
    #: as in `Candidate`
    spare: Mapping[str, int]


NO_SURCHARGES: Final[Mapping[GangId, Usage]] = {}
#: A test of gangs.
Test = Callable[[Gang], bool]


def always(gang: Gang) -> bool:
    """Whatever a gang says against its eviction counts."""
    return True


class Candidates:
    """The gangs that could be victims, as of one cycle."""

    def __init__(
        self,
        nodes: Nodes,
        gangs: Mapping[GangId, GangState],
        pods: Mapping[PodId, PodsBound],
        surcharges: Mapping[GangId, Usage] = NO_SURCHARGES,
    ) -> None:
        """`surcharges`: as in `ExclusiveDomains`."""
        self._surcharges = surcharges
        self._nodes = nodes
        self._gangs = gangs
        self._pods = pods
        self._known: dict[GangId, _Cached] = {}
        self._layout = -1

    def of(
        self, now: float, may: Test, highest: float = inf, heeds: Test = always
    ) -> tuple[list[Candidate], float]:
        """All candidates that `may` be evicted, in order of name, and when a minimum run time next ends.

        Only those of the `highest` priority and below. `heeds`: whether what a gang says against its eviction
        (`preemptible`, `min_run_time`, a minimum above its pods) counts. A gang that has promised places is
        starting, and no candidate below its minimum, whatever `heeds`.
        """
        if self._layout != self._nodes.layout or len(self._known) > _KEPT:
            self._known.clear()
            self._layout = self._nodes.layout
        found, due = [], inf
        for state, gang in self._able(may, heeds, highest):
            _, _, met, units, spare = self._units_of(state, gang)
            if not units or not (met or (not heeds(gang) and not starting(state))):
                continue
            if gang.min_run_time > 0 and heeds(gang):
                until = min(self._since(pod, now) for pod in state.pods) + gang.min_run_time
                if until > now:
                    due = min(due, until)
                    continue
            lost = tuple(_lost(unit, gang, now) for unit in units)
            found.append(Candidate(gang, units, lost, spare))
        found.sort(key=lambda candidate: candidate.gang.id)
        return found, due

    def levels(self, demand: Demand, may: Test, heeds: Test = always) -> Iterator[float]:
        """Priorities up to which to look for victims of this demand, until there are some.

        The best victims are those whose highest priority is lowest. So gangs of higher priority are left out
        as long as those below use `AMPLE` times what the minimum takes. If that is not enough after all, all
        gangs are considered.
        """
        if demand.rules is None:  # a gang that gathers needs the capacity in one domain
            yield from self._ample(demand, may, heeds)
        yield inf

    def _ample(self, demand: Demand, may: Test, heeds: Test) -> Iterator[int]:
        """The lowest such priority, if it is not the highest there is."""
        lacking: dict[str, int] = {}
        for part in demand.parts:
            for resource, amount in part.shape.requests:
                lacking[resource] = lacking.get(resource, 0) + AMPLE * part.need * amount
        used: dict[int, dict[str, int]] = {}
        for state, gang in self._able(may, heeds):
            mine = used.setdefault(gang.priority, dict.fromkeys(lacking, 0))
            for resource in lacking:
                mine[resource] += state.usage[resource]
        for priority, mine in sorted(used.items())[:-1]:
            for resource, amount in mine.items():
                lacking[resource] -= amount
            if all(amount <= 0 for amount in lacking.values()):
                yield priority
                return

    def _able(self, may: Test, heeds: Test, highest: float = inf) -> Iterator[tuple[GangState, Gang]]:
        """The gangs with pods, of the `highest` priority and below, that `may` be evicted."""
        for state in self._gangs.values():
            if (gang := state.gang) is None or gang.of_node or not state.pods or gang.priority > highest:
                continue
            if may(gang) and (gang.preemptible or not heeds(gang)):
                yield state, gang

    def _since(self, pod: PodId, now: float) -> float:
        at = self._pods[pod].at
        return now if at is None else at

    def _units_of(self, state: GangState, gang: Gang) -> _Cached:
        """The units of a gang, what it can spare, and whether it stands."""
        known = self._known.get(state.id)
        if known is not None and known[0] == state.stamp and known[1] is gang:
            return known
        met = stands(state)
        # below the minimum of one pod set it can spare nothing of another
        spare = _spare(state, gang) if met else {}
        units = tuple(self._make_units(state, gang, spare))
        if units and gang.exclusive and (surcharge := self._surcharges.get(state.id)):
            units = _with_domains(units, surcharge)
        known = self._known[state.id] = _Cached(state.stamp, gang, met, units, spare)
        return known

    def _make_units(self, state: GangState, gang: Gang, spare: Mapping[str, int]) -> Iterator[EvictionUnit]:
        by_gpu = gpus(tuple(state.usage.items())) > 0
        gone: set[PodId] = set()
        number: Counter[str] = Counter()
        for place, pods in self._surplus(state, gang, spare):
            gone.update(pods)
            number.update((place.pod_set, ""))
            yield self._make(pods, (), by_gpu, core=False, pod_set=place.pod_set)
        rest = sorted(pod for pod in state.pods if pod not in gone)
        if rest or state.holds or any(n > spare[name] for name, n in number.items()):
            yield self._make(rest, state.holds.values(), by_gpu, core=True)

    def _surplus(
        self, state: GangState, gang: Gang, spare: Mapping[str, int]
    ) -> Iterator[tuple[Place, tuple[PodId, ...]]]:
        """Pods that the gang can spare, place by place: highest index first, then the last pod set.

        All pods of a place are evicted together: an old one may still be leaving beside the new one. The
        first ones that can be taken together are always among them. Beyond those there are at most `OTHERS`.
        """
        if not spare:
            return
        position = {p.name: i for i, p in enumerate(gang.pod_sets)}
        size = {p.name: p.count for p in gang.pod_sets}
        order = sorted(
            (
                p
                for p in state.filled
                if spare.get(p.pod_set, 0) > 0 and p.index < size[p.pod_set] and p not in state.retired
            ),
            key=lambda p: (-p.index, -position[p.pod_set]),
        )
        by_place: dict[Place, list[PodId]] = {}
        for pod, filling in state.pods.items():
            if filling is not None:
                by_place.setdefault(filling, []).append(pod)
        left, others = dict(spare), OTHERS
        alike: Counter[Hashable] = Counter()
        for place in order:
            name, pods = place.pod_set, tuple(sorted(by_place[place]))
            bound = [self._pods[pod] for pod in pods]
            kind = name, *((one.node, one.requests, one.footprint, one.at) for one in bound)
            alike[kind] += 1
            if left[name] > 0 and left[""] > 0:
                left[name] -= 1
                left[""] -= 1
                yield place, pods
            elif others > 0 and alike[kind] <= min(spare[name], spare[""]):
                others -= 1
                yield place, pods
            if not others and not left[""]:
                break

    def _make(
        self, pods: Sequence[PodId], held: Iterable[Hold], by_gpu: bool, *, core: bool, pod_set: str = ""
    ) -> EvictionUnit:
        kinds: dict[Amounts, tuple[dict[NodeName, int], dict[float | None, int]]] = {}
        requests, shares = None, False
        for pod in pods:
            bound = self._pods[pod]
            if bound.requests is not requests:  # mostly it is the same object
                requests = bound.requests
                nodes, since = kinds.setdefault(requests, ({}, {}))
            nodes[bound.node] = nodes.get(bound.node, 0) + 1
            since[bound.at] = since.get(bound.at, 0) + 1
            shares |= bound.footprint.device is not None or bool(bound.footprint.devices)
        running: dict[float | None, float] = {}
        for requests, (_, since) in kinds.items():
            weight = gpus(requests) if by_gpu else dict(requests).get("cpu", 0) / 1000
            for at, number in since.items():
                running[at] = running.get(at, 0.0) + number * weight
        for promise in held:
            nodes, _ = kinds.setdefault(promise.requests, ({}, {}))
            nodes[promise.node] = nodes.get(promise.node, 0) + 1
            shares |= promise.device is not None or bool(promise.footprint.devices)
        freed = Usage()
        for requests, (nodes, _) in kinds.items():
            freed.add(Usage.of_pod(requests), sum(nodes.values()))
        return EvictionUnit(
            tuple(pods),
            core,
            pod_set,
            tuple([self._taken(requests, nodes) for requests, (nodes, _) in kinds.items()]),
            freed,
            shares,
            tuple(sorted(running.items(), key=lambda each: -inf if each[0] is None else each[0])),
        )

    def _taken(self, requests: Amounts, nodes: Mapping[NodeName, int]) -> tuple[RowAmounts, Columns, Longs]:
        column = self._nodes.column
        times = {column[node]: number for node, number in nodes.items() if node in column}
        columns = sorted(times)
        return (
            self._nodes.taken(requests).row_amounts,
            np.array(columns, np.intp),
            np.array([times[where] for where in columns], np.int64),
        )


def _with_domains(units: tuple[EvictionUnit, ...], surcharge: Usage) -> tuple[EvictionUnit, ...]:
    """Units of a gang that is charged with its domains: these are free once all of it is gone."""
    freed = surcharge.copy()
    for unit in units:
        freed.add(unit.freed)
    return tuple(replace(unit, freed=freed if unit.core else Usage()) for unit in units)


def _spare(state: GangState, gang: Gang) -> Mapping[str, int]:
    """How many filled places the gang can spare: of each pod set, and in all (the name ""). Empty: none.

    What a subgroup can spare is dealt out to its pod sets, the last first: any of these may go together.
    """
    if gang.indivisible or gang.min_count >= sum(pod_set.count for pod_set in gang.pod_sets):
        return {}
    counts = satisfied(state, gang)
    spare = sum(counts.values()) - gang.min_count
    left = {
        each.name: sum(counts[p.name] for p in gang.pod_sets if p.subgroup == each.name) - each.min_count
        for each in gang.subgroups
    }
    room = {}
    for p in reversed(gang.pod_sets):
        n = min(counts[p.name] - p.min_count, left.get(p.subgroup, spare))
        if n > 0:
            room[p.name] = n
            if p.subgroup in left:
                left[p.subgroup] -= n
    return {**room, "": spare} if spare > 0 and room else {}


def _lost(unit: EvictionUnit, gang: Gang, now: float) -> float:
    """The work that is lost with a unit, in resource-seconds."""
    return sum((weight * gang.time_lost(since, now) for since, weight in unit.running), 0.0)
