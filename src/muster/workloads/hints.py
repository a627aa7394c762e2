"""Detects signs that pods of an independent job will wait for each other and should be a gang."""

import re
from itertools import groupby
from typing import Final

from muster.api.base import Object
from muster.api.fields import Finding, Severity
from muster.names import MATRIX, TRAINING
from muster.workloads.demand import PodSet, demand
from muster.workloads.jobfile import JobFile, Role

_RENDEZVOUS: Final = re.compile(
    r"\b(torchrun|torch\.distributed|deepspeed|mpirun|horovodrun|MASTER_ADDR|MUSTER_PEERS|MUSTER_COORDINATOR)\b"
)


def rendezvous(job: JobFile) -> Finding | None:
    """A one-line hint on how to make the job a gang, if it seems to need all pods at once; else None."""
    if job.gang is not False:
        return None
    sets = [pod_set for pod_set in demand(job) if pod_set.count]
    if sum(pod_set.count for pod_set in sets) < 2:
        return None
    where = next(item for item in job.items if item.role is Role.PRIMARY)
    marks = where.object["metadata"].get("annotations") or {}
    if MATRIX in marks:  # trials do not need each other
        return None
    framework = marks.get(TRAINING)
    # with a framework, the variables of the environment are muster's, and say nothing about the program
    sign = _sign(sets) if framework is None else f"{framework} joins all pods"
    if sign is None:
        return None
    remedy = "--gang, or scheduling: {mode: gang} in spec," if job.format == "aichor" else "--gang"
    told = f"{sign}: if the pods wait for each other, make the job a gang: {remedy} starts all pods or none"
    return where.report((), told, Severity.HINT)


def _sign(sets: list[PodSet]) -> str | None:
    for pod_set in sets:
        for text in _texts(pod_set.template):
            if match := _RENDEZVOUS.search(text):
                return f"{pod_set.name} uses {match[1]}"
    gpu_pods = sum(pod_set.count for pod_set in sets if pod_set.gpus)
    if gpu_pods > 1:
        return f"{gpu_pods} pods with GPUs"
    for owner, together in groupby(sets, key=lambda pod_set: pod_set.owner):  # of a gang each JobSet is one
        names = [pod_set.name for pod_set in together]
        if owner[0] == "JobSet" and len(names) > 1:
            return f"{len(names)} groups of jobs ({', '.join(names[:4])})"
    return None


def _texts(template: Object) -> list[str]:
    """Commands, and names of variables that the author set."""
    texts: list[str] = []
    for container in template.get("spec", {}).get("containers", []):
        texts += [str(part) for part in (*(container.get("command") or []), *(container.get("args") or []))]
        texts += [str(v.get("name")) for v in container.get("env") or [] if not _ours(v)]
    return texts


def _ours(variable: Object) -> bool:
    return str(variable.get("name")).startswith("MUSTER_")
