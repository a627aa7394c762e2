"""What is scheduled: the rows of the table, and the objects that they consist of."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from muster.api.base import AnyKind, Kind, Object
from muster.api.kinds import NODE, POD, POD_GROUP_X
from muster.api.scheduling import PodGroup

#: The native kind, which kube-scheduler reads (KEP-4671).
NATIVE: Final = Kind("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", True, PodGroup)
#: What a kind's objects are created with: its path, and the object.
Made = tuple[str, Object]


@dataclass(frozen=True, slots=True)
class Row:
    """`gangs` gangs of `size` pods, on `nodes` nodes that have room for all of them."""

    name: str
    gangs: int
    size: int
    nodes: int = 100

    @property
    def pods(self) -> int:
        return self.gangs * self.size

    def scaled(self, scale: float) -> "Row":
        """A row with this part of the pods and nodes: of large gangs smaller ones, else fewer."""
        if self.gangs > 1:
            return replace(self, gangs=max(2, round(self.gangs * scale)), nodes=self._nodes(scale))
        return replace(self, size=max(2, round(self.size * scale)), nodes=self._nodes(scale))

    def _nodes(self, scale: float) -> int:
        return max(4, round(self.nodes * scale))


ROWS: Final = (
    Row("10,000×1", 10_000, 1),
    Row("500×20", 500, 20),
    Row("20×500", 20, 500),
    Row("1×10,000", 1, 10_000),
    Row("1,000×3", 1_000, 3, nodes=5_000),
)


def nodes(row: Row) -> Iterator[Made]:
    room = {"cpu": "32", "memory": "256Gi", "pods": "250"}
    status = {
        "capacity": room,
        "allocatable": room,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Bench", "message": ""}],
    }
    for number in range(row.nodes):
        name = f"node-{number:04}"
        labels = {"kubernetes.io/hostname": name}
        yield NODE.path(), _object(NODE, {"metadata": {"name": name, "labels": labels}, "status": status})


def gangs(row: Row, scheduler: str, groups: Kind[PodGroup] | None, cpu: str = "100m") -> Iterator[Made]:
    """The gangs one after the other: the group, if it is to have one of this kind, and its pods."""
    for number in range(row.gangs):
        gang = f"gang-{number:05}"
        if groups is not None:
            policy: Object = {"minMember": row.size}
            if groups is NATIVE:
                policy = {"schedulingPolicy": {"gang": {"minCount": row.size}}}
            yield groups.path("default"), _object(groups, {"metadata": {"name": gang}, "spec": policy})
        for index in range(row.size):
            yield POD.path("default"), _pod(gang, index, scheduler, groups, cpu)


def _pod(gang: str, index: int, scheduler: str, groups: Kind[PodGroup] | None, cpu: str) -> Object:
    asked = {"requests": {"cpu": cpu, "memory": "200Mi"}}
    spec: Object = {
        "schedulerName": scheduler,
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "none", "resources": asked}],
    }
    labels = {"app": "bench"}
    if groups is POD_GROUP_X:
        labels[f"{POD_GROUP_X.group}/pod-group"] = gang
    if groups is NATIVE:
        spec["schedulingGroup"] = {"podGroupName": gang}
    return _object(POD, {"metadata": {"name": f"{gang}-{index:05}", "labels": labels}, "spec": spec})


def bindings(row: Row) -> Iterator[Made]:
    """A Binding for each pod of the row, to the nodes in turn."""
    names = (f"gang-{gang:05}-{index:05}" for gang in range(row.gangs) for index in range(row.size))
    for number, name in enumerate(names):
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % row.nodes:04}"}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        yield POD.path("default", name, "binding"), body


def _object(kind: AnyKind, body: Object) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}
