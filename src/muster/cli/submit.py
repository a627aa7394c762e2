"""`muster submit FILE` or `muster submit -- COMMAND`: submits a job to the cluster and returns.

Queues may be submitted without a job.
"""

import typer

from muster.cli.given import Asked, taking_a_job, work
from muster.cli.options import Output, OutputFormat
from muster.cli.say import say


@taking_a_job
def command(called_by: typer.Context, asked: Asked, output: OutputFormat = Output.TABLE) -> None:
    import asyncio

    from muster.app.commands.submit import Submitted, submit, written
    from muster.app.wiring.cluster import acting, attached
    from muster.cli import jobfile, show
    from muster.kube.apply import Outcome
    from muster.workloads.jobfile import Role

    found = work(called_by, asked, jobs=False)
    if found is None:
        return
    job, target = found.load(), found.target
    jobfile.print_notes(job)
    with attached(target) as endpoint:
        show.started(endpoint)

        async def act() -> Submitted:
            async with acting(target, endpoint) as client:
                fit = await jobfile.preflight(client, job, asked.queue, target, found.load)
                return await submit(client, fit, source=found.source)

        submitted = asyncio.run(act())
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
