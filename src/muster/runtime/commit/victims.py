"""Evicts victims: a whole gang in one write if its owner can be suspended, otherwise pods one by one."""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.api import kinds
from muster.api.core_v1 import Pod
from muster.effects import Evict, Patch
from muster.names import CHECKPOINT_REQUESTED, SCHEDULER
from muster.runtime.commit.view import GangView, Victim
from muster.runtime.consent import entry, noted
from muster.runtime.writes import Write, create_gang, delete_plan, patch_gang, suspend
from muster.translate.pods import live
from muster.translate.status import time_of

#: Most entries of a Gang's `status.preemptions`; the oldest are removed first.
MOST_PREEMPTIONS: Final = 20
_PREEMPTING: Final = "preempting to accommodate higher priority pods"


def end_victims(victims: Iterable[Victim], by: GangView, now: float) -> Iterator[Write]:
    """Yields the writes by which a gang still has to evict victims; none while all their pods are leaving.

    A victim with a grace period is first asked to save its work. It is evicted once it has, or once the grace
    period is over.
    """
    for victim in victims:
        alive = [pod for pod in victim.pods if live(pod)]
        owner = victim.owner
        if not alive or (owner is not None and owner.suspended):
            continue
        if now < saves_until(victim):
            yield from _requests(victim, alive)
            continue
        if victim.record is None and victim.group is not None and victim.group.source.kind:
            yield create_gang(victim.group, {})
            continue  # its eviction waits until the record names it
        if (note := _preempted(victim, by)) is not None:
            yield note
        if victim.recorded.whole:
            yield from map(delete_plan, victim.plans)
        if owner is not None:
            yield suspend(alive[0].metadata.namespace, owner)
        else:
            for pod in alive:
                preemptor = by.names.gang(by.id, {pod.metadata.namespace})
                yield Evict(pod, f"makes room for {preemptor}", disruption=_disruption(victim, by, pod))


def _disruption(victim: Victim, by: GangView, pod: Pod) -> str:
    """Returns the message of DisruptionTarget, in the words of Koordinator where they are true.

    Source: koordinator, pkg/scheduler/plugins/coscheduling/core/preemption.go.
    """
    own = {pod.metadata.namespace}
    members = by.group.members.ready.values() if by.group is not None else ()
    trigger = min(members, key=lambda one: one.key, default=None)
    scheduler = trigger.spec.scheduler_name if trigger is not None else ""
    what = "reclaiming what its queue has above its share" if victim.recorded.reclaimed else _PREEMPTING
    message = f"{scheduler or SCHEDULER}: {what}, preemptor: {by.names.gang(by.id, own)}"
    if trigger is None or not by.names.may_name(trigger.key, own):
        return message
    return f"{message}, triggerPod: {trigger.key}"


def begun(victims: Iterable[Victim]) -> Iterator[Victim]:
    """Yields the victims of which some pods are gone or leaving, so that the rest must follow."""
    for victim in victims:
        if 0 < sum(map(live, victim.pods)) < len(victim.recorded.pods):
            yield victim


def saves_until(victim: Victim) -> float:
    """Returns until when the victim may save its work; 0.0 if it has, cannot, or is leaving already."""
    recorded, group = victim.recorded, victim.group
    if group is None or not group.gang.checkpoint_grace or any(True for _ in begun([victim])):
        return 0.0
    saved = group.gang.checkpointed
    return recorded.at + group.gang.checkpoint_grace if saved is None or saved < recorded.at else 0.0


def _requests(victim: Victim, pods: Iterable[Pod]) -> Iterator[Patch]:
    """Annotates the pods of a victim with the time since which muster waits for a checkpoint."""
    since = time_of(victim.recorded.at)
    for pod in pods:
        meta = pod.metadata
        if meta.annotations.get(CHECKPOINT_REQUESTED) != since:
            body = {"metadata": {"uid": meta.uid, "annotations": {CHECKPOINT_REQUESTED: since}}}
            yield Patch(kinds.POD, meta.namespace, meta.name, body, seen=meta.resource_version)


def _preempted(victim: Victim, by: GangView) -> Patch | None:
    """Notes in the victim's record which gang preempted it, when, and at what loss; None if already noted.

    The note is written before the victim is evicted, and after its checkpoint if it was asked for one: the
    loss is counted then. The preemptor and the time of the decision identify a note, so neither a crash nor
    a change of leader loses or duplicates it. Its epoch has a late plan of the victim refused, as
    every status does (`writes`).
    """
    record, recorded = victim.record, victim.recorded
    if record is None or noted(record, recorded, by.id, victim.key):
        return None
    own = {record.metadata.namespace}
    key = {} if by.names.may_name(by.id, own) else {"key": victim.key}
    loss = {"lostResourceSeconds": round(recorded.work_lost, 3), **by.lost(victim)}
    note = {**entry(recorded, by.names.gang(by.id, own)), **key, **loss}
    notes = [*record.status.preemptions[1 - MOST_PREEMPTIONS :], note]
    status = {"preemptions": notes, "epoch": by.epoch, "attempt": record.status.attempt}
    return patch_gang(record, {"status": status})
