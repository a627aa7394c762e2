"""Tells autoscalers which pods wait for nodes: the condition PodScheduled of all members of waiting gangs.

An autoscaler adds nodes for pods that are Unschedulable, and knows nothing of gangs. So either all unbound
members of a gang are Unschedulable, if more nodes could start the gang, or none of them, if its queue, its
quota or a gate keeps it from starting (`translate.status.member_waits`). Pods without a group have that
condition from the committer.

A write changes the pod, so a bind that was decided before would be refused. Therefore the conditions of a
gang are written once it has waited for `PATIENCE`, and no more than `FLYING` are under way. A pod that has a
condition already waits for its turn (`runtime.budget`).
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, Protocol

from muster.api import kinds
from muster.api.base import condition
from muster.core.cycle import Scheduler
from muster.core.words.gang import Code, GangId
from muster.effects import Patch
from muster.kube.clock import back_off
from muster.runtime.budget import WriteBudget, Writer
from muster.translate.group import Group
from muster.translate.status import SCHEDULED, member_waits

#: Seconds between two looks at the gangs that wait.
PACE: Final = 1.0
#: Seconds that a gang has waited for one kind of reason before its pods say so.
PATIENCE: Final = 2.0
#: Patches under way.
FLYING: Final = 16
#: Longest pause, in seconds, before a pod that does not show what was written is written to again. The first
#: is `PACE`, and each is twice the one before.
LONGEST_PAUSE: Final = 60.0


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
        self._first: dict[str, tuple[Patch, Code]] = {}
        self._again: dict[str, tuple[Patch, Code]] = {}
        #: by pod and reason: how often that was written, and when it may be written again
        self._tried: dict[tuple[str, Code], tuple[int, float]] = {}
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
            patch, code = due.pop(key)
            times, _ = self._tried.get((key, code), (0, 0.0))
            pause = back_off((PACE, LONGEST_PAUSE), times)
            self._tried[key, code] = times + 1, now.timestamp() + pause
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
            if explanation is None or group is None or not group.source.kind:
                continue
            if not state.lacks or state.holds or state.planned:  # it starts
                continue
            code = explanation.code
            known = since.get(gang)
            self._since[gang] = known if known is not None and known[0] is code else (code, at)
            was = told.get(gang)
            same = was is not None and was[0] is group and was[1] is code
            settled = at >= self._since[gang][1] + PATIENCE
            if same or (settled and not self._find(group, code, now, before)):
                self._told[gang] = group, code
        kept = {key: self._again[key] for key in turns if key in self._again}
        self._again = kept | self._again  # a pod that waits keeps its turn

    def _find(
        self, group: Group, code: Code, now: datetime, before: Mapping[tuple[str, Code], tuple[int, float]]
    ) -> bool:
        """Adds the patches of one gang. Returns whether there are any. `before`: what was tried until now."""
        found = False
        unbound = [member.pod for member in group.members.values() if not member.pod.spec.node_name]
        for pod in sorted(unbound, key=lambda pod: (pod.metadata.namespace, pod.metadata.name)):
            if body := member_waits(pod, group, code, now):
                meta = pod.metadata
                patch = Patch(kinds.POD, meta.namespace, meta.name, body, "status", False)
                found, key = True, _key(patch)
                tried = before.get((key, code), (0, 0.0))
                if tried[0]:
                    self._tried[key, code] = tried
                if key not in self._flying and now.timestamp() >= tried[1]:
                    told = condition(pod.status.conditions, SCHEDULED) is not None
                    (self._again if told else self._first)[key] = patch, code
        return found


def _key(patch: Patch) -> str:
    return f"{patch.namespace}/{patch.name}"
