"""Decides which victims of a recorded plan count.

A plan is in the namespace of its gang, and its blob names the gang's victims. A user who may create GangPlans
in one namespace must not be able to evict pods of another. Therefore a victim of another namespace counts
only if the victim's own Gang names the preemption, too: its `status.preemptions` has the entry that the
leader writes there before it evicts anything. A leader that dies between the plan and that entry has evicted
nothing; the next leader decides again.

Where the victim's namespace must not read the name of the gang (`translate.disclosure`), the entry has a key
instead: a hash of the name and of the uid of the gang's record, which only readers of its namespace know.
"""

import hashlib
from collections.abc import Mapping
from typing import Protocol

from muster.api import kinds
from muster.api.base import AnyKind, Object, Resource
from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.api.times import seconds
from muster.core.words.gang import GangId
from muster.runtime.plan_record import PlacementPlan, VictimRef, occupying
from muster.translate.group import Group
from muster.translate.status import preemption


class Known(Protocol):
    """What this module reads of the mirror."""

    @property
    def groups(self) -> Mapping[GangId, Group]: ...

    def find(self, kind: AnyKind, key: str) -> Resource | None: ...


def agreed(plan: PlacementPlan, gang: GangId, victim: VictimRef, known: Known) -> bool:
    """Whether the plan's record alone suffices to end `victim` of `gang`'s plan."""
    group = known.groups.get(victim.gang)
    if _namespaces(victim, group) == {plan.namespace}:
        return True
    if group is None:
        return False
    record = known.find(kinds.GANG, f"{group.namespace}/{group.record}")
    if not isinstance(record, GangRecord) or not noted(record, victim, gang, key_of(gang, plan, known)):
        return False
    pods = filter(None, (occupying(ref, known.find) for ref in victim.pods))
    members = group.members.keys() | group.leaving.keys()
    return all(pod.metadata.uid in members and _was_there(pod, victim.at) for pod in pods)


def key_of(gang: GangId, plan: PlacementPlan, known: Known) -> str:
    """Returns what identifies the gang of a plan to muster, and tells nothing to those who read it."""
    record = known.find(kinds.GANG, f"{plan.namespace}/{plan.record}")
    uid = record.metadata.uid if record is not None else ""
    return hashlib.sha256(f"{uid} {gang}".encode()).hexdigest()[:16]


def noted(record: GangRecord, victim: VictimRef, by: GangId, key: str) -> bool:
    """Whether the victim's record has this preemption, whatever loss was computed when it was written."""
    named, keyed = entry(victim, by).items(), {**entry(victim, ""), "key": key}.items() - {("by", "")}
    return any(named <= said.items() or keyed <= said.items() for said in record.status.preemptions)


def entry(victim: VictimRef, by: str) -> Object:
    """Returns the victim's entry in `status.preemptions` without its loss: equal for every leader."""
    pods = None if victim.whole else len(victim.pods)
    return preemption(by, victim.at, pods, reclaimed=victim.reclaimed)


def _namespaces(victim: VictimRef, group: Group | None) -> set[str]:
    """Returns the namespaces in which ending the victim has an effect."""
    found = {pod.namespace for pod in victim.pods} | {victim.gang.partition("/")[0]}
    return found | ({group.namespace} if group is not None else set())


def _was_there(pod: Pod, at: float) -> bool:
    """Whether the pod existed at `at`: an entry does not permit ending the pods of a later start."""
    return seconds(pod.metadata.creation_timestamp) <= at
