"""What a daemon answers to the cluster that runs it."""

import asyncio
import socket

import aiohttp
from prometheus_client import Gauge

from muster.api import kinds
from muster.app.wiring.probes import State, serving
from muster.kube.informers import Informers
from muster.local.client import LocalClient
from muster.local.registry import Registry
from muster.local.store import Store


async def test_a_daemon_is_ready_once_its_mirror_is_complete_and_shows_its_metrics() -> None:
    store = Store(":memory:")
    informers = Informers(LocalClient(Registry(store)))
    state = State()
    state.informers, state.kinds = informers, (kinds.NODE, kinds.POD)
    state.answered("GET", 429, 0.02)
    Gauge("answer", "What it is.", registry=state.registry).set(42)
    with socket.socket() as free:
        free.bind(("127.83.71.5", 0))  # where nothing else takes the port meanwhile
        address = "{}:{}".format(*free.getsockname())
    async with serving(address, state), aiohttp.ClientSession(f"http://{address}") as user:

        async def asked(path: str) -> tuple[int, str]:
            async with user.get(path) as response:
                return response.status, await response.text()

        assert await asked("/healthz") == (200, "ok\n")
        status, text = await asked("/readyz")
        assert (status, text) == (503, "not ready, waits for the lease: not listed yet: nodes, pods\n")
        watching = asyncio.create_task(informers.run())
        await informers.synced(state.kinds)
        assert await asked("/readyz") == (200, "ok, waits for the lease\n")
        state.leads = lambda: True
        assert await asked("/readyz") == (200, "ok, leads\n")
        status, text = await asked("/metrics")
        assert status == 200
        assert "answer 42.0" in text
        assert "muster_leader 1.0" in text
        assert 'muster_api_request_seconds_count{method="GET",status="429"} 1.0' in text
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    store.close()
