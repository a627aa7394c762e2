"""`muster cancel JOB`: removes it, and ends its pods with their grace; returns when they have gone."""

from muster.cli.options import Context, JobName, Kubeconfig, Namespace


def command(
    job: JobName, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    import asyncio

    from muster.app import jobs
    from muster.app.cancel import cancel, gone
    from muster.app.cluster import Target, acting, attached, reading
    from muster.app.follow import Followed

    target = Target(kubeconfig, context, namespace)

    async def find() -> jobs.JobView:
        async with reading(target) as client:
            return await jobs.named(client, job, target.scope)

    async def act(view: jobs.JobView) -> None:
        async with acting(target, endpoint) as client:
            followed = Followed(view.kind, view.namespace, view.name)
            await cancel(client, followed, view.pods)
            await gone(client, followed, view.pods)

    view = asyncio.run(find())  # before a cluster is started for nothing
    with attached(target) as endpoint:
        asyncio.run(act(view))
    print(f"{view.name} cancelled")
