"""What every client of the embedded cluster does, whichever way it reaches it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from muster.api import kinds
from muster.embedded.client import BATCH, LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.client import Client, EventType, LogOptions
from muster.kube.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
)
from tests.embedded.clients import CLIENTS, Connect
from tests.embedded.conftest import StillClock
from tests.embedded.objects import config, pod


@pytest.fixture(params=list(CLIENTS))
def connect(request: pytest.FixtureRequest) -> Connect:
    return CLIENTS[request.param]


@pytest.fixture
async def client(connect: Connect, registry: Registry) -> AsyncIterator[Client]:
    async with connect(registry) as client:
        yield client


async def test_objects_are_read_as_slim_structs(client: Client) -> None:
    made = await client.create(kinds.POD, "default", pod(labels={"a": "b"}))
    assert made == await client.get(kinds.POD, "default", "p")
    assert made.metadata.creation_timestamp == datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
    assert made.status.phase == "Pending"
    assert made.key == "default/p"


async def test_a_whole_object_has_what_structs_leave_out(client: Client) -> None:
    obj = pod()
    obj["spec"]["somethingNew"] = [1]
    await client.create(kinds.POD, "default", obj)
    assert (await client.get_json(kinds.POD, "default", "p"))["spec"]["somethingNew"] == [1]


async def test_lists_with_selectors_and_pages(client: Client) -> None:
    for number in range(5):
        await client.create(kinds.POD, "default", pod(f"p{number}", labels={"odd": str(number % 2)}))
    page = await client.list(kinds.POD, labels="odd=0", fields="metadata.name!=p2")
    assert [item.metadata.name for item in page.items] == ["p0", "p4"]
    names, token = list[str](), ""
    while True:
        page = await client.list(kinds.POD, "default", limit=2, token=token)
        names += [item.metadata.name for item in page.items]
        token = page.token
        if not token:
            break
    assert names == ["p0", "p1", "p2", "p3", "p4"]
    assert (await client.list(kinds.POD, "kube-system")).items == []


async def test_a_watch_from_a_list(client: Client) -> None:
    await client.create(kinds.CONFIG_MAP, "default", config("a"))
    page = await client.list(kinds.CONFIG_MAP)
    await client.create(kinds.CONFIG_MAP, "default", config("b"))
    await client.patch(kinds.CONFIG_MAP, "default", "a", {"data": {"x": "1"}})
    await client.delete(kinds.CONFIG_MAP, "default", "b")
    seen = []
    async for event in client.watch(kinds.CONFIG_MAP, resource_version=page.resource_version):
        seen.append((event.type, event.object.metadata.name))
        if len(seen) == 3:
            break
    assert seen == [(EventType.ADDED, "b"), (EventType.MODIFIED, "a"), (EventType.DELETED, "b")]


async def test_a_watch_that_asks_for_too_much(connect: Connect) -> None:
    registry = Registry(Store(":memory:", history_events=16, buffered_events=16))
    async with connect(registry) as client:
        for number in range(50):
            await client.create(kinds.CONFIG_MAP, "default", config(f"c{number}"))
        with pytest.raises(Expired):
            await anext(aiter(client.watch(kinds.CONFIG_MAP, resource_version="3")))


async def test_refusals_have_their_class_message_and_details(client: Client) -> None:
    made = await client.create(kinds.CONFIG_MAP, "default", config())
    with pytest.raises(AlreadyExists, match='configmaps "c" already exists'):
        await client.create(kinds.CONFIG_MAP, "default", config())
    with pytest.raises(NotFound, match='pods "c" not found'):
        await client.get(kinds.POD, "default", "c")
    change = {"metadata": {"resourceVersion": made.metadata.uid}, "data": {"a": "b"}}
    with pytest.raises(Conflict):
        await client.patch(kinds.CONFIG_MAP, "default", "c", change)
    with pytest.raises(BadRequest, match="unable to parse label selector"):
        await client.list(kinds.POD, labels="a b")
    with pytest.raises(Invalid) as caught:
        await client.create(kinds.POD, "default", {"metadata": {"name": "p"}, "spec": {}})
    assert caught.value.details is not None
    assert caught.value.details["causes"][0]["field"] == "spec.containers"


async def test_patches_of_both_kinds_and_of_the_status(client: Client) -> None:
    await client.create(kinds.POD, "default", pod())
    merged = await client.patch(kinds.POD, "default", "p", {"metadata": {"labels": {"a": "b"}}})
    assert merged.metadata.labels == {"a": "b"}
    operated = await client.patch(kinds.POD, "default", "p", [{"op": "remove", "path": "/metadata/labels/a"}])
    assert operated.metadata.labels == {}
    change = {"status": {"phase": "Running", "startTime": datetime(2026, 3, 1, tzinfo=UTC)}}
    written = await client.patch(kinds.POD, "default", "p", change, subresource="status")
    assert (written.status.phase, written.status.start_time) == ("Running", datetime(2026, 3, 1, tzinfo=UTC))


async def test_deletion_with_its_options(client: Client) -> None:
    made = await client.create(kinds.CONFIG_MAP, "default", config())
    with pytest.raises(Conflict):
        await client.delete(kinds.CONFIG_MAP, "default", "c", uid="other")
    with pytest.raises(Conflict):
        await client.delete(kinds.CONFIG_MAP, "default", "c", resource_version="1")
    await client.delete(kinds.CONFIG_MAP, "default", "c", propagation="Foreground")
    waiting = await client.get(kinds.CONFIG_MAP, "default", "c")
    assert waiting.metadata.finalizers == ["foregroundDeletion"]
    assert waiting.metadata.deletion_timestamp is not None
    await client.delete(kinds.CONFIG_MAP, "default", "c", uid=made.metadata.uid)
    with pytest.raises(NotFound):
        await client.get(kinds.CONFIG_MAP, "default", "c")


async def test_binding_grace_and_the_end(client: Client, clock: StillClock) -> None:
    made = await client.create(kinds.POD, "default", pod())
    meta = {
        "name": "p",
        "uid": made.metadata.uid,
        "resourceVersion": made.metadata.resource_version,
        "annotations": {"a": "b"},
    }
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": meta,
        "target": {"kind": "Node", "name": "node-0"},
    }
    await client.bind("default", "p", binding)
    on_node = await client.get(kinds.POD, "default", "p")
    assert (on_node.spec.node_name, on_node.metadata.annotations) == ("node-0", {"a": "b"})
    assert on_node.status.pod_ip.startswith("127.")
    with pytest.raises(Conflict):
        await client.bind("default", "p", binding)
    await client.delete(kinds.POD, "default", "p", grace_period=5)
    leaving = await client.get(kinds.POD, "default", "p")
    assert leaving.metadata.deletion_grace_period_seconds == 5
    await client.delete(kinds.POD, "default", "p", grace_period=0)
    with pytest.raises(NotFound):
        await client.get(kinds.POD, "default", "p")


async def test_eviction_and_what_forbids_it(client: Client) -> None:
    await client.create(kinds.POD, "default", pod(labels={"app": "x"}))
    await client.bind(
        "default", "p", {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node-0"}}
    )
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(kinds.POD, "default", "p", status, subresource="status")
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}},
    }
    await client.create(kinds.PDB, "default", budget)
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "default"},
    }
    with pytest.raises(TooManyRequests, match="disruption budget"):
        await client.evict("default", "p", eviction)
    await client.delete(kinds.PDB, "default", "b")
    await client.evict("default", "p", eviction | {"deleteOptions": {"gracePeriodSeconds": 3}})
    assert (await client.get(kinds.POD, "default", "p")).metadata.deletion_grace_period_seconds == 3


async def test_logs_of_the_container_meant(client: Client) -> None:
    await client.create(kinds.POD, "default", pod())
    text = b"".join([chunk async for chunk in client.log("default", "p", how=LogOptions(tail=3))])
    assert text == b"default/p/main follow=False tail=3 previous=False since=None timestamps=False"
    two = pod("two")
    two["spec"]["containers"].append({"name": "side"})
    await client.create(kinds.POD, "default", two)
    with pytest.raises(BadRequest, match=r"must be specified for pod two, choose one of: \[main side\]"):
        await anext(aiter(client.log("default", "two")))
    with pytest.raises(BadRequest, match="container x is not valid for pod two"):
        await anext(aiter(client.log("default", "two", container="x")))
    how = LogOptions(previous=True, since=datetime(2026, 1, 31, 8, tzinfo=UTC), timestamps=True)
    with pytest.raises(BadRequest, match='previous terminated container "side" in pod "two" not found'):
        await anext(aiter(client.log("default", "two", container="side", how=how)))
    restarted = {"status": {"containerStatuses": [{"name": "side", "restartCount": 1}]}}
    await client.patch(kinds.POD, "default", "two", restarted, subresource="status")
    text = b"".join([chunk async for chunk in client.log("default", "two", container="side", how=how)])
    assert text.startswith(b"default/two/side follow=False tail=None previous=True ")
    assert text.endswith(b" since=2026-01-31 08:00:00+00:00 timestamps=True")


async def test_a_log_so_long_ago_is_by_the_servers_clock(client: Client) -> None:
    """Which stands still at noon."""
    await client.create(kinds.POD, "default", pod())
    how = LogOptions(since=timedelta(minutes=10))
    text = b"".join([chunk async for chunk in client.log("default", "p", how=how)])
    assert b" since=2026-03-01 11:50:00.250000+00:00 " in text


async def test_structs_shared_in_process_equal_the_stored_bytes(registry: Registry) -> None:
    """Readers of one revision share a struct; a reader of the next never gets the one before."""
    client = LocalClient(registry)
    made = await client.create(kinds.POD, "default", pod())
    assert await client.get(kinds.POD, "default", "p") is made
    for number in range(3):
        labels = {"n": str(number)}
        written = await client.patch(kinds.POD, "default", "p", {"metadata": {"labels": labels}})
        (listed,) = (await client.list(kinds.POD)).items
        assert written.metadata.labels == labels
        assert written is listed is await client.get(kinds.POD, "default", "p")
        assert listed == msgspec.json.decode(registry.get(kinds.POD, "default", "p"), type=kinds.POD.type)
    assert made.metadata.labels == {}


async def test_writes_of_one_turn_are_committed_together_and_refused_for_themselves(
    registry: Registry,
) -> None:
    client = LocalClient(registry)
    commits: list[str] = []
    registry.store._connection.set_trace_callback(  # type: ignore[union-attr]
        lambda statement: commits.append(statement) if statement.startswith(("COMMIT", "ROLLBACK")) else None
    )
    await client.create(kinds.POD, "default", pod("first"))
    before = registry.store.revision
    commits.clear()
    outcomes = await asyncio.gather(
        client.create(kinds.POD, "default", pod("a")),
        client.create(kinds.POD, "default", pod("first")),
        client.bind("default", "a", {"target": {"name": "node-0"}}),
        client.bind("default", "first", {"target": {"name": "nowhere"}}),
        client.delete(kinds.POD, "default", "absent"),
        client.create(kinds.POD, "default", pod("b")),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [
        kinds.POD.type,
        AlreadyExists,
        type(None),
        Conflict,
        NotFound,
        kinds.POD.type,
    ]
    assert commits == ["ROLLBACK TO part", "COMMIT"]
    assert registry.store.revision == before + 3
    assert (await client.get(kinds.POD, "default", "a")).spec.node_name == "node-0"
    assert (await client.get(kinds.POD, "default", "b")).metadata.resource_version == str(before + 3)


async def test_no_write_is_visible_or_answered_before_the_commit(registry: Registry) -> None:
    client = LocalClient(registry)
    started = registry.store.revision
    events = client.watch(kinds.POD, resource_version=str(started))
    writes = [asyncio.ensure_future(client.create(kinds.POD, "default", pod(name))) for name in "abc"]
    in_transaction: list[bool] = []

    def look(_: object) -> None:
        assert registry.store._connection is not None
        in_transaction.append(registry.store._connection.in_transaction)

    for write in writes:
        write.add_done_callback(look)
    seen = [(await anext(events)).object.metadata.name for _ in writes]
    await asyncio.gather(*writes)
    assert seen == ["a", "b", "c"]
    assert in_transaction == [False] * 3


async def test_a_write_that_fails_for_all_fails_none_of_the_others(clock: StillClock, tmp_path: Path) -> None:
    """A full disk undoes the whole transaction; writes that still fit then succeed one by one."""
    registry = Registry(Store(tmp_path / "s"), clock=clock)
    client = LocalClient(registry)
    pages = registry.store.execute("PRAGMA page_count").fetchone()[0]
    registry.store.execute(f"PRAGMA max_page_count = {pages + 20}")
    outcomes = await asyncio.gather(
        client.create(kinds.CONFIG_MAP, "default", config("small")),
        client.create(kinds.CONFIG_MAP, "default", config("large", text="x" * 500_000)),
        client.create(kinds.CONFIG_MAP, "default", config("last")),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [
        kinds.CONFIG_MAP.type,
        ServerError,
        kinds.CONFIG_MAP.type,
    ]
    page = await client.list(kinds.CONFIG_MAP)
    assert [item.metadata.name for item in page.items] == ["last", "small"]
    assert [item.name for item in registry.store.since("configmaps", 0, 9)] == ["small", "last"]
    registry.store.close()


async def test_a_write_that_is_cancelled_in_time_is_not_made(registry: Registry) -> None:
    client = LocalClient(registry)
    writing = asyncio.ensure_future(client.create(kinds.POD, "default", pod()))
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with pytest.raises(NotFound):
        await client.get(kinds.POD, "default", "p")


async def test_more_writes_than_one_commit_takes(registry: Registry) -> None:
    client = LocalClient(registry)
    pods = await asyncio.gather(
        *(client.create(kinds.POD, "default", pod(f"p{number}")) for number in range(2 * BATCH + 1))
    )
    versions = [int(made.metadata.resource_version) for made in pods]
    assert versions == list(range(versions[0], versions[0] + len(pods)))
