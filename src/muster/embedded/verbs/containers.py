"""The container of a pod that a request concerns, even if it names none, and the log that it reads."""

from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from muster.api.base import Object
from muster.kube.client import LogOptions
from muster.kube.errors import BadRequest

#: Pod annotation that names the container for requests that name none.
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


class LogTarget(NamedTuple):
    """The container whose log a request reads."""

    pod_uid: str
    container: str
    #: the request's options, with `since` as a time; the log of a pod that has ended is not followed, since
    #: nothing more is written
    how: LogOptions


def log_target(pod: Object, container: str, how: LogOptions, now: datetime) -> LogTarget:
    """The container and options of a request to read a log. Raises BadRequest."""
    name, container = pod["metadata"]["name"], meant(pod, container)
    if how.previous and not _has_run_before(pod, container):
        raise BadRequest(f'previous terminated container "{container}" in pod "{name}" not found')
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    how = replace(how.at(now), follow=how.follow and not ended)
    return LogTarget(pod["metadata"]["uid"], container, how)


def meant(pod: Object, container: str) -> str:
    """The container's name: the one given, the annotated one, or the only one. Raises BadRequest."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = [c["name"] for field in ("containers", "initContainers") for c in spec.get(field) or ()]
    if not container:
        annotations = pod["metadata"].get("annotations") or {}
        container = annotations.get(DEFAULT_CONTAINER, "")
        if not container and len(spec["containers"]) > 1:
            raise BadRequest(
                f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
            )
        container = container or names[0]
    if container not in names:
        raise BadRequest(f"container {container} is not valid for pod {name}")
    return container


def _has_run_before(pod: Object, container: str) -> bool:
    """Whether the container had a run before its present or last one, as the pod's status says."""
    status = pod.get("status") or {}
    found = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    return any(one["name"] == container and one.get("restartCount", 0) > 0 for one in found)
