"""Translates core outcomes into what people read: Gang records, and PodScheduled of a gang of one.

Everything here is bounded, because it is written into objects: if a message, a blocker list or a reason
grew with the cluster, the API server would refuse the very object that explains the problem.
"""

from collections.abc import Collection
from datetime import datetime
from enum import Enum
from typing import Final

import msgspec

from muster import names
from muster.api import times
from muster.api.base import Condition, Object, condition, controller_of
from muster.api.core_v1 import Pod
from muster.api.kinds import GANG
from muster.core.words.decisions import Explanation
from muster.core.words.gang import Code
from muster.translate.disclosure import Disclosure
from muster.translate.group import Group

LONGEST_MESSAGE: Final = 1024  # characters
#: most pod sets, blockers and remedies of an explanation, each
MOST_LISTED: Final = 50
#: most entries for what keeps pods off nodes, per pod set
MOST_LIMITS: Final = 20
#: The condition of pods that autoscalers look at, and the reason for which they add nodes.
SCHEDULED: Final = "PodScheduled"
UNSCHEDULABLE: Final = "Unschedulable"
#: Reasons that more nodes may end: the gang may start, as far as gates, caps and quotas go. The share of a
#: queue grows with the cluster, so OverShare is one of them.
HELPED_BY_NODES: Final = frozenset(
    {
        Code.OVER_SHARE,
        Code.NOTHING_MATCHES,
        Code.HELD_FOR_RESERVATION,
        Code.INSUFFICIENT_CAPACITY,
        Code.TOPOLOGY_UNSATISFIED,
        Code.CONSTRAINT_UNSATISFIED,
        Code.FRAGMENTED,
    }
)
#: most pod sets of a record
MOST_POD_SETS: Final = 500


class Phase(Enum):
    """The phase of a gang (docs/reference/glossary.md, "From waiting to running")."""

    WAITING = "Waiting"
    NOMINATED = "Nominated"
    STARTING = "Starting"
    STANDING = "Standing"
    FINISHED = "Finished"
    DEGRADED = "Degraded"

    @classmethod
    def of(cls, written: str) -> "Phase | None":
        """The phase that a status names, also as versions before 0.2 wrote it; None if it names none."""
        return _PHASES.get(written)


_PHASES: Final = {phase.value: phase for phase in Phase} | {"Held": Phase.NOMINATED}


def gang_record(group: Group) -> Object:
    """Returns the body that creates the Gang record: with its finalizer, owned by its group object.

    The owner reference does not block the owner's deletion: the finalizer is removed only after the owner.
    """
    metadata: Object = {
        "name": group.record,
        "namespace": group.namespace,
        "finalizers": [names.GANG_FINALIZER],
    }
    owner = _owner(group)
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    return {
        "apiVersion": GANG.api_version,
        "kind": GANG.kind,
        "metadata": metadata,
        "spec": gang_spec(group),
    }


def gang_spec(group: Group) -> Object:
    """Returns `spec` of the Gang record; under "spec" it is also a merge patch when it has changed."""
    gang = group.gang
    return {
        "queue": gang.queue,
        "priority": gang.priority,
        "minCount": gang.min_count,
        "podSets": [
            {
                "name": pod_set.name,
                "group": group.set_groups.get(pod_set.name, group.source.name),
                "count": pod_set.count,
                "minCount": pod_set.min_count,
            }
            for pod_set in gang.pod_sets[:MOST_POD_SETS]
        ],
        "source": msgspec.to_builtins(group.source),
        **({"lease": group.lease} if group.lease else {}),
    }


def gang_status(
    group: Group,
    names: Disclosure,
    phase: Phase,
    explanation: Explanation | None = None,
    *,
    epoch: int | None = None,
    attempt: int | None = None,
) -> Object:
    """Returns a merge patch for the status of a Gang; `names`: which gangs it may name.

    It sets phase, reason, explanation, expectedStart and warnings, and epoch and attempt if given. Without an
    explanation it removes the existing one. It changes nothing else: counts and conditions are the gang
    controller's.
    """
    status: Object = {"phase": phase.value, "reason": None, "explanation": None, "expectedStart": None}
    if explanation is not None:
        shown = explained(explanation, names, group.namespaces)
        status |= {
            "reason": {"code": shown["code"], "message": shown["message"]},
            "explanation": shown,
            "expectedStart": shown["expectedStart"] and shown["expectedStart"]["at"],
        }
    if epoch is not None:
        status["epoch"] = epoch
    if attempt is not None:
        status["attempt"] = attempt
    status["warnings"] = [_cut(warning) for warning in group.warnings[:MOST_LISTED]] or None
    return {"status": status}


def preemption(by: str, at: float, pods: int | None, *, reclaimed: bool) -> Object:
    """Returns an entry of a victim's `status.preemptions` without its loss.

    `pods`: how many of its surplus; None: all.
    """
    kind = "reclaim" if reclaimed else "preemption"
    entry: Object = {"by": by, "at": time_of(at), "kind": kind}
    return entry if pods is None else {**entry, "pods": pods}


def explained(explanation: Explanation, names: Disclosure, own: Collection[str] = ()) -> Object:
    """Returns an explanation as JSON (docs/reference/names.md), for users of the namespaces `own`."""
    expected = explanation.expected_start

    def told(text: str) -> str:
        return _cut(names.text(text, own))

    return {
        "code": explanation.code.value,
        "stage": explanation.stage,
        "message": told(explanation.message),
        "podSets": [
            {
                "name": pod_set.name,
                "wanted": pod_set.wanted,
                "fits": pod_set.fits,
                "limitedBy": dict(sorted(pod_set.limited_by.items())[:MOST_LIMITS]),
            }
            for pod_set in explanation.pod_sets[:MOST_LISTED]
        ],
        "blockers": names.gangs(explanation.blockers[:MOST_LISTED], own),
        "remedies": [
            {"change": told(remedy.change), "effect": told(remedy.effect)}
            for remedy in explanation.remedies[:MOST_LISTED]
        ],
        "expectedStart": None
        if expected is None
        else {
            "at": None if expected.at is None else time_of(expected.at),
            "basis": told(expected.basis),
        },
    }


def unschedulable(pod: Pod, explanation: Explanation, names: Disclosure, now: datetime) -> Object | None:
    """Returns a merge patch for `pods/status` of a gang of one; None if the pod has that condition already.

    The reasons are Kubernetes' own where a node or a gate is missing, and else muster's code: autoscalers add
    nodes for pods that are Unschedulable, and for no others.
    """
    if pod.spec.scheduling_gates:
        reason = "SchedulingGated"
    else:
        reason = UNSCHEDULABLE if explanation.code in HELPED_BY_NODES else explanation.code.value
    told = names.text(explanation.message, {pod.metadata.namespace})
    message = _cut(f"{explanation.code.value}: {told}")
    return _not_scheduled(pod, reason, message, now)


def member_waits(pod: Pod, group: Group, code: Code, now: datetime, *, lasting: bool) -> Object | None:
    """Returns a merge patch for `pods/status` of an unbound member; None if there is nothing to say.

    All members of a gang that waits for capacity are Unschedulable, so that autoscalers make room for all.
    Those of an Invalid gang say so, and those of a gang that has waited for others, or for its group object,
    for a while (`lasting`). If the gang waits for anything else, a member that was Unschedulable no longer
    is. The message has no numbers that change often, which would cost a write for each pod.
    """
    if pod.spec.scheduling_gates:
        return None  # the API server has said so
    old = condition(pod.status.conditions, SCHEDULED)
    if code in HELPED_BY_NODES:
        message = f"the gang of {group.gang.min_count} or more pods waits for room for all of them at once"
        return _not_scheduled(pod, UNSCHEDULABLE, f"{message}; Gang {group.record} says more", now)
    told = code is Code.INVALID or (code is Code.MEMBERS_MISSING and lasting)
    if not told and (old is None or old.reason != UNSCHEDULABLE):
        return None
    return _not_scheduled(pod, code.value, f"Gang {group.record} says more", now)


def nominates(pod: Pod, node: str) -> Object | None:
    """Returns a merge patch for `pods/status` of an unbound pod: a place on this node is held for it.

    None if the pod shows that already. `node` "": no place is held. Source: kubernetes,
    pkg/scheduler/schedule_one.go (updatePod).
    """
    if pod.status.nominated_node_name == node:
        return None
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node or None}}


def _not_scheduled(pod: Pod, reason: str, message: str, now: datetime) -> Object | None:
    """Returns the merge patch that sets PodScheduled=False; None if the pod has that already.

    It is conditional on the pod's uid and resourceVersion, as a merge patch replaces the whole list of
    conditions.
    """
    old = condition(pod.status.conditions, SCHEDULED)
    new = Condition(
        type=SCHEDULED,
        status="False",
        reason=reason,
        message=message,
        last_transition_time=old.last_transition_time if old is not None and old.status == "False" else now,
    )
    if old is not None and (old.status, old.reason, old.message) == (new.status, new.reason, new.message):
        return None
    others = [one for one in pod.status.conditions if one.type != new.type]
    return {
        "metadata": {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version},
        "status": {"conditions": msgspec.to_builtins([*others, new])},
    }


def _owner(group: Group) -> Object | None:
    """Returns what owns the record: the group object, else the controller of all its pods, else None."""
    source = group.source
    if source.uid:
        api_version, kind, name, uid = source.api_version, source.kind, source.name, source.uid
    else:
        controllers = {controller_of(member.pod) for member in group.members.values()}
        found = controllers.pop() if len(controllers) == 1 else None
        if found is None:
            return None
        api_version, kind, name, uid = found.api_version, found.kind, found.name, found.uid
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": False,
        "blockOwnerDeletion": False,
    }


def time_of(at: float) -> str:
    """Returns seconds since the epoch as RFC 3339."""
    return times.written(times.after(times.FIRST, at))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 1]}…"
