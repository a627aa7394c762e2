"""The embedded cluster in one process: store, HTTP API, controllers, scheduler and node agent.

All parts use the store through the same client protocol, in process; users and their programs use the HTTP
API. The process runs until no client is attached and no job is unfinished, or, if it is to stay, until it is
stopped. When it stops, it also stops the containers, within their grace periods. It marks their pods as ended
by muster, which does not count as a failure: unfinished jobs start them again when the cluster is up again. A
process that is killed stops nothing; the next host takes its containers over.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from muster.api import kinds
from muster.api.base import Kind
from muster.api.kinds import JOB, JOBSET, POD
from muster.app.views import jobs, objects
from muster.app.wiring import event_loop
from muster.app.wiring.answers import answering
from muster.app.wiring.batch_jobs import Site
from muster.app.wiring.compile_queue import Compiler, Queue
from muster.app.wiring.controllers import CONTROLLERS
from muster.app.wiring.notifying import Notifying
from muster.app.wiring.state_directory import Endpoint, StateDirectory
from muster.compiler.facts import EMBEDDED_FACTS
from muster.controllers import driver
from muster.core.cycle import Scheduler
from muster.core.saved import saved
from muster.embedded import credentials, directories, machine, nodespec
from muster.embedded.client import LocalClient
from muster.embedded.http.api import http_api
from muster.embedded.http.serving import ServingError, serving
from muster.embedded.node.agent import NodeAgent
from muster.embedded.node.logs import Logs
from muster.embedded.nodespec import NodeSpec
from muster.embedded.storage.past import Past
from muster.embedded.storage.store import Store, StoreError
from muster.embedded.verbs.registry import Registry
from muster.journal import Journal, Tee
from muster.kube.clock import Clock, SystemClock, first
from muster.kube.informers import Informers
from muster.runtime import loop
from muster.runtime.budget import WriteBudget
from muster.runtime.group_events import GroupEvents
from muster.runtime.leader import Term
from muster.runtime.reports.conditions import ConditionReports
from muster.runtime.starts import Decisions
from muster.runtime.watched import WatchedMirror
from muster.translate.disclosure import EVERYTHING
from muster.workloads import secret_files

log = logging.getLogger(__name__)

#: Seconds between two checks whether the host is still needed.
LOOK: Final = 0.5


class StartError(Exception):
    """The cluster cannot start; the message says why."""


def main(home: StateDirectory, nodes: str, stays: bool, tell: Callable[[object], None]) -> None:
    """Runs the cluster of `home` until it stops; calls `tell` once with its endpoint.

    The caller holds the host's lock.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    event_loop.run(_until_told(home, nodes, stays, tell))


async def _until_told(home: StateDirectory, nodes: str, stays: bool, tell: Callable[[object], None]) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        specs = nodespec.read(nodes) if nodes else [machine.node()]
        async with running(home, specs, SystemClock()) as cluster:
            endpoint = Endpoint(
                cluster.server,
                os.getpid(),
                nodes,
                stays,
                continues=await unfinished(cluster.client),
                degraded=cluster.agent.degradation() or "",
            )
            home.announce(endpoint)
            tell(endpoint)
            if stays:
                await stop.wait()
            else:
                await first(stop.wait(), _until_unneeded(home, cluster.client, cluster.notifying.busy))
            home.withdraw()
    except (StoreError, ServingError, nodespec.InvalidNodes) as error:
        raise StartError(str(error)) from error


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running embedded cluster."""

    server: str
    client: LocalClient
    agent: NodeAgent
    notifying: Notifying


@asynccontextmanager
async def running(home: StateDirectory, nodes: list[NodeSpec], clock: Clock) -> AsyncIterator[Cluster]:
    """Runs the cluster while the context lasts. Raises StoreError, ServingError."""
    home.keep_reserve()
    credentials.ensure(home.root, clock.now())
    store = Store(home.store)
    embedded = site(home, clock, Queue(clock))
    controllers = [each for make in CONTROLLERS.values() for each in make(embedded)]
    scheduler, budget, decisions = Scheduler(), WriteBudget(), Decisions()
    journal = Journal(home.journal, state=partial(saved, scheduler))
    try:
        registry = Registry(store, clock=clock)
        logs = Logs(home.logs, clock)
        client = LocalClient(registry, logs)
        informers = Informers(client, clock)
        agent = NodeAgent(client, informers, root=home.root, nodes=nodes, clock=clock, logs=logs)
        notifying = Notifying(home.root, client, registry.past, clock)
        term, mirror = Term(store.epoch, sole=True), WatchedMirror(informers)
        events = GroupEvents(mirror, decisions, EVERYTHING, budget)
        scheduling = loop.run(
            *(client, informers, clock, term),
            scheduler=scheduler,
            journal=Tee([decisions, events, journal]),
            mirror=mirror,
            reports=[ConditionReports(scheduler, mirror, budget)],
            budget=budget,
        )
        token = credentials.token_file(home.root).read_text()
        async with (
            serving(http_api(registry, logs, token, agent), home.root, home.last_port()) as server,
            _together(
                informers.run(),
                driver.run(client, informers, controllers, clock),
                embedded.compiler.run(),
                scheduling,
                events.run(client, clock),
                answering(mirror, clock),
                agent.run(),
                _sweep_directories(home, client, registry.past, clock),
                notifying.run(),
            ),
        ):
            home.remember_port(int(server.rpartition(":")[2]))
            credentials.write_kubeconfig(home.root, server)
            await agent.ready.wait()
            try:
                yield Cluster(server, client, agent, notifying)
            finally:
                await agent.shutdown()
    finally:
        journal.close()
        store.close()


def site(home: StateDirectory, clock: Clock, compiler: Compiler) -> Site:
    """The cluster as BatchJobs are compiled for it. `home` has the files that play stores of secrets."""
    return Site(
        lambda: EMBEDDED_FACTS,
        now=clock.now,
        strict=False,
        stores=lambda: secret_files.read(home.root / "secrets"),
        lattice_jobs=True,
        compiler=compiler,
    )


async def unfinished(client: LocalClient) -> tuple[str, ...]:
    """The names of jobs for which this cluster still has work to do."""
    return tuple(view.name for view in jobs.views(await objects.fetch(client)) if view.needs_cluster)


async def _until_unneeded(
    home: StateDirectory, client: LocalClient, busy: Callable[[], bool] = lambda: False
) -> None:
    """Returns once no client is attached and no job is unfinished, or the state directory is deleted.

    Also waits until the cluster is not `busy`.

    Any other error (say, too many open files) is logged and the host stays: ending would stop running jobs.
    """
    needed_at = -1  # the last revision at which the host was needed: it still is needed while nothing changes
    trouble = ""  # the last error: it is logged once, not twice a second
    while True:
        await asyncio.sleep(LOOK)
        try:
            with home.nobody_attached() as alone:
                # No client can attach while the lock is held, and a later one finds no endpoint.
                revision = client.registry.store.revision
                if not alone or revision == needed_at:
                    continue
                if not await unfinished(client) and not await _pods_left(client):
                    if busy():
                        continue
                    home.withdraw()
                    return
                needed_at, trouble = revision, ""
        except FileNotFoundError:
            log.warning("%s has been removed, so this cluster cannot be reached any more", home.root)
            return
        except Exception as error:
            if trouble != (trouble := repr(error)):
                log.exception("cannot tell whether this cluster is still needed, so it stays: %s", error)


async def _pods_left(client: LocalClient) -> bool:
    """Whether pods are still terminating within their grace periods."""
    return any(not pod.terminal for pod in (await client.list(kinds.POD)).items)


#: Seconds between two removals of directories whose jobs have no record any more.
SWEEP: Final = 3_600.0


async def _sweep_directories(home: StateDirectory, client: LocalClient, past: Past, clock: Clock) -> None:
    while True:
        if directories.present(home.root):
            await _swept(home, client, past, clock)
        await clock.sleep(SWEEP)


async def _swept(home: StateDirectory, client: LocalClient, past: Past, clock: Clock) -> None:
    kinds_of_jobs: tuple[Kind[Any], ...] = (JOBSET, JOB, POD)  # Any: of several
    there = [each.metadata for kind in kinds_of_jobs for each in (await client.list(kind)).items]
    used = directories.Used.by(
        (meta.uid, meta.annotations) for meta in (*there, *(each.meta for each in past.jobs()))
    )
    await asyncio.to_thread(directories.sweep, home.root, used, clock.now().timestamp())


@asynccontextmanager
async def _together(*parts: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs the coroutines until the context ends; the context fails if one of them fails."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(part) for part in parts]
        yield
        for task in tasks:
            task.cancel()
