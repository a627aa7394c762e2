"""Watches: order, resuming, selectors, bookmarks, and watchers that do not read."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.api import kinds
from muster.embedded.storage.store import Store
from muster.embedded.verbs.deletion import DeleteOptions
from muster.embedded.verbs.registry import Registry
from muster.embedded.verbs.watching import BOOKMARK_EVERY, Frames
from muster.kube.errors import Expired
from tests.embedded.objects import config, pod, read


async def take(watch: AsyncIterator[Frames], count: int) -> list[tuple[str, str]]:
    """The next `count` events as (type, name)."""
    seen: list[tuple[str, str]] = []
    while len(seen) < count:
        frames = await anext(watch)
        seen += [(frame.type, read(frame.body)["metadata"].get("name", "")) for frame in frames]
    return seen


def label(registry: Registry, name: str, value: str | None) -> None:
    registry.patch(kinds.CONFIG_MAP, "default", name, {"metadata": {"labels": {"app": value}}})


async def test_changes_after_a_revision_in_order(registry: Registry) -> None:
    registry.create(kinds.CONFIG_MAP, "default", config("a"))
    revision = registry.store.revision
    watch = registry.watch(kinds.CONFIG_MAP, revision=revision)
    registry.create(kinds.CONFIG_MAP, "default", config("b"))
    registry.create(kinds.SECRET, "default", {"metadata": {"name": "s"}})
    label(registry, "b", "x")
    registry.delete(kinds.CONFIG_MAP, "default", "a")
    assert await take(watch, 3) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a")]
    registry.create(kinds.CONFIG_MAP, "default", config("c"))
    assert await take(watch, 1) == [("ADDED", "c")]


async def test_a_watch_waits_and_is_woken(registry: Registry) -> None:
    watch = registry.watch(kinds.CONFIG_MAP, revision=registry.store.revision)
    waiting = asyncio.ensure_future(take(watch, 2))
    await asyncio.sleep(0)
    assert not waiting.done()
    registry.create(kinds.CONFIG_MAP, "default", config("a"))
    registry.create(kinds.CONFIG_MAP, "default", config("b"))
    assert await waiting == [("ADDED", "a"), ("ADDED", "b")]


async def test_without_a_revision_what_is_there_comes_first(registry: Registry) -> None:
    registry.create(kinds.CONFIG_MAP, "default", config("a"))
    watch = registry.watch(kinds.CONFIG_MAP)
    assert await take(watch, 1) == [("ADDED", "a")]
    label(registry, "a", "x")
    assert await take(watch, 1) == [("MODIFIED", "a")]


async def test_a_watch_of_one_namespace(registry: Registry) -> None:
    watch = registry.watch(kinds.CONFIG_MAP, "default", revision=registry.store.revision)
    registry.create(kinds.CONFIG_MAP, "kube-system", config("a"))
    registry.create(kinds.CONFIG_MAP, "default", config("b"))
    assert await take(watch, 1) == [("ADDED", "b")]


async def test_a_selector_turns_changes_into_coming_and_going(registry: Registry) -> None:
    watch = registry.watch(kinds.CONFIG_MAP, revision=registry.store.revision, labels="app=x")
    registry.create(kinds.CONFIG_MAP, "default", config("a"))
    label(registry, "a", "y")
    label(registry, "a", "x")
    registry.patch(kinds.CONFIG_MAP, "default", "a", {"data": {"k": "v"}})
    label(registry, "a", None)
    label(registry, "a", "y")
    registry.delete(kinds.CONFIG_MAP, "default", "a")
    registry.create(
        kinds.CONFIG_MAP, "default", {**config("b"), "metadata": {"name": "b", "labels": {"app": "x"}}}
    )
    registry.delete(kinds.CONFIG_MAP, "default", "b")
    assert await take(watch, 5) == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
        ("ADDED", "b"),
        ("DELETED", "b"),
    ]


async def test_a_field_selector_follows_a_pod_to_its_node(registry: Registry) -> None:
    watch = registry.watch(kinds.POD, revision=registry.store.revision, fields="spec.nodeName=node-0")
    registry.create(kinds.POD, "default", pod())
    registry.bind("default", "p", {"target": {"name": "node-0"}})
    registry.delete(kinds.POD, "default", "p", DeleteOptions(grace_period=0))
    assert await take(watch, 2) == [("ADDED", "p"), ("DELETED", "p")]


async def test_a_deleted_object_carries_the_revision_of_its_deletion(registry: Registry) -> None:
    registry.create(kinds.CONFIG_MAP, "default", config())
    watch = registry.watch(kinds.CONFIG_MAP, revision=registry.store.revision)
    registry.delete(kinds.CONFIG_MAP, "default", "c")
    frame = (await anext(watch))[0]
    assert (
        read(frame.body)["metadata"]["resourceVersion"] == str(frame.revision) == str(registry.store.revision)
    )
    assert frame.encode() == b'{"type":"DELETED","object":' + frame.body + b"}\n"


async def test_many_changes_come_in_batches(registry: Registry) -> None:
    watch = registry.watch(kinds.CONFIG_MAP, revision=registry.store.revision)
    for number in range(150):
        registry.create(kinds.CONFIG_MAP, "default", config(f"c{number}"))
    assert [len(await anext(watch)) for _ in range(3)] == [64, 64, 22]


@pytest.mark.looptime
async def test_bookmarks_each_minute_with_the_newest_revision(registry: Registry) -> None:
    loop = asyncio.get_running_loop()
    started = loop.time()
    watch = registry.watch(kinds.CONFIG_MAP, revision=registry.store.revision)
    registry.create(kinds.SECRET, "default", {"metadata": {"name": "s"}})
    frames = await anext(watch)
    assert loop.time() - started == pytest.approx(BOOKMARK_EVERY)
    assert [(frame.type, frame.revision) for frame in frames] == [("BOOKMARK", registry.store.revision)]
    assert read(frames[0].body)["kind"] == "ConfigMap"


@pytest.mark.looptime
@pytest.mark.parametrize("bookmarks", [True, False])
async def test_a_watch_times_out_with_a_bookmark_if_one_was_requested(
    registry: Registry, bookmarks: bool
) -> None:
    watch = registry.watch(kinds.POD, revision=registry.store.revision, timeout=7, bookmarks=bookmarks)
    frames = [frame.type async for batch in watch for frame in batch]
    assert frames == ["BOOKMARK"] * bookmarks


async def test_a_watch_ends_with_the_store(registry: Registry) -> None:
    watch = registry.watch(kinds.POD, revision=registry.store.revision)
    waiting = asyncio.ensure_future(anext(watch, None))
    await asyncio.sleep(0)
    registry.store.close()
    assert await waiting is None


async def test_a_watcher_too_slow_is_cut() -> None:
    registry = Registry(Store(":memory:", history_events=50, buffered_events=20))
    watch = registry.watch(kinds.CONFIG_MAP, revision=registry.store.revision)
    registry.create(kinds.CONFIG_MAP, "default", config())
    assert await take(watch, 1) == [("ADDED", "c")]
    for number in range(40):  # beyond the memory's bound, not the disk's
        label(registry, "c", str(number))
    assert len(await take(watch, 40)) == 40
    for number in range(100):
        label(registry, "c", str(number))
    with pytest.raises(Expired, match="too old resource version"):
        await anext(watch)


async def test_an_idle_watcher_of_a_quiet_kind_is_not_cut() -> None:
    registry = Registry(Store(":memory:", history_events=50, buffered_events=20))
    watch = registry.watch(kinds.SECRET, revision=registry.store.revision)
    waiting = asyncio.ensure_future(take(watch, 1))
    await asyncio.sleep(0)
    for number in range(100):
        registry.create(kinds.CONFIG_MAP, "default", config(f"c{number}"))
    registry.create(kinds.SECRET, "default", {"metadata": {"name": "s"}})
    assert await waiting == [("ADDED", "s")]


async def test_a_watch_resumes_after_a_restart(tmp_path: Any) -> None:
    registry = Registry(Store(tmp_path / "s"))
    revision = registry.store.revision
    registry.create(kinds.CONFIG_MAP, "default", config("a"))
    label(registry, "a", "x")
    registry.store.close()
    registry = Registry(Store(tmp_path / "s"))
    registry.delete(kinds.CONFIG_MAP, "default", "a")
    watch = registry.watch(kinds.CONFIG_MAP, revision=revision, labels="app")
    assert await take(watch, 2) == [("ADDED", "a"), ("DELETED", "a")]
    registry.store.close()


async def test_a_revision_of_another_store_has_to_list_again(registry: Registry) -> None:
    watch = registry.watch(kinds.POD, revision=registry.store.revision + 1)
    with pytest.raises(Expired, match="Too large resource version"):
        await anext(watch)
