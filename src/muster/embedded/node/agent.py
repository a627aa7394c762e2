"""The node agent: all nodes of the embedded cluster, and the pods that are bound to them.

One agent serves all nodes. It writes the Node objects, and watches pods, Services (for their names), JobSets
(for how long names last), config maps and secrets. It gives each bound pod to a worker or, on a node with
`runtime=none`, to the fake runtime (`FakeRuntime`). At the start, running containers are adopted if their pod
still exists; otherwise they are killed and reported. The fake runtime reports a removed node's pods as ended.

`run` lasts until it is cancelled. Cancelled, it leaves containers running, as a crash would, and the next
agent on the same directory takes them over. `shutdown` ends them and reports that in the pods' status.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import resource
import shutil
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

from muster.api.core_v1 import ConfigMap, NodeStatus, Pod, Secret
from muster.api.jobset_v1alpha2 import JOBSET_NAME, JobSet
from muster.api.kinds import (
    CONFIG_MAP,
    JOBSET,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    SECRET,
    SERVICE,
)
from muster.embedded.node import device_objects, processes
from muster.embedded.node import isolation as isolations
from muster.embedded.node.checkpoints import Checkpoints
from muster.embedded.node.dns import Names
from muster.embedded.node.environment import Lookup, Unavailable
from muster.embedded.node.execution import Execution
from muster.embedded.node.fake_runtime import FakeRuntime
from muster.embedded.node.gpus import Gpus
from muster.embedded.node.isolation import Files, Isolation
from muster.embedded.node.logs import Logs
from muster.embedded.node.machine import Machine
from muster.embedded.node.node_object import labels_of, node_object
from muster.embedded.node.pod_supervisor import PodSupervisor
from muster.embedded.node.reporting import confirm_deletion
from muster.embedded.node.volumes import Links
from muster.embedded.nodespec import NodeSpec
from muster.kube.apply import apply, merge
from muster.kube.client import Client
from muster.kube.clock import Clock, SystemClock
from muster.kube.errors import BadRequest, NotFound
from muster.kube.informers import Informers
from muster.names import RUNTIME, SHARED_VOLUME

log = logging.getLogger(__name__)

#: between two removals of what ended pods have left
PRUNE_SECONDS: Final = 600.0
#: how often the agent tries to get the lock, and the pause in between
LOCK_TRIES: Final = 100
LOCK_SECONDS: Final = 0.02
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
OPEN_FILES: Final = 65_536  # most files that the agent opens, if permitted: three per container


class NodeAgent:
    """Runs nodes and their pods; the API server reads logs from `logs`."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        *,
        root: Path,
        nodes: Sequence[NodeSpec],
        clock: Clock | None = None,
        isolation: Isolation | None = None,
        logs: Logs | None = None,
    ) -> None:
        """`root` is MUSTER_HOME; only one agent may use it at a time. Without `isolation`, it is detected.

        The caller runs the informers.
        """
        self._client = client
        self._clock = clock or SystemClock()
        self._nodes = {node.name: node for node in nodes}
        self._root = root.absolute()
        base = self._root / "node"
        for directory in (base, base / "pods", base / "stage", base / "hosts"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            directory.chmod(0o700)  # they contain secrets of pods
        self.logs = logs or Logs(root / "logs", clock)
        self.isolation = isolation or isolations.detect()
        self._names = Names(base / "hosts", self._clock.monotonic)
        real = [index for node in nodes for index in node.gpus]
        self._gpus = Gpus(real, {n.name for n in nodes if n.gpus}, lambda uid: self._machine.directory(uid))
        self._machine = Machine(
            client=client,
            clock=self._clock,
            root=base,
            isolation=self.isolation,
            logs=self.logs,
            hosts=self._names.file,
            lookup=self._lookup,
            devices=self._gpus,
            links=Links(),
            open_files=_raise_open_files(),
            umask=_umask(),
        )
        self._fake_runtime = FakeRuntime(client, self._clock, lookup=self._lookup)
        self._checkpoints = Checkpoints(client, informers[POD].items, self._clock)
        self._informers = informers
        self._pods, self._jobsets, self._services = informers[POD], informers[JOBSET], informers[SERVICE]
        self._config_maps, self._secrets = informers[CONFIG_MAP], informers[SECRET]
        self._claims, self._slices = informers[RESOURCE_CLAIM], informers[RESOURCE_SLICE]
        self._workers: dict[str, PodSupervisor] = {}  # by uid
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wrappers: dict[Path, int] = {}
        #: descriptors of the lock, and of outputs that must not be lost before their worker reads them
        self._held: list[int] = []
        self._shared: set[str] = set()  # `namespace/name` of JobSets with a shared volume
        #: set once the nodes are written and the containers of an earlier agent are taken over
        self.ready = asyncio.Event()
        self._live = False  # whether pods may be started: everything else has been read
        self._closing = False

    def degradation(self) -> str | None:
        """A message for users on what pods lack on this machine; None if they lack nothing."""
        return self.isolation.degradation()

    async def run(self) -> None:
        """Runs until cancelled; containers then continue without the agent.

        Meanwhile all files that this process makes are private to its user; containers get the earlier umask.
        """
        os.umask(0o077)
        try:
            async with asyncio.TaskGroup() as tasks:
                await self._write_nodes()
                await self._informers.synced(
                    (CONFIG_MAP, SECRET, SERVICE, JOBSET, POD, RESOURCE_CLAIM, RESOURCE_SLICE)
                )
                self._services.subscribe(self._names.service_changed)
                self._jobsets.subscribe(self._jobset_changed)
                self._pods.subscribe(self._pod_changed)
                await self._settle()
                tasks.create_task(self._fake_runtime.run())
                tasks.create_task(self._prune())
                tasks.create_task(self._checkpoints.run())
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            os.umask(self._machine.umask)
            self._names.close()
            for fd in self._held:
                os.close(fd)

    async def shutdown(self) -> None:
        """Ends all containers, each within its grace period, and reports their pods as failed.

        Call it while `run` is running, before cancelling it.
        """
        self._closing = True
        for worker in self._workers.values():
            worker.shut_down()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def execute(
        self, pod_uid: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> Execution:
        """Starts a command in a running container. Raises BadRequest."""
        worker = self._workers.get(pod_uid)
        if worker is None:
            raise BadRequest("the pod has no processes: it does not run, or its node is simulated")
        try:
            return await worker.execute(container, command, stdin=stdin, tty=tty)
        except (Unavailable, OSError, ValueError) as error:  # ValueError: a NUL in the command
            raise BadRequest(f"the command cannot be started: {error}") from None

    # nodes

    async def _write_nodes(self) -> None:
        """Writes the nodes that `--nodes` describes, and deletes its other nodes of earlier starts.

        Users' changes to a node (a label, a taint, a cordon) stay. Only the agent writes resources.
        """
        there = {node.metadata.name: node for node in (await self._client.list(NODE, labels=RUNTIME)).items}
        for name in sorted(there.keys() - self._nodes.keys()):
            with contextlib.suppress(NotFound):
                await self._client.delete(NODE, "", name)
        known = await device_objects.published(self._client)
        await device_objects.publish_classes(self._client, self._nodes.values())
        for spec in self._nodes.values():
            body = node_object(spec, self._clock.now())
            await apply(self._client, NODE, body)
            status = there[spec.name].status if spec.name in there else NodeStatus()
            gone = {
                "capacity": dict.fromkeys(status.capacity),
                "allocatable": dict.fromkeys(status.allocatable),
            }
            change = {"status": merge(gone, body["status"])}
            node = await self._client.patch(NODE, "", spec.name, change, subresource="status")
            await device_objects.publish(self._client, spec, node, known)

    # pods

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._names.pod_changed(old, new)
        self._checkpoints.changed(old, new)
        if self._live:
            self._attend(old, new)
        if old is not None and new is None and old.metadata.uid not in self._workers:
            self.logs.pod_ended(old.metadata.namespace, old.metadata.name, old.metadata.uid)
        pod = new or old
        if pod is not None and (jobset := _jobset_of(pod)) in self._shared:
            self._end_shared(jobset)

    def _attend(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None, "a change has at least one side"
        node = self._nodes.get(pod.spec.node_name)
        uid = pod.metadata.uid
        worker = self._workers.get(uid)
        lost = pod.spec.node_name in self._fake_runtime.lost
        if self._closing or (node is None and not lost):
            return
        if new is None:
            self._fake_runtime.forget(pod)
            if worker is not None:
                worker.vanish()
        elif node is None or node.runtime == "none":
            self._fake_runtime.update(new)
        elif worker is not None:
            worker.update(new)
        elif not new.terminal:
            self._begin(new)
        elif new.metadata.deletion_timestamp is not None and uid not in self._tasks:
            self._spawn(uid, confirm_deletion(self._machine, new))

    def _begin(self, pod: Pod) -> None:
        worker = PodSupervisor(self._machine, pod, self._wrappers)
        self._workers[pod.metadata.uid] = worker
        self._spawn(pod.metadata.uid, worker.run())

    def _spawn(self, uid: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks[uid] = task
        task.add_done_callback(lambda _: self._finished(uid, task))

    def _finished(self, uid: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(uid, None)
        worker = self._workers.pop(uid, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.error("pod %s is no longer supervised", uid, exc_info=error)
        # a version of the pod that is newer than the one that the worker saw last
        newest = self._pods.items.get(worker.pod.key) if worker is not None else None
        if newest is not None and newest.metadata.uid == uid and newest.terminal:
            self._attend(None, newest)

    async def _settle(self) -> None:
        """Takes over the containers found at the start: adopts those of known pods, ends the others."""
        self._names.settle()
        self._wrappers = processes.wrappers(self._machine.root)
        known = {
            pod.metadata.uid
            for pod in self._pods.items.values()
            if not pod.terminal and pod.spec.node_name in self._nodes
        }
        pods = self._machine.root / "pods"
        for directory in processes.marked_directories(self._machine.root):
            uid = directory.relative_to(pods).parts[0]
            stray = uid not in known or directory not in self._wrappers
            if stray:
                log.warning("ending processes of %s that no pod accounts for", directory)
                self._wrappers.pop(directory, None)
                await processes.end_marked(str(directory))
        for path in sorted(pods.iterdir()):
            if path.name not in known:
                self._machine.forget(path.name)
            else:
                self._gpus.restore(path.name)
        for shared in (self._root / "shared").glob("*/*"):
            if f"{shared.parent.name}/{shared.name}" not in self._jobsets.items:
                shutil.rmtree(shared, ignore_errors=True)
        for directory in self._wrappers:
            with contextlib.suppress(OSError):
                self._held.append(os.open(Files(directory).output, _READ))
        self._held.append(await _locked(self._machine.lock))
        nodes = {node.metadata.name for node in (await self._client.list(NODE)).items}
        self._fake_runtime.lost = {pod.spec.node_name for pod in self._pods.items.values()} - nodes - {""}
        self._live = True
        for pod in list(self._pods.items.values()):
            self._attend(None, pod)
        self.ready.set()

    # what pods refer to

    def _lookup(self, pod: Pod) -> Lookup:
        namespace = pod.metadata.namespace

        def config_map(name: str) -> ConfigMap | None:
            return self._config_maps.items.get(f"{namespace}/{name}")

        def secret(name: str) -> Secret | None:
            return self._secrets.items.get(f"{namespace}/{name}")

        node = self._nodes.get(pod.spec.node_name)
        return Lookup(
            *(config_map, secret, node.resources if node else {}),
            claim=lambda name: self._claims.items.get(f"{namespace}/{name}"),
            slices=self._slices.items.values,
            node_labels=labels_of(node) if node else {},
        )

    def _jobset_changed(self, old: JobSet | None, new: JobSet | None) -> None:
        self._names.jobset_changed(old, new)
        jobset = new or old
        assert jobset is not None, "a change has at least one side"
        if jobset.metadata.annotations.get(SHARED_VOLUME) == "true":
            self._shared.add(jobset.key)
            self._end_shared(jobset.key)

    def _end_shared(self, key: str) -> None:
        """Removes a JobSet's shared volume after the JobSet, once none of its pods uses the volume any more.

        The directory derives from namespace and name: text that users write must not choose what is deleted.
        """
        jobset = self._jobsets.items.get(key)
        if jobset is not None and not jobset.status.terminal_state:
            return
        if not any(_jobset_of(pod) == key and not pod.terminal for pod in self._pods.items.values()):
            self._shared.remove(key)
            shutil.rmtree(self._root / "shared" / key, ignore_errors=True)

    async def _prune(self) -> None:
        while True:
            pods = self._pods.items.values()
            ended = {pod.metadata.uid for pod in pods if pod.terminal}
            self.logs.prune(self._clock.now().timestamp(), {pod.metadata.uid for pod in pods}, ended)
            await self._clock.sleep(PRUNE_SECONDS)


def _jobset_of(pod: Pod) -> str:
    """`namespace/name` of the JobSet that a pod belongs to."""
    return f"{pod.metadata.namespace}/{pod.metadata.labels.get(JOBSET_NAME, '')}"


async def _locked(path: Path) -> int:
    """Gets the lock of the agent that reads containers' output; returns its descriptor.

    A wrapper holds the lock for a moment while it keeps its container's last output itself.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            await asyncio.sleep(LOCK_SECONDS)
    return descriptor  # without the lock, wrappers keep output in files, where it is found


def _raise_open_files() -> int:
    """Raises this process's limit of open files; returns the earlier limit, which containers get."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return soft
    return 0


def _umask() -> int:
    """This process's file mode creation mask. Only a call that also sets it returns it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
