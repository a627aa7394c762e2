"""An API server that only plays: it holds objects, streams them to watches, and accepts each write.

A real one on this machine takes minutes to store 100,000 pods, and cannot change 5,000 of them a second. What
a scheduler reads is the same: HTTPS, lists in watches, objects of a real one's size with all its fields. The
server is a process of its own, so that none of its work counts.
"""

import asyncio
import multiprocessing
import ssl
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop
from aiohttp import web

from bench.kubernetes.rows import Row, gangs, nodes
from muster.api.base import Object
from muster.api.kinds import NODE, POD, POD_GROUP_X
from muster.embedded import credentials
from muster.names import SCHEDULER

HOST: Final = "127.0.0.1"
#: Changes are sent so many times a second.
BEATS: Final = 50
#: One change in so many is of a node.
OF_NODES: Final = 10
_STAMP: Final = "2026-01-01T00:00:00Z"
_END: Final = {"k8s.io/initial-events-end": "true"}


@dataclass
class Recorded:
    """A server that runs."""

    kubeconfig: Path
    pid: int
    #: bytes of a pod, as the server sends it
    pod_size: int
    _pipe: Connection

    def create(self, path: str, obj: Object) -> float:
        """Creates an object, and returns the time (`time.monotonic`)."""
        self._pipe.send(("create", path, obj))
        made: float = self._pipe.recv()
        return made

    def bound(self, name: str) -> float:
        """Waits until a pod has been bound, and returns the time."""
        self._pipe.send(("bound", name))
        at: float = self._pipe.recv()
        return at

    def change(self, rate: int, seconds: float) -> float:
        """Changes the status of pods and nodes at this rate, and returns the rate that was reached."""
        self._pipe.send(("change", rate, seconds))
        reached: float = self._pipe.recv()
        return reached


@contextmanager
def serving(home: Path, row: Row) -> Iterator[Recorded]:
    """Serves the nodes and pods of a row, whose pods run."""
    credentials.ensure(home, datetime.now(UTC))
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(home, row, theirs), daemon=True)
    process.start()
    try:
        port, size = ours.recv()
        kubeconfig = credentials.write_kubeconfig(home, f"https://{HOST}:{port}")
        yield Recorded(kubeconfig, process.pid or 0, size, ours)
    finally:
        process.terminate()
        process.join(10)


def _serve(home: Path, row: Row, pipe: Connection) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(home, row, pipe))


async def _run(home: Path, row: Row, pipe: Connection) -> None:
    server = _Server()
    for path, obj in nodes(row):
        server.put(path, obj)
    for number, (path, obj) in enumerate(gangs(row, SCHEDULER, POD_GROUP_X)):
        if obj["kind"] == POD.kind:
            obj = _running(obj, f"node-{number % row.nodes:04}")
        server.put(path, obj)
    pods = server.objects[POD.plural]
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(home / "server.crt", home / "server.key")
    site = web.TCPSite(runner, HOST, 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    pipe.send((port, sum(map(len, pods.values())) // len(pods)))
    told = asyncio.get_running_loop().run_in_executor
    while True:
        match await told(None, pipe.recv):
            case "create", path, obj:
                server.put(path, obj)
                pipe.send(time.monotonic())
            case "bound", name:
                pipe.send(await server.bound[name])
            case "change", rate, seconds:
                pipe.send(await server.change(rate, seconds))


class _Server:
    def __init__(self) -> None:
        #: by plural and group, then by namespace and name: the object as JSON
        self.objects: dict[str, dict[str, bytes]] = defaultdict(dict)
        self._watches: dict[str, set[asyncio.Queue[bytes]]] = defaultdict(set)
        self._revision = 1
        #: when each pod was bound
        self.bound: dict[str, asyncio.Future[float]] = defaultdict(asyncio.get_running_loop().create_future)

    def put(self, path: str, obj: Object) -> bytes:
        """Stores an object, as a new one or instead of another, and shows it."""
        namespace, plural, _, _ = _parts(path)
        meta = obj["metadata"]
        known = self.objects[plural]
        if namespace:
            meta.setdefault("namespace", namespace)
        key = f"{namespace}/{meta['name']}"
        self._revision += 1
        meta["resourceVersion"] = str(self._revision)
        meta.setdefault("uid", f"00000000-0000-4000-8000-{self._revision:012}")
        meta.setdefault("creationTimestamp", _STAMP)
        self._show(plural, "MODIFIED" if key in known else "ADDED", raw := msgspec.json.encode(obj))
        known[key] = raw
        return raw

    def _show(self, plural: str, type_: str, raw: bytes) -> None:
        if watches := self._watches[plural]:
            line = _line(type_, raw)
            for watch in watches:
                watch.put_nowait(line)

    async def change(self, rate: int, seconds: float) -> float:
        """Changes the status of a pod, or of a node, `rate` times a second: in turn ready and not."""
        pods, nodes = self.objects[POD.plural], self.objects[NODE.plural]
        of_pods, of_nodes = [*pods], [*nodes]
        began, sent, count = time.monotonic(), 0, int(rate * seconds)
        while sent < count:
            until = min(count, int((time.monotonic() - began) * rate) + 1)
            for number in range(sent, until):
                if number % OF_NODES:
                    self._change(POD.plural, pods, of_pods[number % len(of_pods)], number)
                else:
                    self._change(NODE.plural, nodes, of_nodes[number % len(of_nodes)], number)
            sent = until
            await asyncio.sleep(1 / BEATS)
        return sent / (time.monotonic() - began)

    def _change(self, plural: str, known: dict[str, bytes], key: str, number: int) -> None:
        self._revision += 1
        raw = known[key]
        head, version, tail = raw.partition(b'"resourceVersion":"')
        tail = tail.partition(b'"')[2]
        raw = head + version + str(self._revision).encode() + b'"' + tail
        raw = (
            raw.replace(b'"message":"was ', b'"message":"is ', 1)
            if b'"was ' in raw
            else raw.replace(b'"message":"is ', b'"message":"was ', 1)
        )
        known[key] = raw
        self._show(plural, "MODIFIED", raw)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        namespace, plural, name, subresource = _parts(request.path)
        known, key = self.objects[plural], f"{namespace}/{name}"
        if request.method == "GET":
            if "watch" in request.query:
                return await self._watch(request, plural)
            if not name:
                metadata = {"resourceVersion": str(self._revision)}
                items = [msgspec.Raw(raw) for raw in known.values()]
                return _json(msgspec.json.encode({"metadata": metadata, "items": items}))
            return _json(known[key]) if key in known else _status(404, "NotFound")
        body = msgspec.json.decode(await request.read() or b"{}")
        if subresource == "binding":
            pod = msgspec.json.decode(known[key])
            pod["spec"]["nodeName"] = body["target"]["name"]
            self.put(request.path.removesuffix("/binding"), pod)
            self.bound[name].set_result(time.monotonic())
            return _status(201, "Success")
        if request.method == "POST":
            if f"{namespace}/{body['metadata']['name']}" in known:
                return _status(409, "AlreadyExists")
            return _json(self.put(request.path, body), 201)
        if key not in known:
            return _status(404, "NotFound")
        now = msgspec.json.decode(known[key])
        if body.get("metadata", {}).get("resourceVersion") not in (None, now["metadata"]["resourceVersion"]):
            return _status(409, "Conflict")
        return _json(self.put(request.path, _merged(now, body)))

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        queue = asyncio.Queue[bytes]()
        if "fieldSelector" not in request.query:
            for raw in self.objects[plural].values():
                queue.put_nowait(_line("ADDED", raw))
            self._watches[plural].add(queue)
        meta = {"resourceVersion": str(self._revision), "annotations": _END}
        queue.put_nowait(_line("BOOKMARK", msgspec.json.encode({"metadata": meta})))
        try:
            with suppress(ConnectionError):  # the watch has been ended
                async for lines in _batches(queue):
                    await response.write(lines)
        finally:
            self._watches[plural].discard(queue)
        return response


async def _batches(queue: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
    """Joins what is there, as far as it makes one packet."""
    while True:
        lines, size = [await queue.get()], 0
        with suppress(asyncio.QueueEmpty):
            while size < 1 << 16:
                lines.append(queue.get_nowait())
                size += len(lines[-1])
        yield b"".join(lines)


def _line(type_: str, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), raw)


def _parts(path: str) -> tuple[str, str, str, str]:
    """Namespace, plural with its group, name and subresource of a path; "" for what it has not."""
    _, root, group, *parts = path.split("/")
    group, parts = (group, parts[1:]) if root == "apis" else ("", parts)
    namespace = ""
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        _, namespace, *parts = parts
    plural, name, subresource = [*parts, "", "", ""][:3]
    return namespace, f"{plural}.{group}" if group else plural, name, subresource


def _merged(old: Any, patch: Any) -> Any:  # Any: JSON
    if not isinstance(patch, dict):
        return patch
    found = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _merged(found.get(key), value)
    return found


def _json(raw: bytes, status: int = 200) -> web.Response:
    return web.Response(body=raw, status=status, content_type="application/json")


def _status(code: int, reason: str) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "reason": reason, "code": code, "message": reason}
    return _json(msgspec.json.encode(status), code)


def _running(pod: Object, node: str) -> Object:
    """The pod as an API server shows it once it runs, with defaults, conditions and managed fields."""
    name = pod["metadata"]["name"]
    (container,) = pod["spec"]["containers"]
    path = "/var/run/secrets/kubernetes.io/serviceaccount"
    mount = {"name": "kube-api-access-x7x2p", "readOnly": True, "mountPath": path}
    container |= {
        "command": ["python", "-m", "train", "--data", "/data/shards", "--epochs", "90"],
        "env": [{"name": f"SETTING_{number}", "value": f"value of setting {number}"} for number in range(8)],
        "volumeMounts": [mount],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "Always",
    }
    token = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    evict = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    spec = {
        **pod["spec"],
        "nodeName": node,
        "volumes": [{"name": mount["name"], "projected": {"sources": token, "defaultMode": 420}}],
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "securityContext": {},
        "tolerations": [
            {"key": f"node.kubernetes.io/{why}", **evict} for why in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    passed = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    state = {"running": {"startedAt": _STAMP}}
    status = {
        "phase": "Running",
        "conditions": [
            {
                "type": each,
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": _STAMP,
                "message": "is so" if each == "Ready" else "",
            }
            for each in passed
        ],
        "hostIP": "10.0.0.1",
        "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}],
        "startTime": _STAMP,
        "containerStatuses": [
            {
                "name": "main",
                "state": state,
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": "none",
                "imageID": f"sha256:{name * 4}",
                "containerID": f"containerd://{name * 4}",
                "started": True,
            }
        ],
        "qosClass": "Burstable",
    }
    managed = [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": _STAMP,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        }
        for manager, fields in (("kubectl-create", _owned(spec)), ("kubelet", _owned(status)))
    ]
    return {**pod, "metadata": {**pod["metadata"], "managedFields": managed}, "spec": spec, "status": status}


def _owned(value: Any) -> Object:  # Any: JSON
    """Managed fields of a value, about as an API server writes them."""
    if isinstance(value, dict):
        return {f"f:{key}": _owned(each) for key, each in value.items()}
    if isinstance(value, list):
        return {f'k:{{"name":"{number}"}}': _owned(each) for number, each in enumerate(value)}
    return {}
