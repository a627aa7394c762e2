"""Ends victims: a whole gang in one write if its owner can be suspended, otherwise pods one by one."""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.core.words.gang import GangId
from muster.effects import Evict, Patch
from muster.runtime.commit.view import Victim
from muster.runtime.consent import entry
from muster.runtime.plan import VictimRef
from muster.runtime.writes import Write, create_gang, delete_plan, patch_gang, suspend
from muster.translate.pods import live

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
            yield create_gang(victim.group, {})
            continue  # its eviction waits until the record names it
        if (note := _preempted(victim.record, victim.recorded, by)) is not None:
            yield note
        if victim.recorded.whole:
            yield from map(delete_plan, victim.plans)
        if owner is not None:
            yield suspend(alive[0].metadata.namespace, owner)
        else:
            yield from (Evict(pod, f"makes room for {by}") for pod in alive)


def begun(victims: Iterable[Victim]) -> Iterator[Victim]:
    """Yields the victims of which some pods are gone or leaving, so that the rest must follow."""
    for victim in victims:
        if 0 < sum(map(live, victim.pods)) < len(victim.recorded.pods):
            yield victim


def _preempted(record: GangRecord | None, victim: VictimRef, by: GangId) -> Patch | None:
    """Notes in the victim's record which gang preempted it, when, and at what loss; None if already noted.

    The note is written before the victim is ended. Every leader writes the same note, so neither a crash nor
    a change of leader loses or duplicates it.
    """
    if record is None:
        return None
    note, known = entry(victim, by), record.status.preemptions
    if note in known:
        return None
    return patch_gang(record, {"status": {"preemptions": [*known[1 - MOST_PREEMPTIONS :], note]}})
