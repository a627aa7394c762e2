"""`muster cancel JOB`: ends its pods, with their grace, and removes it."""

import asyncio

from muster.cli.errors import explained
from muster.cli.options import Context, JobName, Kubeconfig, Namespace


def command(
    job: JobName, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    from muster.app import jobs
    from muster.app.cancel import cancel
    from muster.app.cluster import Target, acting

    async def act() -> str:
        async with acting(Target(kubeconfig, context)) as client:
            view = jobs.find(job, jobs.views(await jobs.fetch(client, namespace or "")))
            await cancel(client, view)
            return view.name

    with explained():
        print(f"{asyncio.run(act())} cancelled")
