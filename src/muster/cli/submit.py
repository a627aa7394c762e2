"""`muster submit FILE`: hands a job to the cluster and returns. Queues may come without a job."""

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

    from muster.api import kinds
    from muster.app.cluster import Target, acting, attached
    from muster.app.follow import Followed
    from muster.app.submit import submit
    from muster.cli import jobfile, show
    from muster.kube.listing import every

    target = Target(kubeconfig, context, namespace, nodes)
    job = jobfile.load(file, gang=gang, queue=queue, volumes=volume, target=target, jobs=False)
    jobfile.print_notes(job)
    with attached(target) as endpoint:
        show.started(endpoint)

        async def act() -> list[Followed]:
            async with acting(target, endpoint) as client:
                queues = any(each["kind"] == kinds.QUEUE.kind for each in job.objects)
                there = await every(client, kinds.QUEUE) if queues else []
                for finding in jobfile.unusable(job, there):
                    jobfile.print_finding(finding)
                await jobfile.refuse_what_can_never_start(client, job, queue, target)
                return await submit(client, job)

        jobs = asyncio.run(act())
    if output is not Output.TABLE:
        show.machine(
            [{"kind": job.kind.kind, "namespace": job.namespace, "name": job.name} for job in jobs], output
        )
        return
    for followed in jobs:
        print(followed.name)
    if not jobs:
        for made in job.objects:
            print(f"{made['kind']} {made['metadata']['name']}")
