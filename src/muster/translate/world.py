"""What the mirror has seen, with the indexes that reading a group needs.

The mirror puts objects in and takes them out; everything else in this package only reads. Every
index is keyed by what the objects say about themselves (controller uid, PodGroup label), so that
objects may arrive in any order and an index never has to be repaired afterwards.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from muster.api.base import Kind, Resource, controller_of
from muster.api.batch_v1 import Job
from muster.api.core_v1 import (
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
)
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import (
    CLUSTER_NETWORK_TOPOLOGY,
    JOB,
    JOBSET,
    NAMESPACE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP_SIGS,
    POD_GROUP_X,
    PRIORITY_CLASS,
    RESOURCE_QUOTA,
    STORAGE_CLASS,
)
from muster.api.koordinator_v1alpha1 import DEFAULT
from muster.api.scheduling import POD_GROUP_LABEL, PodGroup, PriorityClass
from muster.api.storage_v1 import StorageClass
from muster.translate import ganggroup
from muster.translate.layers import Layers, layers

#: (namespace, name); the namespace of a cluster-scoped object is "".
Name = tuple[str, str]
R = TypeVar("R", bound=Resource)

#: Kinds of groups and of what they are read from.
KINDS: tuple[Kind[Any], ...] = (  # Any: a table of kinds holds kinds of many types
    NAMESPACE,
    PRIORITY_CLASS,
    PERSISTENT_VOLUME_CLAIM,
    PERSISTENT_VOLUME,
    STORAGE_CLASS,
    CLUSTER_NETWORK_TOPOLOGY,
    RESOURCE_QUOTA,
    JOBSET,
    JOB,
    POD_GROUP_X,
    POD_GROUP_SIGS,
    POD,
)


class World:
    """Objects by kind and name, and by what they belong to.

    `schedulers` are the values of `spec.schedulerName` that make a pod ours; None means all pods,
    as on the embedded cluster, where nobody else schedules. `whole`: what is not here does not exist, as
    in a snapshot; else it may not have been seen yet.
    """

    def __init__(self, schedulers: frozenset[str] | None = None, *, whole: bool = False) -> None:
        self.schedulers = schedulers
        self.whole = whole
        #: uids of pods that are only proposed: no API server has charged them to a ResourceQuota
        self.uncreated: set[str] = set()
        self._objects: dict[Kind[Any], dict[Name, Any]] = {kind: {} for kind in KINDS}
        #: the layers of the network topology
        self.layers = Layers()
        self._quotas_in: dict[str, dict[Name, ResourceQuota]] = {}
        self._jobs_of: dict[str, dict[Name, Job]] = {}
        self._pods_of: dict[str, dict[Name, Pod]] = {}
        self._pods_in: dict[tuple[str, str, str], dict[Name, Pod]] = {}
        self._naming: dict[tuple[str, str, str], dict[Name, PodGroup]] = {}

    def put(self, kind: Kind[R], obj: R) -> R | None:
        """Takes in an object as it is now; returns it as it was, None if it is new."""
        name = (obj.metadata.namespace, obj.metadata.name)
        before: R | None = self._objects[kind].get(name)
        if before is not None:
            self._unindex(kind, name, before)
        self._objects[kind][name] = obj
        for index, key in self._keys(kind, obj):
            index.setdefault(key, {})[name] = obj
        self._changed(kind)
        return before

    def drop(self, kind: Kind[R], namespace: str, name: str) -> R | None:
        """Forgets an object; returns it as it was, None if it was not known."""
        before: R | None = self._objects[kind].pop((namespace, name), None)
        if before is not None:
            self._unindex(kind, (namespace, name), before)
        self._changed(kind)
        return before

    def quotas_in(self, namespace: str) -> list[ResourceQuota]:
        """By name. Hardly any namespace has more than one or two."""
        return _by_name(self._quotas_in.get(namespace))

    @property
    def namespaces(self) -> Mapping[Name, Namespace]:
        return self._objects[NAMESPACE]

    @property
    def priority_classes(self) -> Mapping[Name, PriorityClass]:
        return self._objects[PRIORITY_CLASS]

    @property
    def claims(self) -> Mapping[Name, PersistentVolumeClaim]:
        return self._objects[PERSISTENT_VOLUME_CLAIM]

    @property
    def volumes(self) -> Mapping[Name, PersistentVolume]:
        return self._objects[PERSISTENT_VOLUME]

    @property
    def storage_classes(self) -> Mapping[Name, StorageClass]:
        return self._objects[STORAGE_CLASS]

    @property
    def jobsets(self) -> Mapping[Name, JobSet]:
        return self._objects[JOBSET]

    @property
    def jobs(self) -> Mapping[Name, Job]:
        return self._objects[JOB]

    @property
    def pods(self) -> Mapping[Name, Pod]:
        return self._objects[POD]

    def pod_groups(self, kind: Kind[PodGroup]) -> Mapping[Name, PodGroup]:
        """PodGroups of one of the two API groups."""
        return self._objects[kind]

    def jobs_of(self, uid: str) -> list[Job]:
        """Jobs controlled by the object with this uid, by name."""
        return _by_name(self._jobs_of.get(uid))

    def pods_of(self, uid: str) -> list[Pod]:
        """Pods controlled by the object with this uid, by name."""
        return _by_name(self._pods_of.get(uid))

    def pods_in(self, kind: Kind[PodGroup], namespace: str, name: str) -> list[Pod]:
        """Pods whose label names this PodGroup, whether it exists or not, by name."""
        return _by_name(self._pods_in.get((kind.group, namespace, name)))

    def naming(self, kind: Kind[PodGroup], namespace: str, name: str) -> list[PodGroup]:
        """PodGroups whose GangGroup has this one among its own, by name; itself too, if it is there."""
        return _by_name(self._naming.get((kind.group, namespace, name)))

    def _changed(self, kind: Kind[Any]) -> None:
        if kind is CLUSTER_NETWORK_TOPOLOGY:
            self.layers = layers(self._objects[kind].get(("", DEFAULT)))

    def owners_of(self, pod: Pod) -> Iterator[Resource]:
        """The Job that controls a pod, and the JobSet that controls the Job, as far as they are there."""
        controller = controller_of(pod)
        job = self.jobs.get((pod.metadata.namespace, controller.name)) if controller is not None else None
        if job is None or controller is None or job.metadata.uid != controller.uid:
            return
        yield job
        controller = controller_of(job)
        jobset = (
            self.jobsets.get((job.metadata.namespace, controller.name)) if controller is not None else None
        )
        if jobset is not None and controller is not None and jobset.metadata.uid == controller.uid:
            yield jobset

    def _unindex(self, kind: Kind[Any], name: Name, obj: Resource) -> None:
        for index, key in self._keys(kind, obj):
            del index[key][name]
            if not index[key]:
                del index[key]

    def _keys(self, kind: Kind[Any], obj: Resource) -> Iterator[tuple[dict[Any, dict[Name, Any]], Any]]:
        """The indexes an object stands in, with its key in each. Any: one per type of key and object."""
        if kind is RESOURCE_QUOTA:
            yield self._quotas_in, obj.metadata.namespace
        if kind is JOB or kind is POD:
            controller = controller_of(obj)
            if controller is not None:
                yield (self._jobs_of if kind is JOB else self._pods_of), controller.uid
        if isinstance(obj, PodGroup):
            for namespace, member in ganggroup.named(obj):
                yield self._naming, (kind.group, namespace, member)
        if kind is POD:
            for group, label in POD_GROUP_LABEL.items():
                name = obj.metadata.labels.get(label)
                if name:
                    yield self._pods_in, (group, obj.metadata.namespace, name)


def _by_name(found: dict[Name, R] | None) -> list[R]:
    return [found[name] for name in sorted(found)] if found else []
