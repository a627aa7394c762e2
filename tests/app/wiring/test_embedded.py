"""What keeps the embedded cluster up."""

import asyncio
import errno
import shutil
from pathlib import Path

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.app.wiring import embedded
from muster.app.wiring.embedded import unfinished
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from tests.patience import PATIENCE


async def test_jobs_that_muster_does_not_run_do_not_keep_the_host_up() -> None:
    store = Store(":memory:")
    client = LocalClient(Registry(store))
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    for name, manager in (("ours", {}), ("theirs", {"managedBy": "example.com/other"})):
        job: Object = {"metadata": {"name": name}, "spec": {"template": template, **manager}}
        await client.create(kinds.JOB, "default", job)
    batch_job: Object = {"metadata": {"name": "denied"}, "spec": {"schedule": "@daily"}}
    await client.create(kinds.BATCH_JOB, "default", batch_job)
    assert await unfinished(client) == ("ours",)
    store.close()


async def test_a_host_whose_home_is_removed_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "LOOK", 0)
    home = StateDirectory(tmp_path / "home")
    home.make()
    store = Store(":memory:")
    client = LocalClient(Registry(store))
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    await client.create(kinds.JOB, "default", {"metadata": {"name": "j"}, "spec": {"template": template}})
    leaving = asyncio.create_task(embedded._until_unneeded(home, client))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not leaving.done(), "a job is unfinished"
    shutil.rmtree(home.root)
    async with asyncio.timeout(PATIENCE):
        await leaving
    store.close()


def hosted(directory: Path) -> tuple[Store, LocalClient, asyncio.Task[None]]:
    """Returns an empty cluster's store and client, and the task that ends when its host is not needed."""
    home = StateDirectory(directory / "home")
    home.make()
    store = Store(":memory:")
    client = LocalClient(Registry(store))
    return store, client, asyncio.create_task(embedded._until_unneeded(home, client))


async def test_a_host_that_cannot_look_looks_again_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(embedded, "LOOK", 0)
    many, denied = OSError(errno.EMFILE, "too many files"), PermissionError(errno.EACCES, "denied")
    trouble = [many, many, ValueError("odd"), ValueError("odd"), denied, None, many]
    count = embedded.unfinished

    async def troubled(client: LocalClient) -> tuple[str, ...]:
        if trouble and (error := trouble.pop(0)) is not None:
            raise error
        return ("j",) if trouble else await count(client)

    monkeypatch.setattr(embedded, "unfinished", troubled)
    store, client, leaving = hosted(tmp_path)
    async with asyncio.timeout(PATIENCE):
        while trouble[1:] or not trouble:
            assert not leaving.done()
            await asyncio.sleep(0)
        await client.create(kinds.NODE, "", {"metadata": {"name": "a"}})  # a change: look again
        await leaving
    said = [record.getMessage() for record in caplog.records]
    assert [text.rpartition(": ")[2] for text in said] == [
        "[Errno 24] too many files",
        "odd",
        "[Errno 13] denied",
        "[Errno 24] too many files",
    ]
    store.close()


async def test_a_host_in_which_nothing_changes_counts_its_jobs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "LOOK", 0)
    counted: list[int] = []

    async def one_unfinished(client: LocalClient) -> tuple[str, ...]:
        counted.append(client.registry.store.revision)
        return ("j",)

    monkeypatch.setattr(embedded, "unfinished", one_unfinished)
    store, client, host = hosted(tmp_path)
    for name in ("a", "b"):
        await client.create(kinds.NODE, "", {"metadata": {"name": name}})
        for _ in range(50):
            await asyncio.sleep(0)
    assert len(counted) == len(set(counted)) == 2
    host.cancel()
    await asyncio.wait([host])
    store.close()
