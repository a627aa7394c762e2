"""Which container of a pod a request means that may name none."""

from typing import Final

from muster.api.base import Object
from muster.kube.errors import BadRequest

#: Pod annotation that names the container for requests that name none.
DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"


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


def has_run_before(pod: Object, container: str) -> bool:
    """Whether the container had a run before its present or last one, as the pod's status says."""
    status = pod.get("status") or {}
    found = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    return any(one["name"] == container and one.get("restartCount", 0) > 0 for one in found)
