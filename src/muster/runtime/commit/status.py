"""Writes the status of a gang that is being committed: its phase, its reason, its attempt."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import msgspec

from muster.api.base import Object
from muster.api.muster_v1alpha1 import GangSpec, GangStatus
from muster.core.words.decisions import Explanation
from muster.core.words.gang import Code
from muster.runtime.commit.places import Places, minimum_met
from muster.runtime.commit.view import GangView, Limits, Memory, Step
from muster.runtime.writes import CreateGang, PatchGang, PatchGangStatus, PatchPodStatus, Write
from muster.translate.group import Group
from muster.translate.status import Phase, gang_record, gang_spec, gang_status, unschedulable


def tell(view: GangView, group: Group, memory: Memory, now: float, limits: Limits) -> Step:
    """Writes the gang's status if it has changed and was not written within the last moment."""
    write = _told(view, group, memory, now)
    if write is None:
        return Step(memory)
    if now < memory.told_at + limits.tell:
        return Step(memory, wake=memory.told_at + limits.tell)
    if not isinstance(write, CreateGang):  # a new record has no status yet: its first reason follows at once
        memory = replace(memory, told_at=now)
    return Step(memory, (write,))


def status_patch(
    view: GangView, group: Group, phase: Phase, explanation: Explanation | None, attempt: int
) -> PatchGangStatus | None:
    """Returns the write that sets this status; None if it is set already, or if there is no record."""
    if view.record is None:
        return None
    body = gang_status(phase, explanation, epoch=view.epoch, attempt=attempt, warnings=group.warnings)
    wanted = msgspec.convert(_without_nulls(body["status"]), GangStatus)
    is_now = view.record.status
    if all(getattr(wanted, name) == getattr(is_now, name) for name in _TOLD):
        return None
    return PatchGangStatus(group.namespace, group.record, view.record.metadata.resource_version, body)


def degraded(group: Group, places: Places, memory: Memory) -> Explanation:
    awaited = places.missing.keys() - places.ready.keys()
    if awaited and not memory.giving_up:
        nodes = ", ".join(sorted({places.missing[place] for place in awaited}))
        message = (
            f"{len(awaited)} of its pods {'is' if len(awaited) == 1 else 'are'} gone, with no controller to "
            f"re-create them; places for equal pods are held on {nodes}"
        )
        return Explanation(Code.MEMBERS_MISSING, "commit", message)
    lacking = max(group.gang.min_count - len(places.settled), 0)
    message = (
        f"{len(places.filled)} of at least {group.gang.min_count} pods run and {lacking} are missing"
        f"{f' ({memory.giving_up})' if memory.giving_up else ''}; they have no controller that would "
        "re-create them, so muster does not delete them. The missing pods have first claim on freed resources"
    )
    return Explanation(Code.COMMIT_FAILED, "commit", message)


def _told(view: GangView, group: Group, memory: Memory, now: float) -> Write | None:
    places = Places(view, group, memory, now)
    if not group.source.kind:  # a gang of one has no record: its pod has the status
        pod = next((pod for pod in places.ready.values()), None)
        if pod is None or view.explanation is None or view.assigned:
            return None
        body = unschedulable(pod, view.explanation, datetime.fromtimestamp(now, UTC))
        return PatchPodStatus(pod, body) if body else None
    phase, explanation = _phase(view, group, places, memory)
    if view.fenced is not None:
        explanation = Explanation(Code.COMMIT_FAILED, "commit", view.fenced.message)
    if view.record is None:
        known = explanation is not None or phase is not Phase.WAITING
        return CreateGang(group.namespace, group.record, gang_record(group)) if known else None
    spec = gang_spec(group)
    if msgspec.convert(spec, GangSpec) != view.record.spec:
        version = view.record.metadata.resource_version
        return PatchGang(group.namespace, group.record, version, {"spec": spec})
    return status_patch(view, group, phase, explanation, max(memory.attempt, view.record.status.attempt))


def _phase(view: GangView, group: Group, places: Places, memory: Memory) -> tuple[Phase, Explanation | None]:
    if view.plans and view.plans[-1].remade:
        message = f"its pods are re-created: {view.plans[-1].why}"
        return Phase.WAITING, Explanation(Code.COMMIT_FAILED, "commit", message)
    if view.plans:
        leaving = sum(len(victim.pods) for victim in view.victims)
        if leaving:
            message = f"its places are promised; {leaving} pods that make room for it are leaving"
            return Phase.HELD, Explanation(Code.WAITING_FOR_VICTIMS, "commit", message)
        return (Phase.STARTING if places.filled else Phase.HELD), None
    if minimum_met(group.gang, places.settled):
        more = places.ready.keys() - places.missing.keys()  # pods above the gang's minimum, which wait
        return Phase.STANDING, view.explanation if more else None
    if places.filled and not group.controlled:
        return Phase.DEGRADED, view.explanation or degraded(group, places, memory)
    if places.missing:  # some of the lacking places, perhaps; the others may still be taken
        return Phase.HELD, view.explanation
    return Phase.WAITING, view.explanation


#: Fields of the status of which a change is worth a write.
_TOLD: Final = ("phase", "reason", "explanation", "attempt", "warnings")


def _without_nulls(patch: Object) -> Object:
    """Returns what a merge patch leaves in the object."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in patch.items()
        if value is not None
    }
