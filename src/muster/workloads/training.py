"""The environment of training frameworks: the coordinator, the number of processes, and the rank.

A BatchJob asks for it by `training`, an AIchor manifest by `scheduling: {training: PyTorch}`, a JobSet by the
annotation `muster.dev/training: PyTorch`. Ranks count pods over all groups, in their order. `WORLD_SIZE` is
pods × GPUs of a pod, as `torchrun` counts processes. A variable that the author has set stays as it is.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from muster.api import quantity
from muster.api.base import Object
from muster.api.batch_v1 import COMPLETION_INDEX
from muster.api.jobset_v1alpha2 import JOB_GLOBAL_INDEX
from muster.names import GPU, TRAINING

FRAMEWORKS: Final = ("PyTorch", "DeepSpeed", "Jax")
PORT: Final = 29500


def environment(framework: str, host: str, pods: int, container: Object, rank: str) -> list[Object]:
    """Returns the variables of one container as `env`. `rank`: the pod's label that holds its rank."""
    limits = (container.get("resources") or {}).get("limits") or {}
    try:
        processes = max(1, quantity.request(GPU, str(limits.get(GPU) or 0)))
    except ValueError:
        processes = 1  # the check of the limits reports what is wrong with this number
    of_pod: Object = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{rank}']"}}}
    if framework == "Jax":
        return [
            plain("JAX_COORDINATOR_ADDRESS", f"{host}:{PORT}"),
            plain("JAX_NUM_PROCESSES", str(pods)),
            {"name": "JAX_PROCESS_ID", **of_pod},
        ]
    return [
        plain("MASTER_ADDR", host),
        plain("MASTER_PORT", str(PORT)),
        plain("NNODES", str(pods)),
        plain("NPROC_PER_NODE", str(processes)),
        {"name": "RANK", **of_pod},
        plain("WORLD_SIZE", str(pods * processes)),
    ]


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
    framework = (metadata.get("annotations") or {}).get(TRAINING)
    if framework is None:
        return ""
    if framework not in FRAMEWORKS:
        return f"{TRAINING} is {framework!r}; write {', '.join(FRAMEWORKS[:-1])} or {FRAMEWORKS[-1]}"
    groups = (jobset.get("spec") or {}).get("replicatedJobs") or []
    if not groups:
        return ""  # refused elsewhere
    sizes = [(each.get("replicas", 1), *_pods_of(each)) for each in groups]
    if any(pods != completions for _, pods, completions in sizes):
        return f"{TRAINING}: completions differ from parallelism, so a rank would occur twice"
    if all(pods == 1 for _, pods, _ in sizes):
        rank = JOB_GLOBAL_INDEX
    elif len(sizes) == 1 and sizes[0][0] == 1:
        rank = COMPLETION_INDEX
    else:
        return f"{TRAINING}: no label has the rank of a pod if several Jobs have several pods; use replicas"
    network, name = jobset["spec"].get("network") or {}, metadata.get("name")
    host = f"{name}-{groups[0].get('name')}-0-0.{network.get('subdomain') or name}"
    pods = sum(replicas * each for replicas, each, _ in sizes)
    for container in _containers(groups):
        put_before(container, environment(framework, host, pods, container, rank))
    return ""


def _pods_of(group: Object) -> tuple[int, int]:
    spec: Object = (group.get("template") or {}).get("spec") or {}
    pods: Any = spec.get("parallelism", 1)  # Any: a number, as the format has checked
    return pods, spec.get("completions", pods)


def _containers(groups: Sequence[Object]) -> Iterator[Object]:
    for group in groups:
        for part in ("template", "spec", "template", "spec"):
            group = group.get(part) or {}
        yield from group.get("containers") or []
