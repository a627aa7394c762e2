"""The table of groups: a row for each kind of object that makes pods a gang.

A row, a `Dialect`, says what the object is, how a pod names it, what stands for it while it does not exist,
what it asks for, and the words of its status. Translation, controllers, views, the readers of job files,
`plan` and `check` iterate over the rows, and name no kind of PodGroup themselves. How a gang of a dialect is
read is registered by row in `translate.dialects`. docs/internals/architecture.md says how to add a dialect.

A pod belongs to the first group of the table that it names by label; otherwise to the one that it names by
annotation; otherwise to the gang that it describes itself; otherwise to the one that its spec names, which a
controller may have set; otherwise to the JobSet or Job that controls it, if that is a gang. Otherwise it is a
gang of one. A pod that names gangs of two dialects is refused (`also_named`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from muster.api import kinds, scheduling_v1beta1
from muster.api import koordinator_v1alpha1 as koordinator
from muster.api import volcano_v1beta1 as volcano
from muster.api.base import AnyKind, Object, Resource, at, controller_of, is_label_key, is_subdomain
from muster.api.core_v1 import Pod, PodTemplate
from muster.api.fields import convert
from muster.api.jobset_v1alpha2 import JOBSET_NAME
from muster.api.scheduling import PodGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a group object asks for by fields of its own, whatever its pods say.

    Marks and annotations that all dialects have in common are read from its metadata, and count more.
    """

    #: how many of its pods must run together
    minimum: int
    #: the field that says so
    field: str
    #: by task, how many of the pods of that task must be among them (`Dialect.task`)
    tasks: tuple[tuple[str, int], ...] = ()
    #: its pods are no gang: each starts alone
    alone: bool = False
    queue: str = ""
    #: the name of a PriorityClass, or a number
    priority: str | int | None = None
    #: None: as its pods say
    preempts: bool | None = None
    #: node label: all of its pods run on nodes with one value of it
    domain: str = ""
    #: its pods are evicted together or not at all, also those above the minimum
    indivisible: bool = False
    #: why it is Invalid: a field that cannot be honoured, and what to write instead
    refusal: str = ""
    #: what is read otherwise than its dialect would
    warnings: tuple[str, ...] = ()


class Phases(NamedTuple):
    """The words for what a group does, in the status of its object."""

    pending: str
    #: as many of its pods exist as must run together
    enough: str
    scheduling: str
    scheduled: str
    running: str
    finished: str
    failed: str
    #: whether the status counts its pods on nodes, too
    counted: bool = True


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Dialect:
    """A kind of group. Rows are compared by identity: keys of groups are hashed often."""

    #: what the names of its Gang records begin with
    name: str
    kind: AnyKind
    #: what an object of it controls: the pods, or the Jobs that control them
    controls: AnyKind | None = None
    #: label of pods that its controller sets to its name
    stamp: str = ""
    #: label by which a pod names its group. Without the object the gang waits: it may come after its pods
    label: str = ""
    #: annotations by which a pod names its group as by `label`; the first that a pod has counts
    annotations: tuple[str, ...] = ()
    #: whether `spec.schedulingGroup.podGroupName` of a pod names its group
    in_spec: bool = False
    #: label or annotation of a pod that names its task, of which the group may have a minimum
    task: str = ""
    #: labels or annotations by which a pod names a gang that it describes itself while the object does not
    #: exist; the first that a pod has counts
    by_description: tuple[str, ...] = ()
    #: where such a pod says how many must run together, and what else describes its gang
    minimum: tuple[str, ...] = ()
    description: tuple[str, ...] = ()
    #: reads an object. None: it asks for what its pod templates say
    asked: Callable[[Any], Asked] | None = None  # Any: an object of `kind`
    #: None: the status is its own controller's
    phases: Phases | None = None

    def __repr__(self) -> str:
        return self.name  # a key of a group is shown with it

    def frees(self, group: Resource | None) -> bool:
        """Whether the pods that name this object are no gang."""
        return group is not None and self.asked is not None and self.asked(group).alone

    def read(self, obj: Object) -> Asked:
        """Returns what an object asks for that is given as JSON. Raises InvalidObject."""
        assert self.asked is not None, "a group that pods name says what it asks for"
        return self.asked(convert(obj, self.kind.type))


def _of_pod_group(group: PodGroup) -> Asked:
    return Asked(minimum=group.spec.min_member, field="spec.minMember")


def _of_koordinator(group: PodGroup) -> Asked:
    warnings = tuple(koordinator.read_otherwise(group.metadata.annotations))
    return Asked(minimum=group.spec.min_member, field="spec.minMember", warnings=warnings)


def _of_volcano(group: volcano.PodGroup) -> Asked:
    """Tasks count as in Volcano: not if their minima together are more than that of the group.

    Without a minimum it is the sum of the tasks', as Volcano's webhook completes its Jobs. `minResources`
    never lowers what its pods request: Volcano's controller computes it of them, without GPUs of limits.
    """
    spec = group.spec
    tasks = tuple(sorted((name, least) for name, least in spec.min_task_member.items() if least > 0))
    together = sum(least for _, least in tasks)
    minimum = spec.min_member or together
    topology = spec.network_topology
    soft = topology is not None and topology.mode == "soft"
    return Asked(
        minimum=minimum,
        field="spec.minMember",
        tasks=tasks if minimum >= together else (),
        queue=spec.queue,
        priority=spec.priority_class_name or None,
        refusal=next(_unread_of_volcano(spec), ""),
        warnings=(f"spec.networkTopology is soft, and HyperNodes are not read; {_LAYERS}",) if soft else (),
    )


_LAYERS: Final = (
    "write the layers as a ClusterNetworkTopology and its rule as the annotation "
    f"{koordinator.TOPOLOGY_SPEC} (docs/concepts/topology.md)"
)


def _unread_of_volcano(spec: volcano.PodGroupSpec) -> Iterator[str]:
    """Yields why a PodGroup of Volcano cannot be honoured."""
    if negative := min((each for each in spec.min_task_member.items() if each[1] < 0), default=None):
        task, least = negative
        yield f"spec.minTaskMember.{task[:63]} is {least}; write how many pods of it must run together"
    if len(spec.min_task_member) > volcano.MOST_TASKS:
        yield (
            f"spec.minTaskMember has {len(spec.min_task_member)} tasks; "
            f"a PodGroup has at most {volcano.MOST_TASKS}"
        )
    if spec.network_topology is not None and spec.network_topology.mode != "soft":
        yield f"spec.networkTopology needs HyperNodes, which are not read; leave it out, and {_LAYERS}"
    if spec.sub_group_policy:
        yield (
            "spec.subGroupPolicy is not supported; leave it out (a partitionPolicy of a Job makes it), and "
            f"make a PodGroup of each part, joined by the annotation {koordinator.GROUPS}"
        )


def _of_native(group: scheduling_v1beta1.PodGroup) -> Asked:
    spec = group.spec
    policy, mode = spec.scheduling_policy, spec.disruption_mode
    keys = [each.key for each in spec.scheduling_constraints.topology] if spec.scheduling_constraints else []
    apart = mode is None or mode.all is None
    return Asked(
        minimum=policy.gang.min_count if policy.gang is not None else 0,
        field="spec.schedulingPolicy.gang.minCount",
        # without a gang's minimum there is still what all pods have to observe together
        alone=policy.gang is None and policy.basic is not None and not keys and apart,
        priority=spec.priority_class_name or None if spec.priority is None else spec.priority,
        preempts=None if spec.preemption_policy is None else spec.preemption_policy != "Never",
        domain=keys[0] if keys else "",
        indivisible=not apart,
        refusal=next(_refused(group.spec, keys), ""),
    )


def _refused(spec: scheduling_v1beta1.PodGroupSpec, keys: Sequence[str]) -> Iterator[str]:
    policy = spec.scheduling_policy
    if (policy.gang is None) == (policy.basic is None):
        found = "neither gang nor basic" if policy.gang is None else "both gang and basic"
        yield f"spec.schedulingPolicy has {found}; write gang with a minCount, or basic: {{}}"
    if policy.gang is not None and policy.gang.min_count < 1:
        yield (
            f"spec.schedulingPolicy.gang.minCount is {policy.gang.min_count}; write how many pods must run "
            "together"
        )
    if spec.parent_composite_pod_group_name:
        yield (
            "spec.parentCompositePodGroupName (a CompositePodGroup) is not supported; leave it out, and join "
            f"the PodGroups by the annotation {koordinator.GROUPS} on each of them"
        )
    if spec.resource_claims:
        claims = ", ".join(claim.name[:80] for claim in spec.resource_claims[:4])
        yield f"spec.resourceClaims {claims} (dynamic resource allocation) is not supported yet"
    if len(keys) > 1:
        yield f"spec.schedulingConstraints.topology has {len(keys)} constraints; write one"
    if keys and not is_label_key(keys[0]):
        yield (
            f"spec.schedulingConstraints.topology[0].key is {keys[0][:80]!r}; write the key of a node label"
        )


JOBSET: Final = Dialect(name="jobset", kind=kinds.JOBSET, controls=kinds.JOB, stamp=JOBSET_NAME)
JOB: Final = Dialect(name="job", kind=kinds.JOB, controls=kinds.POD)
#: scheduler-plugins
POD_GROUP: Final = Dialect(
    name="podgroup",
    kind=kinds.POD_GROUP_X,
    label="scheduling.x-k8s.io/pod-group",
    asked=_of_pod_group,
    phases=Phases(
        *("Pending", "Scheduling", "Scheduling", "Scheduling", "Running", "Finished", "Failed"), counted=False
    ),
)
KOORDINATOR: Final = Dialect(
    name="koordinator",
    kind=kinds.POD_GROUP_SIGS,
    label="pod-group.scheduling.sigs.k8s.io",
    by_description=koordinator.BY_NAME,
    minimum=koordinator.MIN_AVAILABLE,
    description=(koordinator.GROUPS, koordinator.MODE, *koordinator.MATCH_POLICY),
    asked=_of_koordinator,
    phases=Phases(*("Pending", "PreScheduling", "Scheduling", "Scheduled", "Running", "Finished", "Failed")),
)
VOLCANO: Final = Dialect(
    name="volcano",
    kind=kinds.POD_GROUP_VOLCANO,
    annotations=volcano.GROUP_NAME,
    task=volcano.TASK,
    asked=_of_volcano,
)
#: Kubernetes itself
NATIVE: Final = Dialect(
    name="native",
    kind=kinds.POD_GROUP_K8S,
    in_spec=True,
    asked=_of_native,
)
#: a pod without a group: a gang of one
POD: Final = Dialect(name="pod", kind=kinds.POD)

#: All dialects, in the order in which namesakes claim `namespace/name` as the id of their gang.
TABLE: Final = (JOBSET, JOB, POD_GROUP, KOORDINATOR, VOLCANO, NATIVE, POD)
#: Those whose groups are named by pods, and control nothing.
NAMED: Final = tuple(row for row in TABLE if row.label or row.annotations or row.in_spec)
#: The kinds of their objects.
OF_NAMED: Final[tuple[AnyKind, ...]] = tuple(row.kind for row in NAMED)
#: What these kinds are called.
NAMES_OF_NAMED: Final = tuple(dict.fromkeys(kind.kind for kind in OF_NAMED))
#: That of the groups that muster creates for pods which are to be a gang.
CREATED: Final = POD_GROUP
#: That of gangs that pods describe.
DESCRIBED: Final = KOORDINATOR
BY_KIND: Final[Mapping[AnyKind, Dialect]] = {row.kind: row for row in TABLE}

#: Labels, and annotations, by which a pod may name a gang; keys of both sorts by which it may describe one.
LABELS: Final = tuple(row.label for row in NAMED if row.label)
ANNOTATIONS: Final = tuple(key for row in NAMED for key in row.annotations)
DESCRIPTIONS: Final = tuple(key for row in NAMED for key in row.by_description)
_NAMING: Final = frozenset((*LABELS, *DESCRIPTIONS))
_AS_ANNOTATION: Final = frozenset((*ANNOTATIONS, *DESCRIPTIONS))
#: the annotations that say which gang a pod is in, and what that is like
_SAYING: Final = _AS_ANNOTATION.union(key for row in NAMED for key in (*row.minimum, *row.description))
#: the row whose groups `spec.schedulingGroup` names
_BY_FIELD: Final = next((row for row in NAMED if row.in_spec), None)
_BY_LABEL: Final = tuple((row, row.label) for row in NAMED if row.label)
_BY_ANNOTATION: Final = tuple((row, key) for row in NAMED for key in row.annotations)
_BY_DESCRIPTION: Final = tuple((row, key) for row in NAMED for key in row.by_description)


class Named(NamedTuple):
    """The group that a pod names, whether or not its object exists."""

    dialect: Dialect
    name: str
    #: whether the pod describes the gang
    described: bool = False


def named(pod: Pod | PodTemplate) -> Named | None:
    """Returns the group that a pod, or the pods of a template, name; None if they name none."""
    meta = pod.metadata
    return _named(meta.labels, meta.annotations, pod.spec.scheduling_group)


def also_named(pod: Pod, found: Named) -> list[Named]:
    """Returns the groups of other dialects that a pod names besides the one that it belongs to."""
    meta = pod.metadata
    every = _all_named(meta.labels, meta.annotations, pod.spec.scheduling_group)
    return [one for one in every if one.dialect is not found.dialect]


def named_in(template: Object) -> Named | None:
    """As `named`, of a pod or a template as JSON."""
    meta = at(template, "metadata")
    field = at(template, "spec", "schedulingGroup") or None
    return _named(at(meta, "labels"), at(meta, "annotations"), field)


def naming(template: Object) -> tuple[str, ...]:
    """Returns the path of the field, label or annotation by which a template names its group; () if none."""
    found = named_in(template)
    if found is None:
        return ()
    row, meta = found.dialect, at(template, "metadata")
    if row.in_spec and at(template, "spec", "schedulingGroup").get("podGroupName"):
        return "spec", "schedulingGroup", "podGroupName"
    for key in filter(None, (row.label, *row.annotations, *row.by_description)):
        for where in ("labels", "annotations"):
            if at(meta, where).get(key) == found.name:
                return "metadata", where, key
    return ()


def row_of(obj: Object) -> Dialect | None:
    """Returns the dialect that an object as JSON is a group, or a pod, of."""
    kind = kinds.BY_NAME.get((obj["apiVersion"], obj["kind"]))
    return BY_KIND.get(kind) if kind is not None else None


def possible(pod: Pod) -> Iterator[tuple[Dialect, str]]:
    """Yields the groups whose member a pod may be, with their names."""
    if (found := named(pod)) is not None:
        yield found.dialect, found.name
    controller = controller_of(pod)
    for row in TABLE:
        if row.stamp and (name := pod.metadata.labels.get(row.stamp)):
            yield row, name
        if row.controls is kinds.POD and controller is not None and row.kind.matches(controller):
            yield row, controller.name


def created(name: str, namespace: str, minimum: int) -> Object:
    """Returns the object of a new group of `CREATED`: so many of its pods must run together."""
    kind, metadata = CREATED.kind, {"name": name, "namespace": namespace}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": {"minMember": minimum},
    }


def named_alike(before: Pod, now: Pod) -> bool:
    """Whether two states of a pod name the same group, and describe it alike."""
    if before.metadata.labels != now.metadata.labels:
        return False
    if before.spec.scheduling_group != now.spec.scheduling_group:
        return False
    old, new = before.metadata.annotations, now.metadata.annotations
    if old.keys().isdisjoint(_SAYING) and new.keys().isdisjoint(_SAYING):
        return True
    return all(old.get(key) == new.get(key) for key in _SAYING)


def _named(labels: Mapping[str, str], annotations: Mapping[str, str], field: Object | None) -> Named | None:
    # most pods name none, and this is asked several times for each change of a pod
    if field is None and labels.keys().isdisjoint(_NAMING) and annotations.keys().isdisjoint(_AS_ANNOTATION):
        return None
    return next(_all_named(labels, annotations, field), None)


def _all_named(
    labels: Mapping[str, str], annotations: Mapping[str, str], field: Object | None
) -> Iterator[Named]:
    for row, label in _BY_LABEL:
        if name := labels.get(label):
            yield Named(row, name)
    for row, key in _BY_ANNOTATION:
        if name := annotations.get(key):
            yield Named(row, name)
    for row, key in _BY_DESCRIPTION:
        if name := labels.get(key) or annotations.get(key):  # a name that no object could have names none
            if is_subdomain(name):
                yield Named(row, name, described=True)
            break
    if field is not None and _BY_FIELD is not None and (name := field.get("podGroupName")):
        yield Named(_BY_FIELD, str(name))
