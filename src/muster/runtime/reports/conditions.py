"""Writes the condition PodScheduled and `status.nominatedNodeName` of the unbound pods of gangs.

An autoscaler adds nodes for Unschedulable pods, one pod at a time. So all unbound members of a gang are
Unschedulable if more nodes could start the gang. None of them is if a queue, a quota or a gate keeps the
gang from starting (`translate.status.member_waits`). The committer writes the condition of a pod without a
group.

While the victims of a gang terminate, `status.nominatedNodeName` of each of its pods is the node on which
capacity is held for the pod. Autoscalers and other schedulers count the pod there (KEP-5278). The field is
cleared if the gang loses its holds.

A write changes the pod's resourceVersion, so the API server would refuse a bind that was decided before it.
Therefore the conditions of a gang are written only after it has waited for `PATIENCE`, and at most
`IN_FLIGHT` patches are in flight. The first condition of a pod is not limited otherwise; a later one takes
a token of the budget (`runtime.budget`).
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, Protocol

from muster.api import kinds
from muster.api.base import Object, condition
from muster.api.core_v1 import Pod
from muster.core.cycle import Scheduler
from muster.core.words.gang import Code, GangId
from muster.effects import Patch
from muster.kube.clock import back_off
from muster.runtime.budget import WriteBudget, Writer
from muster.translate.group import Group
from muster.translate.status import SCHEDULED, member_waits, nominates

#: Seconds between two scans of the waiting gangs.
PACE: Final = 1.0
#: Seconds for which a gang waits with one reason code before its pods get the condition.
PATIENCE: Final = 2.0
#: Seconds for which no pod has come to a gang that waits for members before those that exist say so.
MISSING: Final = 60.0
#: Most patches in flight.
IN_FLIGHT: Final = 16
#: Longest pause, in seconds, before a patch is repeated whose effect the pod does not show. The first pause
#: is `PACE`, and each later one is twice the previous one.
LONGEST_PAUSE: Final = 60.0


#: By pod and the text to write: how often it was written, and the earliest time (Unix seconds) of the next
#: try.
_Tries = Mapping[tuple[str, str], tuple[int, float]]


class Observed(Protocol):
    @property
    def groups(self) -> dict[GangId, Group]: ...


class ConditionReports:
    def __init__(self, core: Scheduler, observed: Observed, budget: WriteBudget) -> None:
        self._core, self._observed, self._budget = core, observed, budget
        self._next = 0.0
        #: the reason code of each waiting gang, how many pods it has if it waits for more, and since when
        self._since: dict[GangId, tuple[Code, int, float]] = {}
        #: gangs whose pods need no patch, with the group and the reason code for which that was found
        self._done: dict[GangId, tuple[Group, Code]] = {}
        #: by pod, the patches to send: first writes, and refreshes
        self._first: dict[str, tuple[Patch, str]] = {}
        self._again: dict[str, tuple[Patch, str]] = {}
        #: the current `_Tries`
        self._tried: dict[tuple[str, str], tuple[int, float]] = {}
        self._flying: set[str] = set()

    def due(self, now: datetime) -> Iterator[Patch]:
        if now.timestamp() >= self._next:
            self._next = now.timestamp() + PACE
            self._scan(now)
        while len(self._flying) < IN_FLIGHT:
            if self._first:
                due = self._first
            elif self._again and self._budget.take(Writer.CONDITIONS, now.timestamp()):
                due = self._again
            else:
                break
            key = next(iter(due))
            self._flying.add(key)
            patch, what = due.pop(key)
            times, _ = self._tried.get((key, what), (0, 0.0))
            pause = back_off((PACE, LONGEST_PAUSE), times)
            self._tried[key, what] = times + 1, now.timestamp() + pause
            yield patch

    def written(self, report: Patch, error: Exception | None) -> None:
        """Ends a patch. If the pod does not show its effect, a later scan repeats it after a pause."""
        self._flying.discard(_key(report))

    def wait(self, now: float) -> float:
        scan = max(self._next - now, 0.0) if self._core.served else float("inf")
        if len(self._flying) >= IN_FLIGHT:
            return scan
        if self._first:
            return 0.0
        return min(scan, max(self._budget.next(Writer.CONDITIONS) - now, 0.0)) if self._again else scan

    def _scan(self, now: datetime) -> None:
        """Finds the patches to send."""
        waiting, self._again = self._again, {}
        self._first.clear()
        since, self._since = self._since, {}
        done, self._done = self._done, {}
        before, self._tried = self._tried, {}
        at = now.timestamp()
        for state in self._core.served:
            gang, explanation = state.id, state.explanation
            group = self._observed.groups.get(gang)
            if explanation is None or group is None:
                continue
            if not state.lacks or state.holds or state.planned:  # it starts
                continue
            code = explanation.code
            known, pods = since.get(gang), len(group.members) if code is Code.MEMBERS_MISSING else 0
            alike = known is not None and known[:2] == (code, pods)
            self._since[gang] = known if known is not None and alike else (code, pods, at)
            was = done.get(gang)
            same = was is not None and was[0] is group and was[1] is code
            waits = at - self._since[gang][2]
            lasting = waits >= MISSING
            if not same and (
                self._clear(group, before, at)
                or waits < PATIENCE
                or self._find(group, code, now, before, lasting=lasting)
                or (code is Code.MEMBERS_MISSING and not lasting)
            ):
                continue
            self._done[gang] = group, code
        for gang in self._core.world.pending_evictions:
            self._nominate(gang, before, at)
        kept = {key: self._again[key] for key in waiting if key in self._again}
        self._again = kept | self._again  # a pod keeps its position among the refreshes

    def _find(self, group: Group, code: Code, now: datetime, before: _Tries, *, lasting: bool) -> bool:
        """Adds the condition patches of one gang. Returns whether there are any. `before`: earlier tries."""
        found = False
        for pod in _unbound(group) if group.source.kind else ():
            if body := member_waits(pod, group, code, now, lasting=lasting):
                first = condition(pod.status.conditions, SCHEDULED) is None
                self._add(pod, body, code.value, before, now.timestamp(), first=first)
                found = True
        return found

    def _clear(self, group: Group, before: _Tries, at: float) -> bool:
        """Clears the nominated nodes of a gang that holds none any more. Returns whether it had any."""
        nominated = [pod for pod in _unbound(group) if pod.status.nominated_node_name]
        for pod in nominated:
            self._add(pod, nominates(pod, ""), "", before, at, first=False)
        return bool(nominated)

    def _nominate(self, gang: GangId, before: _Tries, at: float) -> None:
        """Adds the nominated nodes of a gang whose victims terminate."""
        group, state = self._observed.groups.get(gang), self._core.world.gangs.get(gang)
        if group is None or state is None:
            return
        for place, pod in sorted(group.members.ready.items()):
            if (hold := state.holds.get(place)) is not None:
                body, first = nominates(pod, hold.node), not pod.status.nominated_node_name
                self._add(pod, body, hold.node, before, at, first=first)

    def _add(
        self, pod: Pod, body: Object | None, what: str, before: _Tries, at: float, *, first: bool
    ) -> None:
        """Adds the patch of a pod, unless one is in flight, or the pause after the same patch is not over."""
        if body is None:
            return
        meta = pod.metadata
        patch = Patch(kinds.POD, meta.namespace, meta.name, body, "status")
        key = _key(patch)
        tried = before.get((key, what), (0, 0.0))
        if tried[0]:
            self._tried[key, what] = tried
        if key not in self._flying and at >= tried[1]:
            (self._first if first else self._again)[key] = patch, what


def _unbound(group: Group) -> list[Pod]:
    pods = (member.pod for member in group.members.values() if not member.pod.spec.node_name)
    return sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))


def _key(patch: Patch) -> str:
    return f"{patch.namespace}/{patch.name}"
