"""`muster submit FILE` or `muster submit -- COMMAND`: submits a job to the cluster and returns.

Queues may be submitted without a job.
"""

from typing import TYPE_CHECKING

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.given import Asked, Work, taking_a_job, work
from muster.cli.options import Output, OutputFormat
from muster.cli.say import say

if TYPE_CHECKING:
    from muster.app.commands.submit import Submitted
    from muster.workloads.jobfile import JobFile


@taking_a_job
def command(called_by: typer.Context, asked: Asked, output: OutputFormat = Output.TABLE) -> None:
    from muster.app.commands.submit import written
    from muster.cli import show
    from muster.kube.apply import Outcome
    from muster.workloads.jobfile import Role

    found = work(called_by, asked, jobs=False)
    if found is None:
        return
    job = found.load()
    submitted = hand_in(job, found, asked.queue)
    if output is not Output.TABLE:
        show.machine(
            [{"kind": job.kind.kind, "namespace": job.namespace, "name": job.name} for job in submitted.jobs],
            output,
        )
        return
    for item, outcome in submitted.outcomes:
        if item.role is Role.PRIMARY and outcome is not Outcome.CREATED:
            say(f"note: {written(job, item)} exists already: {outcome.value}", err=True)
    for followed in submitted.jobs:
        say(followed.name)
    if not submitted.jobs:
        for item, outcome in submitted.outcomes:
            say(f"{item.object['kind']} {item.object['metadata']['name']} {outcome.value}")


def hand_in(job: "JobFile", found: Work, queue: str | None) -> "Submitted":
    """Submits the job, and prints on stderr what is to be said of it. Call it without an event loop."""
    import asyncio

    from muster.app.commands.submit import Submitted, jobs, submit
    from muster.app.wiring.cluster import acting, attached
    from muster.cli import jobfile, show, submission

    if found.notify is not None and not jobs(job):
        raise Failure("--notify is told of jobs, and there is none here", BAD_INPUT)
    jobfile.print_notes(job)
    with attached(found.target) as endpoint:
        show.started(endpoint)

        async def act() -> Submitted:
            async with acting(found.target, endpoint) as client:
                fit = await jobfile.preflight(client, job, queue, found.target, found.load)
                submitted = await submit(client, fit, source=found.source)
                await submission.have_told(client, submitted.jobs, found.notify)
                return submitted

        return asyncio.run(act())
