"""The committer's writes: effects on Gangs, plans, owners and pods, and what the mirror must show of each.

After a write its gang is stepped again only once the mirror shows the effect (`expectation`), which keeps the
committer from acting twice on one outdated picture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from muster.api import kinds
from muster.api.base import AnyKind, Object, Resource, revision
from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.core.words.gang import Place
from muster.effects import Allocate, Bind, Create, Deallocate, Delete, Effect, Evict, Patch
from muster.names import EPOCH
from muster.runtime.plan_record import PlacementPlan, Plan, PodRef, RecreationPlan, encode, packed
from muster.translate.group import Group, Owner
from muster.translate.status import gang_record


@dataclass(frozen=True, slots=True)
class RecordPods:
    """Creates a plan that holds those of these pods that still exist, for re-creation.

    The pods are read in full for this: the mirror keeps only what scheduling needs of a pod.
    """

    plan: RecreationPlan
    pods: Sequence[PodRef]


@dataclass(frozen=True, slots=True)
class Fence(Patch):
    """Changes an object's resourceVersion, so that writes that an earlier leader planned are refused.

    A fence is itself conditional: a late one must not hide that of a later leader.
    """


@dataclass(frozen=True, slots=True)
class MakeClaim(Create):
    """Creates the claim of what a pod requests by number."""

    users: tuple[tuple[Place, Pod], ...] = ()


@dataclass(frozen=True, slots=True)
class DropClaim(Delete):
    """Deletes a claim that has the name of such a claim, and other requests."""

    users: tuple[tuple[Place, Pod], ...] = ()


@dataclass(frozen=True, slots=True)
class TellOfClaim(Patch):
    """Writes into a pod's status which claim it has for what it requests by number."""

    users: tuple[tuple[Place, Pod], ...] = ()


#: A write without which a pod does not have its devices; `users`: the pods, and their places.
Provision = Allocate | MakeClaim | DropClaim | TellOfClaim
Write = Effect | RecordPods


def create_gang(group: Group, body: Object) -> Create:
    """Returns the write that creates a gang's record; `body`: its first status, its first plan."""
    return Create(kinds.GANG, group.namespace, {**gang_record(group), **without_nulls(body)})


def patch_gang(record: GangRecord, body: Object) -> Patch:
    """Returns a patch without precondition, since the gang controller writes there too."""
    meta = record.metadata
    return Patch(kinds.GANG, meta.namespace, meta.name, body, missing_ok=False, seen=meta.resource_version)


def record_plan(
    plan: PlacementPlan, group: Group, record: GangRecord | None, status: Object, most: int
) -> tuple[Write, ...]:
    """Returns the writes that record a plan, the last of which counts; raises `PlanTooLarge`.

    A plan of at most `most` bytes is recorded together with the gang's status, if no scheduler has written a
    plan of the Gang meanwhile.
    """
    body = packed(plan)
    if len(body["blob"]) > most:
        first = () if record is not None else (create_gang(group, status),)
        return (*first, create_plan(plan))
    if record is None:
        return (create_gang(group, {"plan": body, **status}),)
    return (_patch_plan(record, body, status),)


def create_plan(plan: Plan) -> Create:
    """Returns the write that records a plan as an object of its own; raises `PlanTooLarge`."""
    return Create(kinds.GANG_PLAN, plan.namespace, encode(plan))


def close_plan(plan: Plan, status: Patch | None) -> tuple[Write, ...]:
    """Returns the writes that set the gang's status and then remove the plan: one, if its Gang holds it."""
    if plan.held is not None:
        body = status.body if status is not None and isinstance(status.body, dict) else {}
        return (_patch_plan(plan.held, None, body),)
    return (*([status] if status is not None else []), delete_plan(plan))


def delete_plan(plan: Plan) -> Delete | Patch:
    if plan.held is not None:
        return _patch_plan(plan.held, None, {})
    return Delete(kinds.GANG_PLAN, plan.namespace, plan.name, plan.uid)


def _patch_plan(record: GangRecord, plan: Object | None, status: Object) -> Patch:
    """Returns a patch of a Gang's plan that applies only if no scheduler has written a plan there meanwhile.

    Each plan has another attempt, which its record leaves in the status, and each leader leaves its epoch
    there with its first write. So a plan of an earlier leader is refused once a later one has written to the
    Gang. A Gang that no scheduler has given a status yet must be as it was seen.
    """
    meta, seen, held = record.metadata, record.status, record.plan
    version, tests = meta.resource_version, dict[str, object]()
    body: Object = {"plan": plan, **status}
    if not seen.epoch:
        body["metadata"] = {"resourceVersion": version}
    else:
        tests = {"/metadata/uid": meta.uid, "/status/epoch": seen.epoch, "/status/attempt": seen.attempt}
        which = {"/plan/epoch": held.epoch, "/plan/attempt": held.attempt} if held is not None else {}
        tests |= {path: value for path, value in which.items() if value}  # a damaged plan may lack them
    return Patch(kinds.GANG, meta.namespace, meta.name, body, "", plan is None, version, tests=tests)


def without_nulls(patch: Object) -> Object:
    """Returns what a merge patch leaves in the object."""
    return {
        key: without_nulls(value) if isinstance(value, dict) else value
        for key, value in patch.items()
        if value is not None
    }


def suspend(namespace: str, owner: Owner) -> Patch:
    """Returns the write that ends a whole gang, if its owner is still as it was seen."""
    return _set_suspend(namespace, owner, True)


def resume(namespace: str, owner: Owner) -> Patch:
    return _set_suspend(namespace, owner, False)


def fence(kind: AnyKind, obj: Resource, epoch: int) -> Fence:
    meta = obj.metadata
    version = meta.resource_version
    body = {"metadata": {"resourceVersion": version, "annotations": {EPOCH: str(epoch)}}}
    return Fence(kind, meta.namespace, meta.name, body, missing_ok=False, seen=version)


def namespace_of(write: Write) -> str:
    """Returns the namespace of the object that is written; "" = it has none."""
    match write:
        case Bind(pod) | Evict(pod):
            return pod.metadata.namespace
        case Allocate(claim) | Deallocate(claim):
            return claim.metadata.namespace
        case RecordPods(plan):
            return plan.namespace
        case Create(namespace=namespace) | Patch(namespace=namespace) | Delete(namespace=namespace):
            return namespace
        case _:
            return ""


def only_reports(write: Write) -> bool:
    """Whether the write only informs users and other programs, so that no step of muster waits for it."""
    match write:
        case Create(kinds.GANG, body=body) | Patch(kinds.GANG, body=dict(body)):
            return "plan" not in body
        case Patch(kinds.POD, subresource="status", body={"status": {"extendedResourceClaimStatus": _}}):
            return False  # its pod must not be bound before
        case Patch(kinds.POD, subresource="status"):
            return True
        case _:
            return False


class Change(Enum):
    CREATED = "created"
    CHANGED = "changed"  # or gone
    GONE = "gone"


class Expectation(NamedTuple):
    """What the mirror must show of an object before its gang is stepped again."""

    change: Change
    kind: AnyKind
    key: str
    was: str = ""  # CHANGED: the resourceVersion before, GONE: the uid
    #: CHANGED: the revision of the write itself, since others may have changed the object before; 0 = unknown
    written: int = 0

    def met(self, found: Resource | None) -> bool:
        match self.change:
            case Change.CREATED:
                return found is not None
            case Change.CHANGED if self.written and found is not None:
                return revision(found.metadata.resource_version) >= self.written
            case Change.CHANGED:
                return found is None or found.metadata.resource_version != self.was
            case Change.GONE:
                return found is None or found.metadata.uid != self.was


def expectation(write: Write, written: int = 0) -> Expectation | None:
    """Returns what the mirror must show after `write` succeeded or lost to another writer.

    `written`: the revision of a patch that succeeded, if it is known.
    """
    match write:
        case Bind(pod) | Evict(pod):
            return Expectation(Change.CHANGED, kinds.POD, pod.key, pod.metadata.resource_version)
        case Allocate(claim) | Deallocate(claim):
            seen = claim.metadata.resource_version
            return Expectation(Change.CHANGED, kinds.RESOURCE_CLAIM, claim.key, seen, written)
        case Create(kind, namespace):
            return Expectation(Change.CREATED, kind, f"{namespace}/{write.name}")
        case RecordPods(plan):
            return Expectation(Change.CREATED, kinds.GANG_PLAN, f"{plan.namespace}/{plan.name}")
        case Patch(kind, namespace, name):
            return Expectation(Change.CHANGED, kind, f"{namespace}/{name}", write.seen, written)
        case Delete(kind, namespace, name, uid):
            return Expectation(Change.GONE, kind, f"{namespace}/{name}", uid)
        case _:
            return None


def aim(write: Write) -> object:
    """Returns what a write is for: two consecutive writes of equal aim are the same write again.

    Versions, attempts and times do not count: they change with each try.
    """
    match write:
        case Bind(pod, _, node):
            return Bind, pod.metadata.uid, node
        case Evict(pod):
            return Evict, pod.metadata.uid
        case Allocate(claim) | Deallocate(claim):
            return type(write), claim.metadata.uid
        case Create(kinds.GANG_PLAN, namespace, body):
            return Create, kinds.GANG_PLAN, namespace, body["spec"]["gang"]
        case Create(kinds.GANG, namespace):
            return Create, kinds.GANG, namespace, write.name
        case Patch(kinds.GANG, namespace, name, {"plan": plan}):
            return Patch, kinds.GANG, namespace, name, plan is None
        case Patch(kinds.GANG, namespace, name, {"status": {"preemptions": [*_, last]}}):
            return Patch, kinds.GANG, namespace, name, last["by"]  # what is lost grows with time
        case RecordPods(plan):
            return RecordPods, plan.namespace, plan.record
        case Create(kind, namespace, body):
            return Create, kind, namespace, body
        case Patch(kinds.POD, namespace, name):  # its condition holds the time
            return Patch, kinds.POD, namespace, name
        case Patch(kind, namespace, name, dict(body)):
            content = {field: value for field, value in body.items() if field != "metadata"}
            return Patch, kind, namespace, name, content
        case _:
            return type(write), expectation(write)


def _set_suspend(namespace: str, owner: Owner, value: bool) -> Patch:
    version = owner.resource_version
    body = {"metadata": {"uid": owner.uid, "resourceVersion": version}, "spec": {"suspend": value}}
    return Patch(owner.kind, namespace, owner.name, body, missing_ok=False, seen=version)
