"""One demand written in each dialect: a gang's minimum, pods, queue, priority and topology.

`WRITTEN` has each way of writing it. A row of the table of groups that none of them writes stands in
`UNWRITTEN`, with the reason (`test_alike`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import msgspec

from muster import names
from muster.api import groups
from muster.api.base import Object
from muster.api.groups import Dialect
from muster.api.koordinator_v1alpha1 import MIN_AVAILABLE, TOPOLOGY_SPEC

#: The layer of the cluster's topology, and the label of nodes that names its domains.
LAYER: Final = "RackLayer"
RACK: Final = "example.org/rack"
#: The gang.
NAME: Final = "g"


@dataclass(frozen=True, slots=True)
class Pods:
    """So many pods of one shape."""

    count: int
    cpu: int = 1
    #: the task, or the replicated job
    name: str = "first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    pods: tuple[Pods, ...]
    #: how many must run together
    minimum: int
    queue: str = ""
    #: the name of a PriorityClass
    priority: str = ""
    #: all pods run in one domain of `LAYER`
    together: bool = False

    @property
    def count(self) -> int:
        return sum(each.count for each in self.pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A way of writing a demand."""

    dialect: Dialect
    #: the objects; None: it cannot be said so
    objects: Callable[[Demand], list[Object] | None]
    #: how a pod names its gang
    by: str = field(default="")

    def __str__(self) -> str:
        return f"{self.dialect.name} {self.by}".strip()


def _pod(name: str, pods: Pods, metadata: Object, spec: Object) -> Object:
    requests = {"cpu": str(pods.cpu)}
    containers = [{"name": "c", "image": "busybox", "resources": {"requests": requests}}]
    inner = {"restartPolicy": "Never", "containers": containers, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": inner}


def _members(demand: Demand, metadata: Object, spec: Object) -> Iterator[Object]:
    for pods in demand.pods:
        for number in range(pods.count):
            yield _pod(f"{pods.name}-{number}", pods, metadata, spec)


def _together(demand: Demand) -> dict[str, str]:
    """The topology by Koordinator's annotation, which counts on every group object."""
    if not demand.together:
        return {}
    rule = {"layer": LAYER, "strategy": "MustGather"}
    return {TOPOLOGY_SPEC: msgspec.json.encode({"gatherStrategy": [rule]}).decode()}


def marks(demand: Demand, *, queue: bool = True, priority: bool = True) -> Object:
    """The labels and annotations under `muster.dev`, and the topology, of an object without such fields."""
    said = {
        **({names.QUEUE: demand.queue} if queue and demand.queue else {}),
        **({names.PRIORITY: demand.priority} if priority and demand.priority else {}),
    }
    return {"labels": said, "annotations": _together(demand)}


def _group(row: Dialect, spec: Object, metadata: Object) -> Object:
    kind = row.kind
    meta = {"name": NAME, **metadata}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}


def _of_coscheduling(row: Dialect) -> Callable[[Demand], Object]:
    return lambda demand: _group(row, {"minMember": demand.minimum}, marks(demand))


def _of_volcano(row: Dialect, minimum: str = "minMember") -> Callable[[Demand], Object]:
    """kube-batch's groups have the fields of Volcano's, which stem from them."""

    def group(demand: Demand) -> Object:
        spec: Object = {minimum: demand.minimum}
        if demand.queue:
            spec["queue"] = demand.queue
        if demand.priority:
            spec["priorityClassName"] = demand.priority
        return _group(row, spec, marks(demand, queue=False, priority=False))

    return group


def _of_native(demand: Demand) -> Object:
    spec: Object = {"schedulingPolicy": {"gang": {"minCount": demand.minimum}}}
    if demand.priority:
        spec["priorityClassName"] = demand.priority
    if demand.together:
        spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
    labels = marks(demand, priority=False)["labels"]
    return _group(groups.NATIVE, spec, {"labels": labels})


#: By row whose groups are objects that pods name, how its object is written.
GROUPS: Final[dict[Dialect, Callable[[Demand], Object]]] = {
    groups.POD_GROUP: _of_coscheduling(groups.POD_GROUP),
    groups.KOORDINATOR: _of_coscheduling(groups.KOORDINATOR),
    groups.VOLCANO: _of_volcano(groups.VOLCANO),
    groups.INCUBATOR: _of_volcano(groups.INCUBATOR, "minMembers"),
    groups.SIGS_DEV: _of_volcano(groups.SIGS_DEV),
    groups.NATIVE: _of_native,
}


def _named(row: Dialect, group: Callable[[Demand], Object]) -> Iterator[Written]:
    """Yields each way in which pods name a group of this row."""

    def written(metadata: Object, spec: Object, by: str) -> Written:
        return Written(
            dialect=row, objects=lambda demand: [group(demand), *_members(demand, metadata, spec)], by=by
        )

    if row.label:
        yield written({"labels": {row.label: NAME}}, {}, row.label)
    for key in row.naming.annotations:
        yield written({"annotations": {key: NAME}}, {}, key)
    if row.in_spec:
        yield written({}, {"schedulingGroup": {"podGroupName": NAME}}, "spec.schedulingGroup")


def _described(where: str) -> Callable[[Demand], list[Object] | None]:
    """Pods that describe their gang; the priority is that of the pods."""

    def objects(demand: Demand) -> list[Object] | None:
        name, minimum = groups.DESCRIBED.by_description[-1], MIN_AVAILABLE[-1]
        metadata = marks(demand, priority=False)
        metadata[where] |= {name: NAME, minimum: str(demand.minimum)}
        spec = {"priorityClassName": demand.priority} if demand.priority else {}
        return [*_members(demand, metadata, spec)]

    return objects


def _jobset(demand: Demand) -> list[Object] | None:
    if demand.minimum != demand.count:
        return None
    metadata = marks(demand)
    metadata["labels"] |= {names.GANG: "true"}
    jobs = [{"name": pods.name, "replicas": 1, "template": {"spec": _job_spec(pods)}} for pods in demand.pods]
    kind = groups.JOBSET.kind
    return [
        {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": NAME, **metadata},
            "spec": {"replicatedJobs": jobs},
        }
    ]


def _job(demand: Demand) -> list[Object] | None:
    if demand.minimum != demand.count or len(demand.pods) != 1:
        return None
    metadata = marks(demand)
    metadata["labels"] |= {names.GANG: "true"}
    kind = groups.JOB.kind
    meta = {"name": NAME, **metadata}
    spec = _job_spec(demand.pods[0])
    return [{"apiVersion": kind.api_version, "kind": kind.kind, "metadata": meta, "spec": spec}]


def _job_spec(pods: Pods) -> Object:
    made = _pod("", pods, {}, {})
    count = {"parallelism": pods.count, "completions": pods.count, "completionMode": "Indexed"}
    return {**count, "template": {"spec": made["spec"]}}


def _alone(demand: Demand) -> list[Object] | None:
    """A pod without a group is a gang of one. Its priority is that of its spec."""
    if demand.count != 1 or demand.minimum != 1:
        return None
    spec = {"priorityClassName": demand.priority} if demand.priority else {}
    pods = demand.pods[0]
    return [_pod(f"{pods.name}-0", pods, marks(demand, priority=False), spec)]


WRITTEN: Final = (
    *(each for row, group in GROUPS.items() for each in _named(row, group)),
    Written(dialect=groups.DESCRIBED, objects=_described("annotations"), by="described by annotations"),
    Written(dialect=groups.DESCRIBED, objects=_described("labels"), by="described by labels"),
    Written(dialect=groups.JOBSET, objects=_jobset),
    Written(dialect=groups.JOB, objects=_job),
    Written(dialect=groups.POD, objects=_alone),
)
#: Rows in which no demand of these can be written, and why.
UNWRITTEN: Final[dict[Dialect, str]] = {}
