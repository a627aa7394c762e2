"""Builds the pods of a Job: their names, labels and what an index adds to the template.

Names end in a hash where Kubernetes uses random characters, so that a repeated reconcile requests
the same name again and the API server refuses the second pod. The hash input distinguishes a pod
from its predecessors: for an index, the uid of the newest pod it has had; without indexes, the number of
pods the Job has had.
"""

import hashlib
from collections.abc import Callable
from typing import Any, Final

from muster.api import kinds
from muster.api.base import Object, at, controller_of, owner
from muster.api.batch_v1 import (
    COMPLETION_INDEX,
    CONTROLLER_UID,
    INDEX_FAILURE_COUNT,
    INDEX_IGNORED_FAILURE_COUNT,
    JOB_NAME,
    LEGACY_CONTROLLER_UID,
    LEGACY_JOB_NAME,
    TRACKING_FINALIZER,
    Job,
)

ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # Kubernetes': no vowels, nothing that looks alike
LONGEST_NAME: Final = 63
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def indexed_pods(job: Job) -> Callable[[int, str, int, int], Object]:
    """Returns a function that makes the pod of (index, predecessor's uid, failures, ignored failures)."""
    template = _template(job)
    spec = template["spec"]
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [_with_index(container) for container in spec[field]]
    counted = job.spec.backoff_limit_per_index is not None
    hostname = job.metadata.name

    def pod(index: int, predecessor: str, failures: int, ignored: int) -> Object:
        marks = {COMPLETION_INDEX: str(index)}
        meta = template["metadata"]
        annotations = {**meta["annotations"], **marks}
        if counted:
            annotations[INDEX_FAILURE_COUNT] = str(failures)
            if ignored:
                annotations[INDEX_IGNORED_FAILURE_COUNT] = str(ignored)
        return {
            **template,
            "metadata": {
                **meta,
                "name": name(job, f"-{index}-", _suffix(5, job.metadata.uid, str(index), predecessor)),
                "labels": {**meta["labels"], **marks},
                "annotations": annotations,
            },
            "spec": {**spec, "hostname": f"{hostname}-{index}"},
        }

    return pod


def plain_pods(job: Job) -> Callable[[int], Object]:
    """Returns a function that makes the n-th pod of a Job without indexes."""
    template = _template(job)

    def pod(number: int) -> Object:
        return {**template, "metadata": {**template["metadata"], "name": plain_name(job, number)}}

    return pod


def plain_name(job: Job, number: int) -> str:
    """Returns the name of the n-th pod of a Job without indexes. Longer hash: all pods share one stem."""
    return name(job, "-", _suffix(10, job.metadata.uid, str(number)))


def group_name(job: Job) -> str | None:
    """Returns the name of the PodGroup that is made for the Job's pods; None: none is."""
    named = at(job.spec.template, "spec").get("schedulingGroup")
    if job.spec.scheduling is None or named or controller_of(job) is not None:
        return None
    return name(job, "-", _suffix(5, job.metadata.uid, "group"))


def name(job: Job, stem: str, suffix: str) -> str:
    return job.metadata.name[: LONGEST_NAME - len(stem) - len(suffix)] + stem + suffix


def _suffix(length: int, *parts: str) -> str:
    number = int.from_bytes(hashlib.sha256("\n".join(parts).encode()).digest()[:8], "big")
    text = ""
    for _ in range(length):
        number, digit = divmod(number, len(ALPHABET))
        text += ALPHABET[digit]
    return text


def _template(job: Job) -> Object:
    """Returns what all pods of the Job share. Pods share nested parts, so these must not be changed."""
    template = job.spec.template
    meta: Object = template.get("metadata") or {}
    labels = {
        JOB_NAME: job.metadata.name,
        CONTROLLER_UID: job.metadata.uid,
        LEGACY_JOB_NAME: job.metadata.name,
        LEGACY_CONTROLLER_UID: job.metadata.uid,
    }
    return {
        "apiVersion": kinds.POD.api_version,
        "kind": kinds.POD.kind,
        "metadata": {
            "namespace": job.metadata.namespace,
            "labels": {**(meta.get("labels") or {}), **labels},
            "annotations": dict(meta.get("annotations") or {}),
            "finalizers": [*(meta.get("finalizers") or []), TRACKING_FINALIZER],
            "ownerReferences": [owner(job, kinds.JOB)],
        },
        "spec": {**(template.get("spec") or {}), **_group(job)},
    }


def _group(job: Job) -> Object:
    found = group_name(job)
    return {} if found is None else {"schedulingGroup": {"podGroupName": found}}


def _with_index(container: dict[str, Any]) -> dict[str, Any]:  # Any: a container as the user wrote it
    env = container.get("env") or []
    if any(variable.get("name") == INDEX_VARIABLE for variable in env):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    return {**container, "env": [*env, {"name": INDEX_VARIABLE, "valueFrom": source}]}
