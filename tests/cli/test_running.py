"""What `muster run` does where its cluster does not do as it should."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from muster.api import kinds
from muster.app.cluster import Target
from muster.cli import running
from muster.cli.errors import Failure
from muster.kube.errors import ServerError
from muster.local.client import LocalClient
from muster.local.registry import Registry
from muster.local.store import Store
from muster.workloads.load import load

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


async def test_a_job_that_cannot_be_cancelled_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(":memory:")
    client = Full(Registry(store))

    @asynccontextmanager
    async def acting(*target: object) -> AsyncIterator[LocalClient]:
        yield client

    monkeypatch.setattr(running, "acting", acting)
    runner = running.Runner(load("f.yaml", text=POD, suffix="0" * 8), Target("of-a-real-cluster"), None)
    with pytest.raises(Failure, match=r"could not be cancelled: .*disk is full.*may go on") as refused:
        await asyncio.wait_for(runner.run(), 10)
    assert refused.value.exit_code == 1
    assert "cancelling" in capsys.readouterr().out
    assert len((await client.list(kinds.POD)).items) == 1
    store.close()
