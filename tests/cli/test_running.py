"""What `muster run` does where its cluster does not do as it should."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from muster.api import kinds
from muster.app.wiring.cluster import Target
from muster.cli import running
from muster.cli.errors import Failure
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import ServerError
from muster.workloads.jobfile import Options, Source
from muster.workloads.load import load
from tests.patience import PATIENCE

POD = """
apiVersion: v1
kind: Pod
metadata: {name: solo}
spec: {containers: [{name: c, image: i, command: [x]}]}
"""


class Full(LocalClient):
    """Of a store on a disk that is full once the job is there; Ctrl-C follows at once."""

    async def create(self, *args: Any, **more: Any) -> Any:  # Any: passed on as it is
        created = await super().create(*args, **more)
        os.kill(os.getpid(), signal.SIGINT)
        return created

    async def delete(self, *args: Any, **more: Any) -> None:
        raise ServerError("the store failed: database or disk is full")


class Quick(LocalClient):
    """Ends every pod that it creates, and Ctrl-C follows at once."""

    async def create(self, kind: Any, namespace: str, obj: Any) -> Any:  # Any: as it is
        created = await super().create(kind, namespace, obj)
        if kind is kinds.POD:
            ended = {"exitCode": 3, "finishedAt": "2026-03-01T12:00:09Z"}
            container = {"name": "c", "restartCount": 0, "state": {"terminated": ended}}
            status = {"phase": "Failed", "containerStatuses": [container]}
            name = created.metadata.name
            await self.patch(kind, namespace, name, {"status": status}, subresource="status")
            os.kill(os.getpid(), signal.SIGINT)
        return created


async def test_a_finished_job_is_never_deleted_by_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(Store(":memory:")) as store:
        client = Quick(Registry(store))
        runner = of(client, monkeypatch)
        assert await asyncio.wait_for(runner.run(), PATIENCE) == 3, "the job's own exit code"
        assert [each.metadata.name for each in (await client.list(kinds.POD)).items] == ["solo"]
    assert "failed" in capsys.readouterr().out


async def test_a_disk_that_fills_up_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = [None, Path("/h"), Path("/h"), None]

    def full_disk(target: Target) -> Path | None:
        if len(looks) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return looks.pop(0) if looks else None

    monkeypatch.setattr(running, "full_disk", full_disk)
    monkeypatch.setattr(running, "LOOK", 0)
    with closing(Store(":memory:")) as store:
        await asyncio.wait_for(of(LocalClient(Registry(store)), monkeypatch).run(), PATIENCE)
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("note: ")]
    assert [line.partition(" is nearly full")[0] for line in told] == [
        "note: the disk of /h",
        "note: the disk of /h has free space again",
    ]


class Endless(LocalClient):
    """Accepts deletions and does nothing; each is followed by another Ctrl-C."""

    async def create(self, *args: Any, **more: Any) -> Any:  # Any: passed on as it is
        created = await super().create(*args, **more)
        os.kill(os.getpid(), signal.SIGINT)
        return created

    async def delete(self, *args: Any, **more: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)


async def test_a_third_ctrl_c_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Store(":memory:")) as store:
        runner = of(Endless(Registry(store)), monkeypatch)
        with pytest.raises(Failure, match=r"solo: no longer waiting") as left:
            await asyncio.wait_for(runner.run(), PATIENCE)
    assert left.value.exit_code == 130


def of(client: LocalClient, monkeypatch: pytest.MonkeyPatch) -> running.Runner:
    """What runs a pod by this client."""

    @asynccontextmanager
    async def acting(*target: object) -> AsyncIterator[LocalClient]:
        yield client

    monkeypatch.setattr(running, "acting", acting)
    return running.Runner(
        load("f.yaml", Options(suffix="0" * 8), text=POD),
        Target("of-a-real-cluster"),
        None,
        Source("f.yaml", "me@here"),
        load=partial(load, "f.yaml"),
    )


async def test_a_job_that_cannot_be_cancelled_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(":memory:")
    client = Full(Registry(store))
    runner = of(client, monkeypatch)
    with pytest.raises(Failure, match=r"could not be cancelled: .*disk is full.*may still run") as refused:
        await asyncio.wait_for(runner.run(), PATIENCE)
    assert refused.value.exit_code == 1
    assert "cancelling" in capsys.readouterr().out
    assert len((await client.list(kinds.POD)).items) == 1
    store.close()
