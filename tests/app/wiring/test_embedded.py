"""What keeps the embedded cluster up."""

import asyncio
import shutil
from pathlib import Path

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.app.wiring import embedded
from muster.app.wiring.embedded import unfinished
from muster.app.wiring.state_directory import StateDirectory
from muster.local.client import LocalClient
from muster.local.registry import Registry
from muster.local.store import Store
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
    home, stop = StateDirectory(tmp_path / "home"), asyncio.Event()
    home.make()
    store = Store(":memory:")
    client = LocalClient(Registry(store))
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    await client.create(kinds.JOB, "default", {"metadata": {"name": "j"}, "spec": {"template": template}})
    leaving = asyncio.create_task(embedded._when_nobody_needs_it(home, client, stop))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not stop.is_set(), "a job is unfinished"
    shutil.rmtree(home.root)
    async with asyncio.timeout(PATIENCE):
        await leaving
    assert stop.is_set()
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
    home, stop = StateDirectory(tmp_path / "home"), asyncio.Event()
    home.make()
    store = Store(":memory:")
    client = LocalClient(Registry(store))
    host = asyncio.create_task(embedded._when_nobody_needs_it(home, client, stop))
    for name in ("a", "b"):
        await client.create(kinds.NODE, "", {"metadata": {"name": name}})
        for _ in range(50):
            await asyncio.sleep(0)
    assert len(counted) == len(set(counted)) == 2
    stop.set()
    await host
    store.close()
