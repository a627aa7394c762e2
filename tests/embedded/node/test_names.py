"""DNS: which pods see which, from inside real pods. The two scripts wait for their peers by name."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from muster.api.base import Object, is_true
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JOBSET_NAME
from muster.api.kinds import JOBSET, POD, SERVICE
from muster.kube.client import LogOptions
from tests.embedded.node.conftest import Cluster
from tests.patience import PATIENCE

PYTHON = sys.executable
EXAMPLES = Path(__file__).parents[3] / "examples"
COORDINATOR, PEERS = EXAMPLES / "coordinator.py", EXAMPLES / "peers.py"


async def _member(
    cluster: Cluster, jobset: str, group: str, job: int, pod: int, argv: list[str], **env: Any
) -> Pod:
    name = f"{jobset}-{group}-{job}-{pod}"
    values = {"JOB_INDEX": job, "JOB_COMPLETION_INDEX": pod, "REPLICATED_JOB_NAME": group, **env}
    return await cluster.submit(
        name,
        argv,
        metadata={"labels": {JOBSET_NAME: jobset}},
        container={"env": [{"name": key, "value": str(value)} for key, value in values.items()]},
        hostname=name,
        subdomain=jobset,
    )


async def test_a_coordinator_and_its_workers_find_each_other(cluster: Cluster) -> None:
    async with cluster.running():
        argv = [PYTHON, "-u", str(COORDINATOR)]
        for index in range(2):
            await _member(cluster, "js", "worker", index, 0, argv, GLOBAL_REPLICAS=3)
        await _member(cluster, "js", "coordinator", 0, 0, argv, GLOBAL_REPLICAS=3)
        for name in ("js-worker-0-0", "js-worker-1-0", "js-coordinator-0-0"):
            pod = await cluster.ended(name)
            assert pod.status.phase == "Succeeded", await cluster.output(name)
        assert (await cluster.output("js-worker-0-0")).startswith("[worker] I am js-worker-0-0;")


async def test_peers_find_each_other(cluster: Cluster) -> None:
    async with cluster.running():
        argv = [
            PYTHON,
            "-u",
            "-c",
            f"import time; time.sleep = lambda s: None; exec(open({str(PEERS)!r}).read())",
        ]
        for index in range(3):
            await _member(cluster, "js", "pool", index, 1, argv, REPLICATED_JOB_REPLICAS=3)
        for index in range(3):
            pod = await cluster.ended(f"js-pool-{index}-1")
            assert pod.status.phase == "Succeeded", await cluster.output(pod.metadata.name)


POD_TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "command": ["true"]}]}}

LOOK = """
import socket, sys
print(socket.gethostname())
for name in sys.argv[1:]:
    try:
        found = socket.getaddrinfo(name, 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    except socket.gaierror as error:
        found = error.errno in (socket.EAI_NONAME, socket.EAI_AGAIN, socket.EAI_NODATA)
    print(name, found)
"""


async def test_all_forms_of_a_name_lead_to_the_pod(cluster: Cluster) -> None:
    async with cluster.running():
        other = await _member(cluster, "js", "a", 0, 0, ["true"])
        await cluster.ended("js-a-0-0")
        forms = ["js-a-0-0.js", "js-a-0-0.js.default", "js-a-0-0.js.default.svc"]
        forms += ["js-a-0-0.js.default.svc.cluster.local", "JS-A-0-0.js"]
        await _member(cluster, "js", "b", 0, 0, [PYTHON, "-c", LOOK, *forms, "js-b-0-0"])
        own = await cluster.ended("js-b-0-0")
        lines = (await cluster.output("js-b-0-0")).splitlines()
        assert lines[0] == "js-b-0-0"
        assert lines[1:-1] == [f"{form} {other.status.pod_ip}" for form in forms], "also after it has ended"
        assert lines[-1] == f"js-b-0-0 {own.status.pod_ip}"


SERVICE_NAMES = """
import socket
for name in ('web', 'web.default.svc.cluster.local'):
    for family in (socket.AF_INET, socket.AF_UNSPEC):
        found = socket.getaddrinfo(name, 80, family, socket.SOCK_STREAM)
        print(*sorted({address[0] for *_, address in found}))
    print(*sorted(socket.gethostbyname_ex(name)[2]))
"""


async def test_a_services_name_leads_to_all_of_its_pods(cluster: Cluster) -> None:
    service: Object = {"metadata": {"name": "web"}, "spec": {"clusterIP": "None", "selector": {"app": "x"}}}
    async with cluster.running():
        await cluster.client.create(SERVICE, "default", service)
        pods = []
        for number in range(2):
            await cluster.submit(f"p{number}", ["sleep", "100"], metadata={"labels": {"app": "x"}})
            ready = await cluster.until(f"p{number}", lambda pod: is_true(pod.status.conditions, "Ready"))
            pods.append(ready.status.pod_ip)
        await cluster.submit("asker", [PYTHON, "-c", SERVICE_NAMES])
        await cluster.ended("asker")
        assert await cluster.output("asker") == f"{' '.join(pods)}\n" * 6
        for number in range(2):
            await cluster.client.delete(POD, "default", f"p{number}", grace_period=1)
            await cluster.gone(f"p{number}")


async def test_pods_talk_over_their_own_addresses(cluster: Cluster) -> None:
    port = 20_000 + os.getpid() % 10_000  # other test processes use the same addresses
    serve = f"""
import socket
socket.create_server((socket.gethostname(), {port})).accept()[0].sendall(b'hi')
"""
    talk = f"""
import socket, time
while True:
    try: s = socket.socket(); s.connect(('js-a-0-0.js', {port})); break
    except ConnectionRefusedError: time.sleep(0.05)
print(s.recv(2).decode())
"""
    async with cluster.running():
        await _member(cluster, "js", "a", 0, 0, [PYTHON, "-u", "-c", serve])
        await _member(cluster, "js", "b", 0, 0, [PYTHON, "-u", "-c", talk])
        await cluster.ended("js-b-0-0")
        assert await cluster.output("js-b-0-0") == "hi\n"


WATCH = """
import socket, time
def there(name):
    try: socket.getaddrinfo(name, None, socket.AF_INET); return True
    except socket.gaierror: return False
while not there('js-late-0-0.js'): time.sleep(0.02)
print('seen', flush=True)
while there('js-late-0-0.js'): time.sleep(0.02)
print('gone', flush=True)
"""


@pytest.mark.parametrize("how", ["deleted", "finished"])
async def test_a_running_pod_sees_names_come_and_go(cluster: Cluster, how: str) -> None:
    jobset: Object = {
        "metadata": {"name": "js"},
        "spec": {"replicatedJobs": [{"name": "late", "template": {"spec": {"template": POD_TEMPLATE}}}]},
    }
    async with cluster.running():
        await cluster.submit("watcher", [PYTHON, "-c", WATCH])
        await cluster.started("watcher")
        if how == "finished":
            await cluster.client.create(JOBSET, "default", jobset)
        await _member(cluster, "js", "late", 0, 0, ["true"])
        await cluster.ended("js-late-0-0")
        pod = await cluster.get("watcher")
        async with asyncio.timeout(PATIENCE):
            async for chunk in cluster.logs.read(
                "default", "watcher", pod.metadata.uid, "main", LogOptions(follow=True)
            ):
                if b"seen" in chunk:
                    break
        if how == "deleted":
            await cluster.client.delete(POD, "default", "js-late-0-0")
        else:
            done = {"status": {"terminalState": "Completed"}}
            await cluster.client.patch(JOBSET, "default", "js", done, subresource="status")
        await cluster.ended("watcher")
        assert await cluster.output("watcher") == "seen\ngone\n"
