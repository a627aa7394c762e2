"""Daemons for a real cluster: the scheduler and the controllers, each led by the holder of a Lease.

The election runs in a thread of its own, with connections of its own: nothing that the leader does, however
long it takes, delays a renewal. A daemon whose Lease is lost ends, and is to be started again. A daemon that
is told to stop releases the Lease, so that a replica takes over at once.
"""

import asyncio
import os
import signal
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from muster.api import kinds
from muster.controllers import driver, gang, garbage, jobset, podgroup
from muster.controllers.job import CONTROLLER as JOB
from muster.kube.client import Client
from muster.kube.clock import SystemClock
from muster.kube.http import Connection, HttpClient
from muster.kube.informers import Informers
from muster.local.node.fake_nodes import FakeNodes, OthersNode
from muster.local.nodespec import NodeSpec
from muster.runtime import loop
from muster.runtime.election import Election
from muster.runtime.leader import Term

__all__ = ["CONTROLLERS", "Lost", "OthersNode", "Place", "controllers", "fake_nodes", "scheduler"]

#: Every controller, by the name that `--only` takes.
CONTROLLERS: Final[dict[str, Callable[[], list[driver.Controller[Any]]]]] = {  # Any: of their observations
    "gang": lambda: [gang.controller()],
    "podgroup": lambda: [
        podgroup.controller(kinds.POD_GROUP_X),
        podgroup.controller(kinds.POD_GROUP_SIGS),
    ],
    "job": lambda: [JOB],
    "jobset": lambda: [jobset.controller()],
    "garbage": lambda: [garbage.controller()],
}
#: What a cluster with controllers of its own needs of them.
BESIDE_OTHERS: Final = ("gang", "podgroup")
#: Seconds that the release of the Lease may take.
RELEASE: Final = 5.0


class Lost(Exception):
    """The Lease has been lost: another replica may lead."""


@dataclass(frozen=True, slots=True)
class Place:
    """The Lease that the replicas of a daemon compete for."""

    namespace: str
    name: str


async def scheduler(
    connection: Connection, place: Place, schedulers: frozenset[str], listen: str = ""
) -> None:
    """Runs the scheduler until SIGTERM or SIGINT. Raises `Lost`, `Deposed`.

    `schedulers`: the values of `spec.schedulerName` of its pods. `listen`: HOST:PORT for `/healthz` and
    `/readyz`.
    """

    def lead(client: Client, informers: Informers, term: Term) -> Coroutine[Any, Any, None]:
        return loop.run(client, informers, SystemClock(), term, schedulers=schedulers)

    await _daemon(connection, place, lead, listen)


async def controllers(connection: Connection, place: Place, only: Iterable[str], listen: str = "") -> None:
    """Runs these of `CONTROLLERS` until SIGTERM or SIGINT. Raises `Lost`."""
    chosen = [controller for name in only for controller in CONTROLLERS[name]()]

    def lead(client: Client, informers: Informers, term: Term) -> Coroutine[Any, Any, None]:
        return driver.run(client, informers, chosen, SystemClock())

    await _daemon(connection, place, lead, listen)


async def fake_nodes(connection: Connection, nodes: list[NodeSpec], tell: Callable[[str], None]) -> None:
    """Plays simulated nodes until SIGTERM or SIGINT; the nodes stay. `tell` gets a line once they play."""
    stop = _told_to_stop()
    client = HttpClient(connection)
    informers = Informers(client, SystemClock())
    playing = FakeNodes(client, informers, nodes, SystemClock())

    async def announce() -> None:
        await playing.ready.wait()
        tell(f"{len(nodes)} nodes are ready; they stay so until this ends")
        await asyncio.Event().wait()

    tasks = [asyncio.create_task(part) for part in (informers.run(), playing.run(), announce(), stop.wait())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()


async def _daemon(
    connection: Connection,
    place: Place,
    lead: Callable[[Client, Informers, Term], Coroutine[Any, Any, None]],
    listen: str,
) -> None:
    stop = _told_to_stop()
    stopped = asyncio.create_task(stop.wait())
    async with _answering(listen), _candidate(connection, place) as candidate:
        won = asyncio.create_task(candidate.won())
        await asyncio.wait({won, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            won.cancel()
            return
        client = HttpClient(connection)
        informers = Informers(client, SystemClock())
        watching = asyncio.create_task(informers.run())
        leading = asyncio.create_task(lead(client, informers, won.result()))
        lost = asyncio.create_task(candidate.lost())
        try:
            await asyncio.wait({watching, leading, lost, stopped}, return_when=asyncio.FIRST_COMPLETED)
            for task in (leading, watching):
                if task.done():
                    task.result()
            if lost.done():
                raise Lost(f"lease {place.namespace}/{place.name} has been lost; another replica may lead")
        finally:
            for task in (leading, watching, lost):
                task.cancel()
            await asyncio.gather(leading, watching, lost, return_exceptions=True)
            await client.close()


def _told_to_stop() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set from now on."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


class Candidate:
    """An election in a thread of its own."""

    def __init__(self, connection: Connection, place: Place) -> None:
        self._connection, self._place = connection, place
        self._main = asyncio.get_running_loop()
        self._term: asyncio.Future[Term] = self._main.create_future()
        self._lost: asyncio.Future[None] = self._main.create_future()
        self._leave = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="election", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def won(self) -> Term:
        return await asyncio.shield(self._term)

    async def lost(self) -> None:
        await asyncio.shield(self._lost)

    async def leave(self) -> None:
        """Gives up the Lease, or the candidacy."""
        self._leave.set()
        await asyncio.to_thread(self._thread.join, RELEASE)

    async def _run(self) -> None:
        client = HttpClient(self._connection)
        identity = f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
        election = Election(client, SystemClock(), identity, self._place.namespace, self._place.name)
        leaving = asyncio.create_task(asyncio.to_thread(self._leave.wait))
        holding = asyncio.create_task(self._hold(election))
        try:
            await asyncio.wait({leaving, holding}, return_when=asyncio.FIRST_COMPLETED)
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)
            await election.release()
        finally:
            self._leave.set()
            await client.close()

    async def _hold(self, election: Election) -> None:
        term = await election.win()
        self._main.call_soon_threadsafe(self._term.set_result, term)
        await election.keep()
        self._main.call_soon_threadsafe(self._lost.set_result, None)


@asynccontextmanager
async def _candidate(connection: Connection, place: Place) -> AsyncIterator[Candidate]:
    candidate = Candidate(connection, place)
    candidate.start()
    try:
        yield candidate
    finally:
        await candidate.leave()


@asynccontextmanager
async def _answering(listen: str) -> AsyncIterator[None]:
    """Serves `/healthz` and `/readyz` on HOST:PORT; "": not at all.

    A replica that waits for the Lease is as ready as the leader. A daemon whose loop stands still does not
    answer, which is what a liveness probe looks for.
    """
    if not listen:
        yield
        return

    async def fine(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    host, _, port = listen.rpartition(":")
    app = web.Application()
    app.add_routes([web.get("/healthz", fine), web.get("/readyz", fine)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, int(port)).start()
        yield
    finally:
        await runner.cleanup()
