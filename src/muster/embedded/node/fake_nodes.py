"""Simulated nodes on any cluster: Node objects that stay ready, and pods that run without processes.

What a kubelet does, without a machine: it registers its node, renews the node's Lease, and reports the status
of the pods that are bound to the node. It refuses a pod for which the node has no room (`OutOfcpu`), as
happens when two schedulers fill it. The pods run as `fake_runtime` says. Without renewals the cluster's
node controller calls a node lost, so stopping this program is a power failure.
"""

import asyncio
import itertools
import logging
from collections.abc import Sequence
from typing import Final

import msgspec

from muster.api.core_v1 import Node, Pod
from muster.api.kinds import LEASE, NODE, POD
from muster.api.requests import requests
from muster.api.resource_v1 import ResourceSlice
from muster.embedded.node import device_objects
from muster.embedded.node.environment import NOTHING, Lookup
from muster.embedded.node.fake_runtime import FakeRuntime
from muster.embedded.node.node_object import labels_of, node_object
from muster.embedded.nodespec import NodeSpec
from muster.kube.apply import apply
from muster.kube.client import Client
from muster.kube.clock import Clock, back_off
from muster.kube.errors import AlreadyExists, ApiError, NotFound, Unanswered, Unreachable
from muster.kube.informers import Informers
from muster.names import RUNTIME
from muster.translate.nodes import node_changed

log = logging.getLogger(__name__)

#: Where the cluster looks for the Leases of nodes, how long one lasts, and when it is renewed (as kubelets
#: do).
LEASES: Final = "kube-node-lease"
DURATION: Final = 40
RENEW: Final = 10.0
#: Seconds between two attempts to write a node: the first pause, doubled each time, and the longest.
RETRY: Final = (0.2, 10.0)
#: Requests under way at a time.
WRITES: Final = 16
#: The API server puts this taint on each new node, and a node controller removes it; here the node itself.
_NEW: Final = "node.kubernetes.io/not-ready"


class OthersNode(Exception):
    """A node of that name is not simulated: its pods are real, and must not be played."""


class FakeNodes:
    """Plays these nodes. The caller runs the informers."""

    def __init__(self, client: Client, informers: Informers, specs: Sequence[NodeSpec], clock: Clock) -> None:
        self._client, self._informers, self._clock = client, informers, clock
        self._specs = {spec.name: spec for spec in specs}
        self._runtime = FakeRuntime(client, clock, self._no_room, self._lookup)
        self._published: dict[str, ResourceSlice] = {}
        #: by node, what it has left, and by the uids of its pods that run, what they take
        self._left: dict[str, dict[str, int]] = {}
        self._taken: dict[str, tuple[str, dict[str, int]]] = {}
        self._slots = asyncio.Semaphore(WRITES)
        #: set once all nodes are ready
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Runs until cancelled; the nodes stay. Raises OthersNode before anything is written."""
        for node in (await self._client.list(NODE)).items:
            if (name := node.metadata.name) in self._specs and node.metadata.labels.get(RUNTIME) != "none":
                raise OthersNode(f"node {name} exists and is not simulated; choose other names: name=fake")
        self._published = await device_objects.published(self._client)
        await device_objects.publish_classes(self._client, self._specs.values())
        async with asyncio.TaskGroup() as tasks:
            await asyncio.gather(*map(self._register, self._specs.values()))
            await self._informers.synced((POD,))
            self._informers[POD].subscribe(self._pod_changed)
            tasks.create_task(self._runtime.run())
            self.ready.set()
            while True:
                await asyncio.gather(*map(self._renew, self._specs))
                await self._clock.sleep(RENEW)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        latest = new or old
        if latest is not None and (new is None or new.terminal):
            self._free(latest.metadata.uid)
        if new is not None and new.spec.node_name in self._specs:
            if new.status.start_time is not None and not new.terminal:
                self._take(new)
            self._runtime.update(new)
        elif new is None and old is not None:
            self._runtime.forget(old)

    def _no_room(self, pod: Pod) -> str:
        """Returns why a kubelet would refuse the pod; it takes its room if it is not refused."""
        if pod.metadata.uid in self._taken:
            return ""
        left = self._room(pod.spec.node_name)
        for resource, amount in _wanted(pod).items():
            if amount > left.get(resource, 0):
                return f"OutOf{resource}"
        self._take(pod)
        return ""

    def _take(self, pod: Pod) -> None:
        node, uid = pod.spec.node_name, pod.metadata.uid
        if uid in self._taken:
            return
        self._taken[uid] = node, _wanted(pod)
        left = self._room(node)
        for resource, amount in self._taken[uid][1].items():
            left[resource] = left.get(resource, 0) - amount

    def _free(self, uid: str) -> None:
        node, taken = self._taken.pop(uid, ("", {}))
        for resource, amount in taken.items():
            self._left[node][resource] += amount

    def _room(self, node: str) -> dict[str, int]:
        if node not in self._left:
            shown = msgspec.convert(node_object(self._specs[node], self._clock.now()), Node)
            self._left[node] = dict(node_changed(shown).capacity)
        return self._left[node]

    async def _register(self, spec: NodeSpec) -> None:
        """Creates the node, or brings it up to date. Refusals are retried: controllers write nodes, too."""
        for failures in itertools.count():
            async with self._slots:
                try:
                    await self._write(spec)
                    return
                except (ApiError, Unanswered, Unreachable) as error:
                    log.warning("node %s is not ready yet: %s", spec.name, error)
            await self._clock.sleep(back_off(RETRY, failures))

    async def _write(self, spec: NodeSpec) -> None:
        body = node_object(spec, self._clock.now())
        await apply(self._client, NODE, body)
        status = {"status": body["status"]}
        node = await self._client.patch(NODE, "", spec.name, status, subresource="status")
        if any(taint.key == _NEW for taint in node.spec.taints):
            whole = await self._client.get_json(NODE, "", spec.name)
            others = [taint for taint in whole["spec"].get("taints", ()) if taint["key"] != _NEW]
            version = {"resourceVersion": whole["metadata"]["resourceVersion"]}
            await self._client.patch(
                NODE, "", spec.name, {"metadata": version, "spec": {"taints": others or None}}
            )
        await device_objects.publish(self._client, spec, node, self._published)

    def _lookup(self, pod: Pod) -> Lookup:
        return msgspec.structs.replace(NOTHING, node_labels=labels_of(self._specs[pod.spec.node_name]))

    async def _renew(self, name: str) -> None:
        time = self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": name, "leaseDurationSeconds": DURATION, "renewTime": time}
        async with self._slots:
            try:
                try:
                    await self._client.patch(LEASE, LEASES, name, {"spec": spec})
                except NotFound:
                    await self._client.create(LEASE, LEASES, {"metadata": {"name": name}, "spec": spec})
            except AlreadyExists:
                pass
            except (ApiError, Unanswered, Unreachable) as error:
                log.warning("the lease of node %s is not renewed: %s", name, error)


def _wanted(pod: Pod) -> dict[str, int]:
    try:
        return {**dict(requests(pod.spec)), "pods": 1}
    except ValueError:  # which the API server should have refused
        return {"pods": 1}
