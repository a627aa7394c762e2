"""`muster why JOB`: shows the reason why a job waits, the blockers, the remedies and the expected start."""

from typing import Final

from muster.cli.options import Context, JobName, Kubeconfig, Namespace, Output, OutputFormat
from muster.cli.say import say

#: seconds within which the scheduler has considered a job that was just submitted, and between two queries
FIRST_LOOK: Final = 5.0
ASK: Final = 0.05


def command(
    job: JobName,
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio
    import time

    import msgspec

    from muster.api.base import Object
    from muster.api.kinds import BATCH_JOB
    from muster.api.visible import visible
    from muster.app.records import past
    from muster.app.views import find, pods, summary
    from muster.app.views.job import JobView, State
    from muster.app.views.logs import last_lines
    from muster.app.views.objects import fetch
    from muster.app.views.restarts import NAMED
    from muster.app.views.why import asked, uncreated
    from muster.app.wiring.cluster import Target, archive, hosted, reading
    from muster.cli import show

    target = Target(kubeconfig, context, namespace)

    async def look() -> tuple[JobView, Object | None, list[str], list[str]]:
        deadline = time.monotonic() + FIRST_LOOK
        async with reading(target) as client:
            while True:
                there = await fetch(client, find.scoped(job, target.scope)[1])
                view = past.among(there, job, target)
                if view.state is not State.WAITING or view.kind is BATCH_JOB:
                    first = view.verdict.first if view.verdict and view.state is not State.SUCCEEDED else None
                    kept = archive(target)
                    lines = await last_lines(client, first, archive=kept) if first else []
                    return view, None, lines, await uncreated(client, view)
                if view.reason is not None or not hosted(target) or time.monotonic() > deadline:
                    answer = await asked(client, there, view, time.time(), target.schedulers)
                    return *answer, [], await uncreated(client, view)
                await asyncio.sleep(ASK)

    view, alone, printed, short = asyncio.run(look())
    if output is not Output.TABLE:
        told = {"gangs": [summary.gang_summary(gang) for gang in view.gangs], "uncreated": short}
        if view.kind is BATCH_JOB:
            told["findings"] = msgspec.to_builtins(view.findings)
        show.machine({**summary.summary(view), **told}, output)
        return
    say(show.reason(view))
    for line in show.findings(view):
        say(f"  {line}")
    probed = [*filter(None, map(pods.ended_by_probe, view.pods))][:NAMED]
    for line in (*show.failure(view, printed), *show.moved(view), *map(visible, (*probed, *short))):
        say(f"  {line}")
    for line in show.explained(alone) if alone is not None else ():
        say(f"  {line}")
    for gang in view.gangs:
        for line in (*show.explanation(gang), *show.preemptions(gang.status.preemptions)):
            say(f"  {line}")
    if not (view.state.finished or view.managed_by or hosted(target)):
        say("  the embedded cluster is not running; `muster up` continues the job")
