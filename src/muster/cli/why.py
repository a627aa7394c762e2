"""`muster why JOB…`: shows the reason why a job waits, the blockers, the remedies and the expected start."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from muster.cli.options import AnyJobNames, Context, Kubeconfig, Namespace, Output, OutputFormat, any_job
from muster.cli.say import say

if TYPE_CHECKING:
    from muster.api.base import Object
    from muster.app.views.find import Meant
    from muster.app.wiring.cluster import Target
    from muster.kube.client import Client

#: seconds within which the scheduler has considered a job that was just submitted, and between two queries
FIRST_LOOK: Final = 5.0
ASK: Final = 0.05


def command(
    jobs: AnyJobNames = None,
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.wiring.cluster import Target
    from muster.cli import show

    target = Target(kubeconfig, context, namespace)

    async def look() -> list[Answer]:
        return [await _answer(target, job) for job in any_job(jobs)]

    answers = asyncio.run(look())
    show.meant([each.meant for each in answers])
    if output is not Output.TABLE:
        told = [_json(each) for each in answers]
        show.machine(told[0] if len(told) == 1 else told, output)
        return
    for number, each in enumerate(answers):
        if number:
            say("")
        _say(each, target)


@dataclass(frozen=True, slots=True)
class Answer:
    meant: "Meant"
    #: the explanation of a waiting job whose pods are independent
    alone: "Object | None"
    #: what the container that failed first printed last
    printed: list[str]
    #: why pods cannot be created
    short: list[str]


async def _answer(target: "Target", job: str | None) -> Answer:
    import asyncio
    import time

    from muster.api.kinds import BATCH_JOB
    from muster.app.records import past
    from muster.app.views import find
    from muster.app.views.job import State
    from muster.app.views.logs import last_lines
    from muster.app.views.objects import fetch
    from muster.app.views.why import asked, uncreated
    from muster.app.wiring.cluster import archive, hosted, reading

    deadline = time.monotonic() + FIRST_LOOK
    async with reading(target) as client:
        while True:
            there = await fetch(client, find.scoped(job, target.scope)[1])
            try:
                found = past.among(there, job, target)
            except find.UnknownJob:
                schedule = await _schedule(client, job, target)
                if schedule is None:
                    raise
                found = schedule
            view = found.view
            if view.state is not State.WAITING or view.kind is BATCH_JOB:
                first = view.verdict.first if view.verdict and view.state is not State.SUCCEEDED else None
                kept = archive(target)
                lines = await last_lines(client, first, archive=kept) if first else []
                return Answer(found, None, lines, await uncreated(client, view))
            if view.reason is not None or not hosted(target) or time.monotonic() > deadline:
                view, alone = await asked(client, there, view, time.time(), target.schedulers)
                return Answer(replace(found, view=view), alone, [], await uncreated(client, view))
            await asyncio.sleep(ASK)


async def _schedule(client: "Client", job: str | None, target: "Target") -> "Meant | None":
    """The CronJob of that name or prefix. Its Jobs are jobs of their own."""
    from muster.api.kinds import CRON_JOB
    from muster.app.views import find, schedules
    from muster.kube.errors import Forbidden
    from muster.kube.listing import list_all

    if not job:
        return None
    own, namespace = find.scoped(job, target.scope)
    try:
        there = (await list_all(client, CRON_JOB, namespace, missing_ok=True)).items
    except Forbidden:
        return None
    found = find.matched(own, [schedules.view(each) for each in there])
    return find.meant(found) if found is not None else None


def _json(answer: Answer) -> "Object":
    import msgspec

    from muster.api.kinds import BATCH_JOB
    from muster.app.views import summary

    view = answer.meant.view
    told = {"gangs": [summary.gang_summary(gang) for gang in view.gangs], "uncreated": answer.short}
    if view.kind is BATCH_JOB:
        told["findings"] = msgspec.to_builtins(view.findings)
    return {**summary.summary(view), **told}


def _say(answer: Answer, target: "Target") -> None:
    from datetime import UTC, datetime

    from muster.api.visible import visible
    from muster.app.views import pods, schedules
    from muster.app.views.restarts import NAMED
    from muster.app.wiring.cluster import hosted, untold
    from muster.cli import show

    view, alone = answer.meant.view, answer.alone
    say(show.reason(view), prose=True)
    for line in schedules.runs(view, datetime.now(UTC)):
        say(f"  {line}", prose=True)
    for line in show.findings(view):
        say(f"  {line}", prose=True)
    probed = [*filter(None, map(pods.ended_by_probe, view.pods))][:NAMED]
    for line in (
        *show.failure(view, answer.printed),
        *(show.origin(view) if view.state.finished else ()),
        *show.moved(view),
        *map(visible, (*probed, *answer.short, *untold(target, view))),
    ):
        say(f"  {line}", prose=True)
    for line in show.explained(alone) if alone is not None else ():
        say(f"  {line}", prose=True)
    for gang in view.gangs:
        for line in (*show.explanation(gang), *show.preemptions(gang.status.preemptions)):
            say(f"  {line}", prose=True)
    if not (view.state.finished or view.managed_by or hosted(target)):
        say("  the embedded cluster is not running; `muster up` continues the job")
