"""What a daemon serves to the cluster that runs it: `/healthz`, `/readyz` and `/metrics`.

They are served by a thread with an event loop of its own, so that they are answered while the daemon's loop
computes. The daemon's loop beats once a second. A daemon is healthy while its loop has beaten within the last
`STUCK` seconds. It is ready while its mirror is complete, whether it leads or waits for the Lease: a replica
that waits is what takes over, and only a ready one does. Metrics are collected on the daemon's loop, which
owns what they read. If it does not get round to that within `PATIENCE` seconds, the last ones are served
again, with how long the loop has not answered (`muster_loop_silent_seconds`).
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from typing import Final

import prometheus_client as prometheus
from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder

from muster.api.base import AnyKind
from muster.app.wiring.guests import Guests
from muster.kube.informers import Informers

#: Seconds without a beat of its loop after which a daemon counts as stuck. One decision, or the first reading
#: of a large cluster, takes some seconds at most.
STUCK: Final = 60.0
#: Seconds after which a mirror counts as incomplete if a kind is refused. A role or a definition that is
#: replaced is gone for some seconds.
REFUSED: Final = 60.0
#: Seconds between two beats, and seconds that a scrape waits for the loop to collect metrics.
BEAT: Final = 1.0
PATIENCE: Final = 2.0


class State:
    """What the probes report of a daemon, and the metrics that every daemon has."""

    def __init__(self) -> None:
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # half of all series
        #: collected on the daemon's loop
        self.registry = CollectorRegistry()
        #: collected by the thread that serves, whatever the daemon's loop does
        self.beside = CollectorRegistry()
        self.informers: Informers | None = None
        self.kinds: Sequence[AnyKind] = ()
        #: whether this replica leads
        self.leads: Callable[[], bool] = lambda: False
        self.monotonic = time.monotonic
        self._beaten = self.monotonic()
        prometheus.ProcessCollector(registry=self.beside)
        prometheus.Gauge(
            "muster_loop_silent_seconds",
            "Time for which the event loop has computed without a pause, up to now.",
            registry=self.beside,
        ).set_function(lambda: max(self.silent - BEAT, 0.0))
        prometheus.Gauge("muster_leader", "1 on the replica that leads.", registry=self.beside).set_function(
            lambda: float(self.leads())
        )
        self._requests = prometheus.Histogram(
            "muster_api_request_seconds",
            "Requests to the API server by their answer, without watches.",
            ["method", "status"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0),
            registry=self.registry,
        )

    def answered(self, method: str, status: int, seconds: float) -> None:
        """Counts a request that the API server has answered."""
        self._requests.labels(method, str(status)).observe(seconds)

    def beat(self) -> None:
        """Notes that the daemon's loop runs."""
        self._beaten = self.monotonic()

    @property
    def silent(self) -> float:
        """Seconds since the last beat of the daemon's loop."""
        return self.monotonic() - self._beaten

    def missing(self) -> list[str]:
        """Returns the kinds that have not been listed yet, or that the API server no longer shows.

        Any thread may ask.
        """
        if self.informers is None:
            return ["everything"]
        read = {str(kind.plural): self.informers[kind] for kind in self.kinds}
        return [name for name, each in read.items() if not each.synced.is_set() or each.refused_for > REFUSED]


@asynccontextmanager
async def serving(listen: str, state: State) -> AsyncIterator[None]:
    """Serves on HOST:PORT while the context lasts; "": not at all. Raises OSError if it cannot."""
    if not listen:
        yield
        return
    server = _Server(listen, state)
    await server.start()
    beating = asyncio.create_task(_beat(state))
    try:
        yield
    finally:
        beating.cancel()
        await server.stop()


async def _beat(state: State) -> None:
    while True:
        state.beat()
        await asyncio.sleep(BEAT)


class _Server:
    """The HTTP server, in a thread of its own."""

    def __init__(self, listen: str, state: State) -> None:
        self._listen, self._state = listen, state
        self._main, self._started = asyncio.get_running_loop(), Future[None]()
        self._loop = asyncio.new_event_loop()
        self._leave = asyncio.Event()
        #: the metrics that the daemon's loop collected last
        self._collected: Sequence[Metric] = ()
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    async def start(self) -> None:
        self._thread.start()
        await asyncio.wrap_future(self._started)

    async def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._leave.set)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        app = web.Application(middlewares=[_once])
        routes = {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics}
        app.add_routes([web.get(path, answer) for path, answer in routes.items()])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        assert runner.server is not None, "it has been set up"
        guests = Guests(runner.server)
        host, _, port = self._listen.rpartition(":")
        try:
            server = await self._loop.create_server(guests, host.strip("[]") or None, int(port))
        except OSError as error:
            self._started.set_exception(error)
        else:
            self._started.set_result(None)
            await self._leave.wait()
            server.close()
        finally:
            guests.close()
            await runner.cleanup()
            await asyncio.sleep(0)  # the loop informs the protocols of what was aborted

    async def _healthz(self, _: web.Request) -> web.Response:
        if (silent := self._state.silent) > STUCK:
            return web.Response(text=f"the event loop has not answered for {silent:.0f} s\n", status=503)
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        state = self._state
        role = "leads" if state.leads() else "waits for the lease"
        if missing := state.missing():
            return web.Response(text=f"not ready, {role}: cannot read {', '.join(missing)}\n", status=503)
        return web.Response(text=f"ok, {role}\n")

    async def _metrics(self, request: web.Request) -> web.Response:
        collecting = asyncio.run_coroutine_threadsafe(self._collect(), self._main)
        with suppress(TimeoutError):
            self._collected = await asyncio.wait_for(asyncio.wrap_future(collecting), PATIENCE)
        encode, media = choose_encoder(request.headers.get("Accept", ""))
        found = _Collected([*self._state.beside.collect(), *self._collected])
        return web.Response(body=encode(found), headers={"Content-Type": media})

    async def _collect(self) -> Sequence[Metric]:
        return [*self._state.registry.collect()]


@web.middleware
async def _once(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers one request of a connection: its time is bounded, and so none ends in the next answer."""
    response = await handler(request)
    response.force_close()
    return response


class _Collected:
    """Metrics in the form in which they are encoded."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics
