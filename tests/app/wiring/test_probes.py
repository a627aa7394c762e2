"""What a daemon answers to the cluster that runs it."""

import asyncio
import http.client
import socket
from collections.abc import Iterator

import aiohttp
import pytest
from prometheus_client import Gauge, Metric
from prometheus_client.registry import Collector

from muster.api import kinds
from muster.app.wiring import probes
from muster.app.wiring.probes import REFUSED, STUCK, State, serving
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.informers import Informers
from tests.patience import PATIENCE


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine the event loop may take long to get round to it."""
    monkeypatch.setattr(probes, "PATIENCE", PATIENCE)


def somewhere() -> str:
    with socket.socket() as free:
        free.bind(("127.83.71.5", 0))  # where nothing else takes the port meanwhile
        return "{}:{}".format(*free.getsockname())


def blocking(address: str, path: str) -> tuple[int, str]:
    """What is answered while the loop that calls this is blocked by the call."""
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


class OfTheLoop(Collector):
    """A metric that only the daemon's loop may read."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def collect(self) -> Iterator[Metric]:
        assert asyncio.get_running_loop() is self._loop
        metric = Metric("of_the_loop", "What it is.", "gauge")
        metric.add_sample("of_the_loop", {}, 7)
        yield metric


async def test_probes_are_answered_while_the_daemon_s_loop_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    state, address = State(), somewhere()
    state.informers, state.leads = Informers(LocalClient(Registry(Store(":memory:")))), lambda: True
    state.registry.register(OfTheLoop())
    async with serving(address, state):
        _, text = await asyncio.to_thread(blocking, address, "/metrics")
        assert "of_the_loop 7.0" in text
        monkeypatch.setattr(probes, "PATIENCE", 0.0)
        assert blocking(address, "/healthz") == (200, "ok\n")
        assert blocking(address, "/readyz") == (200, "ok, leads\n")
        status, text = blocking(address, "/metrics")
        assert status == 200
        assert "of_the_loop 7.0" in text
        assert "muster_leader 1.0" in text


async def test_a_daemon_whose_loop_is_stuck_is_not_healthy_and_recovers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probes, "PATIENCE", 0.0)
    state, address, now = State(), somewhere(), 1000.0
    state.monotonic = lambda: now
    state.beat()
    async with serving(address, state):
        await asyncio.to_thread(blocking, address, "/healthz")  # the loop has beaten
        now += STUCK
        assert blocking(address, "/healthz")[0] == 200
        now += 1
        assert blocking(address, "/healthz") == (503, "the event loop has not answered for 61 s\n")
        assert "muster_loop_silent_seconds 60.0" in blocking(address, "/metrics")[1]
        state.beat()
        assert blocking(address, "/healthz")[0] == 200


async def test_an_address_that_is_taken_is_an_error_of_the_daemon() -> None:
    with socket.socket() as taken:
        taken.bind(("127.83.71.6", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            async with serving("{}:{}".format(*taken.getsockname()), State()):
                pass


class Large(Collector):
    """More than a socket buffers."""

    def collect(self) -> Iterator[Metric]:
        metric = Metric("large", "What it is.", "gauge")
        for number in range(1_000):
            metric.add_sample("large", {"label": f"{number}".ljust(10_000, "x")}, 1)
        yield metric


async def test_a_scraper_that_does_not_read_does_not_keep_a_daemon() -> None:
    state, address = State(), somewhere()
    state.beside.register(Large())
    host, port = address.split(":")
    with socket.socket() as scraper:
        async with asyncio.timeout(50), serving(address, state):  # aiohttp would wait for 60 s
            scraper.connect((host, int(port)))
            scraper.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            scraper.settimeout(PATIENCE)
            assert await asyncio.to_thread(scraper.recv, 1)


async def test_a_daemon_is_ready_once_its_mirror_is_complete_and_shows_its_metrics() -> None:
    store = Store(":memory:")
    informers = Informers(LocalClient(Registry(store)))
    state = State()
    state.informers, state.kinds = informers, (kinds.NODE, kinds.POD)
    state.answered("GET", 429, 0.02)
    Gauge("answer", "What it is.", registry=state.registry).set(42)
    address = somewhere()
    async with serving(address, state), aiohttp.ClientSession(f"http://{address}") as user:

        async def asked(path: str) -> tuple[int, str]:
            async with user.get(path) as response:
                return response.status, await response.text()

        assert await asked("/healthz") == (200, "ok\n")
        status, text = await asked("/readyz")
        assert (status, text) == (503, "not ready, waits for the lease: cannot read nodes, pods\n")
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


@pytest.mark.parametrize(("seconds", "missing"), [(0.0, []), (REFUSED, []), (REFUSED + 1, ["pods"])])
def test_a_daemon_is_not_ready_once_a_kind_has_been_refused_for_a_while(
    seconds: float, missing: list[str]
) -> None:
    """A role that is applied again is away for seconds."""
    state, store = State(), Store(":memory:")
    informers = state.informers = Informers(LocalClient(Registry(store)))
    state.kinds = (kinds.NODE, kinds.POD)
    informers[kinds.NODE].synced.set()
    informers[kinds.POD].synced.set()
    informers[kinds.POD].refused_for = seconds
    assert state.missing() == missing
    store.close()
