"""A controller's job and its pods: what they do, and their ends, which no kubelet brings about."""

from typing import Any

from muster.api.base import Kind, Object
from muster.api.core_v1 import Pod
from muster.api.kinds import GANG, POD
from tests.cluster.conftest import Cluster
from tests.upstream.volcano import Loose


def template(container: str = "c", cpu: str = "1", **spec: Any) -> Object:  # Any: JSON
    """A pod template as a job's user writes it, with no word of muster."""
    limits = {"requests": {"cpu": cpu}}
    return {"spec": {"containers": [{"name": container, "image": "none", "resources": limits}], **spec}}


async def pods(cluster: Cluster, labels: str) -> list[Pod]:
    found = (await cluster.client.list(POD, "default", labels=labels)).items
    return [pod for pod in found if pod.metadata.deletion_timestamp is None]


async def phases(cluster: Cluster, labels: str) -> list[str]:
    """Their phases; "Bound" is one that has a node and does not run yet."""
    return sorted(
        "Bound" if pod.spec.node_name and pod.status.phase == "Pending" else pod.status.phase
        for pod in await pods(cluster, labels)
    )


async def run(cluster: Cluster, labels: str, count: int) -> bool:
    """Whether these are as many pods, and all run."""
    return await phases(cluster, labels) == ["Running"] * count


async def end(cluster: Cluster, labels: str, phase: str = "Succeeded") -> None:
    """Ends those that run, as a kubelet does; those that fail have exit code 137."""
    for pod in await pods(cluster, labels):
        if pod.status.phase == "Running":
            (name,) = (each.name for each in pod.spec.containers)
            code = {"exitCode": 0 if phase == "Succeeded" else 137}
            states = [
                {
                    "name": name,
                    "image": "none",
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    "state": {"terminated": code},
                }
            ]
            status = {"status": {"phase": phase, "containerStatuses": states}}
            await cluster.client.patch(POD, "default", pod.metadata.name, status, subresource="status")


async def lacks_room(cluster: Cluster, gang: str) -> bool:
    """Whether a gang waits for more room than there is."""
    reason = (await cluster.client.get(GANG, "default", gang)).status.reason
    return reason is not None and reason.code == "InsufficientCapacity"


async def holds(cluster: Cluster, kind: Kind[Loose], name: str, condition: str) -> bool:
    """Whether this condition of an object is True."""
    conditions = (await cluster.client.get(kind, "default", name)).status.get("conditions", [])
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)
