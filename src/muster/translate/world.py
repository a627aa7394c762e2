"""Holds what the mirror has seen, with the indexes that reading a group needs.

The mirror inserts and removes objects; everything else in this package only reads. Every
index is keyed by what the objects say about themselves (controller uid, PodGroup label), so that
objects may arrive in any order and an index never has to be repaired afterwards. A gang that pods describe
without a PodGroup nevertheless has one here (`described.py`).
"""

from bisect import bisect_left, insort
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from muster.api import groups, pod_claims
from muster.api.admitted import admitted
from muster.api.base import AnyKind, Kind, Resource, controller_of, controls
from muster.api.batch_v1 import Job
from muster.api.core_v1 import (
    LimitRange,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    ResourceQuota,
)
from muster.api.groups import Dialect
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import (
    CLUSTER_NETWORK_TOPOLOGY,
    DEVICE_CLASS,
    JOB,
    JOBSET,
    LIMIT_RANGE,
    NAMESPACE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_QUOTA,
    RUNTIME_CLASS,
    STORAGE_CLASS,
)
from muster.api.koordinator_v1alpha1 import DEFAULT
from muster.api.scheduling import PriorityClass
from muster.api.storage_v1 import StorageClass
from muster.api.times import seconds
from muster.core.words.gang import Requirement
from muster.translate import described, ganggroup
from muster.translate.claims import claims_of
from muster.translate.described import Described
from muster.translate.devices.asks import Asks
from muster.translate.devices.counted import counted_as, resource_of
from muster.translate.devices.pods import Known, named_by
from muster.translate.identity import GroupKey
from muster.translate.layers import Layers, layers
from muster.translate.queue_rules import QueueRules

#: (namespace, name); the namespace of a cluster-scoped object is "".
Name = tuple[str, str]
R = TypeVar("R", bound=Resource)

#: Kinds of groups and of the objects that they are read from.
KINDS: tuple[Kind[Any], ...] = (  # Any: a table of kinds holds kinds of many types
    NAMESPACE,
    PRIORITY_CLASS,
    PERSISTENT_VOLUME_CLAIM,
    PERSISTENT_VOLUME,
    STORAGE_CLASS,
    CLUSTER_NETWORK_TOPOLOGY,
    RESOURCE_QUOTA,
    LIMIT_RANGE,
    RUNTIME_CLASS,
    DEVICE_CLASS,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_CLAIM,
    *groups.BY_KIND,
)

#: the highest priority of Kubernetes that users may have
UNRANKED: Final = 1_000_000_000


class World:
    """Objects by kind and name, and by what they belong to.

    `schedulers` are the values of `spec.schedulerName` that make a pod muster's; None means all pods,
    as on the embedded cluster, where no other scheduler runs. `whole`: an object that is not here does not
    exist, as in a snapshot; otherwise it may not have been seen yet.
    """

    def __init__(
        self,
        schedulers: frozenset[str] | None = None,
        *,
        whole: bool = False,
        lease: str = "",
        victims: frozenset[str] = frozenset(),
        unranked: int = UNRANKED,
        awaiting: frozenset[str] = frozenset(),
    ) -> None:
        """`lease`: of the scheduler that records the gangs, `namespace/name`; "": there is no other.

        `victims`: namespaces of which pods of other schedulers may be victims. `unranked`: the highest
        priority that a mark can ask for while no PriorityClass says which there are: on the embedded cluster
        its user could create one; a daemon has a setting for it. `awaiting`: schedulerNames whose pods wait
        for the PodGroup that another controller makes for each of them.
        """
        self.schedulers, self.lease, self.victims, self.unranked = schedulers, lease, victims, unranked
        self.whole, self.awaiting = whole, awaiting
        #: uids of objects that are only proposed: no API server has charged them to a ResourceQuota
        self.uncreated: set[str] = set()
        self._objects: dict[Kind[Any], dict[Name, Any]] = {kind: {} for kind in KINDS}
        #: by dialect of gangs, the objects that describe them: of one name that of the first row
        self._groups: dict[Dialect, Mapping[Name, Any]] = {
            row: self._objects[row.kind]
            if len(rows) == 1
            else ChainMap(*(self._objects[each.kind] for each in rows))
            for row, rows in groups.SHARING.items()
        }
        #: what queues decide about groups
        self.queue_rules = QueueRules()
        #: the layers of the network topology
        self.layers = Layers()
        #: whether a GangGroup was formed or has ended since this was last cleared; see `ganggroup`
        self.rehomed = False
        #: by Job, the result of `dialects.group_of`; cleared when a Job, JobSet or namespace changes
        self.groups_of_jobs: dict[Name, tuple[bool, GroupKey | None]] = {}
        #: by selector, the namespaces that it selects; cleared when a namespace changes
        self.selected_namespaces: dict[tuple[Requirement, ...], tuple[str, ...]] = {}
        self._quotas_in: dict[str, dict[Name, ResourceQuota]] = {}
        self._ranges_in: dict[str, dict[Name, LimitRange]] = {}
        #: by namespace and uid of the controller, which is in the same namespace
        self._jobs_of: dict[tuple[str, str], dict[Name, Job]] = {}
        self._pods_of: dict[tuple[str, str], dict[Name, Pod]] = {}
        #: by PodGroup, the pods that name it: muster's, and those of other schedulers
        self._pods_in: dict[tuple[str, str, str], dict[Name, Pod]] = {}
        self._strangers_in: dict[tuple[str, str, str], dict[Name, Pod]] = {}
        #: by PodGroup, pods that name it besides the one that they are in
        self._naming_too: dict[tuple[str, str, str], dict[Name, Pod]] = {}
        #: by name of a volume, the claims that name it
        self._claims_on: dict[str, dict[Name, PersistentVolumeClaim]] = {}
        #: by kind: objects whose pods use a claim, and the objects of a namespace
        self._using: dict[Kind[Any], dict[Name, dict[Name, Any]]] = {kind: {} for kind in (POD, JOB, JOBSET)}
        self._in_namespace: dict[Kind[Any], dict[str, dict[Name, Any]]] = {kind: {} for kind in self._using}
        #: by kind: objects whose pods name a claim of devices, or a template of one: kind, namespace, name
        self._asking: dict[Kind[Any], dict[tuple[AnyKind, str, str], dict[Name, Any]]] = {
            kind: {} for kind in self._using
        }
        #: what the claims of pods ask of devices
        self.asks = Asks()
        #: by class of devices, the resource as which these are counted
        self.classes: dict[str, str] = {}
        self.device_claims = Known(
            self._objects[RESOURCE_CLAIM_TEMPLATE], self._objects[RESOURCE_CLAIM], self._objects[DEVICE_CLASS]
        )
        #: by PodGroup of a GangGroup, all that it consists of, in order
        self._together: dict[tuple[str, str, str], tuple[Name, ...]] = {}
        #: for each gang that pods describe, these pods, the oldest first: creation time and name
        self._describing: dict[Name, list[tuple[float, str]]] = {}

    def ours(self, scheduler: str) -> bool:
        """Whether this value of `spec.schedulerName` makes a pod muster's."""
        return self.schedulers is None or scheduler in self.schedulers

    def schedules(self, pod: Pod) -> bool:
        """Whether a pod is muster's, and so may be a member of a gang.

        If muster schedules all pods, those are not that their nodes have started or would start again: bound
        pods of DaemonSets, and mirror pods.
        """
        of_node = self.schedulers is None and bool(pod.spec.node_name) and pod.of_its_node
        return self.ours(pod.spec.scheduler_name) and not of_node

    def evictable(self, pod: Pod) -> bool:
        """Whether a pod of another scheduler may be a victim: it runs in one of the namespaces for that."""
        return (
            pod.metadata.namespace in self.victims
            and bool(pod.spec.node_name)
            and not self.ours(pod.spec.scheduler_name)
            and not pod.of_its_node
        )

    def put(self, kind: Kind[R], obj: R) -> R | None:
        """Takes in an object in its current state; returns its previous state, None if it is new."""
        return self._replace(kind, (obj.metadata.namespace, obj.metadata.name), obj)

    def drop(self, kind: Kind[R], namespace: str, name: str) -> R | None:
        """Forgets an object; returns its last state, None if it was not known."""
        return self._replace(kind, (namespace, name), None)

    def quotas_in(self, namespace: str) -> list[ResourceQuota]:
        """Returns the namespace's quotas by name. Hardly any namespace has more than one or two."""
        return _by_name(self._quotas_in.get(namespace))

    def created(self, spec: PodSpec, namespace: str) -> PodSpec:
        """Returns the spec of a pod that is still to be created, as the API server will complete it."""
        ranges = _by_name(self._ranges_in.get(namespace))
        name = spec.runtime_class_name
        runtime = self._objects[RUNTIME_CLASS].get(("", name)) if name else None
        return admitted(spec, ranges, runtime) if ranges or runtime is not None else spec

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

    def groups_of(self, row: Dialect) -> Mapping[Name, Any]:  # Any: objects of the kinds that share its keys
        """Returns the objects that describe gangs; a `Described` where none exists and pods do."""
        return self._groups[row]

    def describing(self, row: Dialect, namespace: str, name: str) -> Dialect:
        """Returns the row of the object that describes this gang; that of its key if none exists."""
        found = (each for each in groups.SHARING[row] if (namespace, name) in self._objects[each.kind])
        return next(found, row)

    def frees(self, row: Dialect, namespace: str, name: str) -> bool:
        """Whether there is such a group, and the pods that name it are no gang."""
        return row.alone is not None and row.frees(self._groups[row].get((namespace, name)))

    def grouped(self, pod: Pod) -> groups.Named | None:
        """Returns the group that a pod names; None if it names none, or one whose pods are no gang."""
        named = groups.named(pod)
        freed = named is not None and self.frees(named.dialect, pod.metadata.namespace, named.name)
        return None if freed else named

    def described(self, kind: AnyKind, namespace: str, name: str) -> list[Described]:
        """Returns the descriptions of this gang by the two oldest of the pods that describe it.

        The first counts; the second did, if the first has just arrived.
        """
        oldest = self._describing.get((namespace, name), ())[:2] if kind is groups.DESCRIBED.kind else ()
        return [described.told_by(self.pods[namespace, pod]) for _, pod in oldest]

    def jobs_of(self, jobset: Resource) -> list[Job]:
        """Returns the Jobs that a JobSet controls, by name: those of its namespace."""
        found = _by_name(self._jobs_of.get((jobset.metadata.namespace, jobset.metadata.uid)))
        return [job for job in found if controls(JOBSET, jobset, job)]

    def pods_of(self, job: Resource) -> list[Pod]:
        """Returns the pods that a Job controls, by name: those of its namespace."""
        found = _by_name(self._pods_of.get((job.metadata.namespace, job.metadata.uid)))
        return [pod for pod in found if controls(JOB, job, pod)]

    def pods_in(self, kind: AnyKind, namespace: str, name: str) -> Mapping[Name, Pod]:
        """Returns the pods of muster's that name this PodGroup, whether or not it exists."""
        return self._pods_in.get((kind.group, namespace, name), {})

    def strangers_in(self, kind: AnyKind, namespace: str, name: str) -> Mapping[Name, Pod]:
        """Returns the pods of other schedulers that name it."""
        return self._strangers_in.get((kind.group, namespace, name), {})

    def naming(self, kind: AnyKind, namespace: str, name: str) -> Iterator[Pod]:
        """Yields muster's pods that name this PodGroup, and all that name it besides the one they are in."""
        key = kind.group, namespace, name
        yield from self._pods_in.get(key, {}).values()
        yield from self._naming_too.get(key, {}).values()

    def claims_on(self, volume: str) -> Iterable[Name]:
        """Returns the claims that name this volume, whether or not it exists, and whatever it says itself."""
        return self._claims_on.get(volume, ())

    def users_of(self, claim: Name) -> Iterator[tuple[Resource, Kind[Any]]]:
        """Yields the pods, and the Jobs and JobSets whose pods use this claim, with their kinds."""
        for kind, using in self._using.items():
            for user in using.get(claim, {}).values():
                yield user, kind

    def asking_for(self, kind: AnyKind, namespace: str, name: str) -> Iterator[tuple[Resource, Kind[Any]]]:
        """Yields the pods, and the Jobs and JobSets whose pods name this claim of devices or template."""
        for of, asking in self._asking.items():
            for user in asking.get((kind, namespace, name), {}).values():
                yield user, of

    def all_of(self, kind: Kind[R]) -> Iterable[R]:
        """Returns all objects of a kind."""
        return self._objects[kind].values()

    def in_namespace(self, kind: Kind[R], namespace: str) -> Iterable[R]:
        """Returns all objects of a kind in a namespace: a scan, unless they are JobSets, Jobs or pods."""
        if (index := self._in_namespace.get(kind)) is not None:
            return index.get(namespace, {}).values()
        return [obj for (where, _), obj in self._objects[kind].items() if where == namespace]

    def together(self, kind: AnyKind, namespace: str, name: str) -> tuple[Name, ...]:
        """Returns the PodGroups of this one's GangGroup, from its home on; only itself if it has none."""
        return self._together.get((kind.group, namespace, name)) or ((namespace, name),)

    def owners_of(self, pod: Pod) -> Iterator[Resource]:
        """Yields the Job that controls a pod, and the JobSet that controls the Job, as far as they exist."""
        controller = controller_of(pod)
        job = self.jobs.get((pod.metadata.namespace, controller.name)) if controller is not None else None
        if job is None or not controls(JOB, job, pod):
            return
        yield job
        controller = controller_of(job)
        jobset = (
            self.jobsets.get((job.metadata.namespace, controller.name)) if controller is not None else None
        )
        if jobset is not None and controls(JOBSET, jobset, job):
            yield jobset

    def _replace(self, kind: Kind[R], name: Name, obj: R | None) -> R | None:
        if kind is JOB or kind is JOBSET or kind is NAMESPACE:
            self.groups_of_jobs.clear()
        if kind is NAMESPACE:
            self.selected_namespaces.clear()
        before: R | None = self._objects[kind].pop(name, None)
        moved = before is None or obj is None or kind is not POD or not self._at_home(before, obj)
        if before is not None and moved:
            self._unindex(kind, name, before)
        if obj is not None:
            self._objects[kind][name] = obj
            for index, key in self._keys(kind, obj):
                index.setdefault(key, {})[name] = obj
        if kind in groups.OF_NAMED:
            self._regroup(groups.BY_KIND[kind].naming, name)
        if kind is DEVICE_CLASS:
            counted = counted_as(self.device_claims.classes.values())
            self.device_claims = self.device_claims._replace(counted=counted)
            self.classes = {of: resource_of(of, counted) for _, of in self.device_claims.classes}
        if kind is CLUSTER_NETWORK_TOPOLOGY:
            self.layers = layers(self._objects[kind].get(("", DEFAULT)))
        elif kind is groups.DESCRIBED.kind and obj is None:
            self._describe(name)
        elif kind is POD and moved:
            for gang in self._note(before, there=False) | self._note(obj, there=True):
                self._describe(gang)
        return before

    def _at_home(self, before: Resource, now: Resource) -> bool:
        """Whether two states of a pod have the same keys in each index."""
        assert isinstance(before, Pod)
        assert isinstance(now, Pod)
        old, new = before.metadata, now.metadata
        return (
            old.owner_references == new.owner_references
            and groups.named_alike(before, now)
            and old.creation_timestamp == new.creation_timestamp
            and self.schedules(before) == self.schedules(now)
            and before.spec.volumes == now.spec.volumes
            and before.spec.resource_claims == now.spec.resource_claims
            and before.status.resource_claim_statuses == now.status.resource_claim_statuses
            and pod_claims.for_resources(before) == pod_claims.for_resources(now)
        )

    def _note(self, pod: Resource | None, *, there: bool) -> set[Name]:
        """Notes which gang the pod describes, and returns that gang."""
        if not isinstance(pod, Pod) or not (gang := described.gang_of(pod)) or not self.schedules(pod):
            return set()
        name, created = (pod.metadata.namespace, gang), pod.metadata.creation_timestamp
        entry = (seconds(created), pod.metadata.name)
        pods = self._describing.setdefault(name, [])
        if there:
            insort(pods, entry)
        else:
            del pods[bisect_left(pods, entry)]
        return {name}

    def _describe(self, gang: Name) -> None:
        """Lets the oldest pod's description replace the PodGroup of this name while none exists."""
        pods = self._describing.get(gang)
        known = self._objects[groups.DESCRIBED.kind].get(gang)
        if not pods and pods is not None:
            del self._describing[gang]
        if known is None or isinstance(known, Described):
            told = described.told_by(self.pods[gang[0], pods[0][1]]) if pods else None
            if told != known:
                self._replace(groups.DESCRIBED.kind, gang, told)

    def _regroup(self, row: Dialect, name: Name) -> None:
        """Ends the GangGroup of a PodGroup that has changed, and forms the one on which all agree now."""
        key, known = row.kind.group, self._groups[row]
        before, group = self._together.get((key, *name), ()), known.get(name)
        after = ganggroup.members(group, known) if group is not None else ()
        if before != after:
            for member in before:
                del self._together[key, *member]
            self._together.update(((key, *member), after) for member in after)
            self.rehomed = True

    def _unindex(self, kind: Kind[Any], name: Name, obj: Resource) -> None:
        for index, key in self._keys(kind, obj):
            del index[key][name]
            if not index[key]:
                del index[key]

    def _keys(self, kind: Kind[Any], obj: Resource) -> Iterator[tuple[dict[Any, dict[Name, Any]], Any]]:
        """Yields the indexes that contain an object, with its keys. Any: one per type of key and object."""
        if kind is RESOURCE_QUOTA:
            yield self._quotas_in, obj.metadata.namespace
        if kind is LIMIT_RANGE:
            yield self._ranges_in, obj.metadata.namespace
        if kind is JOB or kind is POD:
            controller = controller_of(obj)
            if controller is not None:
                yield (
                    (self._jobs_of if kind is JOB else self._pods_of),
                    (obj.metadata.namespace, controller.uid),
                )
        if isinstance(obj, PersistentVolumeClaim) and obj.spec.volume_name:
            yield self._claims_on, obj.spec.volume_name
        if kind in self._using:
            yield self._in_namespace[kind], obj.metadata.namespace
            for claim in claims_of(obj):
                yield self._using[kind], (obj.metadata.namespace, claim)
            for of, name in named_by(obj):
                yield self._asking[kind], (of, obj.metadata.namespace, name)
        if kind is POD:
            assert isinstance(obj, Pod)
            if (named := groups.named(obj)) is not None:
                index, namespace = self._pods_in, obj.metadata.namespace
                if not self.schedules(obj):
                    index = self._strangers_in
                yield index, (named.dialect.kind.group, namespace, named.name)
                for other in groups.also_named(obj, named):
                    yield self._naming_too, (other.dialect.kind.group, namespace, other.name)


def _by_name(found: dict[Name, R] | None) -> list[R]:
    return [found[name] for name in sorted(found)] if found else []
