"""Domains that a gang has to itself (`muster.dev/exclusive`, docs/concepts/topology.md): one gang per domain.

If a pod of an exclusive gang appears on its own beside another gang, that gang may stay, but does not grow
there. Pods of no gang (DaemonSets', other schedulers') do not count, as every node has some.

The occupancy of a node also depends on the ledger: what a trial has removed (a victim, a pod that will have
ended) occupies nothing, and bars no gang from a domain in which it was alone, or which `leave` declares it to
leave. So the gangs' pods on each node are recounted each time: the pods that the ledger knows, less those
of no gang. Only two things are remembered: the nodes that have pods of no gang, and the nodes of each
exclusive gang as of its last change. Clusters without exclusive gangs pay one comparison.

A gang takes all that is in its domains from others, so it is charged with all of it, as if its pods asked
for it: what it uses, and a *surcharge*, which is the rest of the capacity of its domains. The surcharge is
computed when the gang changes, or the capacity of nodes or the topology does (`outdated`).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import numpy as np

from muster.core.demand import Demand
from muster.core.words.amounts import PODS, Sums, Usage
from muster.core.words.decisions import Victim
from muster.core.words.events import PodsBound
from muster.core.words.gang import GangId, NodeName, PodId
from muster.core.world.gangs import GangState
from muster.core.world.nodes import Bools, Columns, Ints, Longs, Nodes
from muster.core.world.topology import Topology, named
from muster.core.world.trial import UndoLog
from muster.names import GPU_SHARE

#: Different sizes of the domains of a layer, up to which cheaper domains are tried.
SIZES: Final = 256
#: An exclusive gang's layer, and its nodes.
_Holder = tuple[str, tuple[NodeName, ...]]
_NOT: Final[_Holder] = ("", ())


class ExclusiveDomains:
    def __init__(
        self,
        nodes: Nodes,
        topology: Topology,
        gangs: Mapping[GangId, GangState],
        pods: Mapping[PodId, PodsBound],
        log: UndoLog,
    ) -> None:
        self._nodes, self._log = nodes, log
        self._topology = topology
        self._gangs = gangs
        self._pods = pods
        #: pods of no gang
        self._foreign = _ByNode(nodes)
        #: exclusive gangs that are on nodes: their layer, and their nodes
        self.holders: dict[GangId, _Holder] = {}
        #: by layer: gangs that have its domains to themselves
        self._held: dict[str, _ByNode] = {}
        #: of these gangs, the nodes on which a trial has left nothing of them
        self._left: Mapping[GangId, Collection[NodeName]] = {}
        #: how often a gang has given up its domains
        self.released = 0
        #: what each of these gangs is charged with besides what it uses
        self.surcharges: dict[GangId, Usage] = {}
        #: the topology and the capacities of which `surcharges` are
        self._as_of: tuple[int, ...] = ()
        #: by layer, what its smallest domain has at least of each resource, as of `_least_as_of`
        self._least: dict[str, Usage] = {}
        self._least_as_of: tuple[int, ...] = ()

    def foreign(self, node: NodeName, times: int) -> None:
        """Count `times` more pods of no gang on a node."""
        self._foreign.add((node,), times)

    def outdated(self) -> bool:
        """Whether the surcharges of `holders` are of another topology, or of other capacities, than now."""
        before, self._as_of = self._as_of, self._versions()
        return before != self._as_of

    def least(self, demand: Demand) -> Usage:
        """Return what a gang is charged with at least for the minimum of `demand`, besides what it has now.

        Before its start that is the smallest domain that it could have; a gang that has started may need no
        further domain.
        """
        rules = demand.rules
        if rules is None or not rules.exclusive:
            return demand.least
        if rules.started is not None:
            return demand.least.minus(self.surcharges.get(rules.started, _NOTHING))
        if (versions := self._versions()) != self._least_as_of:
            self._least.clear()
            self._least_as_of = versions
        if rules.exclusive not in self._least:
            self._least[rules.exclusive] = self._smallest(rules.exclusive)
        return _most(demand.least, self._least[rules.exclusive])

    def charge(self, state: GangState, columns: Collection[int], usage: Usage) -> Usage:
        """Return how much more an exclusive gang is charged with if it uses these columns, too.

        `usage`: what it would use there.
        """
        assert state.gang is not None
        there = np.zeros(len(self._nodes), np.bool_)
        there[[*columns]] = True
        there[self._columns(state.nodes)] = True
        used = Usage.of(state.usage.items())
        whole = _most(self._whole(state.gang.exclusive, there), used.plus(usage))
        return whole.minus(used).minus(self.surcharges.get(state.id, _NOTHING))

    def _surcharge(self, state: GangState) -> Usage:
        """Return what is in the gang's domains besides what it uses."""
        assert state.gang is not None
        there = np.zeros(len(self._nodes), np.bool_)
        there[self._columns(state.nodes)] = True
        return self._whole(state.gang.exclusive, there).minus(Usage.of(state.usage.items()))

    def _columns(self, nodes: Iterable[NodeName]) -> list[int]:
        return [self._nodes.column[node] for node in nodes if node in self._nodes.column]

    def _whole(self, layer: str, there: Bools) -> Usage:
        """Return the capacity of the layer's domains that contain these nodes; the number of pods is free."""
        if (level := self._level(layer)) is None:
            return Usage()
        return self._capacity(np.flatnonzero(self._in_domains(level, there)))

    def _smallest(self, layer: str) -> Usage:
        """Return what each domain of a layer has at least."""
        if (level := self._level(layer)) is None:
            return Usage()
        domains = self._topology.levels[level].domains
        known = domains[domains >= 0]
        if not len(known):
            return Usage()
        sums = {
            resource: np.bincount(known, self._nodes.capacity(row)[domains >= 0])
            for resource, row in self._nodes.resources.items()
            if resource not in (PODS, GPU_SHARE)
        }
        some = np.zeros(int(known.max()) + 1, np.bool_)
        for each in sums.values():
            some |= each > 0
        least = {resource: int(each[some].min()) if some.any() else 0 for resource, each in sums.items()}
        return Usage.of((resource, amount) for resource, amount in least.items() if amount)

    def sizes(self, demand: Demand) -> Iterator[tuple[Usage, Columns]]:
        """Yield what the domains cost that this demand could have, each with the columns of equal ones.

        Nothing, if there are more than `SIZES` different ones.
        """
        assert demand.rules is not None
        if (level := self._level(demand.rules.exclusive)) is None:
            return
        domains = self._topology.levels[level].domains
        known = np.flatnonzero(domains >= 0)
        names = [name for name in self._nodes.resources if name not in (PODS, GPU_SHARE)]
        if not len(known) or not names:
            return
        rows = [self._nodes.capacity(self._nodes.resources[name])[known] for name in names]
        sums = np.array([np.bincount(domains[known], row) for row in rows]).astype(np.int64)
        found, which = np.unique(sums, axis=1, return_inverse=True)
        if found.shape[1] > SIZES:
            return
        size_of = which.ravel()[domains[known]]
        for number, size in enumerate(found.T.tolist()):
            usage = Usage.of((name, amount) for name, amount in zip(names, size, strict=True) if amount)
            if len(columns := known[size_of == number]):
                yield usage, columns

    def _capacity(self, columns: Columns) -> Usage:
        nodes = self._nodes
        sums = {
            resource: int(nodes.capacity(row)[columns].sum(dtype=np.int64))
            for resource, row in nodes.resources.items()
            if resource not in (PODS, GPU_SHARE)
        }
        return Usage.of((resource, amount) for resource, amount in sums.items() if amount)

    def _versions(self) -> tuple[int, ...]:
        self._topology.refresh()
        return self._topology.version, self._nodes.layout, self._nodes.capacity_revision

    def settle(self, state: GangState) -> None:
        """Record a gang's change."""
        layer = state.gang.exclusive if state.gang is not None and state.nodes else ""
        before, _ = self.holders.get(state.id, _NOT)
        if layer or before:
            self._hold(state.id, (layer, tuple(state.nodes)))
            more, old = (self._surcharge(state) if layer else Usage()), self.surcharges.get(state.id)
            if more != (old or _NOTHING):
                self._set_surcharge(state.id, more)
                state.stamp += 1
        if before not in ("", layer):
            self.released += 1
            self._nodes.room.change()

    def _hold(self, gang: GangId, holder: _Holder) -> None:
        """Set in which layer and on which nodes a gang is exclusive; layer "": it is not."""
        before = self.holders.pop(gang, _NOT)
        self._log.push(self._hold, gang, before)
        for (layer, nodes), times in ((before, -1), (holder, 1)):
            if layer:
                self._held.setdefault(layer, _ByNode(self._nodes)).add(nodes, times)
                if not self._held[layer]:
                    del self._held[layer]
        if holder[0]:
            self.holders[gang] = holder

    def _set_surcharge(self, gang: GangId, surcharge: Usage) -> None:
        self._log.push(self._set_surcharge, gang, self.surcharges.pop(gang, Usage()))
        if surcharge:
            self.surcharges[gang] = surcharge

    def leave(self, victims: Iterable[Victim]) -> None:
        """Let these victims be gone, for a trial: where a gang has no pods left, it bars no other gang."""
        if self.holders:
            self._log.push_brief(self._return, self._left)
            left = {v.gang: self._leaves(v) for v in victims if v.gang in self.holders}
            self._left = {**self._left, **left}

    def _return(self, before: Mapping[GangId, Collection[NodeName]]) -> None:
        self._left = before

    def barred(self, demand: Demand) -> Columns | None:
        """Return the columns that this demand must not use; None if no exclusive gang is involved."""
        exclusive = demand.rules.exclusive if demand.rules is not None else ""
        if not (self.holders or exclusive):
            return None
        own = demand.rules.started if demand.rules is not None else None
        crowd = self._crowd()
        barred = np.zeros(len(self._nodes), np.bool_)
        for layer, held in self._held.items():
            if (level := self._level(layer)) is None:
                continue
            holders = held.columns()
            for gang in self.holders.keys() & {own, *self._left}:
                of, nodes = self.holders[gang]
                if of == layer:
                    left = nodes if gang == own else self._left[gang]
                    holders = holders - _counts(self._nodes, dict.fromkeys(left, 1))
            barred |= self._in_domains(level, holders > 0) & self._in_domains(level, crowd > 0)
        if exclusive and (level := self._level(exclusive)) is not None:
            crowd = self._crowd(own)
            barred |= self._in_domains(level, crowd > 0) | (self._topology.levels[level].domains < 0)
        return np.flatnonzero(barred)

    def alone(self, demand: Demand) -> tuple[Ints, Longs] | None:
        """Return by column the number of the domain that this demand would have to itself, or -1, and the
        pods of other gangs. None if the demand is not exclusive."""
        if demand.rules is None or not demand.rules.exclusive:
            return None
        level = self._level(demand.rules.exclusive)
        if level is None:
            return None
        return self._topology.levels[level].domains, self._crowd(demand.rules.started)

    def domains(self, demand: Demand, columns: Columns) -> Columns:
        """Return all columns that an exclusive demand would have to itself if it were on these."""
        assert demand.rules is not None
        level = self._level(demand.rules.exclusive)
        if level is None:
            return columns
        there = np.zeros(len(self._nodes), np.bool_)
        there[columns] = True
        return np.flatnonzero(self._in_domains(level, there))

    def _crowd(self, own: GangId | None = None) -> Longs:
        """Return by column the number of gangs' pods, without those of the gang `own`."""
        used = self._nodes.used[self._nodes.resources[PODS], : len(self._nodes)]
        crowd: Longs = used - self._foreign.columns()
        if own is not None and own in self._gangs:
            crowd -= _counts(self._nodes, self._gangs[own].nodes)
        return crowd

    def _leaves(self, victim: Victim) -> Collection[NodeName]:
        """Return the nodes on which the victim's gang has no pods left once the victim's pods are gone."""
        if not victim.pods:
            return self.holders[victim.gang][1]
        there = self._gangs[victim.gang].nodes
        gone = Counter(self._pods[pod].node for pod in victim.pods)
        return [node for node, pods in gone.items() if pods == there[node]]

    def _level(self, layer: str) -> int | None:
        """Return the level of this layer in the topology as it is now; None: there is no such layer."""
        self._topology.refresh()
        names = self._topology.names
        found = named(layer, names)
        return None if found is None else names.index(found)

    def _in_domains(self, level: int, some: Bools) -> Bools:
        """Return all columns of the domains that contain any of `some`."""
        domains = self._topology.levels[level].domains
        marked = np.zeros(len(self._topology.levels[level].paths) + 1, np.bool_)
        marked[domains[some]] = True
        marked[-1] = False  # no domain
        inside: Bools = marked[domains]
        return inside


_NOTHING: Final = Usage()


def _most(one: Mapping[str, int], other: Mapping[str, int]) -> Usage:
    """Return the greater amount of each resource."""
    return Usage({key: max(one.get(key, 0), other.get(key, 0)) for key in sorted({*one, *other})})


class _ByNode:
    """Counts by node, and by column until the layout of the columns changes."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._counts = Sums[NodeName]()
        self._columns: Longs = np.zeros(0, np.int64)
        self._layout = -1

    def add(self, nodes: Iterable[NodeName], times: int) -> None:
        for node in nodes:
            self._counts.count(node, times)
            if self._layout == self._nodes.layout and node in self._nodes.column:
                self._columns[self._nodes.column[node]] += times

    def __bool__(self) -> bool:
        return bool(self._counts)

    def columns(self) -> Longs:
        """Return the counts by column; the caller must not write to them."""
        if self._layout != self._nodes.layout:
            self._columns, self._layout = _counts(self._nodes, self._counts), self._nodes.layout
        return self._columns


def _counts(nodes: Nodes, by_node: Mapping[NodeName, int]) -> Longs:
    counts = np.zeros(len(nodes), np.int64)
    for node, number in by_node.items():
        if (column := nodes.column.get(node)) is not None:
            counts[column] = number
    return counts
