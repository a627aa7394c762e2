"""Builds what a JobSet creates: its Jobs, labelled so that their pods know their place, and its Service."""

import copy
import hashlib
from typing import Any

from muster.api import jobset_v1alpha2 as keys
from muster.api import kinds
from muster.api.base import Object, owner
from muster.api.jobset_v1alpha2 import JobSet, ReplicatedJob


def job_name(jobset: JobSet, replicated: ReplicatedJob, index: int) -> str:
    return f"{jobset.metadata.name}-{replicated.name}-{index}"


def job(jobset: JobSet, replicated: ReplicatedJob, index: int) -> Object:
    """Returns Job `index` of this replicatedJob, for the current attempt.

    Labels and annotations are JobSet's own and are the same on the Job and on its pod template. The Job's
    `suspend` is the JobSet's: the template does not decide whether its Jobs run. The Job's own time to live
    begins when the JobSet ends (`startup.expire`): a Job that is gone before counts as missing, and would be
    created and run again.
    """
    marks = labels(jobset, replicated, index)
    template = replicated.template
    spec: Object = copy.deepcopy(template.get("spec") or {})
    spec.setdefault("completionMode", "Indexed")
    spec["suspend"] = jobset.spec.suspend
    spec.pop("ttlSecondsAfterFinished", None)
    pod: Object = spec.setdefault("template", {})
    pod["metadata"] = _marked(pod.get("metadata") or {}, marks)
    pod_spec: Object = pod.setdefault("spec", {})
    pod_spec.setdefault("restartPolicy", "OnFailure")
    if has_dns(jobset):
        pod_spec["subdomain"] = subdomain(jobset)
    metadata = _marked(template.get("metadata") or {}, marks)
    metadata |= {
        "name": job_name(jobset, replicated, index),
        "namespace": jobset.metadata.namespace,
        "ownerReferences": [owner(jobset, kinds.JOBSET)],
    }
    return {
        "apiVersion": kinds.JOB.api_version,
        "kind": kinds.JOB.kind,
        "metadata": metadata,
        "spec": spec,
    }


def labels(jobset: JobSet, replicated: ReplicatedJob, index: int) -> dict[str, str]:
    """Returns the labels of a Job and its pods; they are its annotations, too.

    `job-key` is a SHA-1, as JobSet's code has it (its comments say SHA-256).
    """
    all_ = jobset.spec.replicated_jobs
    before = all_[: all_.index(replicated)]
    group = [other for other in all_ if other.group_name == replicated.group_name]
    name = job_name(jobset, replicated, index)
    key = hashlib.sha1(f"{jobset.metadata.namespace}/{name}".encode(), usedforsecurity=False)
    marks = {
        keys.JOBSET_NAME: jobset.metadata.name,
        keys.JOBSET_UID: jobset.metadata.uid,
        keys.REPLICATED_JOB_NAME: replicated.name,
        keys.REPLICATED_JOB_REPLICAS: str(replicated.replicas),
        keys.GLOBAL_REPLICAS: str(sum(other.replicas for other in all_)),
        keys.JOB_INDEX: str(index),
        keys.JOB_GLOBAL_INDEX: str(sum(other.replicas for other in before) + index),
        keys.JOB_KEY: key.hexdigest(),
        keys.RESTART_ATTEMPT: str(jobset.status.restarts),
        keys.JOB_RESTART_ATTEMPT: str(_job_restarts(jobset, replicated, index)),
        keys.GROUP_NAME: replicated.group_name,
        keys.GROUP_REPLICAS: str(sum(other.replicas for other in group)),
        keys.JOB_GROUP_INDEX: str(sum(other.replicas for other in before if other in group) + index),
    }
    if jobset.spec.coordinator is not None:
        marks[keys.COORDINATOR] = coordinator(jobset)
    return marks


def coordinator(jobset: JobSet) -> str:
    """Returns the coordinator's host name, as other pods of the namespace resolve it."""
    found = jobset.spec.coordinator
    assert found is not None, "only asked for where there is one"
    host = f"{jobset.metadata.name}-{found.replicated_job}-{found.job_index}-{found.pod_index}"
    return f"{host}.{subdomain(jobset)}"


def service(jobset: JobSet) -> Object:
    """Returns the headless Service whose name is the subdomain of all pods."""
    ready = jobset.spec.network.publish_not_ready_addresses
    return {
        "apiVersion": kinds.SERVICE.api_version,
        "kind": kinds.SERVICE.kind,
        "metadata": {
            "name": subdomain(jobset),
            "namespace": jobset.metadata.namespace,
            "ownerReferences": [owner(jobset, kinds.JOBSET)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {keys.JOBSET_NAME: jobset.metadata.name},
            "publishNotReadyAddresses": True if ready is None else ready,
        },
    }


def subdomain(jobset: JobSet) -> str:
    return jobset.spec.network.subdomain or jobset.metadata.name


def has_dns(jobset: JobSet) -> bool:
    return jobset.spec.network.enable_dns_hostnames is not False


def _job_restarts(jobset: JobSet, replicated: ReplicatedJob, index: int) -> int:
    for status in jobset.status.replicated_jobs_status:
        if status.name == replicated.name and index < len(status.job_restarts):
            return status.job_restarts[index]
    return 0


def _marked(metadata: Object, marks: dict[str, str]) -> dict[str, Any]:  # Any: JSON
    kept: dict[str, Any] = copy.deepcopy(
        {key: metadata[key] for key in metadata if key != "creationTimestamp"}
    )
    kept["labels"] = {**(kept.get("labels") or {}), **marks}
    kept["annotations"] = {**(kept.get("annotations") or {}), **marks}
    return kept
