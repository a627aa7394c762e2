"""The label by which people know a pod: its place in its job instead of its name."""

from collections.abc import Mapping

from muster.api.base import ObjectMeta
from muster.api.batch_v1 import COMPLETION_INDEX, JOB_NAME
from muster.api.jobset_v1alpha2 import JOB_INDEX, REPLICATED_JOB_NAME


def pod_label(meta: ObjectMeta) -> str:
    """`worker-1-0`: type, job, index; a Job's name and index; a bare pod's name."""
    labels: Mapping[str, str] = meta.labels
    index = labels.get(COMPLETION_INDEX) or meta.annotations.get(COMPLETION_INDEX) or ""
    return labelled(
        labels.get(REPLICATED_JOB_NAME, ""),
        labels.get(JOB_INDEX, ""),
        labels.get(JOB_NAME, ""),
        index,
        meta.name,
    )


def labelled(group: str, job_index: str, job: str, index: str, name: str) -> str:
    """The label of a pod whose labels say this; `name` is the pod's own."""
    if group:
        return "-".join(filter(None, [group, job_index, index]))
    return f"{job}-{index}" if job and index else name
