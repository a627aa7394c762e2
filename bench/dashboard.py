"""The pages of `muster dashboard`: 10,000 gangs of four on 5,000 nodes, half of which run; then 100,000 pods.

The objects come as from a watch. The server is measured without the network: from a change of a pod to the
bytes of the page that has it. All times are of the processor, of all threads. What a plan takes in its own
process counts apart. The scheduler's own figure is measured with a dashboard beside it, and without.

    python -m bench.dashboard 25000 10000     other numbers of gangs and nodes, the pages only
"""

import asyncio
import re
import resource
import sys
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from bench import binding
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
from muster.dashboard.replays import Replays
from muster.dashboard.server import IDLE, MAIN, Once, application
from muster.dashboard.work import REPLAY, Work
from muster.kube.decode import decode
from muster.kube.http import HttpClient

GANGS: Final = 10_000
NODES: Final = 5_000
PODS: Final = 4
VIEWERS: Final = 50
#: Gangs and nodes of the large cluster, which has 100,000 pods.
LARGE: Final = (25_000, 10_000)
PAGES: Final = (
    "/",
    "/jobs",
    "/queues",
    "/nodes",
    "/calendar",
    "/evictions",
    "/plan",
    "/replay",
    "/jobs/default/job-00000",
    "/jobs/default/job-09999",
)
#: Pods of a gang during which the scheduler is measured.
BOUND: Final = 500
TEXT: Final = """
apiVersion: batch/v1
kind: Job
metadata: {name: planned, namespace: default, labels: {muster.dev/gang: "true"}}
spec:
  parallelism: 64
  completions: 64
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: 2}}}]
"""
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
        counts["activeDeadlineSeconds"] = 3_600 + 60 * number
        yield kinds.JOB, {"metadata": _meta(name, "default", labels), "spec": counts | {"template": template}}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name, "controller": True}
        for pod in range(PODS):
            marks = {"job-name": name, "batch.kubernetes.io/job-completion-index": str(pod)}
            meta = _meta(f"{name}-{pod}", "default", marks) | {"ownerReferences": [owner]}
            placed = {"nodeName": f"node-{number % nodes:04}"} if runs else {}
            status = {"phase": "Running" if runs else "Pending", "startTime": _AT}
            yield kinds.POD, {"metadata": meta, "spec": spec | placed, "status": status}
        reason = {"code": "InsufficientCapacity", "message": "no node has 2 GPUs free"}
        told: Object = {"phase": "Running"} if runs else {"phase": "Waiting", "reason": reason}
        if number % 10 == 0:
            lost = {"lostResourceSeconds": 7_200.0, "gpuHoursLost": "2.0"}
            by = {"by": f"default/job-{number // 2:05}", "at": _AT, "kind": "reclaim"}
            told = told | {"preemptions": [by | lost]}
        source = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name}
        stated = {"queue": f"q-{number % 20:02}", "priority": 0, "source": source}
        yield kinds.GANG, {"metadata": _meta(name, "default"), "spec": stated, "status": told}


def _meta(name: str, namespace: str, labels: Object | None = None) -> Object:
    stamp = {"uid": name, "resourceVersion": "1", "creationTimestamp": _AT}
    return {"name": name, "namespace": namespace, "labels": labels or {}, **stamp}


class Loaded:
    """A dashboard whose watches have brought these objects."""

    def __init__(self, gangs: int = GANGS, nodes: int = NODES, client: Any = None) -> None:
        """`client`: of a cluster that is followed; None: nothing is asked."""
        self.cluster = Cluster(client, None)
        if client is None:
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

        sources = Sources(
            lambda view, now: Timeline((), 0.0, 0.0),
            output,
            used,
            embedded=False,
            replays=Replays(Work(REPLAY)),
        )
        access = Access(80)
        self._form = access.viewer.form
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

    async def send(self, path: str, **fields: str) -> str:
        """The answer to a form, as text."""
        body, found = urlencode({"form": self._form, **fields}).encode(), bytearray()

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            found.extend(message.get("body", b""))

        request = self._request(path, "text/html")
        more = {"origin": "http://127.0.0.1:80", "content-type": "application/x-www-form-urlencoded"}
        request["headers"] += [(key.encode(), value.encode()) for key, value in more.items()]
        await self.app(request | {"method": "POST"}, receive, send)
        return found.decode()

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
    figures = asyncio.run(_measure(GANGS, NODES))
    large = asyncio.run(_measure(*LARGE, pages_only=True))
    figures |= {f"100,000 pods: {figure}": value for figure, value in large.items()}
    alone, beside = binding.measure(BOUND), binding.measure(BOUND, beside=_beside)
    return figures | {
        f"binding: gang of {BOUND}, a dashboard beside it, × alone": beside / alone,
    }


async def _measure(gangs: int, nodes: int, *, pages_only: bool = False) -> dict[str, float]:
    loaded = Loaded(gangs, nodes)
    figures = {"decoding all objects, s": loaded.decoded}
    began = time.process_time()
    following = asyncio.create_task(loaded.cluster._load())
    await following
    figures["loading, s"] = time.process_time() - began
    telling = asyncio.create_task(loaded.cluster._tell())
    began = time.process_time()
    deciding = (await loaded.cluster.now()).live.decided(0.0)
    figures["why all gangs wait, in the background, s"] = time.process_time() - began
    loaded.cluster._decided, loaded.cluster._decides_at = deciding, inf  # no page waits for more of it
    paints: dict[str, float] = {}
    for page in PAGES:
        began = time.process_time()
        await loaded.get(page)
        paints[page] = time.process_time() - began
    changes = loaded.cluster.changes()
    await anext(changes)
    number = 0
    updates: dict[str, float] = {}
    sizes: dict[str, float] = {}
    for page in PAGES:
        took = []
        for _ in range(5):
            number += 1
            began = time.process_time()
            loaded.update(f"job-{number:05}-0", "Succeeded")
            await anext(changes)
            body = await loaded.get(page, MAIN)
            took.append(1000 * (time.process_time() - began))
            sizes[page] = len(body) / 1024
        updates[page] = median(took)
    for name, value in (("Calendar", "/calendar"), ("Evictions", "/evictions"), ("Replay", "/replay")):
        figures[f"update of {name}, ms"] = updates[value]
    figures["first paint of the slowest page, s"] = max(paints.values())
    figures["update of the slowest page, ms"] = max(updates.values())
    figures["update of the largest page, KB"] = max(sizes.values())
    if not pages_only:
        viewers = [asyncio.create_task(loaded.watch()) for _ in range(VIEWERS)]
        await asyncio.sleep(1)
        began, at = time.process_time(), time.monotonic()
        await asyncio.sleep(IDLE + 2)
        share = (time.process_time() - began) / (time.monotonic() - at)
        figures[f"{VIEWERS} viewers, nothing changes, % of a core"] = 100 * share
        for each in viewers:
            each.cancel()
    began, theirs = time.process_time(), _children()
    answer = await loaded.send("/plan", objects=TEXT)
    assert "What would happen" in answer, re.findall(r"<p class=.message.*", answer)
    figures["a plan: the server's part, s"] = time.process_time() - began
    figures["a plan: in its process, s"] = _children() - theirs
    telling.cancel()
    return figures


def _children() -> float:
    """Processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _beside(directory: str, port: int, pipe: Any) -> None:  # Any: a connection
    """A dashboard that follows the cluster, and shows the first page after each change."""

    async def show() -> None:
        client = HttpClient(binding.connection(Path(directory), port))
        loaded = Loaded(0, 0, client)
        async with asyncio.TaskGroup() as group:
            group.create_task(loaded.cluster.run())
            await loaded.cluster._ready.wait()
            pipe.send("ready")
            async for _ in loaded.cluster.changes():
                await loaded.get("/", MAIN)

    asyncio.run(show())


if __name__ == "__main__":
    for figure, value in asyncio.run(_measure(*map(int, sys.argv[1:]), pages_only=True)).items():
        print(f"{figure:<56}{value:>14,.4g}")
