"""`muster submit FILE`: hands a job to the cluster and returns."""

import asyncio

from muster.cli.errors import explained
from muster.cli.options import Context, File, Gang, Kubeconfig, Nodes, Queue, Volumes


def command(
    file: File,
    gang: Gang = None,
    queue: Queue = None,
    volume: Volumes = None,
    nodes: Nodes = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    from muster.app.cluster import Target, acting, attached
    from muster.app.submit import submit
    from muster.cli import jobfile

    target = Target(kubeconfig, context)
    with explained():
        job = jobfile.load(file, gang=gang, queue=queue, volumes=volume, embedded=target.embedded)
        with attached(target, nodes) as endpoint:

            async def act() -> list[str]:
                async with acting(target, endpoint) as client:
                    return [followed.name for followed in await submit(client, job)]

            names = asyncio.run(act())
    jobfile.print_notes(job)
    for name in names:
        print(name)
