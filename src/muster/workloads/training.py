"""The environment of training frameworks: the coordinator, the number of processes, and the rank.

A BatchJob asks for it by `training`, an AIchor manifest by `scheduling: {training: PyTorch}`, a JobSet by the
annotation `muster.dev/training: PyTorch`. Two contracts hold at the same time, since a launcher overrides the
variables of the first for the processes that it starts:

- A program that is started once per pod is one process: `WORLD_SIZE` is the number of pods, `RANK` that of
  the pod, `LOCAL_RANK` is 0. `torch.distributed.init_process_group("env://")` and DeepSpeed read these.
- `torchrun` reads its arguments from variables with the prefix `PET_`, so it needs no arguments: it starts as
  many processes in each pod as the pod has GPUs.

Ranks count the pods of the groups that train, in their order: of all groups, or of those that
`muster.dev/trainers` names. A variable that the author has set stays as it is.

The coordinator's port derives from its host name. Frameworks listen on all addresses, so two jobs on one
machine, or on the host network of one node, could not both use the same port.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from muster.api.base import Object
from muster.api.batch_v1 import COMPLETION_INDEX
from muster.api.core_v1 import Container
from muster.api.fields import convert
from muster.api.jobset_v1alpha2 import JOB_GLOBAL_INDEX, JOB_INDEX
from muster.api.requests import gpus_of_container
from muster.names import TRAINERS, TRAINING
from muster.workloads.findings import nearest

FRAMEWORKS: Final = ("PyTorch", "DeepSpeed", "Jax")
#: Ports of coordinators: below those of Kubernetes' node ports, and of connections that choose none.
PORTS: Final = range(20_000, 30_000)


def environment(framework: str, host: str, pods: int, processes: int, rank: str) -> list[Object]:
    """The variables of a pod's containers as `env`.

    `processes`: how many a launcher starts in the pod. `rank`: the pod's label that holds its rank.
    """
    port = str(port_of(host))
    of_pod: Object = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{rank}']"}}}
    if framework == "Jax":
        return [
            plain("JAX_COORDINATOR_ADDRESS", f"{host}:{port}"),
            plain("JAX_NUM_PROCESSES", str(pods)),
            {"name": "JAX_PROCESS_ID", **of_pod},
        ]
    return [
        plain("LOCAL_RANK", "0"),
        plain("LOCAL_WORLD_SIZE", "1"),
        plain("MASTER_ADDR", host),
        plain("MASTER_PORT", port),
        plain("NNODES", str(pods)),
        {"name": "NODE_RANK", **of_pod},
        plain("NPROC_PER_NODE", str(processes)),
        plain("PET_MASTER_ADDR", host),
        plain("PET_MASTER_PORT", port),
        plain("PET_NNODES", str(pods)),
        {"name": "PET_NODE_RANK", **of_pod},
        plain("PET_NPROC_PER_NODE", str(processes)),
        {"name": "RANK", **of_pod},
        plain("WORLD_SIZE", str(pods)),
    ]


def port_of(host: str) -> int:
    """The port on which the coordinator `host` listens: always the same, and seldom that of another host."""
    return PORTS[zlib.crc32(host.encode()) % len(PORTS)]


def give(pod: Object, framework: str, host: str, pods: int, rank: str) -> None:
    """Adds the variables to all containers of a pod's spec, init containers included."""
    made = environment(framework, host, pods, _processes(pod), rank)
    for container in containers(pod):
        put_before(container, made)


def containers(pod: Object) -> Iterator[Object]:
    """The containers of a pod's spec, init containers first."""
    yield from pod.get("initContainers") or []
    yield from pod.get("containers") or []


def put_before(container: Object, made: Sequence[Object]) -> None:
    """Adds variables to a container before its own, except those that it has already."""
    known = {each.get("name") for each in container.get("env") or []}
    container["env"] = [*(each for each in made if each["name"] not in known), *(container.get("env") or [])]


def plain(name: str, value: str) -> Object:
    return {"name": name, "value": value}


def prepare(jobset: Object) -> str:
    """Adds the environment that a JobSet's annotation asks for. Returns why that is impossible, or "".

    A pod reads its rank from a label: the number of its Job, if each Job has one pod, or the number of the
    pod, if there is one Job.
    """
    metadata = jobset.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    framework, named = annotations.get(TRAINING), annotations.get(TRAINERS)
    if framework is None:
        return f"{TRAINERS} needs {TRAINING}: write a framework" if named is not None else ""
    if framework not in FRAMEWORKS:
        return f"{TRAINING} is {framework!r}; write {', '.join(FRAMEWORKS[:-1])} or {FRAMEWORKS[-1]}"
    spec = jobset.get("spec") or {}
    groups = spec.get("replicatedJobs") or []
    if not groups:
        return ""  # refused elsewhere
    trainers = list(groups)
    if named is not None:
        names = [name.strip() for name in named.split(",")]
        there = {str(each.get("name")) for each in groups}
        for name in names:
            if name not in there:
                return f"{TRAINERS} names {name!r}, which is no group of the job{nearest(name, there)}"
        trainers = [each for each in groups if each.get("name") in names]
    rank = _rank(groups, trainers)
    if rank not in (JOB_GLOBAL_INDEX, JOB_INDEX, COMPLETION_INDEX):
        return f"{TRAINING}: {rank}"
    network, name = spec.get("network") or {}, metadata.get("name")
    if network.get("enableDNSHostnames") is False:
        return (
            f"{TRAINING}: pods cannot find the first one without host names; omit enableDNSHostnames: false"
        )
    host = f"{name}-{trainers[0].get('name')}-0-0.{network.get('subdomain') or name}"
    sizes = [(each.get("replicas", 1), _pods_of(each)[0]) for each in trainers]
    pods = sum(replicas * each for replicas, each in sizes)
    for trainer in trainers:
        give(_pod(trainer), framework, host, pods, rank)
    return ""


def _rank(groups: Sequence[Object], trainers: Sequence[Object]) -> str:
    """The label that has the rank of each pod; else why none has."""
    sizes = [(each.get("replicas", 1), *_pods_of(each)) for each in trainers]
    if any(pods != completions for _, pods, completions in sizes):
        return "completions differ from parallelism, so a rank would occur twice"
    if any(not replicas or not pods for replicas, pods, _ in sizes):
        return "a group without pods cannot be ranked; remove it"
    if all(pods == 1 for _, pods, _ in sizes):
        if all(one is other for one, other in zip(trainers, groups, strict=False)):
            return JOB_GLOBAL_INDEX
        if len(trainers) == 1:
            return JOB_INDEX
        return f"groups that {TRAINERS} does not name must come last: JobSet numbers Jobs over all groups"
    if len(sizes) == 1 and sizes[0][0] == 1:
        if _job(trainers[0]).get("completionMode", "Indexed") != "Indexed":
            return "pods of a Job that is not Indexed have no number; omit completionMode, or use replicas"
        return COMPLETION_INDEX
    return "no label has the rank of a pod if several Jobs have several pods; use replicas"


def _processes(pod: Object) -> int:
    """How many processes a launcher starts: one per GPU of the container that has most, at least one."""
    return max((_gpus(container) for container in pod.get("containers") or []), default=1) or 1


def _gpus(container: Object) -> int:
    try:
        return gpus_of_container(convert(container, Container))
    except ValueError:
        return 0  # the check of the container reports what is wrong with it


def _job(group: Object) -> Object:
    return (group.get("template") or {}).get("spec") or {}


def _pods_of(group: Object) -> tuple[int, int]:
    """Parallelism and completions."""
    pods: Any = _job(group).get("parallelism", 1)  # Any: a number, as the format has checked
    return pods, _job(group).get("completions", pods)


def _pod(group: Object) -> Object:
    return (_job(group).get("template") or {}).get("spec") or {}
