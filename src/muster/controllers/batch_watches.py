"""Which changes of objects concern a BatchJob: changes of the job itself, and of what decides about it."""

from collections.abc import Sequence
from typing import Final

import msgspec

from muster.api import rates
from muster.api.base import AnyKind, Object, Resource, condition
from muster.api.core_v1 import ConfigMap
from muster.api.kinds import (
    BATCH_JOB,
    CEDAR_POLICY,
    CONFIG_MAP,
    GANG,
    JOBSET,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    PRIORITY_CLASS,
    QUEUE,
    SERVICE,
    TRUST_POLICY,
)
from muster.api.muster_v1alpha1 import GPU_HEALTHY, PROGRESSING, Gang, Queue
from muster.api.scheduling import PriorityClass
from muster.compiler.declared import READ
from muster.controllers.caches import Caches, Index
from muster.controllers.driver import Change, Watch, itself
from muster.controllers.unsaved_work import SAVED
from muster.core.words.gang import Code

#: Kinds that influence what jobs are compiled to: three by annotations that say what jobs may use, three by
#: what may preempt jobs, and at what price.
DECLARING: Final[tuple[AnyKind, ...]] = (
    NAMESPACE,
    SERVICE,
    PERSISTENT_VOLUME_CLAIM,
    PRIORITY_CLASS,
    QUEUE,
    CONFIG_MAP,
)
DECLARES: Final = "declares"
#: Index of gangs by the key of the JobSet that they were read from.
OF_JOBSET: Final = "of JobSet"


class Declaring:
    """The objects that influence what jobs are compiled to, encoded again only if one of them has changed."""

    def __init__(self) -> None:
        self._seen: list[Resource] = []
        self._encoded: Sequence[Object] | None = None

    def objects(self, caches: Caches) -> Sequence[Object]:
        """Returns the objects as JSON with their kinds: the same list until one changes."""
        found = [(kind, each) for kind in DECLARING for each in caches[kind].by(DECLARES, "")]
        same = len(found) == len(self._seen) and all(
            each is seen for (_, each), seen in zip(found, self._seen, strict=True)
        )
        if not same or self._encoded is None:
            self._seen = [each for _, each in found]
            self._encoded = [_encoded(kind, each) for kind, each in found]
        return self._encoded


def _encoded(kind: AnyKind, each: Resource) -> Object:
    """The object as JSON, without the annotations that decide nothing: they may be long."""
    meta = each.metadata
    read = {key: value for key, value in meta.annotations.items() if key in READ}
    slim = msgspec.structs.replace(each, metadata=msgspec.structs.replace(meta, annotations=read))
    return {**msgspec.to_builtins(slim), "kind": kind.kind}


def asked(change: Change) -> list[str]:
    """Returns the changed job, unless only its status has changed.

    The status may have a server's words, which differ each time: then each retry would cause the next one.
    """
    old, new = change.old, change.new
    if old is not None and new is not None:
        meta = msgspec.structs.replace(old.metadata, resource_version=new.metadata.resource_version)
        if (meta, old.spec) == (new.metadata, new.spec):
            return []
    return itself(change)


def _all_jobs(change: Change) -> list[str]:
    """Returns every BatchJob: a policy may concern any of them."""
    return list(change.caches[BATCH_JOB].items)


def _jobs_if_declaring(change: Change) -> list[str]:
    """Returns every BatchJob if what the object declares changes: any of them may use it."""
    old, new = (
        (notes, getattr(each, "spec", None)) if each is not None and (notes := _notes(each)) else None
        for each in (change.old, change.new)
    )
    return [] if old == new else _all_jobs(change)


def _notes(each: Resource) -> Object:
    """Returns the part of an object that concerns jobs; empty = nothing."""
    match each:
        case PriorityClass():
            return {"value": each.value, "preempts": each.preemption_policy}
        case Queue():
            return {"spec": msgspec.to_builtins(each.spec)}
        case ConfigMap():
            return {"prices": each.data} if each.metadata.name == rates.NAME else {}
        case _:
            return {key: value for key, value in each.metadata.annotations.items() if key in READ}


def _jobset_of(gang: Gang) -> list[str]:
    source = gang.spec.source
    return [f"{gang.metadata.namespace}/{source.name}"] if JOBSET.matches(source) else []


def ill(gangs: Sequence[Gang]) -> tuple[str, str, str]:
    """Returns what the gangs' conditions say of unhealthy GPUs, of reports, and of unsaved work."""

    def told(type_: str) -> str:
        found = (condition(gang.status.conditions, type_) for gang in gangs)
        return "; ".join(each.message for each in found if each is not None and each.status == "False")

    return told(GPU_HEALTHY), told(PROGRESSING), told(SAVED)


def invalid(gangs: Sequence[Gang]) -> str:
    """Returns why the gangs can never start as things are, such as a queue that does not exist."""
    reasons = (each.status.reason for each in gangs)
    return "; ".join(each.message for each in reasons if each is not None and each.code == Code.INVALID.value)


def _preempted(change: Change) -> list[str]:
    """Returns the BatchJob of a gang that was preempted, or of which its status says something else."""
    old, new = (
        (each.status.preemptions, ill([each]), invalid([each]))
        if each is not None
        else ([], ("", "", ""), "")
        for each in (change.old, change.new)
    )
    return _jobset_of(change.new) if change.new is not None and new != old else []


OTHERS: Final = (
    Watch(CEDAR_POLICY, _all_jobs),
    Watch(TRUST_POLICY, _all_jobs),
    Watch(GANG, _preempted),
    *(Watch(kind, _jobs_if_declaring) for kind in DECLARING),
    Watch(NODE, lambda _: ()),  # the capacity that queues share
)
INDEXES: Final = (
    Index(GANG, OF_JOBSET, _jobset_of),
    *(Index(kind, DECLARES, lambda each: [""] if _notes(each) else []) for kind in DECLARING),
)
