"""The client over HTTP, against a server that does what it is told, be it right or wrong."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from multidict import CIMultiDict

from muster.api.kinds import CONFIG_MAP, POD
from muster.kube import errors, http
from muster.kube.client import EventType, LogOptions, ends_initial
from muster.kube.http import CONNECTIONS, Connection, HttpClient
from muster.kube.listing import list_all
from tests.patience import PATIENCE


class Server:
    """Answers each request with the next of its answers, given in pieces, and remembers what was asked."""

    def __init__(self, *answers: list[bytes]) -> None:
        self._answers = list(answers)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        #: the headers of each request as they were sent
        self.lines: list[list[str]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            key.lower(): value for key, _, value in (line.partition(": ") for line in head[1:] if line)
        }
        self.lines.append(head[1:])
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((head[0].rpartition(" ")[0], headers, body))
        for piece in self._answers.pop(0):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        writer.close()
        await writer.wait_closed()


@asynccontextmanager
async def talking(*answers: list[bytes], path: str = "") -> AsyncIterator[tuple[Server, HttpClient]]:
    server = Server(*answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1")
    port = listening.sockets[0].getsockname()[1]
    tokens = iter(["first", "second", "third"])
    client = HttpClient(
        Connection(
            f"http://127.0.0.1:{port}{path}",
            headers=lambda: {"Authorization": f"Bearer {next(tokens)}"},
            refused=lambda headers: headers["Authorization"] == "Bearer first",
        )
    )
    try:
        yield server, client
    finally:
        await client.close()
        listening.close()
        await listening.wait_closed()


def answer(body: Any, status: str = "200 OK", *headers: str) -> list[bytes]:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = f"Content-Length: {len(content)}"
    lines = [f"HTTP/1.1 {status}", "Connection: close", length, *headers, "", ""]
    return ["\r\n".join(lines).encode(), content]


def stream(*pieces: bytes) -> list[bytes]:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return [head, *(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n"]


CONFIG = {"metadata": {"name": "c", "namespace": "ns", "resourceVersion": "7"}}
UNAUTHORIZED = answer({"reason": "Unauthorized"}, "401 Unauthorized")


@pytest.mark.parametrize("path", ["/k8s/clusters/c-1", "/k8s/clusters/c-1/"])
async def test_a_cluster_may_be_served_below_a_path(path: str) -> None:
    async with talking(answer(CONFIG), answer(CONFIG), stream(b""), path=path) as (server, client):
        await client.create(CONFIG_MAP, "ns", {})
        await client.get(CONFIG_MAP, "ns", "c")
        assert [event async for event in client.watch(CONFIG_MAP, resource_version="7")] == []
        below = "/k8s/clusters/c-1/api/v1/namespaces/ns/configmaps"
        first, second, watched = [line for line, _, _ in server.requests]
        assert (first, second) == (f"POST {below}", f"GET {below}/c")
        assert watched.startswith("GET /k8s/clusters/c-1/api/v1/configmaps?")


async def test_a_request_that_is_refused_is_sent_again_with_new_credentials() -> None:
    async with talking(UNAUTHORIZED, answer(CONFIG)) as (server, client):
        await client.create(CONFIG_MAP, "ns", {"data": {"a": "b"}})
        first, second = server.requests
        assert [headers["authorization"] for _, headers, _ in (first, second)] == [
            "Bearer first",
            "Bearer second",
        ]
        assert first[0] == second[0] == "POST /api/v1/namespaces/ns/configmaps"
        assert first[2] == second[2] == b'{"data":{"a":"b"}}'
        assert second[1]["content-type"] == "application/json"


async def test_a_request_that_is_refused_twice_is_unauthorized() -> None:
    async with talking(UNAUTHORIZED, UNAUTHORIZED) as (server, client):
        with pytest.raises(errors.Unauthorized):
            await client.get(CONFIG_MAP, "ns", "c")
        assert len(server.requests) == 2


async def test_a_watch_that_is_refused_is_asked_for_again_with_new_credentials() -> None:
    event = json.dumps({"type": "ADDED", "object": CONFIG}).encode() + b"\n"
    async with talking(UNAUTHORIZED, stream(event)) as (server, client):
        seen = [event.type async for event in client.watch(CONFIG_MAP, resource_version="1")]
        assert seen == [EventType.ADDED]
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("how", "query"),
    [
        (LogOptions(), "container=c"),
        (
            LogOptions(True, 3, True, timestamps=True),
            "container=c&follow=true&previous=true&timestamps=true&tailLines=3",
        ),
        (LogOptions(since=timedelta(seconds=0.2)), "container=c&sinceSeconds=1"),
        (LogOptions(since=timedelta(minutes=10)), "container=c&sinceSeconds=600"),
        (
            LogOptions(since=datetime(2026, 1, 31, 8, tzinfo=UTC)),
            "container=c&sinceTime=2026-01-31T08:00:00%2B00:00",
        ),
    ],
)
async def test_options_of_a_log_are_those_of_kubernetes(how: LogOptions, query: str) -> None:
    async with talking(stream(b"x")) as (server, client):
        assert [chunk async for chunk in client.log("ns", "p", container="c", how=how)] == [b"x"]
    ((line, *_),) = server.requests
    assert line == f"GET /api/v1/namespaces/ns/pods/p/log?{query}"


async def test_credentials_are_sent_with_each_request() -> None:
    async with talking(answer(CONFIG), answer(CONFIG)) as (server, client):
        await client.get(CONFIG_MAP, "ns", "c")
        await client.get(CONFIG_MAP, "ns", "c")
        assert [headers["authorization"] for _, headers, _ in server.requests] == [
            "Bearer first",
            "Bearer second",
        ]
        assert server.requests[0][0] == "GET /api/v1/namespaces/ns/configmaps/c"


async def test_patches_and_deletions_say_what_they_are() -> None:
    async with talking(answer(CONFIG), answer(CONFIG), answer({})) as (server, client):
        await client.patch(CONFIG_MAP, "ns", "c", {"data": {"a": None}})
        await client.patch(CONFIG_MAP, "ns", "c", [{"op": "remove", "path": "/data"}], subresource="status")
        await client.delete(POD, "ns", "p", uid="u", grace_period=0, propagation="Foreground")
        types = [headers["content-type"] for _, headers, _ in server.requests]
        assert types == ["application/merge-patch+json", "application/json-patch+json", "application/json"]
        assert server.requests[1][0] == "PATCH /api/v1/namespaces/ns/configmaps/c/status"
        assert json.loads(server.requests[2][2]) == {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Foreground",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u"},
        }


async def test_a_watch_is_read_whatever_pieces_it_comes_in() -> None:
    lines = b"".join(
        json.dumps({"type": type_, "object": CONFIG}).encode() + b"\n" for type_ in ("ADDED", "DELETED")
    )
    bookmark = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","creationTimestamp":null}}}\n'
    pieces = [lines[:3], lines[3:-4], lines[-4:] + b"\n", bookmark]
    async with talking(stream(*pieces)) as (server, client):
        seen = [event async for event in client.watch(CONFIG_MAP, resource_version="5", labels="a=b")]
        assert [event.type for event in seen] == [EventType.ADDED, EventType.DELETED, EventType.BOOKMARK]
        assert seen[-1].object.metadata.resource_version == "9"
        asked = server.requests[0][0]
        for part in ("watch=1", "resourceVersion=5", "labelSelector=a%3Db", "allowWatchBookmarks=true"):
            assert part in asked


async def test_an_error_in_the_middle_of_a_watch_is_raised() -> None:
    status = {
        "type": "ERROR",
        "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "old"},
    }
    async with talking(stream(json.dumps(status).encode() + b"\n")) as (_, client):
        with pytest.raises(errors.Expired, match="old"):
            await anext(aiter(client.watch(CONFIG_MAP, resource_version="5")))


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        ("409 Conflict", {"reason": "AlreadyExists", "message": "there"}, errors.AlreadyExists),
        ("409 Conflict", {"reason": "Conflict"}, errors.Conflict),
        ("409 Conflict", {"reason": "SomethingNew"}, errors.Conflict),
        ("404 Not Found", {}, errors.NotFound),
        ("403 Forbidden", b"<html>a proxy's page</html>", errors.Forbidden),
        ("503 Service Unavailable", b"", errors.ServerError),
        ("418 I'm a teapot", b"\xff", errors.ServerError),
    ],
)
async def test_refusals_have_their_class(status: str, body: Any, expected: type[Exception]) -> None:
    async with talking(answer(body, status)) as (_, client):
        with pytest.raises(expected) as caught:
            await client.get(CONFIG_MAP, "ns", "c")
        assert type(caught.value) is expected


async def test_a_kind_that_the_server_has_not_is_named() -> None:
    async with talking(answer(b"404 page not found\n", "404 Not Found")) as (_, client):
        with pytest.raises(
            errors.NotFound,
            match=r"it does not serve /api/v1/.*; is the CustomResourceDefinition of this kind",
        ):
            await client.create(CONFIG_MAP, "ns", {})


BUSY = answer({}, "429 Too Many Requests", "Retry-After: 3")


async def test_the_resources_that_a_version_of_a_group_serves_are_listed() -> None:
    listed = {"kind": "APIResourceList", "resources": [{"name": "jobsets"}, {"name": "jobsets/status"}]}
    async with talking(answer(listed), answer({"message": "no"}, "404 Not Found")) as (server, client):
        assert await client.served("jobset.x-k8s.io", "v1alpha2") == {"jobsets", "jobsets/status"}
        assert await client.served("cilium.io", "v2") == frozenset()
    assert server.requests[0][0] == "GET /apis/jobset.x-k8s.io/v1alpha2"


async def test_a_write_that_the_server_puts_off_is_not_repeated_and_reports_the_pause() -> None:
    async with talking(BUSY) as (_, client):
        with pytest.raises(errors.TooManyRequests) as caught:
            await client.create(CONFIG_MAP, "ns", {})
        assert caught.value.retry_after == 3.0


@pytest.mark.parametrize(
    ("asked", "pause"),
    [
        ("3", 3.0),
        ("86400", 30.0),
        ("9" * 400, None),
        ("\u00b2", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
    ],
)
async def test_a_pause_that_the_server_asks_for_is_bounded(asked: str, pause: float | None) -> None:
    async with talking(answer({}, "429 Too Many Requests", f"Retry-After: {asked}")) as (_, client):
        with pytest.raises(errors.TooManyRequests) as caught:
            await client.create(CONFIG_MAP, "ns", {})
    assert caught.value.retry_after == pause


@pytest.mark.parametrize(
    ("answers", "slept", "error"),
    [
        ([BUSY, BUSY, answer(CONFIG)], [3.0, 3.0], None),
        ([answer({}, "503 Service Unavailable", "Retry-After: 900"), answer(CONFIG)], [30.0], None),
        ([answer({}, "429 Too Many Requests")], [], errors.TooManyRequests),
        ([answer({}, "503 Service Unavailable")], [], errors.ServerError),
        ([BUSY] * 10, [3.0] * 9, errors.TooManyRequests),
    ],
)
async def test_a_read_that_the_server_puts_off_is_repeated_when_it_says(
    answers: list[list[bytes]], slept: list[float], error: type[Exception] | None
) -> None:
    paused: list[float] = []

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    async with talking(*answers) as (_, client):
        client._sleep = sleep
        client._connection = replace(client._connection, headers=dict)
        if error is None:
            assert (await client.get(CONFIG_MAP, "ns", "c")).metadata.name == "c"
        else:
            with pytest.raises(error):
                await client.get(CONFIG_MAP, "ns", "c")
    assert paused == slept


async def test_a_streamed_list_is_the_list_of_existing_objects() -> None:
    end = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}}
    lines = [
        json.dumps({"type": "ADDED", "object": CONFIG}).encode(),
        json.dumps({"type": "BOOKMARK", "object": end}).encode(),
    ]
    async with talking(stream(*(line + b"\n" for line in lines))) as (server, client):
        events = [event async for event in client.watch(CONFIG_MAP, resource_version="")]
        assert [ends_initial(event) for event in events] == [False, True]
        asked = server.requests[0][0]
        assert "sendInitialEvents=true" in asked
        assert "resourceVersionMatch=NotOlderThan" in asked


async def test_through_a_proxy_the_proxy_is_asked() -> None:
    proxy = Server(answer(CONFIG))
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1")
    port = listening.sockets[0].getsockname()[1]
    client = HttpClient(Connection("http://kubernetes.invalid:80", proxy=f"http://127.0.0.1:{port}"))
    try:
        assert (await client.get(CONFIG_MAP, "ns", "c")).metadata.name == "c"
    finally:
        await client.close()
        listening.close()
        await listening.wait_closed()
    assert proxy.requests[0][0].startswith("GET http://kubernetes.invalid")


async def test_headers_that_occur_several_times_are_all_sent() -> None:
    async with talking(answer(CONFIG)) as (server, client):
        several = CIMultiDict(
            [("Impersonate-User", "ann"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")]
        )
        client._connection = replace(client._connection, headers=lambda: several)
        await client.create(CONFIG_MAP, "ns", {})
    assert server.lines[0].count("Impersonate-Group: a") == server.lines[0].count("Impersonate-Group: b") == 1


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([], id="nothing"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Le"], id="half a head"),
        pytest.param([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"], id="half a body"),
        pytest.param([b"SSH-2.0-OpenSSH\r\n\r\n"], id="another protocol"),
        pytest.param(answer(b"<html>a proxy's page</html>"), id="not JSON"),
        pytest.param(answer({"metadata": {"name": 5}}), id="not such an object"),
    ],
)
async def test_a_write_whose_answer_does_not_come_may_have_happened(pieces: list[bytes]) -> None:
    async with talking(pieces) as (_, client):
        with pytest.raises(errors.Unanswered):
            await client.create(CONFIG_MAP, "ns", CONFIG)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(stream(b'{"type":"ADDED","object":{"metadata":')[:-1], id="cut off"),
        pytest.param(stream(b"nonsense\n"), id="nonsense"),
        pytest.param(stream(b'{"type":"EXPLODED","object":{}}\n'), id="an unknown event"),
    ],
)
async def test_a_watch_that_breaks_says_so(pieces: list[bytes]) -> None:
    async with talking(pieces) as (_, client):
        with pytest.raises(errors.Unanswered):
            await anext(aiter(client.watch(CONFIG_MAP, resource_version="5")))


async def test_an_answer_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MOST_BYTES", 1 << 20)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
    async with talking([head, *[b" " * (1 << 18)] * 8]) as (_, client):
        with pytest.raises(errors.Unanswered, match="an answer of more than 1 MiB"):
            await client.list(CONFIG_MAP)


async def test_a_list_whose_page_names_itself_as_the_next_ends() -> None:
    page = answer({"metadata": {"resourceVersion": "1", "continue": "again"}, "items": []})
    async with talking(page, page, page) as (server, client):
        with pytest.raises(errors.Unanswered, match="configmaps does not end"):
            await list_all(client, CONFIG_MAP)
        assert len(server.requests) == 2


async def test_where_no_server_listens_nothing_was_sent() -> None:
    client = HttpClient(Connection("http://127.0.0.1:9"))
    with pytest.raises(errors.Unreachable, match=r"127\.0\.0\.1:9"):
        await client.create(CONFIG_MAP, "ns", CONFIG)
    with pytest.raises(errors.Unreachable):
        await anext(aiter(client.watch(CONFIG_MAP, resource_version="5")))
    await client.close()


async def test_logs_that_are_followed_leave_requests_their_connections() -> None:
    held = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"/log" not in head:
            writer.writelines(answer(CONFIG))
        else:
            writer.writelines(stream(b"x")[:-1])
            await writer.drain()
            await held.wait()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1")
    client = HttpClient(Connection(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"))
    logs = [client.log("ns", str(number), how=LogOptions(follow=True)) for number in range(CONNECTIONS + 1)]
    assert await asyncio.gather(*map(anext, logs)) == [b"x"] * len(logs)
    assert (await asyncio.wait_for(client.get(CONFIG_MAP, "ns", "c"), PATIENCE)).metadata.name == "c"
    held.set()
    for log in logs:
        await log.aclose()  # type: ignore[attr-defined]  # it is a generator
    await client.close()
    listening.close()
    await listening.wait_closed()


def test_an_interrupted_process_does_not_wait_for_a_plugin_that_hangs() -> None:
    """The loop ends at once; so does the interpreter, since the thread is a daemon."""
    hanging, over = threading.Event(), threading.Event()

    async def ask() -> None:
        client = HttpClient(Connection("http://127.0.0.1:9", headers=hangs, expired=lambda: True))
        asking = asyncio.create_task(client.get(POD, "default", "a"))
        try:
            assert await asyncio.to_thread(hanging.wait, PATIENCE)
        finally:
            asking.cancel()
            await asyncio.wait([asking])
            await client.close()
        await asking

    def hangs() -> dict[str, str]:
        hanging.set()
        over.wait()
        return {}

    try:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(ask())
        assert [each.daemon for each in threading.enumerate() if each.name == "credentials"] == [True]
    finally:
        over.set()
