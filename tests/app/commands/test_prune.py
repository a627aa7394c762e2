"""What prune removes of finished jobs, and what stays."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from muster.api import kinds
from muster.app.commands.prune import found, remove
from muster.app.views.jobs import views
from muster.app.views.objects import fetch
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded import directories
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.names import SUBMITTED_FROM
from muster.workloads.jobfile import Source
from tests.app.records.test_past import POD, job
from tests.app.records.test_runs import START, Clock

DAY = 86_400.0
NOW = START.timestamp() + 10 * DAY


@pytest.fixture
def home(tmp_path: Path) -> StateDirectory:
    home = StateDirectory(tmp_path / "home")
    home.make()
    return home


@pytest.fixture
def client(home: StateDirectory) -> Iterator[LocalClient]:
    with closing(Store(home.store)) as store:
        yield LocalClient(Registry(store, clock=Clock()))


async def made(client: LocalClient, home: StateDirectory, name: str, *, ended: bool, days: float) -> Path:
    """A Job whose pod is gone, with its output, last written `days` before `NOW`; returns where that is."""
    await client.create(kinds.JOB, "default", job(name))
    meta = {"name": f"{name}-0", "labels": {"batch.kubernetes.io/job-name": name}}
    pod = await client.create(kinds.POD, "default", {"metadata": meta, "spec": POD})
    await client.delete(kinds.POD, "default", f"{name}-0")
    if ended:
        complete = {"conditions": [{"status": "True", "type": "Complete", "lastTransitionTime": START}]}
        await client.patch(kinds.JOB, "default", name, {"status": complete}, subresource="status")
    log = home.logs / f"default_{name}-0_{pod.metadata.uid}" / "main" / "0.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * 1000)
    os.utime(log, (NOW - days * DAY,) * 2)
    return log.parents[1]


async def test_finished_jobs_go_with_their_output_and_unfinished_ones_keep_theirs(
    client: LocalClient, home: StateDirectory
) -> None:
    over = await made(client, home, "over", ended=True, days=2)
    going = await made(client, home, "going", ended=False, days=2)
    gone = await made(client, home, "gone", ended=True, days=2)
    await client.delete(kinds.JOB, "default", "gone", propagation="Background")
    unknown = home.logs / "default_other_00000000"
    unknown.mkdir()
    os.utime(unknown, (NOW - 2 * DAY,) * 2)
    written = home.logs / "default_new_00000001"  # of a pod that has come meanwhile
    written.mkdir()
    os.utime(written, (NOW + 1,) * 2)

    what = found(home, views(await fetch(client)), 0.0, NOW)
    assert [view.name for view in what.jobs] == ["over"]
    assert {*what.output} == {over, gone, unknown}
    assert what.bytes == 2000
    await remove(client, what)
    assert {*home.logs.iterdir()} == {going, written}
    assert [view.name for view in views(await fetch(client))] == ["going"]
    assert not found(home, views(await fetch(client)), 0.0, NOW)


async def test_only_what_ended_long_enough_ago_goes(client: LocalClient, home: StateDirectory) -> None:
    await made(client, home, "new", ended=True, days=1)
    old = await made(client, home, "old", ended=True, days=7)
    there = views(await fetch(client))
    assert found(home, there, 3 * DAY, NOW).output == [old]
    assert [view.name for view in found(home, there, 9 * DAY, NOW).jobs] == ["new", "old"]
    assert found(home, there, 11 * DAY, NOW).jobs == []


async def test_checkpoints_and_copies_go_with_their_job(client: LocalClient, home: StateDirectory) -> None:
    copy = directories.copies(home.root) / ("0" * 16)
    for name in ("over", "gone", "going"):
        await made(client, home, name, ended=name != "going", days=2)
    source = {"annotations": {SUBMITTED_FROM: Source("f", "ann@pc", copy=str(copy)).annotation()}}
    await client.patch(kinds.JOB, "default", "over", {"metadata": source})
    copy.mkdir(parents=True)
    (copy / "code.py").write_bytes(b"x" * 100)
    paths = {}
    for each in (await client.list(kinds.JOB)).items:
        name = each.metadata.name
        path = directories.checkpoints(home.root, directories.Named("default", name, each.metadata.uid))
        assert path is not None
        path.mkdir(parents=True)
        paths[name] = path
    await client.delete(kinds.JOB, "default", "gone", propagation="Background")
    what = found(home, views(await fetch(client)), 0.0, NOW)
    assert {*what.directories} == {copy, paths["over"], paths["gone"]}
    assert what.bytes == 2100
    await remove(client, what)
    assert not copy.exists()
    assert [name for name, path in paths.items() if path.exists()] == ["going"]


async def test_without_a_cluster_there_is_nothing_to_remove(home: StateDirectory) -> None:
    assert not found(home, [], 0.0, NOW)
