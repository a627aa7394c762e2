"""Requests shares of GPUs in the form that each scheduler understands.

Muster shares a GPU's computing between pods, in thousandths. Volcano's vGPU also divides its memory. Source:
volcano-sh/volcano, docs/user-guide/how_to_use_volcano_vgpu.md.
"""

from collections.abc import Iterator

from muster import names
from muster.api import quantity
from muster.api.base import Object
from muster.compiler.workload import Gpu
from muster.workloads.batch.compiling import refusal
from muster.workloads.batch.job import Task
from muster.workloads.batch.targets.jobset import Report


def _shares(task: Task) -> Iterator[Gpu]:
    return (
        each.what
        for each in task.workload.resources.values()
        if isinstance(each.what, Gpu) and each.what.shared
    )


def of_muster(template: Object, task: Task, report: Report) -> None:
    """Annotates the pods of a task with their share of one GPU."""
    for gpu in _shares(task):
        if gpu.memory:
            report(
                refusal((*gpu.path, "memory"), "muster shares a GPU's computing, not its memory; use compute")
            )
        elif gpu.count != 1:
            report(refusal((*gpu.path, "count"), "a share is of one GPU; remove count, or compute"))
        elif any(names.GPU in each["resources"]["limits"] for each in template["spec"]["containers"]):
            report(refusal((*gpu.path, "compute"), f"a container asks for a whole {names.GPU} as well"))
        else:
            template["metadata"].setdefault("annotations", {})[names.GPU_SHARE] = str(gpu.compute * 10)


def of_volcano(pod: Object, task: Task) -> None:
    """Adds the limits of Volcano's vGPU to the containers of a task."""
    for gpu in _shares(task):
        for container in pod["containers"]:
            limits = container["resources"]["limits"]
            limits["volcano.sh/vgpu-number"] = str(gpu.count)
            if gpu.compute:
                limits["volcano.sh/vgpu-cores"] = str(gpu.compute)
            if gpu.memory:
                limits["volcano.sh/vgpu-memory"] = str(-(-quantity.parse(gpu.memory) // 2**20))


def refuse(task: Task, report: Report) -> None:
    """Reports shares as errors: Kubernetes' own scheduler does not support them."""
    for gpu in _shares(task):
        report(refusal(gpu.path, "Kubernetes' own gangs have no shares of GPUs; use another target"))
