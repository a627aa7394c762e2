"""Writes the status of a gang that is being committed: its phase, its reason, its attempt."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import msgspec

from muster.api import kinds
from muster.api.base import Object, condition
from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.api.muster_v1alpha1 import GangSpec, GangStatus
from muster.core.words.decisions import Explanation
from muster.core.words.gang import Code
from muster.effects import Create, Patch
from muster.runtime.commit.context import Context
from muster.runtime.commit.places import minimum_met
from muster.runtime.commit.refreshes import Refresh
from muster.runtime.commit.refusals import refusals, unfreed
from muster.runtime.commit.view import GangView, Step
from muster.runtime.plan_record import RecreationPlan
from muster.runtime.writes import create_gang, patch_gang, without_nulls
from muster.translate.disclosure import POD
from muster.translate.group import Group
from muster.translate.status import SCHEDULED, Phase, gang_spec, gang_status, unschedulable

#: Most pods that a message names.
NAMED: Final = 3


def write_status(context: Context) -> Step:
    """Writes the gang's status if it has changed and was not written within the last moment.

    A reason is written again only when it is the gang's turn.
    """
    state, now = context.state, context.now
    write = _status_write(context)
    if write is None:
        return Step(state)
    if isinstance(write, Create) and not state.reported_at and _arrives(context):
        return Step(replace(state, reported_at=now), wake=now + context.limits.report)
    refresh = _refresh(context, write)
    pause = context.limits.figures if refresh is Refresh.FIGURES else context.limits.report
    if _changes(context.view.record, write) == {"bound"}:
        pause = context.limits.count
    if isinstance(write, Create) and not _arrives(context):
        pause /= 2  # nothing has been reported yet
    if now < state.reported_at + pause:
        return Step(state, wake=state.reported_at + pause)
    if refresh is not None and not context.view.refreshes:
        return Step(state, wants=refresh)
    return Step(replace(state, reported_at=now), (write,))


def _refresh(context: Context, write: Create | Patch) -> Refresh | None:
    """Returns how a write differs from the last one if it only writes a reason again; else None."""
    if not isinstance(write.body, dict):
        return None
    if write.kind is kinds.POD:  # a gang of one: the message begins with the code
        pod = next(iter(context.places.ready.values()))
        old = condition(pod.status.conditions, SCHEDULED)
        (new,) = (one for one in write.body["status"]["conditions"] if one["type"] == SCHEDULED)
        if old is None or old.status != new["status"]:
            return None
        if old.reason != new["reason"]:
            return Refresh.REASON  # autoscalers act on it
        was, now = old.message.partition(":")[0], new["message"].partition(":")[0]
        return Refresh.FIGURES if was == now else Refresh.REASON
    record = context.view.record
    if record is None or record.status.reason is None:
        return None
    changed = _changes(record, write) - {"bound"}
    reason = write.body["status"]["reason"]
    if not changed or reason is None or not changed <= {"reason", "explanation"}:
        return None
    return Refresh.FIGURES if reason["code"] == record.status.reason.code else Refresh.REASON


def _arrives(context: Context) -> bool:
    """Whether the gang waits only for pods to be created, which usually happens within a second."""
    explanation = _explanation(context)
    return explanation is not None and explanation.code is Code.MEMBERS_MISSING


def status_patch(
    view: GangView, group: Group, phase: Phase, explanation: Explanation | None, attempt: int
) -> Patch | None:
    """Returns the write that sets this status; None if it is set already, or if there is no record."""
    if view.record is None:
        return None
    patch = patch_gang(view.record, _body(view, group, phase, explanation, attempt))
    return patch if _changes(view.record, patch) else None


def _changes(record: GangRecord | None, write: Create | Patch) -> set[str]:
    """Returns which reported fields of a Gang's status a patch changes, and "spec" if it changes the spec."""
    if record is None or not isinstance(write.body, dict) or write.kind is not kinds.GANG:
        return set()
    status = msgspec.convert(without_nulls(write.body["status"]), GangStatus)
    changed = {name for name in _REPORTED if getattr(status, name) != getattr(record.status, name)}
    return changed | ({"spec"} & write.body.keys())


def _body(
    view: GangView, group: Group, phase: Phase, explanation: Explanation | None, attempt: int
) -> Object:
    """Returns the merge patch that sets this status."""
    body = gang_status(group, view.names, phase, explanation, epoch=view.epoch, attempt=attempt)
    body["status"]["bound"] = len(group.members.filled)
    return {**body, **changed_spec(view.record, group)}


def changed_spec(record: GangRecord | None, group: Group) -> Object:
    """Returns what a patch of a Gang must contain besides the status: the spec, if it has changed."""
    spec = gang_spec(group)
    known = record is None or msgspec.convert(spec, GangSpec) == record.spec
    return {} if known else {"spec": spec}


def degraded(context: Context) -> Explanation:
    group, places, giving_up = context.group, context.places, context.state.giving_up
    awaited = places.missing.keys() - places.ready.keys()
    if awaited and not giving_up:
        nodes = ", ".join(sorted({places.missing[place] for place in awaited}))
        message = (
            f"{len(awaited)} of its pods {'is' if len(awaited) == 1 else 'are'} gone, with no controller to "
            f"re-create them; places for equal pods are held on {nodes}"
        )
        return Explanation(Code.MEMBERS_MISSING, "commit", message)
    lacking = max(group.gang.min_count - len(places.settled), 0)
    message = (
        f"{len(places.filled)} of at least {group.gang.min_count} pods run and {lacking} are missing"
        f"{f' ({giving_up})' if giving_up else ''}; they have no controller that would "
        "re-create them, so muster does not delete them. The missing pods have first claim on freed resources"
    )
    return Explanation(Code.COMMIT_FAILED, "commit", message)


def _status_write(context: Context) -> Create | Patch | None:
    view, group, places = context.view, context.group, context.places
    if view.unfenced is not None and view.unfenced.foreign:
        return None
    if not group.source.kind:  # a gang of one has no record: its pod has the status
        pod = next(iter(places.ready.values()), None)
        explanation = _explanation(context)
        if pod is None or explanation is None or view.assigned:
            return None
        body = unschedulable(pod, explanation, view.names, datetime.fromtimestamp(context.now, UTC))
        meta = pod.metadata
        seen = meta.resource_version
        return Patch(kinds.POD, meta.namespace, meta.name, body, "status", False, seen) if body else None
    phase, explanation = _phase(context)
    if view.unfenced is not None:
        explanation = Explanation(Code.COMMIT_FAILED, "commit", view.unfenced.message)
    if view.record is None:
        if group.lease and not group.gang.pod_sets:
            return None  # a PodGroup without pods: they will say which scheduler it belongs to
        known = explanation is not None or phase is not Phase.WAITING
        if not known:
            return None
        return create_gang(group, _body(view, group, phase, explanation, context.state.attempt))
    attempt = max(context.state.attempt, view.record.status.attempt)
    return status_patch(view, group, phase, explanation, attempt)


def _explanation(context: Context) -> Explanation | None:
    """Returns why the gang waits: the server's own words if it is for a refused member, or claim."""
    explanation = context.view.explanation
    if kept := unfreed(context):
        return Explanation(Code.COMMIT_FAILED, "commit", kept[min(kept)].message)
    if explanation is not None and explanation.code is not Code.COMMIT_FAILED:
        return explanation
    if refused := refusals(context):
        return Explanation(Code.COMMIT_FAILED, "commit", refused[min(refused)].message)
    return explanation


def _phase(context: Context) -> tuple[Phase, Explanation | None]:
    view, group, places = context.view, context.group, context.places
    explanation = _explanation(context)
    plan = view.plans[-1] if view.plans else None
    if isinstance(plan, RecreationPlan):
        message = f"its pods are re-created: {plan.why}"
        phase = Phase.DEGRADED if plan.alone and places.filled else Phase.WAITING
        return phase, Explanation(Code.COMMIT_FAILED, "commit", message)
    if plan is not None:
        leaving = sorted(pod.key for victim in view.victims for pod in victim.pods)
        if leaving:
            few = view.names.text(", ".join(leaving[:NAMED]), group.namespaces, POD)
            few += f" and {len(leaving) - NAMED} more" * (len(leaving) > NAMED)
            several = f"{len(leaving)} pods that make room for it are"
            some = "1 pod that makes room for it is" if len(leaving) == 1 else several
            message = f"its places are promised; {some} leaving: {few}{context.last_error}"
            return Phase.NOMINATED, Explanation(Code.WAITING_FOR_VICTIMS, "commit", message)
        if explanation is not None and explanation.code is Code.COMMIT_FAILED and not places.filled:
            return Phase.WAITING, explanation  # it is retried: for people, nothing has changed
        return (Phase.STARTING if places.filled else Phase.NOMINATED), None
    if minimum_met(group.gang, places.settled):
        more = places.ready.keys() - places.missing.keys()  # pods above the gang's minimum, which wait
        return Phase.STANDING, explanation if more else None
    if places.filled and not group.controlled:
        return Phase.DEGRADED, explanation or degraded(context)
    if places.missing:  # some of the missing places, perhaps; the others may still be taken
        return Phase.NOMINATED, explanation
    return Phase.WAITING, explanation


#: Fields of the status of which a change is worth a write.
_REPORTED: Final = ("phase", "reason", "explanation", "attempt", "warnings", "bound")
