"""`muster timeline JOB…`: shows as bars when each job's pods waited and ran."""

import time

from muster.cli.options import (
    AnyJobNames,
    Context,
    Kubeconfig,
    Namespace,
    Output,
    Traced,
    TracedFormat,
    any_job,
)
from muster.cli.say import say


def command(
    jobs: AnyJobNames = None,
    namespace: Namespace = None,
    output: TracedFormat = Traced.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.records.runs import Record, recorded
    from muster.app.views.timeline import Drawn, summary, traced
    from muster.app.wiring.cluster import Target
    from muster.cli import bars, show
    from muster.perfetto import Trace

    target = Target(kubeconfig, context, namespace)

    async def fetch() -> list[Record]:
        return [await recorded(target, job) for job in any_job(jobs)]

    records = asyncio.run(fetch())
    show.meant(records)
    if output is Traced.PERFETTO:
        now = time.time()
        drawn = [Drawn(each.name, each.queue, each.runs, each.timeline(now)) for each in records]
        with Trace(show.stream(), min(each.timeline.begin for each in drawn)) as trace:
            traced(trace, drawn, now)
        return
    if output is not Traced.TABLE:
        show.machine([summary(run) for record in records for run in record.runs], Output(output.value))
        return
    for record in records:
        say(record.name)
        for line in bars.lines(record.timeline(time.time())):
            say(line)
        for line in show.preemptions(record.preemptions):
            say(line)
