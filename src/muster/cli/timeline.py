"""`muster timeline JOB…`: shows as bars when each job's pods waited and ran."""

import time

from muster.cli.options import AnyJobNames, Context, Kubeconfig, Namespace, Output, OutputFormat, any_job
from muster.cli.say import say


def command(
    jobs: AnyJobNames = None,
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.records.runs import Record, recorded
    from muster.app.views.timeline import summary
    from muster.app.wiring.cluster import Target
    from muster.cli import bars, show

    target = Target(kubeconfig, context, namespace)

    async def fetch() -> list[Record]:
        return [await recorded(target, job) for job in any_job(jobs)]

    records = asyncio.run(fetch())
    show.meant(records)
    if output is not Output.TABLE:
        show.machine([summary(run) for record in records for run in record.runs], output)
        return
    for record in records:
        say(record.name)
        for line in bars.lines(record.timeline(time.time())):
            say(line)
        for line in show.preemptions(record.preemptions):
            say(line)
