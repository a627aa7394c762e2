"""What a daemon serves to the cluster that runs it: `/healthz`, `/readyz` and `/metrics`.

A daemon is healthy while its event loop answers. It is ready once its mirror is complete, whether it leads
or waits for the Lease: a replica that waits is what takes over.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import prometheus_client as prometheus
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from muster.api.base import AnyKind
from muster.kube.informers import Informers


class State:
    """What the probes report of a daemon, and the metrics that every daemon has."""

    def __init__(self) -> None:
        prometheus.disable_created_metrics()  # type: ignore[no-untyped-call]  # half of all series
        self.registry = CollectorRegistry()
        self.informers: Informers | None = None
        self.kinds: Sequence[AnyKind] = ()
        #: whether this replica leads
        self.leads: Callable[[], bool] = lambda: False
        prometheus.ProcessCollector(registry=self.registry)
        prometheus.Gauge(
            "muster_leader", "1 on the replica that leads.", registry=self.registry
        ).set_function(lambda: float(self.leads()))
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

    def missing(self) -> list[str]:
        """Returns the kinds that have not been listed yet."""
        if self.informers is None:
            return ["everything"]
        return [str(kind.plural) for kind in self.kinds if not self.informers[kind].synced.is_set()]


@asynccontextmanager
async def serving(listen: str, state: State) -> AsyncIterator[None]:
    """Serves on HOST:PORT while the context lasts; "": not at all."""
    if not listen:
        yield
        return

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        role = "leads" if state.leads() else "waits for the lease"
        if missing := state.missing():
            return web.Response(text=f"not ready, {role}: not listed yet: {', '.join(missing)}\n", status=503)
        return web.Response(text=f"ok, {role}\n")

    async def metrics(request: web.Request) -> web.Response:
        encode, media = choose_encoder(request.headers.get("Accept", ""))
        return web.Response(body=encode(state.registry), headers={"Content-Type": media})

    host, _, port = listen.rpartition(":")
    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host.strip("[]") or None, int(port)).start()
        yield
    finally:
        await runner.cleanup()
