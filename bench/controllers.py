"""Reconciling a Job of 10,000 pods, which happens after each burst of pod events.

The worst of all phases and modes, as a multiple of decoding the same pods, which a controller does anyway.
"""

import gc
import time
from datetime import UTC, datetime
from itertools import product
from typing import Final

import msgspec

from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod
from muster.controllers.job import JobObserved, reconcile
from muster.effects import Create

PODS: Final = 10_000
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)


def run() -> dict[str, float]:
    """Seconds, and ratios of processor times taken in turns."""
    worst, ratio = 0.0, 0.0
    for mode, phase in product(("Indexed", "NonIndexed"), ("Running", "Succeeded", "Failed")):
        job = _job(mode)
        encoded = [msgspec.json.encode(pod) for pod in _pods(job, phase)]
        began = time.process_time()
        pods = [msgspec.json.decode(pod, type=Pod) for pod in encoded]
        decoded = time.process_time()
        gc.disable()  # a pass over all pods would come here or in what was decoded, by chance
        assert reconcile(JobObserved(job, pods), NOW)
        took = time.process_time() - decoded
        gc.enable()
        worst, ratio = max(worst, took), max(ratio, took / (decoded - began))
    return {
        "reconcile: a Job of 10,000 pods, s": worst,
        "reconcile: a Job of 10,000 pods, × decoding them": ratio,
    }


def _job(mode: str) -> Job:
    spec = {"completionMode": mode, "completions": PODS, "parallelism": PODS, "backoffLimit": PODS}
    spec["selector"] = {"matchLabels": {"job-name": "job"}}
    spec["template"] = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    meta = {"name": "job", "namespace": "ns", "uid": "job", "resourceVersion": "1"}
    return msgspec.convert({"metadata": meta, "spec": spec}, Job)


def _pods(job: Job, phase: str) -> list[Pod]:
    """The pods that the controller creates itself, in this phase."""
    pods: list[Pod] = []
    while len(pods) < PODS:
        for effect in reconcile(JobObserved(job, pods), NOW):
            if isinstance(effect, Create):
                effect.body["metadata"] |= {"uid": effect.body["metadata"]["name"], "resourceVersion": "1"}
                pods.append(msgspec.convert(effect.body | {"status": {"phase": "Running"}}, Pod))
    status = msgspec.convert({"phase": phase}, type(pods[0].status))
    return [msgspec.structs.replace(pod, status=status) for pod in pods]
