"""The recorded runs of jobs, also of those that have been deleted."""

from collections.abc import AsyncIterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from muster.api import groups, kinds
from muster.app.records import runs
from muster.app.wiring.cluster import Target
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from tests.app.records.test_past import POD, job

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Each reading is a second later."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing waits")


@pytest.fixture
async def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalClient]:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    StateDirectory.of_user().make()
    with closing(Store(StateDirectory.of_user().store)) as store:
        client = LocalClient(Registry(store, clock=Clock()))
        await client.create(kinds.NODE, "", {"metadata": {"name": "n"}})
        yield client


async def ran(client: LocalClient, name: str, pod: str, phase: str) -> None:
    """A Job of one pod that was made, and deleted."""
    await client.create(kinds.JOB, "default", job(name))
    labels = {"batch.kubernetes.io/job-name": name}
    meta = {"name": pod, "labels": labels}
    await client.create(kinds.POD, "default", {"metadata": meta, "spec": {**POD, "nodeName": "n"}})
    await client.patch(kinds.POD, "default", pod, {"status": {"phase": phase}}, subresource="status")
    await client.delete(kinds.JOB, "default", name, propagation="Background")


async def test_a_deleted_job_has_no_runs_of_an_earlier_job_of_its_name(client: LocalClient) -> None:
    await ran(client, "j", "first", "Failed")
    await ran(client, "j", "second", "Succeeded")
    await ran(client, "j-2", "other", "Failed")  # its name begins as that of the job
    found = runs.record(Target(), "j", "default", (), None)
    assert [run.name for run in found.runs] == ["second"]
    assert found.submitted is not None
    spans = [span for row in found.timeline(found.submitted).rows for span in row.spans]
    assert not any(span.failed for span in spans)


async def test_the_pods_of_a_group_are_its_runs_and_no_others_of_their_names(client: LocalClient) -> None:
    for group in ("pair", "pairr"):  # the second time, the same pod is of another group
        for name in ("left", f"of-{group}"):
            meta = {"name": name, "labels": {groups.POD_GROUP.label: group}}
            pod = await client.create(kinds.POD, "default", {"metadata": meta, "spec": POD})
            await client.delete(kinds.POD, "default", name)
    assert [run.name for run in runs.record(Target(), "pair", "default", (), None).runs] == [
        "left",
        "of-pair",
    ]
    last = runs.record(Target(), "pairr", "default", (), pod.metadata.creation_timestamp)
    assert [run.name for run in last.runs] == ["of-pairr"]
    assert (await runs.recorded(Target(), "pairr")).name == "pairr", "also if there has been no PodGroup"


async def test_a_job_that_was_deleted_before_it_had_pods_has_no_runs(client: LocalClient) -> None:
    await ran(client, "j", "first", "Failed")
    await client.create(kinds.JOB, "default", job("j"))
    await client.delete(kinds.JOB, "default", "j", propagation="Background")
    assert runs.record(Target(), "j", "default", (), None).runs == ()
