"""The HTTP API, over real TLS: our own client, the official one, and clients that do it wrong."""

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes
import pytest
import pytest_asyncio
import yaml

from muster.api import kinds
from muster.api.base import Object
from muster.embedded import credentials
from muster.embedded.http.api import http_api
from muster.embedded.http.request import LARGEST
from muster.embedded.http.reviews import REVIEWS
from muster.embedded.http.serving import serving
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube import errors
from muster.kube.client import EventType, LogOptions
from muster.kube.clock import SystemClock
from muster.kube.http import Connection, HttpClient
from tests.embedded.clients import SpokenLogs
from tests.patience import PATIENCE


class Running:
    """A served registry, with its clients and its token."""

    def __init__(self, home: Path, url: str, registry: Registry) -> None:
        self.home, self.url, self.registry = home, url, registry
        self.port = int(url.rpartition(":")[2])
        self.token = credentials.token_file(home).read_text()

    def connection(self, token: str | None = None) -> Connection:
        headers = {"Authorization": f"Bearer {self.token if token is None else token}"}
        return Connection(self.url, credentials.client_context(self.home), lambda: headers)

    def raw(self) -> http.client.HTTPSConnection:
        context = ssl.create_default_context(cafile=str(credentials.authority_file(self.home)))
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=60)


@pytest_asyncio.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    credentials.ensure(tmp_path, SystemClock().now())
    store = Store(":memory:")
    registry = Registry(store)
    registry.create(kinds.NODE, "", {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}})
    token = credentials.token_file(tmp_path).read_text()
    async with serving(http_api(registry, SpokenLogs(), token), tmp_path) as url:
        yield Running(tmp_path, url, registry)
    store.close()


@pytest_asyncio.fixture
async def client(running: Running) -> AsyncIterator[HttpClient]:
    client = HttpClient(running.connection())
    yield client
    await client.close()


def pod(name: str, **labels: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }


async def test_a_pods_life_over_our_own_client(client: HttpClient) -> None:
    made = await client.create(kinds.POD, "default", pod("a"))
    binding = {
        "metadata": {"name": "a", "uid": made.metadata.uid, "annotations": {"x": "y"}},
        "target": {"kind": "Node", "name": "n"},
    }
    await client.bind("default", "a", binding)
    bound = await client.get(kinds.POD, "default", "a")
    assert bound.spec.node_name == "n"
    assert bound.metadata.annotations["x"] == "y"
    with pytest.raises(errors.Conflict):
        await client.bind("default", "a", binding)
    patched = await client.patch(
        kinds.POD, "default", "a", {"status": {"phase": "Running"}}, subresource="status"
    )
    assert patched.status.phase == "Running"
    patched = await client.patch(
        kinds.POD, "default", "a", [{"op": "add", "path": "/metadata/labels/l", "value": "1"}]
    )
    assert patched.metadata.labels["l"] == "1"
    log = b"".join([chunk async for chunk in client.log("default", "a", how=LogOptions(follow=True, tail=3))])
    assert log == b"default/a/main follow=True tail=3 previous=False since=None timestamps=False"
    await client.evict(
        "default", "a", {"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": 5}}
    )
    assert (await client.get(kinds.POD, "default", "a")).metadata.deletion_timestamp is not None
    await client.patch(kinds.POD, "default", "a", {"status": {"phase": "Failed"}}, subresource="status")
    log = b"".join([chunk async for chunk in client.log("default", "a", how=LogOptions(follow=True))])
    assert log.startswith(b"default/a/main follow=False"), "a pod that has ended cannot be followed"
    await client.delete(kinds.POD, "default", "a", grace_period=0, uid=made.metadata.uid)
    with pytest.raises(errors.NotFound, match='pods "a" not found'):
        await client.get(kinds.POD, "default", "a")


async def test_preconditions_and_names_are_kept(client: HttpClient) -> None:
    made = await client.create(kinds.POD, "default", pod("a"))
    with pytest.raises(errors.AlreadyExists):
        await client.create(kinds.POD, "default", pod("a"))
    with pytest.raises(errors.Conflict):
        await client.delete(kinds.POD, "default", "a", uid="another")
    stale: Object = {"metadata": {"resourceVersion": "1", "labels": {"a": "b"}}}
    with pytest.raises(errors.Conflict):
        await client.patch(kinds.POD, "default", "a", stale)
    fresh = {"metadata": {"resourceVersion": made.metadata.resource_version, "labels": {"a": "b"}}}
    assert (await client.patch(kinds.POD, "default", "a", fresh)).metadata.labels == {"a": "b"}
    with pytest.raises(errors.Invalid):
        await client.create(kinds.POD, "default", pod("Not A Name"))


async def test_lists_come_in_pages_and_by_selector(client: HttpClient) -> None:
    for number in range(5):
        await client.create(kinds.POD, "default", pod(f"p{number}", odd=str(number % 2)))
    first = await client.list(kinds.POD, limit=3)
    rest = await client.list(kinds.POD, limit=3, token=first.token)
    assert [item.metadata.name for item in first.items + rest.items] == [f"p{n}" for n in range(5)]
    assert not rest.token
    odd = await client.list(kinds.POD, "default", labels="odd=1")
    assert [item.metadata.name for item in odd.items] == ["p1", "p3"]
    one = await client.list(kinds.POD, fields="metadata.name=p4")
    assert len(one.items) == 1
    with pytest.raises(errors.BadRequest):
        await client.list(kinds.POD, token="nonsense")


async def test_a_watch_tells_each_change_and_resumes(client: HttpClient) -> None:
    start = (await client.list(kinds.POD)).resource_version
    await client.create(kinds.POD, "default", pod("a"))
    await client.delete(kinds.POD, "default", "a")

    async def first(count: int, version: str) -> list[tuple[EventType, str, str]]:
        seen = []
        watch = client.watch(kinds.POD, "default", resource_version=version)
        async for event in watch:
            seen.append((event.type, event.object.key, event.object.metadata.resource_version))
            if len(seen) == count:
                break
        return seen

    both = await first(2, start)
    assert [event[:2] for event in both] == [
        (EventType.ADDED, "default/a"),
        (EventType.DELETED, "default/a"),
    ]
    assert await first(1, both[0][2]) == both[1:]


async def test_a_watch_from_a_future_revision_has_to_list(client: HttpClient) -> None:
    with pytest.raises(errors.Expired):
        async for _ in client.watch(kinds.POD, resource_version="999999"):
            pass


async def test_requests_without_a_valid_token_are_refused(running: Running) -> None:
    for token in ("", "wrong", running.token[:-1]):
        client = HttpClient(running.connection(token))
        with pytest.raises(errors.Unauthorized, match="bearer token"):
            await client.list(kinds.POD)
        await client.close()


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    client = HttpClient(Connection("http://127.0.0.1:9"))
    with pytest.raises(errors.Unreachable):
        await client.list(kinds.POD)
    await client.close()


DEEP = b"[" * 150 + b"]" * 150
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
CASES = [
    ("GET", "/", b"", {}, 404),
    ("GET", "/api/v1/nonsense", b"", {}, 404),
    ("GET", "/api/v1/namespaces/default/pods/a/b/c", b"", {}, 404),
    ("GET", "/api/v1/pods/a", b"", {}, 404),
    ("GET", "/api/v1/pods?limit=x", b"", {}, 400),
    ("GET", "/api/v1/pods?labelSelector=%3D%3D%3D", b"", {}, 400),
    ("GET", "/api/v1/pods?watch=1&sendInitialEvents=true", b"", {}, 400),
    ("POST", "/api/v1/namespaces/default/pods", b"", {}, 400),
    ("POST", "/api/v1/namespaces/default/pods", b"[]", {}, 400),
    ("POST", "/api/v1/namespaces/default/pods", b"{", {}, 400),
    ("POST", "/api/v1/namespaces/default/pods", b"\xff\xfe", {}, 400),
    ("POST", "/api/v1/namespaces/default/pods", b"[" * 100_000, {}, 400),
    ("POST", "/api/v1/namespaces/default/pods", b'{"metadata": 7}', {}, 400),
    ("POST", "/api/v1/namespaces/default/pods", b'{"metadata": {"name": "a"}, "spec": %b}' % DEEP, {}, 400),
    ("PATCH", "/api/v1/nodes/n", b'{"x": %b}' % DEEP, {"Content-Type": "application/merge-patch+json"}, 400),
    ("PATCH", "/api/v1/nodes/n", DEEP, {"Content-Type": "application/json-patch+json"}, 400),
    ("POST", "/api/v1/namespaces/nowhere/pods", b'{"metadata": {"name": "a"}}', {}, 404),
    ("PATCH", "/api/v1/nodes/n", b'{"$patch": "maybe"}', STRATEGIC, 400),
    ("PATCH", "/apis/muster.dev/v1alpha1/queues/q", b"{}", STRATEGIC, 404),
    ("PATCH", "/api/v1/nodes/n", b"{}", {"Content-Type": "application/xml"}, 415),
    ("GET", "/api/v1/nodes", b"", {"Accept": "application/json;as=Picture;g=meta.k8s.io;v=v1"}, 406),
    ("PATCH", "/api/v1/nodes/n", b"{}", {"Content-Type": "application/json-patch+json"}, 400),
    ("PUT", "/api/v1/nodes", b"{}", {}, 405),
    ("OPTIONS", "/api/v1/nodes", b"", {}, 405),
    ("DELETE", "/api/v1/nodes/n", b'{"gracePeriodSeconds": "soon"}', {}, 400),
    ("DELETE", "/api/v1/nodes/n", b'{"propagationPolicy": "Sideways"}', {}, 400),
]


@pytest.mark.parametrize(("method", "path", "body", "headers", "status"), CASES)
async def test_bad_requests_get_a_status(
    running: Running, method: str, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    def ask() -> tuple[int, Object]:
        connection = running.raw()
        connection.request(
            method, path, body, {"Authorization": f"Bearer {running.token}", "Connection": "close", **headers}
        )
        response = connection.getresponse()
        answer = yaml.safe_load(response.read())
        connection.close()
        return response.status, answer

    code, answer = await asyncio.to_thread(ask)
    assert code == status
    assert answer["kind"] == "Status"
    assert answer["code"] == status
    assert answer["message"]


async def test_a_body_beyond_the_limit_is_refused_unread(running: Running) -> None:
    def ask() -> int:
        connection = running.raw()
        connection.putrequest("POST", "/api/v1/namespaces/default/pods")
        connection.putheader("Authorization", f"Bearer {running.token}")
        connection.putheader("Content-Length", str(LARGEST + 1))
        connection.endheaders()
        status = connection.getresponse().status
        connection.close()
        return status

    assert await asyncio.to_thread(ask) == 413


async def test_a_body_that_is_cut_off_writes_nothing(running: Running, client: HttpClient) -> None:
    def ask() -> None:
        connection = running.raw()
        connection.putrequest("POST", "/api/v1/namespaces/default/pods")
        connection.putheader("Authorization", f"Bearer {running.token}")
        connection.putheader("Content-Length", "1000")
        connection.endheaders(b'{"metadata": {"name": "half"}')
        connection.close()

    await asyncio.to_thread(ask)
    await client.create(kinds.POD, "default", pod("whole"))
    assert [item.metadata.name for item in (await client.list(kinds.POD)).items] == ["whole"]


async def test_a_port_that_is_taken_is_replaced_and_one_that_is_free_is_kept(running: Running) -> None:
    app = http_api(running.registry, SpokenLogs(), running.token)
    async with serving(app, running.home, running.port) as url:
        assert url.startswith("https://127.0.0.1:")
        assert url != running.url
        client = HttpClient(replace(running.connection(), server=url))
        assert (await client.list(kinds.NODE)).items
        await client.close()
    port = int(url.rpartition(":")[2])
    async with serving(app, running.home, port) as again:
        assert again == url, "kubeconfigs in use stay true"


async def test_a_watcher_that_never_reads_is_cut_and_others_are_served(
    running: Running, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("muster.embedded.http.api.SLOW", 0.2)
    large = {"data": {"k": "v" * 100_000}}
    await client.create(kinds.CONFIG_MAP, "default", {"metadata": {"name": "c"}, **large})
    sluggish = socket.socket()
    sluggish.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**16)  # else the kernel reads on for it
    sluggish.connect(("127.0.0.1", running.port))
    reader, writer = await asyncio.open_connection(
        sock=sluggish, ssl=credentials.client_context(running.home), server_hostname="127.0.0.1", limit=1000
    )
    path = "/api/v1/configmaps?watch=1&resourceVersion=1"
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.token}\r\n\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # it is one of a socket
    changes = 400
    seen = 0
    for number in range(changes):
        await client.patch(kinds.CONFIG_MAP, "default", "c", {"metadata": {"labels": {"n": str(number)}}})
    async for event in client.watch(kinds.CONFIG_MAP, "default", resource_version="0"):
        seen += event.object.metadata.labels["n"] == str(changes - 1)
        break
    assert seen == 1, "others are served"
    async with asyncio.timeout(PATIENCE):
        while _watches():  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0.02)
    writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above
    received = 0
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while chunk := await reader.read(2**16):
            received += len(chunk)
    assert received < changes * 100_000 / 4, "what it had not read was not kept for it"
    writer.close()
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        await writer.wait_closed()


def _watches() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if "_pump" in repr(task.get_coro())]


async def test_the_official_client_can_work_with_it(running: Running) -> None:
    kubeconfig = credentials.write_kubeconfig(running.home, running.url)
    assert kubeconfig.stat().st_mode & 0o777 == 0o600

    def work() -> list[str]:
        official: Any = kubernetes  # Any: its loaders carry no types
        api = official.client.CoreV1Api(official.config.new_client_from_config(str(kubeconfig)))
        api.create_namespaced_config_map(
            "default", official.client.V1ConfigMap(metadata={"name": "c"}, data={"k": "v"})
        )
        assert api.read_namespaced_config_map("c", "default").data == {"k": "v"}
        api.create_namespaced_pod("default", pod("a", app="x"))
        found = api.list_namespaced_pod("default", label_selector="app=x").items
        assert found[0].status.phase == "Pending"
        watch = official.watch.Watch()
        kinds_seen = [
            event["type"] for event in watch.stream(api.list_namespaced_pod, "default", timeout_seconds=1)
        ]
        api.patch_namespaced_config_map(
            "c", "default", {"data": {"k": "w"}}, _content_type="application/merge-patch+json"
        )
        assert api.read_namespaced_config_map("c", "default").data == {"k": "w"}
        api.delete_namespaced_pod("a", "default")
        api.delete_namespaced_config_map("c", "default")
        with pytest.raises(official.client.ApiException) as gone:
            api.read_namespaced_pod("a", "default")
        assert gone.value.status == 404
        return kinds_seen

    assert await asyncio.to_thread(work) == ["ADDED"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl")
async def test_kubectl_finds_its_way(running: Running) -> None:
    config = credentials.write_kubeconfig(running.home, running.url)
    running.registry.create(kinds.POD, "default", pod("a", app="x"))
    environment = {**os.environ, "HOME": str(running.home), "KUBECONFIG": str(config)}

    async def kubectl(*words: str) -> str:
        done = await asyncio.to_thread(
            subprocess.run, ["kubectl", *words], env=environment, capture_output=True, text=True, timeout=90
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    names = await kubectl("api-resources", "-o", "name")
    served = {f"{kind.plural}.{kind.group}".rstrip(".") for kind in kinds.ALL}
    assert set(names.split()) == served | {f"{review.plural}.{review.group}" for review in REVIEWS}
    assert await kubectl("get", "po", "-l", "app=x", "-o", "name") == "pod/a\n"
    assert await kubectl("get", "all", "-o", "name") == "pod/a\n"
    assert await kubectl("label", "pod", "a", "muster.dev/hold=true") == "pod/a labeled\n"
    found = json.loads(await kubectl("get", "pod", "a", "-o", "json"))
    assert found["metadata"]["labels"] == {"app": "x", "muster.dev/hold": "true"}
    assert "muster.dev/hold=true" in await kubectl("describe", "pod", "a")
    assert "since=None timestamps=False" in await kubectl("logs", "a")
    since = ("--since-time=2026-01-31T08:00:00Z", "--timestamps")
    assert "since=2026-01-31 08:00:00+00:00 timestamps=True" in await kubectl("logs", "a", *since)
    assert " since=20" in await kubectl("logs", "a", "--since=10m", "--tail=5")
    await kubectl("delete", "pod", "a", "--force", "--grace-period=0")
    assert await kubectl("get", "pods,podgroups.scheduling.x-k8s.io,queues", "-o", "name") == ""
