"""Objects for the tests of translation, as an API server would show them, and a world of them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from muster import names
from muster.api import groups, scheduling_v1beta1
from muster.api.base import AnyKind, Kind, Object, ObjectMeta, Resource
from muster.api.batch_v1 import COMPLETION_INDEX, Job
from muster.api.core_v1 import (
    LimitRange,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    PodTemplate,
    ResourceQuota,
)
from muster.api.jobset_v1alpha2 import (
    JOB_INDEX,
    JOB_RESTART_ATTEMPT,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
    JobSet,
)
from muster.api.kinds import (
    CLUSTER_NETWORK_TOPOLOGY,
    JOB,
    JOBSET,
    LIMIT_RANGE,
    NAMESPACE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP_K8S,
    POD_GROUP_VOLCANO,
    POD_GROUP_X,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    RUNTIME_CLASS,
    STORAGE_CLASS,
)
from muster.api.koordinator_v1alpha1 import ClusterNetworkTopology
from muster.api.node_v1 import RuntimeClass
from muster.api.scheduling import PodGroup, PriorityClass
from muster.api.storage_v1 import StorageClass
from muster.translate.dialects import Reader
from muster.translate.group import Group, Touched
from muster.translate.identity import GroupKey
from muster.translate.world import KINDS, World

START = datetime(2026, 1, 1, tzinfo=UTC)


def time(seconds: float = 0) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def pod_spec(cpu: str | int = 1, **fields: Any) -> Object:  # Any: fields as JSON
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **fields}


def template(obj: Object, **meta: Any) -> PodTemplate:  # Any: fields as JSON
    return PodTemplate(metadata=msgspec.convert(meta, ObjectMeta), spec=spec(obj))


def spec(obj: Object) -> PodSpec:
    return msgspec.convert(obj, PodSpec)


def pod(
    name: str = "a",
    *,
    owner: Resource | None = None,
    index: int | None = None,
    plan: str = "",
    node: str = "",
    phase: str = "Pending",
    deleting: bool = False,
    created: float = 0,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    spec: Object | None = None,
    conditions: Iterable[Object] = (),
) -> Pod:
    notes = dict(annotations or {})
    if index is not None:
        notes[COMPLETION_INDEX] = str(index)
    if plan:
        notes[names.PLAN] = plan
    references = [] if owner is None else [reference(owner)]
    return msgspec.convert(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata(name, created, deleting, labels, notes) | {"ownerReferences": references},
            "spec": (spec or pod_spec()) | {"nodeName": node},
            "status": {"phase": phase, "conditions": list(conditions)},
        },
        Pod,
    )


def job(
    name: str = "j",
    *,
    owner: Resource | None = None,
    gang: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    deleting: bool = False,
    status: Object | None = None,
    template: Object | None = None,
    **fields: Any,  # spec, as JSON
) -> Job:
    marks = dict(labels or {}) | ({names.GANG: gang} if gang else {})
    references = [] if owner is None else [reference(owner)]
    return msgspec.convert(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata(name, 0, deleting, marks, annotations) | {"ownerReferences": references},
            "spec": {"template": template or {"spec": pod_spec()}, **fields},
            "status": status or {},
        },
        Job,
    )


def jobset(
    name: str = "s",
    jobs: dict[str, Object] | None = None,
    *,
    gang: str = "true",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    status: Object | None = None,
    **fields: Any,  # spec, as JSON
) -> JobSet:
    """`jobs`: by name, {replicas, parallelism, completions, template, dependsOn, …}."""
    marks = dict(labels or {}) | ({names.GANG: gang} if gang else {})
    return msgspec.convert(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": metadata(name, 0, False, marks, annotations),
            "spec": {"replicatedJobs": [replicated(*item) for item in (jobs or {"w": {}}).items()], **fields},
            "status": status or {},
        },
        JobSet,
    )


def replicated(name: str, fields: Object) -> Object:
    fields = dict(fields)
    outer: Object = {key: fields.pop(key) for key in ("replicas", "dependsOn") if key in fields}
    job = {"completionMode": "Indexed", "template": {"spec": pod_spec()}, **fields}
    return {"name": name, **outer, "template": {"spec": job}}


def child(
    parent: JobSet,
    name: str = "w",
    index: int = 0,
    *,
    attempt: int = 0,
    job_attempt: int = 0,
    deleting: bool = False,
    status: Object | None = None,
    **fields: Any,  # spec, as JSON
) -> Job:
    """The Job that a JobSet's controller makes of one of its replicatedJobs."""
    template = next(one.template for one in parent.spec.replicated_jobs if one.name == name)
    return job(
        f"{parent.metadata.name}-{name}-{index}",
        owner=parent,
        deleting=deleting,
        labels={
            REPLICATED_JOB_NAME: name,
            JOB_INDEX: str(index),
            RESTART_ATTEMPT: str(attempt),
            JOB_RESTART_ATTEMPT: str(job_attempt),
        },
        status=status,
        **(template["spec"] | fields),
    )


def pod_group(name: str = "g", minimum: int = 2, **meta: Any) -> PodGroup:
    return msgspec.convert({"metadata": metadata(name) | meta, "spec": {"minMember": minimum}}, PodGroup)


def native_group(name: str = "g", minimum: int = 0, **spec: Any) -> scheduling_v1beta1.PodGroup:
    """Kubernetes' own. A minimum makes it a gang, else its policy is *basic*. Any: its spec, as JSON."""
    policy: Object = {"gang": {"minCount": minimum}} if minimum else {"basic": {}}
    body = {"metadata": metadata(name), "spec": {"schedulingPolicy": policy, **spec}}
    return msgspec.convert(body, scheduling_v1beta1.PodGroup)


def grouped(name: str, group: str = "g", *, api: AnyKind = POD_GROUP_X, **fields: Any) -> Pod:
    """A pod that names a PodGroup, by a label or in its spec."""
    if label := groups.BY_KIND[api].label:
        return pod(name, labels={label: group}, **fields)
    spec = {**fields.pop("spec", pod_spec()), "schedulingGroup": {"podGroupName": group}}
    return pod(name, spec=spec, **fields)


def priority_class(
    name: str, value: int, *, default: bool = False, preemption: str = "PreemptLowerPriority"
) -> PriorityClass:
    body = {"metadata": {"name": name}, "value": value, "globalDefault": default}
    return msgspec.convert({**body, "preemptionPolicy": preemption}, PriorityClass)


def topology(*chain: tuple[str, str], name: str = "default") -> ClusterNetworkTopology:
    """Layers and their label keys, from the widest."""
    parents = ["", *(layer for layer, _ in chain)]
    entries = [
        {"topologyLayer": layer, "parentTopologyLayer": parent, "labelKey": [key]}
        for (layer, key), parent in zip(chain, parents, strict=False)
    ]
    entries.append({"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": parents[-1]})
    obj = {"metadata": {"name": name}, "spec": {"networkTopologySpec": entries}}
    return msgspec.convert(obj, ClusterNetworkTopology)


def namespace(gang: str) -> Namespace:
    return msgspec.convert({"metadata": {"name": "ns", "labels": {names.GANG: gang}}}, Namespace)


def metadata(
    name: str,
    created: float = 0,
    deleting: bool = False,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> Object:
    return {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": time(created),
        "deletionTimestamp": time(created) if deleting else None,
        "labels": labels or {},
        "annotations": annotations or {},
    }


def reference(owner: Resource) -> Object:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
    }


def world(
    *objects: Resource,
    schedulers: frozenset[str] | None = None,
    awaiting: frozenset[str] = frozenset(),
) -> World:
    """PodGroups are those of scheduler-plugins; put Koordinator's in by hand."""
    found = World(schedulers, awaiting=awaiting)
    for obj in objects:
        found.put(kind_of(obj), obj)
    return found


def kind_of(obj: Resource) -> Kind[Any]:  # Any: whatever the object is
    kinds: dict[type[Resource], Kind[Any]] = {
        Pod: POD,
        Job: JOB,
        JobSet: JOBSET,
        PodGroup: POD_GROUP_X,
        scheduling_v1beta1.PodGroup: POD_GROUP_K8S,
        POD_GROUP_VOLCANO.type: POD_GROUP_VOLCANO,
        PriorityClass: PRIORITY_CLASS,
        ClusterNetworkTopology: CLUSTER_NETWORK_TOPOLOGY,
        ResourceQuota: RESOURCE_QUOTA,
        Namespace: NAMESPACE,
        PersistentVolumeClaim: PERSISTENT_VOLUME_CLAIM,
        PersistentVolume: PERSISTENT_VOLUME,
        StorageClass: STORAGE_CLASS,
        LimitRange: LIMIT_RANGE,
        RuntimeClass: RUNTIME_CLASS,
    }
    return kinds[type(obj)]


Objects = dict[Kind[Any], dict[tuple[str, str], Any]]  # Any: objects of many kinds
#: by id, what `read` has returned (so that no other object gets its id), and the worlds it was read from
_HISTORY: dict[int, tuple[Group, list[Objects]]] = {}


def read(key: GroupKey, found: World, before: Group | None = None) -> Group | None:
    """The group as the world shows it. `before`: what an earlier call returned, from which it is read on."""
    history = [*(_HISTORY[id(before)][1] if before is not None else ()), {**found._objects}]
    history[-1] = {kind: dict(objects) for kind, objects in history[-1].items()}
    now = World(found.schedulers, whole=found.whole, awaiting=found.awaiting)
    now.uncreated, now.queue_rules = found.uncreated, found.queue_rules
    reader = Reader(key, now)
    for objects in history:
        group = read_on(reader, now, objects)
    if group is not None:
        _HISTORY[id(group)] = group, history
    return group


def read_on(reader: Reader, now: World, objects: Objects) -> Group | None:
    """What `reader` reads once the world has become these objects, with only what has changed touched."""
    touched = Touched()
    for kind in KINDS:
        was, wanted = dict(now._objects[kind]), objects.get(kind, {})
        for name in [*was.keys() - wanted.keys(), *wanted]:
            if name not in wanted:
                now.drop(kind, *name)
            elif was.get(name) is not wanted[name]:
                now.put(kind, wanted[name])
            else:
                continue
            touched.add(kind, was.get(name), wanted.get(name))
    group, _ = reader.read(touched)
    return group
