"""Writes the status of the ClusterNetworkTopology: its domains, and whether it can be used.

`detailStatus` is Koordinator's own; the condition `Valid` is muster's. If the cluster's schema does not know
conditions, the API server drops them; therefore a status that has been written once is not written again.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Protocol

import msgspec

from muster.api import kinds
from muster.api.base import AnyKind, Condition, Object, Resource, condition
from muster.api.koordinator_v1alpha1 import DEFAULT, ClusterNetworkTopology, ClusterNetworkTopologyStatus
from muster.core.cycle import Scheduler
from muster.effects import Patch
from muster.kube.clock import back_off
from muster.runtime.budget import WriteBudget, Writer
from muster.translate.layers import detail
from muster.translate.world import World

#: Seconds between two reports.
PACE: Final = 1.0
#: Longest pause, in seconds, before a status that could not be written is written again; the first is `PACE`.
LONGEST_PAUSE: Final = 30.0


class Observed(Protocol):
    @property
    def world(self) -> World: ...

    def find(self, kind: AnyKind, key: str) -> Resource | None: ...


class TopologyReports:
    def __init__(self, core: Scheduler, observed: Observed, budget: WriteBudget) -> None:
        self._core, self._observed, self._budget = core, observed, budget
        #: what was last written, and of which object
        self._written: tuple[str, Object] | None = None
        self._reported: object = None
        self._next = 0.0
        #: whether a write of the last report has failed, and how many reports in a row have failed before it
        self._failed, self._failures = False, 0

    def due(self, now: datetime) -> Iterator[Patch]:
        """Yields the status to write now, if there is one."""
        if now.timestamp() < self._next or self._settled():
            return
        self._failures = self._failures + 1 if self._failed else 0
        self._reported, self._failed = self._now(), False
        self._next = now.timestamp() + back_off((PACE, LONGEST_PAUSE), self._failures)
        found = self._observed.find(kinds.CLUSTER_NETWORK_TOPOLOGY, DEFAULT)
        if not isinstance(found, ClusterNetworkTopology):
            return
        error = self._observed.world.layers.error
        said = Condition(
            type="Valid",
            status="False" if error else "True",
            reason="NoChain" if error else "Chain",
            message=error,
        )
        before = condition(found.status.conditions, said.type)
        same = before is not None and before.status == said.status
        since = before.last_transition_time if before is not None and same else now
        status: Object = {
            "detailStatus": [] if error else detail(self._core.world.topology),
            "conditions": [
                msgspec.to_builtins(msgspec.structs.replace(said, last_transition_time=since)),
                *(msgspec.to_builtins(one) for one in found.status.conditions if one.type != said.type),
            ],
        }
        seen = msgspec.convert(status, ClusterNetworkTopologyStatus) == found.status
        if seen or self._written == (found.metadata.uid, status):
            return
        if not self._budget.take(Writer.TOPOLOGY, now.timestamp()):
            self._reported, self._next = None, self._budget.next(Writer.TOPOLOGY)
            return
        self._written = found.metadata.uid, status
        body: Object = {"status": status}
        yield Patch(kinds.CLUSTER_NETWORK_TOPOLOGY, "", DEFAULT, body, "status", missing_ok=False)

    def written(self, report: Patch, error: Exception | None) -> None:
        """Takes the outcome: a status that was not written is written again after a pause."""
        if error is not None:
            self._written, self._failed = None, True

    def wait(self, now: float) -> float:
        """Returns the seconds until there is something to write; infinite if there is nothing."""
        return float("inf") if self._settled() else max(self._next - now, 0.0)

    def _settled(self) -> bool:
        return self._reported == self._now() and not self._failed

    def _now(self) -> object:
        """Returns a value that changes whenever the status may have changed."""
        found = self._observed.find(kinds.CLUSTER_NETWORK_TOPOLOGY, DEFAULT)
        if not isinstance(found, ClusterNetworkTopology):
            return None
        known = self._core.world
        known.topology.refresh()
        return found.metadata.uid, self._observed.world.layers, known.topology.version, len(known.nodes.facts)
