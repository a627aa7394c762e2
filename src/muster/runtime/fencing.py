"""Fencing: makes the API server refuse the late writes of an earlier leader.

A clock cannot stop a write that is already on its way. Therefore a new leader first *fences* every object
that an earlier leader could still write to: unbound members (a bind carries the pod's resourceVersion) and
their claims of devices (an allocation carries the claim's),
owners that muster suspends and resumes (these writes carry the owner's), and pods that an open plan may evict
(an eviction carries the pod's). That is one write for each object, and only where another leader can exist. A
fence writes the epoch into an annotation, which changes the object's resourceVersion. The annotation does not
prove which process leads: any user may write one.

A leader that is shut down writes into the Lease up to which resourceVersion it has seen pods (`election`).
An unbound pod of a later version needs no fence: any bind that this leader or an earlier one could still make
carries an older version. (The resourceVersions of one kind can be compared: KEP-5504. An eviction makes two
writes, the second with a version that its leader has not seen, so pods on nodes are always fenced.)

A fence that is refused (by an admission webhook, or for lack of a permission) does not keep the leader from
leading. Only the gangs that need the object wait, and the leader retries the fence later.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from muster.api import pod_claims
from muster.api.base import AnyKind, Resource, revision
from muster.api.core_v1 import Pod
from muster.api.kinds import GANG, POD, RESOURCE_CLAIM
from muster.core.words.gang import GangId
from muster.kube.clock import back_off
from muster.kube.errors import ApiError, Conflict, NotFound, TooManyRequests, Unreachable
from muster.names import EPOCH
from muster.runtime.commit.view import Unfenced
from muster.runtime.consent import Known
from muster.runtime.plan_record import PlacementPlan, Plan
from muster.runtime.writes import Fence, fence
from muster.translate.devices.by_number import name_of

log = logging.getLogger(__name__)

#: Fences of one object, whatever the answers, after which its gangs wait and the leader leads without them.
TRIES: Final = 5
#: Seconds between two fences of one object: the first pause, doubled each time, and the longest.
RETRY: Final = (0.2, 30.0)


class Observed(Known, Protocol):
    """What this module reads of the mirror."""

    def plans(self, gang: GangId) -> Iterable[Plan]: ...

    def planned(self) -> Iterable[GangId]: ...

    def others(self, record: Resource | None) -> str: ...


@dataclass(slots=True)
class _Tried:
    """An object that has been fenced, and does not show the fence yet."""

    uid: str
    gangs: set[GangId] = field(default_factory=set)
    tries: int = 0
    #: why the object's gangs wait; "" = not refused so far
    refusal: str = ""
    #: when the fence is retried
    due: float = 0.0


class Fencing:
    """The fences of one leader, and the gangs that wait for a fence."""

    def __init__(self, observed: Observed, epoch: int, seen: float = float("inf")) -> None:
        """`seen`: no earlier leader has seen pods of a later resourceVersion."""
        self._observed, self._epoch, self._seen = observed, epoch, seen
        self._tried: dict[tuple[AnyKind, str], _Tried] = {}
        self._unfenced: Mapping[GangId, Unfenced] | None = {}  # None = to be read from `_tried`

    def first(self, now: float) -> list[Fence]:
        """Returns the fences to make now, before this leader leads."""
        before, self._tried = self._tried, {}
        found: dict[tuple[AnyKind, str], Fence] = {}
        for gang, kind, obj in _in_reach(self._observed):
            for of, one in ((kind, obj), *_claims(self._observed, obj)):
                if self._shows(one) or self._is_new(one):
                    continue
                key = (of, one.key)
                known = before.get(key)
                if known is None or known.uid != one.metadata.uid:
                    known = before[key] = _Tried(one.metadata.uid)
                known.gangs.add(gang)
                self._tried[key] = known
                if not known.refusal and known.due <= now:
                    found[key] = fence(of, one, self._epoch)
        self._unfenced = None
        return list(found.values())

    @property
    def unfenced(self) -> Mapping[GangId, Unfenced]:
        """The gangs that must not be written to yet."""
        if self._unfenced is None:
            self._unfenced = {
                gang: Unfenced(tried.refusal, tried.due)
                for tried in reversed(self._tried.values())  # of several objects, the first counts
                for gang in (tried.gangs if tried.refusal else ())
            }
        return self._unfenced

    @property
    def complete(self) -> bool:
        """Whether every object in reach shows its fence or has refused it, so that this leader may lead."""
        return all(tried.refusal for tried in self._tried.values())

    def again(self, now: float) -> Iterator[tuple[GangId, Fence]]:
        """Yields refused fences that are due again, each with a gang that waits for it."""
        for key, tried in list(self._tried.items()):
            kind, name = key
            obj = self._observed.find(kind, name)
            if obj is None or obj.metadata.uid != tried.uid or self._shows(obj):
                del self._tried[key]
                self._unfenced = None
                log.info("%s %s no longer keeps %s waiting", kind.kind, name, ", ".join(sorted(tried.gangs)))
            elif tried.due <= now:
                tried.due = now + RETRY[1]  # at the latest; the outcome sets a better time
                self._unfenced = None
                yield min(tried.gangs), fence(kind, obj, self._epoch)

    def readmitted(self, now: float) -> None:
        """Takes a change of admission: fences that were refused are retried."""
        for tried in self._tried.values():
            if tried.refusal:
                tried.tries, tried.due = 0, min(tried.due, now)
        self._unfenced = None

    def learn(self, fence: Fence, error: Exception | None, now: float) -> None:
        """Takes the outcome of a fence. A success counts only once the mirror shows it."""
        key = f"{fence.namespace}/{fence.name}" if fence.namespace else fence.name
        tried = self._tried.get((fence.kind, key))
        if tried is None or isinstance(error, NotFound):
            return
        tried.due = now + back_off(RETRY, tried.tries)
        if isinstance(error, Unreachable):
            return  # says nothing about the object
        tried.tries += 1
        refused = isinstance(error, ApiError) and not isinstance(error, (Conflict, TooManyRequests))
        if not (refused or tried.refusal or tried.tries >= TRIES):
            return
        why = str(error) if error is not None else "the server took it, and the object does not show it"
        refusal = f"{fence.kind.kind} {key} cannot be marked as taken over by this leader: {why}"
        if refusal != tried.refusal:
            log.warning("%s; waiting for it: %s", refusal, ", ".join(sorted(tried.gangs)))
        tried.refusal = refusal
        self._unfenced = None

    def next(self) -> float | None:
        """Returns when the next object is to be fenced again, if there is one."""
        return min((tried.due for tried in self._tried.values()), default=None)

    def _shows(self, obj: Resource) -> bool:
        return obj.metadata.annotations.get(EPOCH) == str(self._epoch)

    def _is_new(self, obj: Resource) -> bool:
        """Whether it is an unbound pod that no earlier leader has seen as it is."""
        unbound = isinstance(obj, Pod) and not obj.spec.node_name
        return unbound and revision(obj.metadata.resource_version) > self._seen


def _claims(observed: Observed, obj: Resource) -> Iterator[tuple[AnyKind, Resource]]:
    """Yields the claims of devices of an unbound pod; no leader has written those of one with too many."""
    if isinstance(obj, Pod) and not obj.spec.node_name:
        named = pod_claims.names(obj).values() if pod_claims.claims_are_read(obj) else ()
        for name in (*named, name_of(obj)):
            claim = observed.find(RESOURCE_CLAIM, f"{obj.metadata.namespace}/{name}")
            if claim is not None:
                yield RESOURCE_CLAIM, claim


def _in_reach(observed: Observed) -> Iterator[tuple[GangId, AnyKind, Resource]]:
    """Yields owners that may be suspended or resumed, unbound members, and pods that an open plan may end."""
    for gang, group in sorted(observed.groups.items()):
        if observed.others(observed.find(GANG, f"{group.namespace}/{group.record}")):
            continue  # no leader of this Lease writes to it
        if group.owner is not None and group.owner.admission and not group.finished:
            owner = observed.find(group.owner.kind, f"{group.namespace}/{group.owner.name}")
            if owner is not None:
                yield gang, group.owner.kind, owner
        for member in group.members.values():
            if not member.pod.spec.node_name:
                yield gang, POD, member.pod
    for gang in observed.planned():
        planned = observed.groups.get(gang)
        for member in planned.members.values() if planned is not None else ():
            yield gang, POD, member.pod
        plans = (plan for plan in observed.plans(gang) if isinstance(plan, PlacementPlan))
        for ref in (ref for plan in plans for victim in plan.victims for ref in victim.pods):
            pod = observed.find(POD, ref.key)  # whether or not this leader will end it
            if pod is not None and pod.metadata.uid == ref.uid:
                yield gang, POD, pod
