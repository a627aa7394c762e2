"""Who may act: the term of a leader, and how it takes over from one that may not know it is over.

Two schedulers must never act on two different views. An epoch counts the terms. On the embedded cluster
a file lock proves that nobody else is there, and each start raises the epoch (`sole`). On a real
cluster the epoch is the number of times a lease has changed hands, and a leader acts only while it can
prove, by its own monotonic clock, that its lease is fresh (`fresh`). Election itself is not here yet:
whoever runs the scheduler brings its term along.

A clock cannot stop a write that is already on its way. Therefore a new leader first *touches* what an
earlier one could still write to: unbound members (binds carry their resourceVersion), and the owners of
open plans and of their victims (suspending and resuming tests theirs). A touch writes the epoch into an
annotation, so it is also how a leader that is still alive learns that it has been deposed: it stops at
the first epoch higher than its own that any object tells of.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from muster.api.base import Resource
from muster.api.kinds import BY_NAME, POD
from muster.core.gang import GangId
from muster.names import EPOCH
from muster.runtime.committer import Observed
from muster.runtime.plan import OwnerRef
from muster.runtime.writes import AnyKind, Touch


class Deposed(Exception):
    """Another leader has taken over; nothing more may be written."""

    def __init__(self, epoch: int, seen: int) -> None:
        super().__init__(f"epoch {seen} has begun; this leader's was {epoch}")


@dataclass(frozen=True, slots=True)
class Term:
    epoch: int
    #: nobody else can be acting: there is nothing to touch
    sole: bool = False
    #: whether the lease is provably held now
    fresh: Callable[[], bool] = lambda: True


def touches(observed: Observed, epoch: int) -> Iterator[Touch]:
    """What a new leader touches before it reads anything as settled; nothing that it has touched before."""
    seen: set[str] = set()
    for kind, obj in _in_reach(observed):
        if obj.metadata.uid in seen or obj.metadata.annotations.get(EPOCH) == str(epoch):
            continue
        seen.add(obj.metadata.uid)
        meta = obj.metadata
        yield Touch(kind, meta.namespace, meta.name, meta.resource_version, epoch)


def _in_reach(observed: Observed) -> Iterator[tuple[AnyKind, Resource]]:
    for _, group in sorted(observed.groups.items()):
        for member in group.members.values():
            if not member.pod.spec.node_name:
                yield POD, member.pod
    for gang in observed.planned():
        yield from _owner(observed, gang)
        for plan in observed.plans(gang):
            for victim in plan.victims:
                if victim.owner is not None:
                    yield from _named(observed, victim.owner)


def _owner(observed: Observed, gang: GangId) -> Iterator[tuple[AnyKind, Resource]]:
    group = observed.groups.get(gang)
    if group is not None and group.owner is not None:
        found = observed.find(group.owner.kind, f"{group.namespace}/{group.owner.name}")
        if found is not None:
            yield group.owner.kind, found


def _named(observed: Observed, ref: OwnerRef) -> Iterator[tuple[AnyKind, Resource]]:
    kind = BY_NAME[ref.api_version, ref.kind]
    found = observed.find(kind, f"{ref.namespace}/{ref.name}")
    if found is not None and found.metadata.uid == ref.uid:
        yield kind, found
