"""The pages of `muster dashboard` of 10,000 gangs of four on 5,000 nodes, half of which run.

The objects come as from a watch. The server is measured without the network: from a change of a pod to the
bytes of the page that has it. All times are of the processor, of all threads.
"""

import asyncio
import time
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

import msgspec

from muster.api import kinds
from muster.api.base import AnyKind, Object
from muster.api.core_v1 import Pod
from muster.api.rates import Rates
from muster.app.views.job import JobView
from muster.app.views.timeline import Timeline
from muster.app.views.usage import Usage
from muster.dashboard.access import Access, Viewer
from muster.dashboard.cluster import KINDS, Cluster
from muster.dashboard.pages import Pages, Sources
from muster.dashboard.server import IDLE, MAIN, Once, application
from muster.kube.decode import decode

GANGS: Final = 10_000
NODES: Final = 5_000
PODS: Final = 4
VIEWERS: Final = 50
PAGES: Final = ("/", "/jobs", "/queues", "/nodes", "/jobs/default/job-00000", "/jobs/default/job-09999")
_AT: Final = "2026-01-01T00:00:00Z"
_GPU: Final = "nvidia.com/gpu"


def objects(gangs: int = GANGS, nodes: int = NODES) -> Iterator[tuple[AnyKind, Object]]:
    """Nodes of eight GPUs, queues, and Jobs with pods of two GPUs and with Gangs; the first half runs."""
    amounts = {"cpu": "96", "memory": "1Ti", "pods": "110", _GPU: "8"}
    for number in range(nodes):
        labels = {"kubernetes.io/hostname": f"node-{number:04}", "rack": f"r-{number // 20:03}"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
        yield kinds.NODE, {"metadata": _meta(f"node-{number:04}", "", labels), "status": status}
    for number in range(20):
        yield kinds.QUEUE, {"metadata": _meta(f"q-{number:02}", ""), "spec": {"weight": 1}}
    for number in range(gangs):
        name, runs = f"job-{number:05}", number < min(gangs // 2, nodes)
        asked = {"requests": {"cpu": "8", "memory": "64Gi", _GPU: "2"}, "limits": {_GPU: "2"}}
        spec: Object = {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "resources": asked}],
        }
        labels = {"muster.dev/gang": "true", "muster.dev/queue": f"q-{number % 20:02}"}
        template = {"metadata": {"labels": {"job-name": name}}, "spec": spec}
        counts = {"parallelism": PODS, "completions": PODS, "completionMode": "Indexed"}
        yield kinds.JOB, {"metadata": _meta(name, "default", labels), "spec": counts | {"template": template}}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name, "controller": True}
        for pod in range(PODS):
            marks = {"job-name": name, "batch.kubernetes.io/job-completion-index": str(pod)}
            meta = _meta(f"{name}-{pod}", "default", marks) | {"ownerReferences": [owner]}
            placed = {"nodeName": f"node-{number % nodes:04}"} if runs else {}
            status = {"phase": "Running" if runs else "Pending", "startTime": _AT}
            yield kinds.POD, {"metadata": meta, "spec": spec | placed, "status": status}
        reason = {"code": "InsufficientCapacity", "message": "no node has 2 GPUs free"}
        told = {"phase": "Running"} if runs else {"phase": "Waiting", "reason": reason}
        source = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name}
        stated = {"queue": f"q-{number % 20:02}", "priority": 0, "source": source}
        yield kinds.GANG, {"metadata": _meta(name, "default"), "spec": stated, "status": told}


def _meta(name: str, namespace: str, labels: Object | None = None) -> Object:
    stamp = {"uid": name, "resourceVersion": "1", "creationTimestamp": _AT}
    return {"name": name, "namespace": namespace, "labels": labels or {}, **stamp}


class Loaded:
    """A dashboard whose watches have brought these objects."""

    def __init__(self, gangs: int = GANGS, nodes: int = NODES) -> None:
        client: Any = None  # Any: nothing is asked
        self.cluster = Cluster(client, None)
        for kind in KINDS:
            self.cluster._informers[kind].synced.set()
        began = time.process_time()
        self.known: dict[tuple[AnyKind, str], Object] = {}
        for kind, one in objects(gangs, nodes):
            read: Any = decode(kind, msgspec.json.encode(one))  # Any: of its kind
            self.known[kind, read.key] = one
            self.cluster._informers[kind]._change(read.key, read)
        self.decoded = time.process_time() - began

        async def output(view: JobView, most: int, viewer: Viewer) -> list[Any]:
            return []

        async def used(view: JobView, now: float, viewer: Viewer) -> tuple[Usage, Rates]:
            return Usage(), Rates()

        sources = Sources(lambda view, now: Timeline((), 0.0, 0.0), output, used, embedded=False)
        access = Access(80)
        pages = Pages(self.cluster, sources)
        self.app = application(self.cluster, pages, Once(access, pages))
        self._cookie = access.cookie.partition(";")[0]

    def update(self, name: str, phase: str) -> None:
        """A pod is in another phase."""
        kind = kinds.POD
        one = self.known[kind, f"default/{name}"]
        one = one | {"status": {"phase": phase}}
        read = decode(kind, msgspec.json.encode(one))
        assert isinstance(read, Pod)
        self.cluster._informers[kind]._change(read.key, read)

    async def get(self, path: str, accept: str = "text/html") -> bytes:
        """The body of an answer, compressed as browsers ask for it."""
        found = bytearray()

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            assert message.get("status", 200) == 200, message
            found.extend(message.get("body", b""))

        await self.app(self._request(path, accept), receive, send)
        return bytes(found)

    async def watch(self) -> None:
        """The stream of changes, until it is cancelled."""
        over = asyncio.Event()

        async def receive() -> Any:
            await over.wait()

        async def send(message: Any) -> None:
            assert message.get("status", 200) == 200, message

        await self.app(self._request("/events", "text/event-stream"), receive, send)

    def _request(self, path: str, accept: str) -> dict[str, Any]:
        headers = {
            "host": "127.0.0.1:80",
            "cookie": self._cookie,
            "accept": accept,
            "accept-encoding": "gzip",
        }
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "scheme": "http",
            "http_version": "1.1",
            "query_string": b"",
            "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
            "server": ("127.0.0.1", 80),
        }


def run() -> dict[str, float]:
    return asyncio.run(_measure())


async def _measure() -> dict[str, float]:
    loaded = Loaded()
    figures = {"decoding all objects, s": loaded.decoded}
    began = time.process_time()
    following = asyncio.create_task(loaded.cluster._load())
    await following
    figures["loading, s"] = time.process_time() - began
    telling = asyncio.create_task(loaded.cluster._tell())
    paints, updates, sizes = [], [], []
    for page in PAGES:
        began = time.process_time()
        await loaded.get(page)
        paints.append(time.process_time() - began)
    changes = loaded.cluster.changes()
    await anext(changes)
    number = 0
    for page in PAGES:
        took = []
        for _ in range(5):
            number += 1
            began = time.process_time()
            loaded.update(f"job-{number:05}-0", "Succeeded")
            await anext(changes)
            body = await loaded.get(page, MAIN)
            took.append(1000 * (time.process_time() - began))
            sizes.append(len(body) / 1024)
        updates.append(median(took))
    figures["first paint of the slowest page, s"] = max(paints)
    figures["update of the slowest page, ms"] = max(updates)
    figures["update of the largest page, KB"] = max(sizes)
    viewers = [asyncio.create_task(loaded.watch()) for _ in range(VIEWERS)]
    await asyncio.sleep(1)
    began, at = time.process_time(), time.monotonic()
    await asyncio.sleep(IDLE + 2)
    share = (time.process_time() - began) / (time.monotonic() - at)
    figures[f"{VIEWERS} viewers, nothing changes, % of a core"] = 100 * share
    for task in (telling, *viewers):
        task.cancel()
    began = time.process_time()
    (await loaded.cluster.now()).live.decided(0.0)
    figures["why all gangs wait, in the background, s"] = time.process_time() - began
    return figures
