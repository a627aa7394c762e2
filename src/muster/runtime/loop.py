"""The live scheduler: one loop that observes, decides and commits.

    drain the mirror → update the core → let it decide → visit each gang that has changed → write

Deciding is pure and fast; writing is neither. The writes of one gang go out in order in a task of their own;
writes of different gangs run concurrently while the loop continues. The loop sleeps until something changes
or the next timer is due.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from muster.core.cycle import Scheduler
from muster.core.words.gang import GangId
from muster.effects import Patch
from muster.effects.execute import execute_all
from muster.journal import Recorder
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.informers import Informers
from muster.runtime.budget import WriteBudget
from muster.runtime.commit.view import Limits
from muster.runtime.leader import Deposed, Leader, Term
from muster.runtime.reports import Reports
from muster.runtime.reports.queues import QueueReports
from muster.runtime.reports.topology import TopologyReports
from muster.runtime.starts import COMMITTED
from muster.runtime.watched import WatchedMirror
from muster.runtime.writes import Write, only_reports
from muster.translate.disclosure import EVERYTHING, Disclosure

#: Seconds between two turns of the loop, so that it handles a burst of changes at once.
PACE = 0.005


async def run(
    client: Client,
    informers: Informers,
    clock: Clock,
    term: Term,
    *,
    scheduler: Scheduler | None = None,
    limits: Limits | None = None,
    journal: Recorder | None = None,
    timed: Callable[[float], None] | None = None,
    leading: asyncio.Event | None = None,
    mirror: WatchedMirror | None = None,
    reports: Sequence[Reports] = (),
    names: Disclosure = EVERYTHING,
    budget: WriteBudget | None = None,
) -> None:
    """Runs the scheduler until cancelled, or until `Deposed` is raised; the caller runs the informers.

    `leading` is set once this leader has recovered and decides. `timed` takes the seconds that each cycle of
    the core took. `mirror`: what it sees of the cluster, if the
    caller looks at it, too; by default all pods are muster's. `reports`: more than of queues and topology.
    `names`: which gangs of other namespaces a gang's status may name; by default all.
    `budget`: of all refreshes of statuses, if others share it.
    """
    budget = budget or WriteBudget()
    mirror = mirror or WatchedMirror(informers)
    core = scheduler or Scheduler()
    leader = Leader(client, clock, term, mirror, core, limits, journal, timed, names, budget)
    queues, topology = QueueReports(core.world.queues, mirror, budget), TopologyReports(core, mirror, budget)
    every: list[Reports] = [queues, topology, *reports]
    try:
        async with asyncio.TaskGroup() as tasks:
            await _lead(leader, every, tasks, leading)
    except ExceptionGroup as errors:
        deposed, others = errors.split(Deposed)
        if deposed is None or others is not None:
            raise
        raise term.lost() from None


async def _lead(
    leader: Leader, reports: Sequence[Reports], tasks: asyncio.TaskGroup, leading: asyncio.Event | None
) -> None:
    await leader.mirror.synced()
    await _take_over(leader)
    if leading is not None:
        leading.set()
    while True:
        for gang, writes in leader.turn():
            tasks.create_task(_commit(leader, gang, writes))
        for each in reports:
            for report in each.due(leader.clock.now()):
                tasks.create_task(_report(leader, each, report))
        now = leader.clock.now().timestamp()
        await _sleep(leader, min(leader.idle(), *(each.wait(now) for each in reports)))
        await leader.clock.sleep(PACE)


async def _take_over(leader: Leader) -> None:
    """1. Fence what an earlier leader could still write to. 2. Await the effect. 3. Adopt its open plans.

    Before 3, answers about devices are awaited that these plans need, for a few seconds.
    """
    while (found := leader.fences()) or not leader.ready():
        for outcome in await asyncio.gather(*map(leader.write, found)):
            leader.fenced(outcome)
        await _sleep(leader, leader.idle())
        await leader.clock.sleep(PACE)
    leader.adopt()


async def _commit(leader: Leader, gang: GangId, writes: Sequence[Write]) -> None:
    COMMITTED.set(gang)  # for this task, and so for what is logged in it
    write = partial(leader.write, reports=all(map(only_reports, writes)))
    leader.done(gang, await execute_all(writes, write))


async def _report(leader: Leader, reports: Reports, report: Patch) -> None:
    error = (await leader.write(report, reports=True)).error
    reports.written(report, error)
    if error is not None:
        leader.mirror.changed.set()  # the loop may be asleep, and has to write it again


async def _sleep(leader: Leader, seconds: float) -> None:
    """Sleeps until something changes, at most this long."""
    changed = asyncio.ensure_future(leader.mirror.changed.wait())
    timer = asyncio.ensure_future(leader.clock.sleep(seconds))
    try:
        await asyncio.wait({changed, timer}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        changed.cancel()
        timer.cancel()
