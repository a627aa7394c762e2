"""Daemons for a real cluster: the scheduler and the controllers, each led by the holder of a Lease.

The election runs in a thread of its own, with connections of its own: nothing that the leader does, however
long it takes, delays a renewal. A daemon that loses its Lease exits, and its supervisor (the kubelet) starts
it again. A daemon that is stopped by a signal releases the Lease, so that a replica takes over at once. A
replica that waits for the Lease keeps its mirror complete meanwhile, so that it can act as soon as it leads.
"""

import asyncio
import os
import signal
import socket
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from muster.api import duration, kinds, quantity, rates, selectors
from muster.api.base import AnyKind, Kind, Object, R, revision
from muster.api.fields import Finding
from muster.api.kinds import POD
from muster.api.scheduled_pod import SCHEDULED_POD
from muster.app.wiring import logs, settings
from muster.app.wiring.answers import answering
from muster.app.wiring.batch_site import ClusterSite
from muster.app.wiring.compile_queue import Queue
from muster.app.wiring.controllers import CONTROLLERS
from muster.app.wiring.probes import State, serving
from muster.app.wiring.settings import Common, ControllersSettings, LeaderElection, Live, SchedulerSettings
from muster.controllers import driver
from muster.core.cycle import Scheduler
from muster.core.saved import saved
from muster.embedded.node.fake_nodes import FakeNodes, OthersNode
from muster.embedded.nodespec import NodeSpec
from muster.journal import Journal, Recorder, Tee
from muster.kube.client import Client, Patch
from muster.kube.clock import SystemClock, first
from muster.kube.credentials import in_thread
from muster.kube.http import Connection, HttpClient
from muster.kube.informers import Informers
from muster.kube.throttle import Bucket
from muster.names import ADOPTS, AWAITS, BAD_NODES, SCHEDULES
from muster.runtime import loop
from muster.runtime.budget import WriteBudget
from muster.runtime.election import Election, Timing
from muster.runtime.group_events import GroupEvents
from muster.runtime.leader import Deposed, Term
from muster.runtime.metrics import ClusterState, Metrics
from muster.runtime.mirror import WATCHED
from muster.runtime.namesakes import taken
from muster.runtime.reports.conditions import ConditionReports
from muster.runtime.starts import Decisions, InDecision
from muster.runtime.watched import WatchedMirror
from muster.translate import adopted, bad_nodes
from muster.translate.disclosure import Disclosure
from muster.workloads.findings import nearest

if TYPE_CHECKING:
    from muster.runtime.tracing import Spans

__all__ = ["OthersNode", "controllers", "fake_nodes", "known_controllers", "scheduler"]

#: Seconds that the release of the Lease may take.
RELEASE: Final = 5.0
#: The environment variable with the uid of the pod, which the chart sets (`metadata.uid`).
POD_UID: Final = "MUSTER_POD_UID"


def known_controllers(chosen: ControllersSettings) -> list[Finding]:
    """Returns an error for each name that is no controller's."""
    unknown = [(index, name) for index, name in enumerate(chosen.only) if name not in CONTROLLERS]
    return [
        Finding(("only", index), f"no controller is called {name!r}{nearest(name, CONTROLLERS)}")
        for index, name in unknown
    ]


class MeasuredClient(HttpClient):
    """A client that reports which revision it has written, for the lag of the watches."""

    #: takes the kind and the revision of an object that has been created or patched
    wrote: Callable[[AnyKind, int], None] = staticmethod(lambda kind, revision: None)

    async def create(self, kind: Kind[R], namespace: str, obj: Object) -> R:
        made = await super().create(kind, namespace, obj)
        self.wrote(kind, revision(made.metadata.resource_version))
        return made

    async def patch(
        self, kind: Kind[R], namespace: str, name: str, patch: Patch, *, subresource: str = ""
    ) -> R:
        patched = await super().patch(kind, namespace, name, patch, subresource=subresource)
        self.wrote(kind, revision(patched.metadata.resource_version))
        return patched


@dataclass(frozen=True, slots=True)
class Part:
    """What the leading part of a daemon works with."""

    client: MeasuredClient
    informers: Informers
    state: State


async def scheduler(connection: Connection, live: Live[SchedulerSettings]) -> None:
    """Runs the scheduler until SIGTERM or SIGINT. Raises `Deposed`, `InvalidSettings`."""
    trace, closing = _tracing(live), list[Callable[[], None]]()
    priced = f"{settings.place(live.now)[0]}/{rates.NAME}"

    def lead(part: Part, term: Term) -> Coroutine[Any, Any, None]:
        now = live.now
        lease = "/".join(settings.place(now))
        policies = part.informers[kinds.ADMITTING[0]].items.values()
        for name, whose in taken(now.scheduler_names, lease, policies).items():
            raise settings.InvalidSettings(
                f"schedulerNames: {name} is served by the scheduler of lease {whose} already, which is of an "
                "earlier release; give this one another name, or uninstall the other"
            )
        selector = selectors.parse(now.node_selector)
        mirror = WatchedMirror(
            part.informers,
            frozenset(now.scheduler_names),
            selector,
            priced,
            kinds.ADMITTING,
            lease,
            frozenset(now.victim_namespaces),
            now.max_priority,
            now.bad_nodes.counted(),
            frozenset(now.adopt_queues),
            frozenset(now.await_pod_groups),
        )
        mirror.avoid(now.bad_nodes.rules())
        live.changed.append(lambda now: mirror.use(selectors.parse(now.node_selector)))
        decisions = Decisions()
        metrics = Metrics(part.state.registry, decisions, part.informers)
        core = Scheduler()
        part.state.registry.register(ClusterState(mirror, core, decisions, part.informers))
        part.client.wrote = metrics.wrote
        logs.add(InDecision(decisions))
        if trace is not None:
            closing.append(trace(now.tracing.endpoint, decisions).close)
        names = Disclosure(mirror.names, everything=now.explanations == "all")
        budget = WriteBudget()
        events = GroupEvents(mirror, decisions, names, budget)
        recorders: list[Recorder] = [decisions, metrics, events]
        if now.journal.file:
            limit = quantity.capacity("memory", now.journal.size)
            recorders.append(Journal(FilePath(now.journal.file), limit, partial(saved, core)))
        scheduling = loop.run(
            part.client,
            part.informers,
            SystemClock(),
            term,
            scheduler=core,
            journal=Tee(recorders),
            timed=metrics.cycles.observe,
            mirror=mirror,
            reports=[ConditionReports(core, mirror, budget)],
            names=names,
            budget=budget,
        )
        return first(scheduling, events.run(part.client, SystemClock()), answering(mirror, SystemClock()))

    try:
        await _daemon(
            connection,
            live,
            (*WATCHED, *kinds.ADMITTING, kinds.CONFIG_MAP),
            lead,
            {kinds.CONFIG_MAP: priced},
            {kinds.POD: SCHEDULED_POD},
            {
                BAD_NODES: bad_nodes.written(live.now.bad_nodes),
                SCHEDULES: ",".join(live.now.scheduler_names),
                ADOPTS: adopted.written(live.now.adopt_queues),
                AWAITS: ",".join(live.now.await_pod_groups),
            },
        )
    finally:  # the Lease has been released by now
        with suppress(TimeoutError):
            async with asyncio.timeout(RELEASE):
                for close in closing:
                    await in_thread(close)


def _tracing(live: Live[SchedulerSettings]) -> "Callable[[str, Decisions], Spans] | None":
    """What follows decisions with spans; None if none are to be sent."""
    if not live.now.tracing.endpoint:
        return None
    try:
        from muster.runtime.tracing import to
    except ImportError:
        raise settings.InvalidSettings(
            f"{live.file}: tracing.endpoint needs OpenTelemetry: pip install 'muster-scheduler[tracing]'"
        ) from None
    return to


async def controllers(connection: Connection, live: Live[ControllersSettings]) -> None:
    """Runs these of `CONTROLLERS` until SIGTERM or SIGINT. Raises `Deposed`."""
    clock = SystemClock()
    place, names = settings.place(live.now)[0], frozenset(live.now.scheduler_names)
    site = ClusterSite(live.now.batch_jobs, place, clock, Queue(clock), names)
    chosen = [controller for name in live.now.only for controller in CONTROLLERS[name](site.site)]
    watched = [watch.kind for controller in chosen for watch in controller.watches]
    indexed = [index.kind for controller in chosen for index in controller.indexes]

    async def lead(part: Part, term: Term) -> None:
        parts = [driver.run(part.client, part.informers, chosen, clock)]
        if "batchjob" in live.now.only:
            await site.look(part.client)
            parts.append(site.run(part.client))
        await first(*parts)

    priced = f"{place}/{rates.NAME}"
    kinds_ = tuple(dict.fromkeys([*watched, *indexed]))
    await _daemon(connection, live, kinds_, lead, {kinds.CONFIG_MAP: priced})


async def fake_nodes(connection: Connection, nodes: list[NodeSpec], tell: Callable[[str], None]) -> None:
    """Plays simulated nodes until SIGTERM or SIGINT; the nodes stay. `tell` gets a line once they play."""
    stop = _told_to_stop()
    client = HttpClient(connection)
    informers = Informers(client, SystemClock(), streaming=True)
    playing = FakeNodes(client, informers, nodes, SystemClock())

    async def announce() -> None:
        await playing.ready.wait()
        tell(f"{len(nodes)} nodes are ready, until this command ends")
        await asyncio.Event().wait()

    try:
        await first(informers.run(), playing.run(), announce(), stop.wait())
    finally:
        await client.close()


async def _daemon(
    connection: Connection,
    live: Live[Any],  # Any: settings of any daemon
    kinds: Sequence[AnyKind],
    lead: Callable[[Part, Term], Coroutine[Any, Any, None]],
    single: Mapping[AnyKind, str] | None = None,
    views: Mapping[AnyKind, AnyKind] | None = None,
    told: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """`told`: annotations of the Lease while this replica leads."""
    stop = _told_to_stop()
    bucket = Bucket(live.now.qps, live.now.burst)

    def changed(now: Common) -> None:
        logs.configure(now.log)
        bucket.set(now.qps, now.burst)

    live.changed.append(changed)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, live.reload)
    state = State()
    client = MeasuredClient(connection, bucket, state.answered)
    informers = Informers(client, SystemClock(), streaming=True, single=single, views=views)
    for kind in kinds:
        informers[kind]  # from here on a replica watches, also while it waits for the Lease
    state.informers, state.kinds = informers, kinds
    async with (
        _running(client, informers.run(), live.follow(SystemClock())) as beside,
        serving(live.now.listen, state),
        _candidate(
            connection, live.now, lambda: revision(informers[POD].resource_version), state.missing, told
        ) as candidate,
    ):
        stopped = asyncio.create_task(stop.wait())
        won = asyncio.create_task(candidate.won())
        await _first(won, stopped, *beside)
        if stop.is_set():
            won.cancel()
            return
        term = won.result()
        state.leads = term.fresh
        leading = asyncio.create_task(lead(Part(client, informers, state), term))
        lost = asyncio.create_task(candidate.lost())
        try:
            await _first(leading, lost, stopped, *beside)
            if lost.done():
                raise Deposed(f"lease {live.now.lease} has been lost; another replica may lead")
        finally:
            for task in (leading, lost, stopped):
                task.cancel()
            await asyncio.gather(leading, lost, stopped, return_exceptions=True)


async def _first(*tasks: asyncio.Task[Any]) -> None:  # Any: results of any type
    """Waits until one of the tasks is done. Raises what one of them has raised."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


@asynccontextmanager
async def _running(
    client: Client, *parts: Coroutine[Any, Any, None]
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Runs what runs beside the election, leader or not, and closes the client at the end."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()


def _told_to_stop() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set from now on."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


class Candidate:
    """An election in a thread of its own."""

    def __init__(
        self,
        connection: Connection,
        where: Common,
        missing: Callable[[], Sequence[str]] = tuple,
        told: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._connection, self._where, self._missing, self._told = connection, where, missing, told
        self._main = asyncio.get_running_loop()
        self._term: asyncio.Future[Term] = self._main.create_future()
        self._lost: asyncio.Future[None] = self._main.create_future()
        self._leave = threading.Event()
        self._pods_seen = 0
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="election", daemon=True)

    def start(self) -> None:
        self._thread.start()

    async def won(self) -> Term:
        return await asyncio.shield(self._term)

    async def lost(self) -> None:
        await asyncio.shield(self._lost)

    async def leave(self, pods_seen: int) -> None:
        """Gives up the Lease, or the candidacy. `pods_seen`: the resourceVersion of the latest pod seen."""
        self._pods_seen = pods_seen
        self._leave.set()
        await asyncio.to_thread(self._thread.join, RELEASE)

    async def _run(self) -> None:
        client = HttpClient(self._connection)
        mine = instance()
        election = Election(
            client,
            SystemClock(),
            f"{mine}{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}",
            *settings.place(self._where),
            _timing(self._where.leader_election),
            missing=self._missing,
            instance=mine,
            told=self._told,
        )
        holding = asyncio.create_task(self._hold(election))
        try:
            await asyncio.to_thread(self._leave.wait)  # also after the Lease is lost: what leads ends first
            holding.cancel()
            await asyncio.gather(holding, return_exceptions=True)
            await election.release(self._pods_seen)
        finally:
            self._leave.set()
            await client.close()

    async def _hold(self, election: Election) -> None:
        """Wins the Lease and keeps it. A failure is passed to the daemon, which ends: no other part would."""
        waits: asyncio.Future[Any] = self._term  # Any: the term, or nothing
        try:
            term = await election.win()
            self._main.call_soon_threadsafe(waits.set_result, term)
            waits = self._lost
            await election.keep()
            self._main.call_soon_threadsafe(waits.set_result, None)
        except Exception as error:
            self._main.call_soon_threadsafe(waits.set_exception, error)


def instance() -> str:
    """How the identities of all main processes of this container begin; "" outside of one, or if unknown.

    Of the first process of a PID namespace there is only one: the kubelet starts a container again after its
    first process has ended, and all others of the namespace end with that.
    """
    pod = os.environ.get(POD_UID, "")
    return f"{pod}_" if pod and os.getpid() == 1 else ""


def _timing(times: LeaderElection) -> Timing:
    lasts, deadline, retry = map(
        duration.parse, (times.lease_duration, times.renew_deadline, times.retry_period)
    )
    return Timing(lasts, deadline, retry)


@asynccontextmanager
async def _candidate(
    connection: Connection,
    where: Common,
    pods_seen: Callable[[], int],
    missing: Callable[[], Sequence[str]],
    told: Mapping[str, str],
) -> AsyncIterator[Candidate]:
    candidate = Candidate(connection, where, missing, told)
    candidate.start()
    try:
        yield candidate
    finally:
        await candidate.leave(pods_seen())
