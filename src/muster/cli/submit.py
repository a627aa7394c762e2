"""`muster submit FILE`: submits a job to the cluster and returns. Queues may be submitted without a job."""

from muster.cli.options import (
    Context,
    File,
    Gang,
    Into,
    Kubeconfig,
    Nodes,
    Output,
    OutputFormat,
    Queue,
    Volumes,
)
from muster.cli.say import say


def command(
    file: File,
    gang: Gang = None,
    queue: Queue = None,
    volume: Volumes = None,
    namespace: Into = None,
    nodes: Nodes = "",
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.commands.submit import Submitted, submit, written
    from muster.app.wiring.cluster import Target, acting, attached
    from muster.cli import jobfile, show
    from muster.kube.apply import Outcome
    from muster.workloads.jobfile import Role

    target = Target(kubeconfig, context, namespace, nodes)
    job = jobfile.load(file, gang=gang, queue=queue, volumes=volume, target=target, jobs=False)
    jobfile.print_notes(job)
    with attached(target) as endpoint:
        show.started(endpoint)

        async def act() -> Submitted:
            async with acting(target, endpoint) as client:
                await jobfile.preflight(client, job, queue, target)
                return await submit(client, job, source=jobfile.where_from(file))

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
