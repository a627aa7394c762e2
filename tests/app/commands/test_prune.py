"""What prune removes of finished jobs, and what stays."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from muster.api import kinds
from muster.app.commands.prune import found, remove
from muster.app.views.jobs import views
from muster.app.views.objects import Objects, fetch
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded import directories
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.names import RETRY_OF, SUBMITTED_FROM
from muster.workloads.jobfile import Source
from muster.workloads.retry import Retry
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

    what = found(home, await fetch(client), 0.0, NOW)
    assert [view.name for view in what.jobs] == ["over"]
    assert {*what.output} == {over, gone, unknown}
    assert what.bytes == 2000
    await remove(client, home, what, 0.0, NOW)
    assert {*home.logs.iterdir()} == {going, written}
    assert [view.name for view in views(await fetch(client))] == ["going"]
    assert not found(home, await fetch(client), 0.0, NOW)


async def test_only_what_ended_long_enough_ago_goes(client: LocalClient, home: StateDirectory) -> None:
    await made(client, home, "new", ended=True, days=1)
    old = await made(client, home, "old", ended=True, days=7)
    there = await fetch(client)
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
    what = found(home, await fetch(client), 0.0, NOW)
    assert {*what.directories} == {copy, paths["over"], paths["gone"]}
    assert what.bytes == 2100
    await remove(client, home, what, 0.0, NOW)
    assert not copy.exists()
    assert [name for name, path in paths.items() if path.exists()] == ["going"]


async def test_without_a_cluster_there_is_nothing_to_remove(home: StateDirectory) -> None:
    assert not found(home, Objects(), 0.0, NOW)


async def retried(client: LocalClient, home: StateDirectory, states: str) -> tuple[Path, Path]:
    """A job, its retry, that one's, and so on, which all use the first one's directories; returns these.

    `states`: a letter each: Ended, Running, Gone (deleted a long time ago).
    """
    copy, uid = directories.copies(home.root) / ("0" * 16), ""
    for number, state in enumerate(states):
        name = f"train-r{number}"
        await made(client, home, name, ended=state != "R", days=2)
        marks = {SUBMITTED_FROM: Source("f", "ann@pc", copy=str(copy)).annotation()}
        marks |= {RETRY_OF: Retry(f"train-r{number - 1}", uid).annotation()} if number else {}
        metadata = {"metadata": {"annotations": marks}}
        job = await client.patch(kinds.JOB, "default", name, metadata)
        uid = uid or job.metadata.uid
    path = directories.checkpoints(home.root, directories.Named("default", "train-r0", uid))
    assert path is not None
    for each in (copy, path):
        each.mkdir(parents=True)
    for number, state in enumerate(states):
        if state == "G":
            await client.delete(kinds.JOB, "default", f"train-r{number}", propagation="Background")
    return copy, path


@pytest.mark.parametrize(
    "states", ["ER", "EER", "GR", "GER", "EGR", "GGR", "E", "EE", "EEE", "G", "GE", "EG"]
)
async def test_what_a_retry_uses_stays_while_it_runs(
    client: LocalClient, home: StateDirectory, states: str
) -> None:
    """The code that it runs from, and the checkpoints of the first job."""
    both = await retried(client, home, states)
    what = found(home, await fetch(client), 0.0, NOW)
    runs = "R" in states
    assert len(what.jobs) == states.count("E")
    assert {*what.directories} == (set() if runs else {*both})
    await remove(client, home, what, 0.0, NOW)
    assert [each.exists() for each in both] == [runs, runs]
    if runs:  # and goes with it
        complete = {"conditions": [{"status": "True", "type": "Complete", "lastTransitionTime": START}]}
        name = f"train-r{states.index('R')}"
        await client.patch(kinds.JOB, "default", name, {"status": complete}, subresource="status")
        await remove(client, home, found(home, await fetch(client), 0.0, NOW), 0.0, NOW)
        assert not any(each.exists() for each in both)


async def test_what_a_deleted_job_uses_that_stays_in_the_records_stays(
    client: LocalClient, home: StateDirectory
) -> None:
    """The first job ended long ago; its retry has just been deleted, and may be looked at."""
    both = await retried(client, home, "EG")
    there = await fetch(client)
    early = found(home, there, 0.0, START.timestamp())
    assert [view.name for view in early.jobs] == ["train-r0"]
    assert early.directories == []
    assert {*found(home, there, 0.0, NOW).directories} == {*both}


async def test_a_retry_that_comes_while_the_user_is_asked_keeps_what_it_uses(
    client: LocalClient, home: StateDirectory
) -> None:
    both = await retried(client, home, "E")
    what = found(home, await fetch(client), 0.0, NOW)
    assert {*what.directories} == {*both}
    (first,) = what.jobs
    await made(client, home, "train-r1", ended=False, days=2)
    marks = dict(first.resource.metadata.annotations)
    marks[RETRY_OF] = Retry("train-r0", first.resource.metadata.uid).annotation()
    await client.patch(kinds.JOB, "default", "train-r1", {"metadata": {"annotations": marks}})
    removed = await remove(client, home, what, 0.0, NOW)
    assert [view.name for view in removed.jobs] == ["train-r0"]
    assert removed.directories == []
    assert all(each.exists() for each in both)


@pytest.mark.parametrize("ended", [False, True])
async def test_a_job_submitted_again_while_the_user_is_asked_stays(
    client: LocalClient, home: StateDirectory, ended: bool
) -> None:
    old = await made(client, home, "train", ended=True, days=2)
    what = found(home, await fetch(client), 0.0, NOW)
    await client.delete(kinds.JOB, "default", "train", propagation="Background")
    new = await made(client, home, "train", ended=ended, days=2)
    removed = await remove(client, home, what, 0.0, NOW)
    assert removed.jobs == []
    assert [view.name for view in views(await fetch(client))] == ["train"]
    assert new.exists()
    assert not old.exists()


async def test_the_output_of_a_pod_that_runs_stays_though_no_job_has_it(
    client: LocalClient, home: StateDirectory
) -> None:
    """As that of a pod whose Job has been deleted without it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    logs = {}
    for name, phase in (("runs", "Running"), ("waits", "Pending"), ("over", "Succeeded")):
        meta = {"name": name, "ownerReferences": [owner]}
        pod = await client.create(kinds.POD, "default", {"metadata": meta, "spec": POD})
        await client.patch(kinds.POD, "default", name, {"status": {"phase": phase}}, subresource="status")
        logs[name] = home.logs / f"default_{name}_{pod.metadata.uid}"
        logs[name].mkdir(parents=True)
        os.utime(logs[name], (NOW - 2 * DAY,) * 2)
    there = await fetch(client)
    assert views(there) == []
    assert found(home, there, 0.0, NOW).output == [logs["over"]]


async def test_what_a_pod_uses_stays_that_outlives_its_job(client: LocalClient, home: StateDirectory) -> None:
    """As one that takes its time to end."""
    both = await retried(client, home, "E")
    (job,) = (await client.list(kinds.JOB)).items
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train-r0", "uid": job.metadata.uid}
    meta = {"name": "pod", "ownerReferences": [{**reference, "controller": True}]}
    await client.create(kinds.POD, "default", {"metadata": meta, "spec": POD})
    assert found(home, await fetch(client), 0.0, NOW).directories == []
    await client.delete(kinds.JOB, "default", "train-r0", propagation="Background")
    assert (await client.list(kinds.JOB)).items == []
    assert found(home, await fetch(client), 0.0, NOW).directories == []
    await client.delete(kinds.POD, "default", "pod", grace_period=0)
    assert {*found(home, await fetch(client), 0.0, NOW).directories} == {*both}


async def test_groups_that_only_pods_name_are_told_apart(client: LocalClient, home: StateDirectory) -> None:
    """They have no uid; one that has ended takes nothing of another with it."""
    for name, phase in (("over", "Succeeded"), ("runs", "Running")):
        meta = {"name": name, "labels": {"scheduling.x-k8s.io/pod-group": name}}
        await client.create(kinds.POD, "default", {"metadata": meta, "spec": POD})
        await client.patch(kinds.POD, "default", name, {"status": {"phase": phase}}, subresource="status")
    what = found(home, await fetch(client), 0.0, NOW)
    assert [view.name for view in what.jobs] == ["over"]
    await remove(client, home, what, 0.0, NOW)
    assert [view.name for view in views(await fetch(client))] == ["runs"]


async def test_a_full_disk_gets_the_directories_back_before_the_records_go(
    client: LocalClient, home: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = await made(client, home, "over", ended=True, days=2)
    going = await made(client, home, "going", ended=False, days=2)
    home.keep_reserve()
    what = found(home, await fetch(client), 0.0, NOW)
    with monkeypatch.context() as full:
        full.setattr(LocalClient, "delete", None)  # writes nothing
        freed = await remove(client, home, what, 0.0, NOW, directories_only=True)
    assert freed.output == [over]
    assert not over.exists()
    assert going.exists()
    assert not (home.root / "reserve").exists()
    removed = await remove(client, home, what, 0.0, NOW)
    assert [view.name for view in views(await fetch(client))] == ["going"]
    both = removed.after(freed)
    assert ([view.name for view in both.jobs], both.output, both.bytes) == (["over"], [over], 1000)
