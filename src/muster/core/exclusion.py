"""Domains that a gang has to itself.

A gang that is exclusive in a layer goes only to domains of that layer in which no other gang has a pod or
a promised place, and while it has one there nobody else may enter, exclusive or not: one gang per
domain. It may use several domains; that it uses one is another rule's to say. Pods that no gang has
(DaemonSets', other schedulers') do not count, as every node has some. A gang that is there already, when
an exclusive one's pod turns up beside it on its own, may stay, and does not grow there.

Whose a node is depends on the ledger too: what a trial has taken away (a victim, a pod that will have ended)
occupies nothing. So nothing is remembered here but which domains exclusive gangs were in when they last
changed; who is still there is counted anew each time, from the pods that the ledger knows less those of
nobody. Clusters without exclusive gangs pay one comparison.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from muster.core.gang import GangId, NodeName
from muster.core.gangs import GangState
from muster.core.nodes import PODS, Bools, Columns, Ints, Nodes
from muster.core.placement import Want
from muster.core.rules import resolve
from muster.core.topology import Longs, Topology


class Exclusion:
    def __init__(self, nodes: Nodes, topology: Topology, gangs: Mapping[GangId, GangState]) -> None:
        self._nodes = nodes
        self._topology = topology
        self._gangs = gangs
        #: pods of no gang, by node
        self.foreign: Counter[NodeName] = Counter()
        #: exclusive gangs that are somewhere
        self._holders: dict[GangId, None] = {}

    def settle(self, state: GangState) -> None:
        """Bring a gang that has changed up to date."""
        if state.gang is not None and state.gang.exclusive and state.nodes:
            self._holders[state.id] = None
        elif state.id in self._holders:
            del self._holders[state.id]

    def barred(self, want: Want) -> Columns | None:
        """Columns that are out of bounds for this want; None: it is not concerned."""
        exclusive = want.rules.exclusive if want.rules is not None else ""
        if not (self._holders or exclusive):
            return None
        self._topology.refresh()
        own = want.rules.begun if want.rules is not None else None
        barred = np.zeros(len(self._nodes), np.bool_)
        crowd = self._crowd()
        for level, columns in self._held(own):
            domains: Ints = self._topology.levels[level].domains
            held = np.unique(domains[columns])
            barred |= self._in(domains, held[held >= 0], crowd)
        wanted = self._level(exclusive) if exclusive else None
        if wanted is not None:
            domains = self._topology.levels[wanted].domains
            if own is not None and own in self._gangs:
                crowd = crowd - self._counts(self._gangs[own].nodes)
            barred |= domains < 0
            barred |= self._in(domains, np.unique(domains[domains >= 0]), crowd)
        return np.flatnonzero(barred)

    def _held(self, own: GangId | None) -> Iterator[tuple[int, Columns]]:
        """The levels and columns of other exclusive gangs."""
        for gang in self._holders:
            state = self._gangs.get(gang)
            if gang == own or state is None or state.gang is None:
                continue
            level = self._level(state.gang.exclusive)
            if level is not None:
                column = self._nodes.column
                yield level, np.array([column[node] for node in state.nodes if node in column], np.intp)

    def _level(self, layer: str) -> int | None:
        found = resolve((), layer, self._topology.layers)
        return None if found.error else self._topology.names.index(found.exclusive)

    def _in(self, domains: Ints, some: Ints | Columns, crowd: Longs) -> Bools:
        """The columns of those of these domains in which there is anybody."""
        there = np.zeros(max(int(domains.max(initial=-1)) + 2, 1), np.bool_)
        there[domains[(crowd > 0) & (domains >= 0)]] = True
        wanted = np.zeros_like(there)
        wanted[some] = True
        inside: Bools = (there & wanted)[domains] & (domains >= 0)
        return inside

    def _crowd(self) -> Longs:
        """Per column the pods and promised places of gangs."""
        used = self._nodes.used[self._nodes.resources[PODS], : len(self._nodes)]
        crowd: Longs = used - self._counts(self.foreign)
        return crowd

    def _counts(self, by_node: Mapping[NodeName, int]) -> Longs:
        counts = np.zeros(len(self._nodes), np.int64)
        for node, number in by_node.items():
            if (column := self._nodes.column.get(node)) is not None:
                counts[column] = number
        return counts
