"""Compiles an AIchor manifest to a JobSet: one replicated job per type, one Job per `count`.

Restarts. AIchor's `backoffLimit: N` allows N failures over the whole experiment. In a gang, each failure
restarts the whole experiment, which is JobSet's `maxRestarts`. Otherwise only the failed index is retried:
each Job gets the limit N for itself, and the annotation `muster.dev/restart-budget` makes muster's JobSet
controller count over all Jobs. Pods that muster ends by its own decision get the condition
`muster.dev/Preempted`, which the Jobs do not count. The time limit applies to the whole experiment, so it is
set on the JobSet (`muster.dev/deadline`) and not on its Jobs, whose clocks start again with each restart.
"""

import shlex
from fractions import Fraction
from math import ceil
from typing import Final

import msgspec

from muster import names
from muster.api import duration, quantity
from muster.api.base import Object
from muster.api.koordinator_v1alpha1 import TOPOLOGY_SPEC, NetworkTopologySpec
from muster.api.matrix import Matrix
from muster.workloads import annotate
from muster.workloads.aichor import variables
from muster.workloads.aichor.manifest import Manifest
from muster.workloads.aichor.types import Resources, Type
from muster.workloads.jobfile import Mode, Options
from muster.workloads.variables import literal

_SHARED: Final = "shared"
_SHM: Final = "shm"


def compile_jobset(manifest: Manifest, name: str, mode: Mode, options: Options) -> Object:
    """The JobSet called `name`. The manifest must have no errors, and every existing volume a directory."""
    scheduling = manifest.scheduling
    annotations: dict[str, str] = {**scheduling.marks}
    if scheduling.matrix is not None:
        annotations[names.MATRIX] = scheduling.matrix.annotation()
    if manifest.deadline is not None:
        annotations[names.DEADLINE] = duration.show(manifest.deadline)
    limit = manifest.backoff_limit
    if mode == "independent" and (limit is not None or _retries(manifest) is None):
        annotations[names.RESTART_BUDGET] = str(limit or 0)
    if manifest.shared_volume is not None:
        annotations[names.SHARED_VOLUME] = "true"
    if scheduling.topology:
        spec = NetworkTopologySpec(gather_strategy=list(scheduling.topology))
        annotations[TOPOLOGY_SPEC] = msgspec.json.encode(spec).decode()
    if scheduling.exclusive:
        annotations[names.EXCLUSIVE] = scheduling.exclusive
    if scheduling.training:
        annotations[names.TRAINING] = scheduling.training
    if scheduling.trainers:
        annotations[names.TRAINERS] = ",".join(scheduling.trainers)
    peers = hosts(manifest, name)
    jobset: Object = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": options.namespace, "annotations": annotations},
        "spec": {
            "failurePolicy": {"maxRestarts": (limit or 0) if mode == "gang" else 0},
            "replicatedJobs": [
                {
                    "name": t.name,
                    "replicas": t.count,
                    "template": _job(manifest, t, peers, name, mode, options),
                }
                for t in manifest.types
            ],
        },
    }
    if scheduling.queue:
        annotate.in_queue(jobset, scheduling.queue)
    if mode == "gang":
        annotate.as_gang(jobset)
    elif "independent" in (options.mode, scheduling.mode):
        annotate.as_independent(jobset)
    return jobset


def hosts(manifest: Manifest, name: str) -> list[str]:
    """`host.subdomain` of all places of the first wave, in the order of the file."""
    return [
        f"{name}-{t.name}-{job}-{index}.{name}"
        for t in manifest.types
        for job in range(t.count)
        for index in range(t.width)
    ]


def shared_directory(name: str, options: Options) -> str:
    """The directory that all pods of the JobSet share, in muster's state directory."""
    return f"{options.home}/shared/{options.namespace}/{name}"


def _job(
    manifest: Manifest, type_: Type, peers: list[str], name: str, mode: Mode, options: Options
) -> Object:
    """The JobTemplateSpec of one type."""
    ignore = {"action": "Ignore", "onPodConditions": [{"type": names.PREEMPTED, "status": "True"}]}
    retries = _retries(manifest)
    if mode == "gang":
        limits = {"backoffLimit": 0}
    elif retries is not None and type_.completions > 1:
        limits = {"backoffLimitPerIndex": retries}
    else:
        limits = {"backoffLimit": retries if retries is not None else manifest.backoff_limit or 0}
    return {
        "spec": {
            "completionMode": "Indexed",
            "completions": type_.completions,
            "parallelism": type_.width,
            **limits,
            "podFailurePolicy": {"rules": [ignore]},
            "template": _pod(manifest, type_, peers, name, options),
        }
    }


def _retries(manifest: Manifest) -> int | None:
    """How often each pod is tried again by itself. A trial of a sweep that fails ends no other trial."""
    scheduling = manifest.scheduling
    continues = scheduling.marks.get(names.ON_JOB_FAILURE) == "continue" or scheduling.matrix is not None
    return (
        0
        if scheduling.retries is None and continues and manifest.backoff_limit is None
        else scheduling.retries
    )


def _pod(manifest: Manifest, type_: Type, peers: list[str], name: str, options: Options) -> Object:
    resources, scheduling = type_.resources, manifest.scheduling
    volumes, mounts = _volumes(manifest, resources, name, options)
    container: Object = {
        "name": type_.name,
        "command": ["/bin/sh", "-c", _parameters(scheduling.matrix) + _shell_line(manifest.command)],
        "env": [
            *variables.of_every_pod(peers, trials=scheduling.matrix is not None),
            *({"name": key, "value": value} for key, value in manifest.env.items()),
        ],
        "resources": _requirements(resources),
    }
    if manifest.image:
        container["image"] = manifest.image
    spec: Object = {"restartPolicy": "Never", "containers": [container]}
    if volumes:
        container["volumeMounts"] = mounts
        spec["volumes"] = volumes
    selector = dict(resources.selectors)
    if resources.gpus and resources.gpu_product:
        selector[names.GPU_PRODUCT] = resources.gpu_product
    if selector:
        spec["nodeSelector"] = selector
    if resources.tolerations:
        spec["tolerations"] = resources.tolerations
    if scheduling.priority_class:
        spec["priorityClassName"] = scheduling.priority_class
    template: Object = {"spec": spec}
    if scheduling.files:
        template["metadata"] = {"annotations": dict(scheduling.files)}
    annotate.for_scheduler(template, options.scheduler)
    annotate.for_caller(template, options.caller)
    return template


def _parameters(matrix: Matrix | None) -> str:
    """Shell lines that set the variables of the trial whose number is the pod's index in its Job."""
    if matrix is None:
        return ""
    lines = [
        f"case $((JOB_COMPLETION_INDEX / {matrix.stride(name)} % {len(values)})) in "
        + " ".join(f"{number}) {name}={shlex.quote(value)};;" for number, value in enumerate(values))
        + f" esac; export {name}\n"
        for name, values in matrix.axes.items()
    ]
    return literal("".join(lines))


def _shell_line(command: str) -> str:
    """The command with each `$` doubled, since Kubernetes reads `$$` as an escaped `$`.

    The shell then sees the command as written.
    """
    return command.replace("$$", "$$$$")


def _requirements(resources: Resources) -> Object:
    requests = {"cpu": _cpu(resources.cpus), "memory": _gib(resources.memory)}
    limits = {"cpu": _cpu(resources.cpus * resources.cpu_limit_ratio), "memory": _gib(resources.memory)}
    if resources.gpus:
        requests[names.GPU] = limits[names.GPU] = str(resources.gpus)
    if resources.ephemeral_request:
        requests["ephemeral-storage"] = resources.ephemeral_request
    if resources.ephemeral_limit:
        limits["ephemeral-storage"] = resources.ephemeral_limit
    return {"requests": requests, "limits": limits}


def _cpu(cores: Fraction) -> str:
    return quantity.show("cpu", ceil(cores * 1000))


def _gib(amount: Fraction) -> str:
    return quantity.show("memory", ceil(amount * 1024) * 2**20)


def _volumes(
    manifest: Manifest, resources: Resources, name: str, options: Options
) -> tuple[list[Object], list[Object]]:
    volumes: list[Object] = []
    mounts: list[Object] = []
    if manifest.shared_volume is not None:
        directory = {"path": shared_directory(name, options), "type": "DirectoryOrCreate"}
        volumes.append({"name": _SHARED, "hostPath": directory})
        mounts.append({"name": _SHARED, "mountPath": manifest.shared_volume.mount_point})
    for index, volume in enumerate(manifest.existing_volumes):
        source: Object = (
            {"hostPath": {"path": options.volumes[volume.name], "type": "Directory"}}
            if volume.name in options.volumes
            else {"persistentVolumeClaim": {"claimName": volume.name}}
        )
        volumes.append({"name": f"existing-{index}", **source})
        mounts.append({"name": f"existing-{index}", "mountPath": volume.mount_point})
    if resources.shm_gb:
        volumes.append({"name": _SHM, "emptyDir": {"medium": "Memory", "sizeLimit": _gib(resources.shm_gb)}})
        mounts.append({"name": _SHM, "mountPath": "/dev/shm"})
    return volumes, mounts
