"""What a daemon serves to the cluster that runs it: `/healthz`, `/readyz` and `/metrics`.

A daemon is healthy while its event loop answers. It is ready once its mirror is complete, whether it leads
or waits for the Lease: a replica that waits is what takes over.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from muster.api.base import AnyKind
from muster.kube.informers import Informers


@dataclass(eq=False)
class State:
    """What the probes report of a daemon."""

    informers: Informers
    kinds: Sequence[AnyKind]
    #: whether this replica leads
    leads: Callable[[], bool] = lambda: False
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def missing(self) -> list[str]:
        """Returns the kinds that have not been listed yet."""
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
