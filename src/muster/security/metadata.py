"""Labels and annotations of a batch job: which of them are emitted, and which of them need a permit.

Schedulers, meshes, clouds and node agents act on keys of objects, and a job's author chooses the keys of the
job. So no key is emitted only because muster does not know it:

- `HARMLESS` keys inform people, or restrict nothing but the job itself. They need no permit.
- A key that has a field of the job file, and so a gate of its own, is refused; so is a key that muster itself
  writes (`instead`).
- Keys by which a tool marks the objects that it has applied stay on the job (`is_of_tool`): a tool that found
  them on an object that it has not applied might delete that object.
- Every other key needs the permit `SetMetadata`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from muster import names
from muster.api import elastic_quota, groups
from muster.api.base import Object, at
from muster.api.batch_v1 import COMPLETION_INDEX
from muster.api.jobset_v1alpha2 import JOB_GLOBAL_INDEX
from muster.api.kinds import POD
from muster.api.koordinator_v1alpha1 import TOPOLOGY_SPEC
from muster.api.templates import templates
from muster.api.volcano_v1beta1 import QUEUE_NAME as VOLCANO_QUEUE_NAME

#: On a run of a schedule: the time at which it was due.
_SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
#: Keys that take nothing from others, whatever their value.
HARMLESS: Final = frozenset(
    {
        *("app", "team", "owner", "description", "kubernetes.io/description", _SCHEDULED),
        *(f"app.kubernetes.io/{each}" for each in ("name", "instance", "version", "component", "part-of")),
        *(names.HOLD, names.DEADLINE, names.RESTART_BUDGET, names.ON_GPU_ANOMALY, TOPOLOGY_SPEC),
        *(names.ON_JOB_FAILURE, names.MATRIX),
        *(names.PROGRESS_RULES, names.PROGRESS_FILE, names.CHECKPOINT, names.CHECKPOINT_FILE),
    }
)
#: Keys that the compiler writes on the job object or its group, and on pods, with values of its own.
_OWN: Final = frozenset({names.GANG, names.ADMISSION})
_OWN_OF_PODS: Final = frozenset(
    {
        *("app.kubernetes.io/name", names.PEERS, names.CONFIG_HASH, names.GPU_SHARE, names.CALLER),
        *("istio.io/dataplane-mode", "sidecar.istio.io/inject", *groups.LABELS),
        *(names.PROGRESS_FILE, names.CHECKPOINT_FILE),
    }
)
_QUEUE: Final = "write spec.queue, which the policies are asked about"
_PRIORITY: Final = "write spec.priorityClassName, which the policies are asked about"
_GROUP: Final = "the pods of a job are one gang; write spec.minAvailable if fewer are enough"
_MESH: Final = "pods of a job with training are outside of the mesh, all others inside; remove it"
_MUSTERS: Final = "only muster writes it; remove it"
_INSTEAD: Final = {
    **dict.fromkeys(
        (
            *(names.QUEUE, "queue", "kueue.x-k8s.io/queue-name", "kai.scheduler/queue", "runai/queue"),
            *(VOLCANO_QUEUE_NAME, elastic_quota.NAME, "volcano.sh/queue-name", "yunikorn.apache.org/queue"),
        ),
        _QUEUE,
    ),
    **dict.fromkeys(
        (
            *(names.PRIORITY, "priorityClassName", "kueue.x-k8s.io/priority-class"),
            *("koordinator.sh/priority", "koordinator.sh/priority-class"),
        ),
        _PRIORITY,
    ),
    **dict.fromkeys(
        (
            *(names.GANG, *groups.LABELS, *groups.ANNOTATIONS, *groups.DESCRIPTIONS),
            "kueue.x-k8s.io/pod-group-name",
            *groups.DESCRIBED.minimum,
        ),
        _GROUP,
    ),
    **dict.fromkeys(
        (
            *(names.ADMISSION, names.COMPILED, names.GRANTED, names.PEERS, names.CONFIG_HASH, names.CALLER),
            *(names.PLAN, names.EPOCH, names.PODS_SEEN, names.CANNOT_READ, names.SUCCESSOR, names.BAD_NODES),
            *(names.ADOPTS, names.AWAITS),
            *(names.SUBMITTED_FROM, names.MOVED, names.GPU_DEVICE, names.CHECKPOINT_REQUESTED),
            *(names.FAILURES, names.RUNNING_SINCE, names.TIME_USED, names.PROGRESS, names.PROGRESS_MOVES),
            names.RETRY_OF,
            *(COMPLETION_INDEX, JOB_GLOBAL_INDEX),
        ),
        _MUSTERS,
    ),
    names.GPU_SHARE: "write a resource of type gpu with compute",
    names.TRAINING: "write spec.training",
    names.TRAINERS: "all tasks of a job with spec.training train; write the others as a job of their own",
    **dict.fromkeys(("sidecar.istio.io/inject", "istio.io/dataplane-mode"), _MESH),
}
#: The same for all keys with such a prefix.
_INSTEAD_BELOW: Final = {
    "container.apparmor.security.beta.kubernetes.io/": "write security.apparmorProfile of the container",
    "container.seccomp.security.alpha.kubernetes.io/": "write security.seccompProfile of the container",
    "seccomp.security.alpha.kubernetes.io/": "write security.seccompProfile of the container",
}
_OF_TOOLS: Final = (
    *("kubectl.kubernetes.io/", "argocd.argoproj.io/", "helm.sh/", "meta.helm.sh/", "config.kubernetes.io/"),
    *("internal.config.kubernetes.io/", "kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/"),
    "app.kubernetes.io/managed-by",
)


def instead(key: str) -> str:
    """What to write instead of a key that no job may have; "" = a job may have it."""
    below = (told for prefix, told in _INSTEAD_BELOW.items() if key.startswith(prefix))
    return _INSTEAD.get(key) or next(below, "")


def is_of_tool(key: str) -> bool:
    """Whether tools write this key about the object that they have applied, so that it is not emitted."""
    return key.startswith(_OF_TOOLS)


def emitted(jobs: Sequence[Object]) -> Iterator[tuple[str, str, str]]:
    """(`labels` or `annotations`, key, value) of the job's objects and pod templates that need a permit."""
    for each in jobs:
        made = ((t.value, _OWN_OF_PODS if t.kind is POD else _OWN) for t in templates(each))
        for bearer, own in ((each, _OWN), *made):
            for field in ("labels", "annotations"):
                for key, value in sorted(at(bearer, "metadata", field).items()):
                    if key not in own and key not in HARMLESS:
                        yield field, key, str(value)
