"""What the schedulers of other projects write into the status of groups and pods, recorded once.

`record.py` played the scenarios below on a real API server with Volcano's scheduler, kube-scheduler and
Koordinator's, and wrote a file of each. `test_statuses.py` plays them on muster, and compares field by field.
What differs on purpose is listed there, with the reason.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api import groups, kinds
from muster.api.base import Kind, Object
from muster.api.core_v1 import Pod
from muster.api.groups import Dialect
from muster.api.koordinator_v1alpha1 import MIN_AVAILABLE, TOPOLOGY_SPEC
from muster.kube.client import Client
from muster.kube.errors import AlreadyExists
from tests.upstream.volcano import QUEUE, Loose

#: The groups as they are, with all that their status has.
GROUPS: Final[dict[Dialect, Kind[Loose]]] = {
    row: Kind(
        *(row.kind.group, row.kind.version, row.kind.kind, row.kind.plural, True, Loose),
        status=row.kind.status,
    )
    for row in (groups.VOLCANO, groups.NATIVE, groups.KOORDINATOR)
}
NAMESPACE: Final = "default"
#: CPUs of a node
NODE_CPUS: Final = 4
#: Each node is a rack of its own.
RACKS: Final[Object] = {
    "metadata": {"name": "default"},
    "spec": {
        "networkTopologySpec": [
            {
                "topologyLayer": "RackLayer",
                "parentTopologyLayer": "ClusterTopologyLayer",
                "labelKey": ["rack"],
            },
            {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "RackLayer"},
        ]
    },
}
#: Seconds without a change after which a scheduler is at rest.
QUIET: Final = 6.0


@dataclass
class World:
    """A cluster without kubelets, on which a scenario is played with the objects of one dialect."""

    client: Client
    dialect: Dialect
    #: of the pods
    scheduler: str
    #: lets the schedulers come to rest: nothing changes for so many seconds
    rest: Callable[[float], Awaitable[None]]
    #: what was seen, by the step of the scenario
    seen: dict[str, Object] = field(default_factory=dict)

    async def nodes(self, count: int, first: int = 0) -> None:
        room = {"cpu": str(NODE_CPUS), "memory": "8Gi", "pods": "110"}
        status = {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        }
        for number in range(first, first + count):
            name = f"n-{number}"
            await self.create(kinds.NODE, {"metadata": {"name": name, "labels": {"rack": name}}})
            await self.client.patch(kinds.NODE, "", name, {"status": status}, subresource="status")

    async def group(self, minimum: int, name: str = "g", **spec: Any) -> None:  # Any: JSON
        if self.dialect is groups.NATIVE:
            own: Object = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        elif self.dialect is groups.KOORDINATOR:
            own, spec = {"minMember": minimum}, {}
        else:
            own = {"minMember": minimum, "queue": "default"}
        await self.create(GROUPS[self.dialect], {"metadata": {"name": name}, "spec": {**own, **spec}})

    async def pods(
        self,
        count: int,
        cpu: int = 2,
        *,
        group: str = "g",
        first: int = 0,
        task: str = "",
        priority: str = "",
        annotations: Object | None = None,
    ) -> None:
        for number in range(first, first + count):
            marks = {**(annotations or {}), **({"volcano.sh/task-spec": task} if task else {})}
            spec: Object = {
                "schedulerName": self.scheduler,
                "containers": [{"name": "c", "image": "none", "resources": {"requests": {"cpu": str(cpu)}}}],
                **({"priorityClassName": priority} if priority else {}),
            }
            labels = {}
            if self.dialect is groups.NATIVE:
                spec["schedulingGroup"] = {"podGroupName": group}
            elif self.dialect is groups.KOORDINATOR:
                labels = {} if marks else {groups.KOORDINATOR.label: group}
            else:
                marks["scheduling.k8s.io/group-name"] = group
            meta = {"name": f"{group}-{number}", "annotations": marks, "labels": labels}
            await self.create(kinds.POD, {"metadata": meta, "spec": spec})

    async def queue(self, name: str, state: str = "Open", **spec: Any) -> None:  # Any: JSON
        """A Queue of Volcano, in the state that its controllers give it."""
        with suppress(AlreadyExists):
            await self.create(QUEUE, {"metadata": {"name": name}, "spec": {"weight": 1, **spec}})
        await self.edit(QUEUE, name, {"status": {"state": state}}, "status")

    async def create(self, kind: Kind[Any], body: Object) -> None:
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        await self.client.create(kind, NAMESPACE if kind.namespaced else "", whole)

    async def edit(self, kind: Kind[Any], name: str, body: Object, part: str = "") -> None:
        namespace = NAMESPACE if kind.namespaced else ""
        await self.client.patch(kind, namespace, name, body, subresource=part)

    async def phase(self, phase: str, *names: str) -> None:
        """What a kubelet says of pods."""
        for name in names:
            await self.edit(kinds.POD, name, {"status": {"phase": phase}}, "status")

    async def delete(self, kind: Kind[Any], name: str) -> None:
        await self.client.delete(kind, NAMESPACE if kind.namespaced else "", name, grace_period=0)

    async def see(self, step: str, group: str = "g", quiet: float = QUIET) -> None:
        """Records the group and all pods, once the schedulers have come to rest."""
        await self.rest(quiet)
        found = (await self.client.list(GROUPS[self.dialect], NAMESPACE)).items
        pods = (await self.client.list(kinds.POD, NAMESPACE)).items
        self.seen[step] = {
            "group": next((_group(each) for each in found if each.metadata.name == group), None),
            "pods": {
                pod.metadata.name: self._pod(pod) for pod in sorted(pods, key=lambda pod: pod.metadata.name)
            },
        }

    def _pod(self, pod: Pod) -> Object:
        nominated = self.dialect is groups.KOORDINATOR and pod.status.nominated_node_name
        return {**_pod(pod), **({"nominated": True} if nominated else {})}


def _group(group: Loose) -> Object:
    status = group.status
    conditions = sorted(status.get("conditions", ()), key=lambda each: str(each.get("lastTransitionTime")))
    return {
        **{
            key: status[key]
            for key in ("phase", "scheduled", "running", "succeeded", "failed")
            if status.get(key)
        },
        #: the latest last
        "conditions": [_condition(each) for each in conditions],
    }


def _pod(pod: Pod) -> Object:
    conditions = (each for each in pod.status.conditions if each.type in ("PodScheduled", "DisruptionTarget"))
    return {
        "phase": pod.status.phase,
        "bound": bool(pod.spec.node_name),
        "leaving": pod.metadata.deletion_timestamp is not None,
        "conditions": [
            _condition(
                {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            )
            for each in sorted(conditions, key=lambda each: each.type)
        ],
    }


def _condition(found: Object) -> Object:
    """A condition with the shape of its message: without numbers, and identifiers."""
    message = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", str(found.get("message") or ""))
    message = re.sub(r"\d+(\.\d+)?", "N", message)
    told = {"type": found["type"], "status": found["status"], "reason": found.get("reason", "")}
    return {**told, "message": message}


Scenario = Callable[[World], Awaitable[None]]


async def starts(world: World) -> None:
    await world.nodes(2)
    await world.group(3)
    await world.pods(3)
    await world.see("bound")
    await world.phase("Running", "g-0", "g-1", "g-2")
    await world.see("running")


async def succeeds(world: World) -> None:
    await starts(world)
    await world.phase("Succeeded", "g-0")
    await world.see("one has succeeded")
    await world.phase("Succeeded", "g-1", "g-2")
    await world.see("all have succeeded")


async def one_fails(world: World) -> None:
    await starts(world)
    await world.phase("Failed", "g-0")
    await world.see("one has failed")


async def one_is_deleted(world: World) -> None:
    await starts(world)
    await world.delete(kinds.POD, "g-0")
    await world.see("one is deleted")
    await world.pods(1, first=3)
    await world.see("another has come")


async def too_few(world: World) -> None:
    await world.nodes(2)
    await world.group(3)
    await world.see("no pod")
    await world.pods(2)
    await world.see("two of three")


async def does_not_fit(world: World) -> None:
    await world.nodes(2)
    await world.group(3)
    await world.pods(3, cpu=4)
    await world.see("two of three have room")
    await world.nodes(1, first=2)
    await world.see("a node more", quiet=2 * QUIET)  # kube-scheduler tries again after 10 s at most


async def never_fits(world: World) -> None:
    await world.nodes(2)
    await world.group(1)
    await world.pods(1, cpu=NODE_CPUS + 1)
    await world.see("larger than a node")


async def surplus(world: World) -> None:
    await world.nodes(2)
    await world.group(2)
    await world.pods(3, cpu=4)
    await world.see("two of three have room")


async def group_deleted(world: World) -> None:
    await starts(world)
    await world.delete(GROUPS[world.dialect], "g")
    await world.see("without its group")


async def group_missing(world: World) -> None:
    await world.nodes(2)
    await world.pods(2)
    await world.see("without a group")


async def preempted(world: World) -> None:
    await world.nodes(2)
    await world.create(kinds.PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
    await world.group(1)
    await world.pods(2, cpu=4)
    await world.see("bound")
    await world.phase("Running", "g-0", "g-1")
    await world.group(1, "h", priorityClassName="high")
    await world.pods(1, cpu=4, group="h", priority="high")
    await world.see("the victim")
    await world.see("the preemptor", "h")


async def basic(world: World) -> None:
    await world.nodes(1)
    await world.group(1, schedulingPolicy={"basic": {}})
    await world.pods(3)
    await world.see("two of three have room")


async def minimum_raised(world: World) -> None:
    await starts(world)
    await world.edit(GROUPS[world.dialect], "g", {"spec": {"schedulingPolicy": {"gang": {"minCount": 4}}}})
    await world.see("the minimum is four")


async def topology(world: World) -> None:
    await world.nodes(2)
    await world.group(3, schedulingConstraints={"topology": [{"key": "rack"}]})
    await world.pods(3)
    await world.see("no rack has room")


async def gathered(world: World) -> None:
    """A rack has room for two of three."""
    await world.create(kinds.CLUSTER_NETWORK_TOPOLOGY, RACKS)
    await world.nodes(2)
    await world.rest(2 * QUIET)  # Koordinator reads the topology every 10 s
    await world.group(3)
    rule = '{"gatherStrategy": [{"layer": "RackLayer", "strategy": "MustGather"}]}'
    await world.edit(GROUPS[world.dialect], "g", {"metadata": {"annotations": {TOPOLOGY_SPEC: rule}}})
    await world.pods(3)
    await world.see("no rack has room")


async def described(world: World) -> None:
    await world.nodes(2)
    said = {groups.KOORDINATOR.by_description[-1]: "g", MIN_AVAILABLE[-1]: "3"}
    await world.pods(2, annotations=said)
    await world.see("two of three")
    await world.pods(1, annotations=said, first=2)
    await world.see("bound")


async def queue_closed(world: World) -> None:
    await world.nodes(2)
    await world.queue("closed", "Closed")
    await world.group(2, queue="closed")
    await world.pods(2)
    await world.see("its queue is closed")


async def queue_unknown(world: World) -> None:
    await world.nodes(2)
    await world.group(2, queue="nowhere")
    await world.pods(2)
    await world.see("its queue does not exist")


async def queue_full(world: World) -> None:
    await world.nodes(2)
    await world.queue("small", capability={"cpu": "2"})
    await world.group(2, queue="small", minResources={"cpu": "4"})
    await world.pods(2)
    await world.see("its queue is too small")


async def task_lacks(world: World) -> None:
    await world.nodes(2)
    await world.group(3, minTaskMember={"a": 1, "b": 2})
    await world.pods(2, cpu=1, task="a")
    await world.pods(1, cpu=1, task="b", first=2)
    await world.see("one of b is missing")
    await world.pods(1, cpu=1, task="b", first=3)
    await world.see("all are there")


_ALL: Final[tuple[Scenario, ...]] = (
    *(starts, succeeds, one_fails, one_is_deleted, too_few, does_not_fit, never_fits, surplus),
    *(group_deleted, group_missing, preempted),
)
#: By file, what is played: twelve and more of each.
SCENARIOS: Final[dict[Dialect, tuple[Scenario, ...]]] = {
    groups.VOLCANO: (*_ALL, queue_closed, queue_unknown, queue_full, task_lacks),
    groups.NATIVE: (*_ALL, basic, minimum_raised, topology),
    groups.KOORDINATOR: (*_ALL, gathered, described),
}
FILES: Final = {
    groups.VOLCANO: "volcano.json",
    groups.NATIVE: "native.json",
    groups.KOORDINATOR: "koordinator.json",
}


def called(scenarios: Iterable[Scenario]) -> dict[str, Scenario]:
    return {each.__name__: each for each in scenarios}
