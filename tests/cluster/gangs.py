"""Gangs for these tests, and what the audit log says of them."""

import subprocess
from collections.abc import Container, Iterator
from datetime import datetime

from muster.api.base import Object
from muster.api.kinds import LEASE, POD, POD_GROUP_X
from muster.names import SCHEDULER
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane

POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


def member(
    gang: str, index: int, cpu: str = "1", test: str = "", by: str = SCHEDULER, **annotations: str
) -> Object:
    """A pod of a gang; with `test`, for nodes with that label only; `by`: its scheduler's name."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {
            "name": f"{gang}-{index}",
            "labels": {POD_GROUP_LABEL: gang},
            "annotations": {f"muster.dev/{key}": value for key, value in annotations.items()},
        },
        "spec": {
            "schedulerName": by,
            "restartPolicy": "Never",
            "containers": [container],
            **({"nodeSelector": {"test": test}} if test else {}),
        },
    }


async def gang(
    cluster: Cluster, name: str, size: int, cpu: str = "1", test: str = "", by: str = SCHEDULER
) -> None:
    await cluster.make(POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": size}})
    for index in range(size):
        await cluster.make(POD, member(name, index, cpu, test, by))


async def leads(cluster: Cluster, replica: subprocess.Popen[bytes]) -> bool:
    """Whether this replica of the scheduler has the Lease."""
    lease = await cluster.client.get(LEASE, "muster-system", "muster-scheduler")
    return f"_{replica.pid}_" in lease.spec.holder_identity


async def bound(cluster: Cluster, name: str) -> int:
    pods = await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}={name}")
    return sum(bool(pod.spec.node_name) for pod in pods.items)


def bound_at(plane: ControlPlane, prefix: str, since: int = 0) -> list[tuple[str, float]]:
    """The pods in the order in which the server bound them, with the time (Unix seconds)."""
    found = done(plane, "create", "pods", "binding", since)
    return [(name, at) for name, code, at in found if code == 201 and name.startswith(prefix)]


def refused_at(plane: ControlPlane, pod: str) -> list[float]:
    """When the server refused to bind this pod."""
    found = done(plane, "create", "pods", "binding")
    return [at for name, code, at in found if code in (403, 422) and name == pod]


def given_back_at(plane: ControlPlane, prefix: str) -> list[tuple[str, float]]:
    """The pods that were deleted by a request, with the time."""
    return [(name, at) for name, code, at in done(plane, "delete", "pods") if name.startswith(prefix)]


def binds(plane: ControlPlane, since: int) -> int:
    """How many Bindings the audit log has from this size on. (Reading its entries would take too long.)"""
    with plane.audit.open("rb") as log:
        log.seek(since)
        return log.read().count(b'"subresource":"binding"')


def times(plane: ControlPlane, verb: str, resource: str, name: str) -> list[float]:
    return [at for one, code, at in done(plane, verb, resource) if one == name and code < 300]


def done(
    plane: ControlPlane,
    verb: str,
    resource: str,
    subresource: str = "",
    since: int = 0,
    by: Container[str] | None = None,
) -> Iterator[tuple[str, int, float]]:
    """What the audit log says of such requests: the object's name, the status, and when it was answered.

    `by`: of these users only.
    """
    for entry in plane.entries(since):
        if by is not None and entry["user"]["username"] not in by:
            continue
        match entry:
            case {
                "verb": str(asked),
                "objectRef": {"resource": str(of), "name": str(name), **rest},
                "responseStatus": {"code": int(code)},
                "stageTimestamp": str(at),
            } if (asked, of, rest.get("subresource", "")) == (verb, resource, subresource):
                yield name, code, datetime.fromisoformat(at).timestamp()
