"""Writes what unbound pods of gangs show of their wait: PodScheduled, and the node nominated for them.

An autoscaler adds nodes for pods that are Unschedulable, and knows nothing of gangs. So either all unbound
members of a gang are Unschedulable, if more nodes could start the gang, or none of them, if its queue, its
quota or a gate keeps it from starting (`translate.status.member_waits`). Pods without a group have that
condition from the committer.

While the victims of a gang leave, `status.nominatedNodeName` of each of its pods is the node on which its
place is held. Autoscalers and the schedulers of other pods count the pod there (KEP-5278). It is taken back
if the gang loses its places.

A write changes the pod, so a bind that was decided before would be refused. Therefore the conditions of a
gang are written once it has waited for `PATIENCE`, and no more than `FLYING` are under way. A pod that has a
condition already waits for its turn (`runtime.budget`).
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

#: Seconds between two looks at the gangs that wait.
PACE: Final = 1.0
#: Seconds that a gang has waited for one kind of reason before its pods say so.
PATIENCE: Final = 2.0
#: Patches under way.
FLYING: Final = 16
#: Longest pause, in seconds, before a pod that does not show what was written is written to again. The first
#: is `PACE`, and each is twice the one before.
LONGEST_PAUSE: Final = 60.0


#: By pod and what it is to show: how often that was written, and when it may be written again.
_Tries = Mapping[tuple[str, str], tuple[int, float]]


class Observed(Protocol):
    @property
    def groups(self) -> dict[GangId, Group]: ...


class ConditionReports:
    def __init__(self, core: Scheduler, observed: Observed, budget: WriteBudget) -> None:
        self._core, self._observed, self._budget = core, observed, budget
        self._next = 0.0
        #: since when each waiting gang waits, and its reason
        self._since: dict[GangId, tuple[Code, float]] = {}
        #: gangs whose pods have nothing more to say, as they were read and for this reason
        self._told: dict[GangId, tuple[Group, Code]] = {}
        #: by pod, the patches to make: of pods that have no condition yet, and of the others
        self._first: dict[str, tuple[Patch, str]] = {}
        self._again: dict[str, tuple[Patch, str]] = {}
        #: by pod and what it is to show: how often that was written, and when it may be written again
        self._tried: dict[tuple[str, str], tuple[int, float]] = {}
        self._flying: set[str] = set()

    def due(self, now: datetime) -> Iterator[Patch]:
        if now.timestamp() >= self._next:
            self._next = now.timestamp() + PACE
            self._look(now)
        while len(self._flying) < FLYING:
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
        """Takes the outcome: what the pod does not show is found again at a later look, after a pause."""
        self._flying.discard(_key(report))

    def wait(self, now: float) -> float:
        look = max(self._next - now, 0.0) if self._core.served else float("inf")
        if len(self._flying) >= FLYING:
            return look
        if self._first:
            return 0.0
        return min(look, max(self._budget.next(Writer.CONDITIONS) - now, 0.0)) if self._again else look

    def _look(self, now: datetime) -> None:
        """Finds the patches to write."""
        turns, self._again = self._again, {}
        self._first.clear()
        since, self._since = self._since, {}
        told, self._told = self._told, {}
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
            known = since.get(gang)
            self._since[gang] = known if known is not None and known[0] is code else (code, at)
            was = told.get(gang)
            same = was is not None and was[0] is group and was[1] is code
            settled = at >= self._since[gang][1] + PATIENCE
            if not same and (
                self._take_back(group, before, at) or not settled or self._find(group, code, now, before)
            ):
                continue
            self._told[gang] = group, code
        for gang in self._core.world.pending_evictions:
            self._nominate(gang, before, at)
        kept = {key: self._again[key] for key in turns if key in self._again}
        self._again = kept | self._again  # a pod that waits keeps its turn

    def _find(self, group: Group, code: Code, now: datetime, before: _Tries) -> bool:
        """Adds the patches of one gang. Returns whether there are any. `before`: what was tried until now."""
        found = False
        for pod in _unbound(group) if group.source.kind else ():
            if body := member_waits(pod, group, code, now):
                first = condition(pod.status.conditions, SCHEDULED) is None
                self._add(pod, body, code.value, before, now.timestamp(), first=first)
                found = True
        return found

    def _take_back(self, group: Group, before: _Tries, at: float) -> bool:
        """Adds the patches of pods for which no place is held any more. Returns whether there are any."""
        nominated = [pod for pod in _unbound(group) if pod.status.nominated_node_name]
        for pod in nominated:
            self._add(pod, nominates(pod, ""), "", before, at, first=False)
        return bool(nominated)

    def _nominate(self, gang: GangId, before: _Tries, at: float) -> None:
        """Adds the patches of a gang whose victims leave."""
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
        """Adds the patch of a pod, unless one is under way, or the same was tried a moment ago."""
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
