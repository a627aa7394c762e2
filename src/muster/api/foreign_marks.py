"""The table of marks of other schedulers that muster does not read: labels, annotations and fields of a spec.

A mark that is ignored silently does harm: the pods of a gang start one by one, or a job waits in no queue. So
each row says what its mark asks for, and what to write instead. A pod with a mark that asks for a gang is
Invalid unless it is in a gang that muster reads; the other marks are warnings. `check`, the scheduler and
docs/reference/foreign-marks.md read this table. A dialect that learns to read a mark deletes its row.

Sources: volcano-sh/apis, scheduling/v1beta1/labels.go and batch/v1alpha1/labels.go; koordinator,
apis/extension; kueue, pkg/controller/constants and apis/kueue/v1beta2; KAI-Scheduler, pkg/common/constants;
yunikorn-k8shim, pkg/common/constants; KEP-5547 and KEP-969.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from muster import names
from muster.api import groups
from muster.api.base import Object, ObjectMeta, at
from muster.api.fields import Path


class Asks(Enum):
    GANG = "a gang"
    QUEUE = "a queue"
    ORDER = "a place in the queue"
    PREEMPTION = "protection from preemption"
    TOPOLOGY = "a topology"
    SIZE = "a size that may vary"
    SHARE = "a share of a GPU"
    DEVICES = "certain devices or CPUs"
    RESERVATION = "reserved resources"
    LIMIT = "a time limit"


class Where(Enum):
    LABEL = "label"
    ANNOTATION = "annotation"
    FIELD = "field"


@dataclass(frozen=True, slots=True)
class ForeignMark:
    #: the label or annotation, or the path of a field
    key: str
    project: str
    where: Where
    #: the kinds on which its project reads it; a pod template is a Pod
    on: tuple[str, ...]
    asks: Asks
    #: what to write instead
    instead: str
    #: texts that ask for what muster does anyway
    harmless: tuple[str, ...] = ()
    #: only in templates: of an object that is written out the field is read
    of_templates: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """The path of a field."""
        return tuple(self.key.split("."))

    def message(self) -> str:
        """What `check` says at the mark."""
        return f"asks for {self.asks.value} of {self.project}, which muster does not read; {self.instead}"

    def sentence(self) -> str:
        """As `message`, with the mark."""
        return f"{self.where.value} {self.key} {self.message()}"


_IN_GROUP: Final = (
    f'label the Job or JobSet {names.GANG}: "true", or the pods {groups.CREATED.label}: NAME '
    f"of a {groups.CREATED.kind.kind} ({groups.CREATED.kind.api_version})"
)
_AS_JOB: Final = f'label the Job or JobSet {names.GANG}: "true"'
_AS_JOBSET: Final = f'label the JobSet {names.GANG}: "true"'
_QUEUE: Final = f"write {names.QUEUE}: NAME of a Queue of muster"
_PRIORITY: Final = f"write {names.PRIORITY}, or priorityClassName in the spec of its pods"
_TOPOLOGY: Final = (
    "write gang.scheduling.koordinator.sh/network-topology-spec with the layers of the "
    "ClusterNetworkTopology, or muster.dev/exclusive"
)
_SHARE: Final = f'write {names.GPU_SHARE}: "500" for half a GPU on the pod or its template'
_PARALLELISM: Final = "muster starts spec.parallelism pods; write the size that the job needs"
_NODES: Final = "select nodes by their labels (nodeSelector, affinity)"
_PINNED: Final = "the kubelet assigns devices and CPUs; select nodes by their labels (nodeSelector)"

_POD: Final = ("Pod",)
_JOBS: Final = ("Job", "JobSet", "Pod")
_VOLCANO: Final = "Volcano"
_KOORDINATOR: Final = "Koordinator"
_KUEUE: Final = "Kueue"
_KAI: Final = "KAI"
_YUNIKORN: Final = "YuniKorn"
_L, _A, _F = Where

#: All rows. A gang's mark comes before the others of its project.
TABLE: Final = (
    ForeignMark("scheduling.volcano.sh/group-min-member", _VOLCANO, _A, _JOBS, Asks.GANG, _IN_GROUP),
    ForeignMark(
        *("scheduling.volcano.sh/group-min-resources", _VOLCANO, _A, _JOBS, Asks.RESERVATION),
        "muster places a gang by what its pods request",
    ),
    ForeignMark("volcano.sh/queue-name", _VOLCANO, _L, _JOBS, Asks.QUEUE, _QUEUE),
    ForeignMark(
        *("volcano.sh/sla-waiting-time", _VOLCANO, _A, _JOBS, Asks.ORDER),
        f"gangs that wait are served by {names.PRIORITY}, and the first gets a reservation",
    ),
    ForeignMark(
        *("volcano.sh/cooldown-time", _VOLCANO, _A, _JOBS, Asks.PREEMPTION),
        f"write {names.MIN_RUN_TIME}",
    ),
    *(
        ForeignMark(key, _VOLCANO, _A, _JOBS, Asks.PREEMPTION, "write a PodDisruptionBudget")
        for key in ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
    ),
    ForeignMark("volcano.sh/revocable-zone", _VOLCANO, _A, _POD, Asks.RESERVATION, _NODES),
    ForeignMark("volcano.sh/numa-topology-policy", _VOLCANO, _A, _POD, Asks.DEVICES, _PINNED, ("none",)),
    ForeignMark("volcano.sh/network-topology-mode", _VOLCANO, _A, _JOBS, Asks.TOPOLOGY, _TOPOLOGY),
    ForeignMark("volcano.sh/network-topology-highest-tier", _VOLCANO, _A, _JOBS, Asks.TOPOLOGY, _TOPOLOGY),
    ForeignMark(
        *("quota.scheduling.koordinator.sh/tree-id", _KOORDINATOR, _L, _POD, Asks.QUEUE),
        f"queues of muster are one tree; {_QUEUE}",
    ),
    ForeignMark(
        *("scheduling.koordinator.sh/reservation-affinity", _KOORDINATOR, _A, _POD, Asks.RESERVATION),
        "muster has no Reservation objects; the guarantee of a Queue keeps resources free",
    ),
    *(
        ForeignMark(f"scheduling.koordinator.sh/{key}", _KOORDINATOR, _A, _POD, Asks.DEVICES, _PINNED)
        for key in (
            *("device-allocate-hint", "device-joint-allocate", "gpu-partition-spec"),
            *("resource-spec", "numa-topology-spec"),
        )
    ),
    ForeignMark(
        *("scheduling.koordinator.sh/network-topology-selector", _KOORDINATOR, _A, _POD, Asks.TOPOLOGY),
        "write affinity to the pods that it is to be near (podAffinity)",
    ),
    ForeignMark("koordinator.sh/priority", _KOORDINATOR, _L, _POD, Asks.ORDER, _PRIORITY),
    ForeignMark("koordinator.sh/priority-class", _KOORDINATOR, _L, _POD, Asks.ORDER, _PRIORITY),
    ForeignMark(
        *("koordinator.sh/qosClass", _KOORDINATOR, _L, _POD, Asks.DEVICES),
        "Koordinator's agent on the node may still act on it",
    ),
    ForeignMark("kueue.x-k8s.io/pod-group-name", _KUEUE, _L, _POD, Asks.GANG, _IN_GROUP),
    ForeignMark("kueue.x-k8s.io/pod-group-total-count", _KUEUE, _A, _POD, Asks.GANG, _IN_GROUP),
    ForeignMark(
        *("kueue.x-k8s.io/queue-name", _KUEUE, _L, _JOBS, Asks.QUEUE),
        f"{_QUEUE}; what Kueue has suspended waits for Kueue",
    ),
    ForeignMark("kueue.x-k8s.io/priority-class", _KUEUE, _L, _JOBS, Asks.ORDER, _PRIORITY),
    ForeignMark("kueue.x-k8s.io/job-min-parallelism", _KUEUE, _A, ("Job",), Asks.SIZE, _PARALLELISM),
    ForeignMark(
        *("kueue.x-k8s.io/max-exec-time-seconds", _KUEUE, _L, _JOBS, Asks.LIMIT),
        f"write activeDeadlineSeconds in the spec of the Job, or {names.DEADLINE} on a JobSet",
    ),
    *(
        ForeignMark(f"kueue.x-k8s.io/{key}", _KUEUE, _A, _POD, Asks.TOPOLOGY, _TOPOLOGY)
        for key in (
            *("podset-required-topology", "podset-preferred-topology", "podset-unconstrained-topology"),
            *("podset-slice-required-topology", "podset-slice-size", "podset-group-name"),
        )
    ),
    ForeignMark("pod-group-name", _KAI, _A, _POD, Asks.GANG, _IN_GROUP),
    ForeignMark("kai.scheduler/batch-min-member", _KAI, _A, ("Job",), Asks.GANG, _AS_JOB, ("1",)),
    ForeignMark("kai.scheduler/queue", _KAI, _L, _JOBS, Asks.QUEUE, _QUEUE),
    *(
        ForeignMark(key, _KAI, _A, _POD, Asks.SHARE, _SHARE)
        for key in ("gpu-fraction", "gpu-memory", "gpu-fraction-num-devices")
    ),
    *(
        ForeignMark(f"kai.scheduler/{key}", _KAI, _A, _JOBS, Asks.TOPOLOGY, _TOPOLOGY)
        for key in ("topology", "topology-required-placement", "topology-preferred-placement")
    ),
    ForeignMark("yunikorn.apache.org/task-groups", _YUNIKORN, _A, _POD, Asks.GANG, _IN_GROUP),
    ForeignMark("yunikorn.apache.org/task-group-name", _YUNIKORN, _A, _POD, Asks.GANG, _IN_GROUP),
    ForeignMark("yunikorn.apache.org/queue", _YUNIKORN, _L, _POD, Asks.QUEUE, _QUEUE),
    ForeignMark(
        *("yunikorn.apache.org/app-id", _YUNIKORN, _L, _POD, Asks.ORDER),
        "muster serves each Job, JobSet or PodGroup by itself",
    ),
    ForeignMark(
        *("spec.scheduling", "Kubernetes (KEP-5547), which it reads of Jobs that nothing controls", _F),
        *(("Job",), Asks.GANG, _AS_JOBSET),
        of_templates=True,
    ),
    ForeignMark("spec.scheduling", "JobSet (KEP-969)", _F, ("JobSet",), Asks.GANG, _AS_JOB),
)

_OF_META: Final[Mapping[str, ForeignMark]] = {row.key: row for row in TABLE if row.where is not Where.FIELD}
_KEYS: Final = frozenset(_OF_META)


#: What is said of each mark: once by `check` at its place, and otherwise with the gang.
SENTENCES: Final = frozenset(row.sentence() for row in TABLE)


def of(meta: ObjectMeta, kind: str, fields: Object | None = None) -> tuple[ForeignMark, ...]:
    """Returns the marks of an object or a pod template, in the order of the table.

    `fields`: by name, those fields of its spec of which the table has rows.
    """
    labels, annotations = meta.labels, meta.annotations
    # most objects have none, and this is asked for each pod
    if not fields and labels.keys().isdisjoint(_KEYS) and annotations.keys().isdisjoint(_KEYS):
        return ()
    return tuple(row for _, row in _found(labels, annotations, {"spec": fields or {}}, kind))


def in_object(obj: Object, kind: str) -> Iterator[tuple[Path, ForeignMark]]:
    """Yields the marks of an object, or of a pod template, as JSON, each with its path."""
    meta = at(obj, "metadata")
    yield from _found(at(meta, "labels"), at(meta, "annotations"), obj, kind)


def _found(
    labels: Mapping[str, Any], annotations: Mapping[str, Any], obj: Object, kind: str
) -> Iterator[tuple[Path, ForeignMark]]:
    for row in TABLE:
        if row.where is Where.FIELD:
            if row.of_templates and "kind" in obj:
                continue
            if kind in row.on and _is_gang(value := at(obj, *row.path)) and value:
                yield row.path, row
            continue
        for field, values in (("labels", labels), ("annotations", annotations)):
            if (text := values.get(row.key)) and str(text) not in row.harmless:
                yield ("metadata", field, row.key), row
                break


def _is_gang(scheduling: Object) -> bool:
    """Whether a field that states how pods are scheduled means a gang: the policy `basic` does not."""
    return "basic" not in at(scheduling, "schedulingPolicy")


def gang(marks: Iterable[ForeignMark]) -> ForeignMark | None:
    """Returns the first of these marks that asks for a gang."""
    return next((row for row in marks if row.asks is Asks.GANG), None)


def sentences(marks: Iterable[ForeignMark]) -> tuple[str, ...]:
    """Returns what the record of a gang says of the marks of its objects: each once."""
    return tuple(dict.fromkeys(row.sentence() for row in marks))
