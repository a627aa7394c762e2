"""Ends victims: a whole gang in one write if its owner can be suspended, otherwise pods one by one."""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.core.words.gang import GangId
from muster.runtime.commit.view import Victim
from muster.runtime.consent import entry
from muster.runtime.plan import Leaving
from muster.runtime.writes import CreateGang, DeletePlan, EvictPod, PatchGangStatus, Suspend, Write
from muster.translate.pods import live
from muster.translate.status import gang_record

#: Most entries of a Gang's `status.preemptions`; the oldest are removed first.
MOST_PREEMPTIONS: Final = 20


def end_victims(victims: Iterable[Victim], by: GangId) -> Iterator[Write]:
    """Yields the writes that are still needed to end the victims; none while all their pods are leaving."""
    for victim in victims:
        alive = [pod for pod in victim.pods if live(pod)]
        owner = victim.owner
        if not alive or (owner is not None and owner.suspended):
            continue
        if victim.record is None and victim.group is not None and victim.group.source.kind:
            group = victim.group
            yield CreateGang(group.namespace, group.record, gang_record(group))
            continue  # its eviction waits until the record names it
        if (told := _preempted(victim.record, victim.recorded, by)) is not None:
            yield told
        if victim.recorded.whole:
            yield from map(DeletePlan, victim.plans)
        if owner is not None:
            yield Suspend(alive[0].metadata.namespace, owner)
        else:
            yield from (EvictPod(pod, f"makes room for {by}") for pod in alive)


def begun(victims: Iterable[Victim]) -> Iterator[Victim]:
    """Yields the victims of which some pods are gone or leaving, so that the rest must follow."""
    for victim in victims:
        if 0 < sum(map(live, victim.pods)) < len(victim.recorded.pods):
            yield victim


def _preempted(record: GangRecord | None, victim: Leaving, by: GangId) -> PatchGangStatus | None:
    """Notes in the victim's record which gang preempted it, when, and at what loss; None if already noted.

    The note is written before the victim is ended. Every leader writes the same note, so neither a crash nor
    a change of leader loses or duplicates it.
    """
    if record is None:
        return None
    told, known = entry(victim, by), record.status.preemptions
    if told in known:
        return None
    meta = record.metadata
    body = {"status": {"preemptions": [*known[1 - MOST_PREEMPTIONS :], told]}}
    return PatchGangStatus(meta.namespace, meta.name, meta.resource_version, body)
