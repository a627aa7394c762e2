"""The table of kinds of other projects that people have beside their jobs, and what to do with them here.

A reader of files that meets such a kind says whose it is and what to write, and never suggests a kind of
another project that has the same or a similar name. docs/reference/foreign-marks.md lists the rows. A kind
that muster learns to read goes from here to `muster.api.kinds`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from muster import names
from muster.api import groups


@dataclass(frozen=True, slots=True)
class ForeignKind:
    #: API groups, of all their versions; a project may have renamed its own
    groups: tuple[str, ...]
    kind: str
    project: str
    #: what to do with it
    instead: str

    def message(self, group: str = "") -> str:
        """What a reader of files says of the kind, read from this API group."""
        whose = f" ({group})" if group else ""
        return f"{self.kind} is a kind of {self.project}{whose}, which a job file cannot have; {self.instead}"


def _rows(project: str, groups: tuple[str, ...], kinds: dict[str, str]) -> Iterator[ForeignKind]:
    for kind, instead in kinds.items():
        yield ForeignKind(groups, kind, project, instead)


_ROLES: Final = (
    "write a manifest (docs/reference/job-files.md) or a JobSet, with one group of jobs for each role of "
    "its pods; MUSTER_PEERS of a manifest lists their hosts"
)
_TRAINING: Final = (
    "write a manifest (docs/reference/job-files.md) or a JobSet: `scheduling: {{training: {0}}}` in spec, "
    f"or the annotation `{names.TRAINING}: {{0}}`, sets the framework's variables"
)
_POD_GROUP: Final = (
    f"write a {groups.CREATED.kind.kind} of {groups.CREATED.kind.api_version} with spec.minMember, and label "
    f"the pods {groups.CREATED.label}: NAME"
)
_QUEUE: Final = (
    f"write a Queue of {names.DOMAIN}/v1alpha1 (weight, deserved, guarantee, capability, parent), and "
    f"{names.QUEUE} on the jobs"
)
_TOPOLOGY: Final = "write a ClusterNetworkTopology of scheduling.koordinator.sh/v1alpha1 named default"
#: of operators whose jobs muster starts on a cluster
_OPERATOR: Final = "; on a cluster, docs/guides/operators.md says what it needs"
_APPLY: Final = (
    f"apply it with kubectl: muster schedules its pods if they have schedulerName: {names.SCHEDULER}"
)
_SERVES: Final = (
    "apply it with kubectl to a cluster, whose controllers make its pods; docs/guides/operators.md says how "
    "they are a gang. In a job file write a Job with the same template, restartPolicy: OnFailure, and its "
    "replicas as parallelism and completions"
)
_COMMANDS: Final = "use muster cancel, hold or release"
_FOR_KUEUE: Final = "it is for Kueue's own controllers; apply it with kubectl"

_KUBERNETES: Final = "Kubernetes"

#: All rows, by project.
TABLE: Final = (
    *_rows(
        "Volcano",
        ("batch.volcano.sh",),
        {
            "CronJob": f'write a CronJob of batch/v1, with {names.GANG}: "true" in its jobTemplate',
        },
    ),
    *_rows(
        "Volcano",
        ("flow.volcano.sh",),
        {
            "JobFlow": "write a JobSet whose groups of jobs have dependsOn",
            "JobTemplate": "write a JobSet",
        },
    ),
    *_rows("Volcano", ("topology.volcano.sh",), {"HyperNode": _TOPOLOGY}),
    *_rows("Volcano", ("bus.volcano.sh",), {"Command": _COMMANDS}),
    *_rows("Volcano", ("nodeinfo.volcano.sh",), {"Numatopology": "muster places by whole nodes"}),
    *_rows("Volcano", ("training.volcano.sh",), {"HyperJob": "write a JobSet for each cluster"}),
    *_rows(
        "kube-batch",
        ("scheduling.incubator.k8s.io", "scheduling.sigs.dev"),
        {"Queue": _QUEUE},
    ),
    *_rows(
        "Koordinator",
        ("scheduling.koordinator.sh",),
        {
            "Reservation": "the guarantee of a Queue keeps resources free for its jobs",
            "Device": "it is for Koordinator's agents on the nodes",
        },
    ),
    *_rows("Koordinator", ("quota.koordinator.sh",), {"ElasticQuotaProfile": _QUEUE}),
    *_rows(
        "scheduler-plugins",
        ("scheduling.x-k8s.io",),
        {
            "ElasticQuota": f"{_QUEUE}: min is guarantee, max is capability, and its namespace is in "
            "spec.allow.namespaces"
        },
    ),
    *_rows(
        "Kueue",
        ("kueue.x-k8s.io",),
        {
            "ClusterQueue": f"{_QUEUE}: nominalQuota is deserved, its borrowingLimit bounds capability",
            "LocalQueue": f"{_QUEUE}; spec.allow.namespaces of a Queue says who may use it",
            "Cohort": f"{_QUEUE}: queues with one parent lend to each other",
            "ResourceFlavor": "select nodes by their labels in the jobs (nodeSelector)",
            "WorkloadPriorityClass": f"write a PriorityClass, or {names.PRIORITY} on the jobs",
            "Topology": _TOPOLOGY,
            "Workload": _FOR_KUEUE,
            "AdmissionCheck": _FOR_KUEUE,
        },
    ),
    *_rows(
        "KAI",
        ("scheduling.run.ai",),
        {"Queue": f"{_QUEUE}: quota is deserved, limit is capability", "PodGroup": _POD_GROUP},
    ),
    *_rows("KAI", ("kai.scheduler",), {"Topology": _TOPOLOGY, "SchedulingShard": "it is for KAI's operator"}),
    *_rows(
        "Kubeflow",
        ("kubeflow.org",),
        {
            "PyTorchJob": _TRAINING.format("PyTorch") + _OPERATOR,
            "JAXJob": _TRAINING.format("Jax") + _OPERATOR,
            **dict.fromkeys(("TFJob", "MPIJob", "PaddleJob", "XGBoostJob"), _ROLES + _OPERATOR),
        },
    ),
    *_rows(
        "Kubeflow",
        ("trainer.kubeflow.org",),
        {
            "TrainJob": "its controller makes a JobSet of it, which muster schedules; write that JobSet"
            + _OPERATOR,
            "TrainingRuntime": "it is for Kubeflow's own controller; apply it with kubectl",
            "ClusterTrainingRuntime": "it is for Kubeflow's own controller; apply it with kubectl",
        },
    ),
    *_rows("KubeRay", ("ray.io",), dict.fromkeys(("RayJob", "RayCluster", "RayService"), _ROLES + _OPERATOR)),
    *_rows("LeaderWorkerSet", ("leaderworkerset.x-k8s.io",), {"LeaderWorkerSet": _APPLY + _OPERATOR}),
    *_rows("AppWrapper", ("workload.codeflare.dev",), {"AppWrapper": "write the objects that it wraps"}),
    *_rows("Argo", ("argoproj.io",), {"Workflow": _APPLY, "CronWorkflow": _APPLY}),
    *_rows("Spark operator", ("sparkoperator.k8s.io",), {"SparkApplication": _APPLY}),
    *_rows(
        _KUBERNETES,
        ("scheduling.k8s.io",),
        {
            "CompositePodGroup": "write its PodGroups without spec.parentCompositePodGroupName; those that "
            "list each other in the annotation gang.scheduling.koordinator.sh/groups start together",
        },
    ),
    *_rows(
        _KUBERNETES,
        ("batch",),
        {"CronJob": "start it with kubectl apply; its runs are Jobs, which check reads in a file each"},
    ),
    *_rows(
        _KUBERNETES,
        ("apps",),
        {**dict.fromkeys(("Deployment", "ReplicaSet", "StatefulSet"), _SERVES), "DaemonSet": _APPLY},
    ),
)

_BY_NAME: Final = {(group, row.kind): row for row in TABLE for group in row.groups}
#: The projects, by the API groups that are theirs alone.
PROJECTS: Final = {group: row.project for row in TABLE for group in row.groups if row.project != _KUBERNETES}


def find(api_version: str, kind: str) -> ForeignKind | None:
    """Returns the row of a kind, in whatever version."""
    return _BY_NAME.get((group_of(api_version), kind))


def called(kind: str) -> ForeignKind | None:
    """Returns the row of a kind whose API group is not known; None if several projects have such a kind."""
    found = [row for row in TABLE if row.kind == kind]
    found = [row for row in found if row.project == _KUBERNETES] or found
    return found[0] if len(found) == 1 else None


def group_of(api_version: str) -> str:
    """Returns the API group of an apiVersion; "" for that of Kubernetes' core."""
    return api_version.rpartition("/")[0]
