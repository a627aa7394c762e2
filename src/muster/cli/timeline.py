"""`muster timeline JOB`: shows as bars when the job's pods waited and ran."""

import time

from muster.cli.options import Context, JobName, Kubeconfig, Namespace, Output, OutputFormat
from muster.cli.say import say


def command(
    job: JobName,
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.records.runs import recorded
    from muster.app.views.timeline import summary
    from muster.app.wiring.cluster import Target
    from muster.cli import bars, show

    record = asyncio.run(recorded(Target(kubeconfig, context, namespace), job))
    if output is not Output.TABLE:
        show.machine([summary(run) for run in record.runs], output)
        return
    say(record.name)
    for line in bars.lines(record.timeline(time.time())):
        say(line)
    for line in show.preemptions(record.preemptions):
        say(line)
