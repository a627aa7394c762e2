"""A scheduler in the test's own process, as muster's account, whose requests the test can hold back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from muster.api import rates
from muster.api.base import Object
from muster.api.kinds import CONFIG_MAP
from muster.kube import config
from muster.kube.clock import SystemClock
from muster.kube.http import HttpClient
from muster.kube.informers import Informers
from muster.names import SCHEDULER
from muster.runtime import loop
from muster.runtime.leader import Term
from muster.runtime.watched import WatchedMirror
from tests.cluster.conftest import Cluster


class HeldBack(HttpClient):
    """A client that binds so many pods of some gangs, and the others of them once `opened` is set."""

    def __init__(self, cluster: Cluster, first: dict[str, int]) -> None:
        super().__init__(config.load(str(cluster.chart.kubeconfig("scheduler"))))
        self.opened = asyncio.Event()
        self._left = dict(first)

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        gang = name.rpartition("-")[0]
        if gang in self._left:
            self._left[gang] -= 1
            if self._left[gang] < 0:
                await self.opened.wait()
        await super().bind(namespace, name, binding)


@asynccontextmanager
async def leading(client: HttpClient) -> AsyncIterator[None]:
    """Runs the scheduler with this client, and closes it. The scheduler must be up until the end."""
    informers = Informers(client, SystemClock(), single={CONFIG_MAP: rates.KEY})
    mirror = WatchedMirror(informers, frozenset({SCHEDULER}))
    scheduler = loop.run(client, informers, SystemClock(), Term(1), mirror=mirror)
    tasks = [asyncio.create_task(part) for part in (informers.run(), scheduler)]
    try:
        yield
        assert not any(task.done() for task in tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
