"""The committer's writes: effects on Gangs, plans, owners and pods, and what the mirror must show of each.

After a write its gang is stepped again only once the mirror shows the effect (`expectation`), which keeps the
committer from acting twice on one outdated picture.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from muster.api import kinds
from muster.api.base import AnyKind, Object, Resource
from muster.api.muster_v1alpha1 import Gang as GangRecord
from muster.effects import Bind, Create, Delete, Effect, Evict, Patch
from muster.names import EPOCH
from muster.runtime.plan import Plan, PodRef, RecreationPlan, encode
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


Write = Effect | RecordPods


def create_gang(group: Group) -> Create:
    return Create(kinds.GANG, group.namespace, gang_record(group))


def patch_gang(record: GangRecord, body: Object, subresource: str = "") -> Patch:
    """Returns a patch without precondition, since the gang controller writes there too."""
    meta = record.metadata
    return Patch(kinds.GANG, meta.namespace, meta.name, body, subresource, False, meta.resource_version)


def create_plan(plan: Plan) -> Create:
    """Returns the write that records a plan; raises `PlanTooLarge`."""
    return Create(kinds.GANG_PLAN, plan.namespace, encode(plan))


def delete_plan(plan: Plan) -> Delete:
    return Delete(kinds.GANG_PLAN, plan.namespace, plan.name, plan.uid)


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

    def met(self, found: Resource | None) -> bool:
        match self.change:
            case Change.CREATED:
                return found is not None
            case Change.CHANGED:
                return found is None or found.metadata.resource_version != self.was
            case Change.GONE:
                return found is None or found.metadata.uid != self.was


def expectation(write: Write) -> Expectation | None:
    """Returns what the mirror must show after `write` succeeded or lost to another writer."""
    match write:
        case Bind(pod) | Evict(pod):
            return Expectation(Change.CHANGED, kinds.POD, pod.key, pod.metadata.resource_version)
        case Create(kind, namespace):
            return Expectation(Change.CREATED, kind, f"{namespace}/{write.name}")
        case RecordPods(plan):
            return Expectation(Change.CREATED, kinds.GANG_PLAN, f"{plan.namespace}/{plan.name}")
        case Patch(kind, namespace, name):
            return Expectation(Change.CHANGED, kind, f"{namespace}/{name}", write.seen)
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
        case Create(kinds.GANG_PLAN, namespace, body):
            return Create, kinds.GANG_PLAN, namespace, body["spec"]["gang"]
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
