"""`python -m tests.upstream.statuses.record [volcano|native|koordinator]…`: plays and writes scenarios.

It builds the schedulers first, which takes some minutes, and needs the control plane of the tests
(`make test-cluster` builds it). Nothing else needs either: the tests compare with the files.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from muster.api import groups, kinds
from muster.api.base import Kind, Object
from muster.api.groups import Dialect
from muster.kube import config
from muster.kube.errors import ApiError, NotFound
from muster.kube.http import HttpClient
from tests.cluster.control_plane import GATES, HOST, ControlPlane, built, free_ports, running
from tests.upstream.modules import KOORD_SCHEDULER, VC_SCHEDULER, VOLCANO
from tests.upstream.statuses import FILES, GROUPS, NAMESPACE, QUIET, SCENARIOS, World, called
from tests.upstream.volcano import QUEUE

HERE: Final = Path(__file__).parent
_GATES: Final = f"{GATES},TopologyAwareWorkloadScheduling=true"
#: Its Helm chart's configuration, with the action `preempt`.
_CONFIGURATION: Final = """\
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
  - {name: binpack}
"""


_SCHEDULERS: Final = {groups.VOLCANO: VC_SCHEDULER, groups.KOORDINATOR: KOORD_SCHEDULER}
#: The module that has the definitions of a dialect's kinds, and where.
_KINDS: Final = {
    groups.VOLCANO: (VOLCANO, "config/crd/volcano/bases"),
    groups.KOORDINATOR: (KOORD_SCHEDULER, "config/crd/bases"),
}


async def record(plane: ControlPlane, dialect: Dialect) -> dict[str, Any]:  # Any: JSON
    found = {}
    client = HttpClient(config.load(str(plane.kubeconfig)))
    try:
        for name, scenario in called(SCENARIOS[dialect]).items():
            await _clear(client, dialect)
            with _scheduler(plane, dialect) as scheduler:
                world = World(client, dialect, scheduler, partial(_rest, client, dialect))
                if dialect is groups.VOLCANO:
                    for queue in ("root", "default"):
                        await world.queue(queue)
                await world.rest(QUIET)
                await scenario(world)
            found[name] = world.seen
            print(name, flush=True)
    finally:
        await client.close()
    return found


async def _rest(client: HttpClient, dialect: Dialect, quiet: float) -> None:
    """Waits until nothing has changed for a while, and ends pods that are to end, as a kubelet does."""
    before, since = None, asyncio.get_running_loop().time()
    until = since + 40
    while (now := asyncio.get_running_loop().time()) < until:
        pods = (await client.list(kinds.POD, NAMESPACE)).items
        for pod in pods:
            if pod.metadata.deletion_timestamp is None:
                continue
            with suppress(NotFound):
                await client.delete(kinds.POD, NAMESPACE, pod.metadata.name, grace_period=0)
        found = (await client.list(GROUPS[dialect], NAMESPACE)).items
        seen = [(each.metadata.uid, each.metadata.resource_version) for each in (*pods, *found)]
        if seen != before:
            before, since = seen, now
        elif now - since >= quiet:
            return
        await asyncio.sleep(0.3)


async def _clear(client: HttpClient, dialect: Dialect) -> None:
    own: tuple[Kind[Any], ...] = (kinds.POD, GROUPS[dialect], kinds.NODE)
    for kind in own:
        for each in (await client.list(kind)).items:
            meta, body = each.metadata, {"metadata": {"finalizers": None}}
            with suppress(NotFound):
                if meta.finalizers:
                    await client.patch(kind, meta.namespace, meta.name, body)
                await client.delete(kind, meta.namespace, meta.name, grace_period=0)
    for each in (await client.list(kinds.PRIORITY_CLASS)).items:
        if not each.metadata.name.startswith("system-"):
            await client.delete(kinds.PRIORITY_CLASS, "", each.metadata.name)
    if dialect is groups.KOORDINATOR:
        with suppress(NotFound):
            await client.delete(kinds.CLUSTER_NETWORK_TOPOLOGY, "", "default")
    if dialect is groups.VOLCANO:
        for each in (await client.list(QUEUE)).items:
            if each.metadata.name not in ("root", "default"):
                await client.delete(QUEUE, "", each.metadata.name)


@contextmanager
def _scheduler(plane: ControlPlane, dialect: Dialect) -> Iterator[str]:
    """Runs the scheduler of one scenario; its name."""
    if dialect is groups.NATIVE:
        yield "default-scheduler"
        return
    name, arguments = (_koordinator if dialect is groups.KOORDINATOR else _volcano)(plane)
    with (plane.home / f"{name}.log").open("ab") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log, cwd=plane.home)
    try:
        yield name
    finally:
        process.kill()
        process.wait()


def _volcano(plane: ControlPlane) -> tuple[str, list[str]]:
    """The name of Volcano's scheduler, and its command."""
    (port,) = free_ports(1)
    directory = plane.home / "volcano"  # of its own: it reads the file again if any of its directory changes
    directory.mkdir(exist_ok=True)
    file = directory / "volcano.conf"
    file.write_text(_CONFIGURATION)
    arguments = [
        *(str(VC_SCHEDULER.built()), f"--kubeconfig={plane.kubeconfig}", f"--scheduler-conf={file}"),
        *("--leader-elect=false", "--schedule-period=300ms", f"--listen-address={HOST}:{port}"),
        *("--logtostderr", "-v=3"),
    ]
    return "volcano", arguments


def _koordinator(plane: ControlPlane) -> tuple[str, list[str]]:
    """The name of Koordinator's scheduler, and its command: gangs preempt, and observe the topology."""
    (manifest,) = KOORD_SCHEDULER.manifests("config/manager/scheduler-config.yaml")
    [text] = yaml.safe_load(manifest.read_text())["data"].values()
    configuration = yaml.safe_load(text)
    configuration["leaderElection"] = {"leaderElect": False}
    configuration["clientConnection"] = {"kubeconfig": str(plane.kubeconfig)}
    [profile] = configuration["profiles"]
    version = "kubescheduler.config.k8s.io/v1"
    own: Object = {"apiVersion": version, "kind": "CoschedulingArgs"}
    own |= {"enablePreemption": True, "awareNetworkTopology": True}
    profile["pluginConfig"].append({"name": "Coscheduling", "args": own})
    file = plane.home / "koordinator.yaml"
    file.write_text(json.dumps(configuration))
    insecure, secure = free_ports(2)
    return profile["schedulerName"], [
        *(str(KOORD_SCHEDULER.built()), f"--config={file}", "-v=4"),
        "--enable-network-topology-manager",
        *(f"--port={insecure}", f"--secure-port={secure}", "--authentication-skip-lookup=true"),
        *(f"--{kind}-kubeconfig={plane.kubeconfig}" for kind in ("authentication", "authorization")),
    ]


async def _served(plane: ControlPlane, kind: Kind[Any]) -> None:
    """Waits until a kind is served."""
    client = HttpClient(config.load(str(plane.kubeconfig)))
    for _ in range(100):
        try:
            await client.list(kind)
            break
        except ApiError:
            await asyncio.sleep(0.2)
    await client.close()


def main(wanted: list[str]) -> None:
    for dialect, file in FILES.items():
        if wanted and file.removesuffix(".json") not in wanted:
            continue
        native = dialect is groups.NATIVE
        if dialect in _SCHEDULERS:
            _SCHEDULERS[dialect].built()
        with (
            tempfile.TemporaryDirectory() as home,
            running(Path(home), scheduler=native, controllers=False, gates=_GATES) as plane,
        ):
            if dialect in _KINDS:
                upstream, path = _KINDS[dialect]
                files = [f"--filename={file}" for file in upstream.manifests(path)]
                command = [str(built("kubectl")), f"--kubeconfig={plane.kubeconfig}", "create", *files]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                asyncio.run(_served(plane, GROUPS[dialect]))
            found = asyncio.run(record(plane, dialect))
        (HERE / file).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
