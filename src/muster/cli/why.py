"""`muster why JOB`: one reason, the blockers, the smallest change that starts it."""

from muster.cli.options import Context, JobName, Kubeconfig, Namespace, Output, OutputFormat


def command(
    job: JobName,
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app import jobs
    from muster.app.cluster import Target, reading
    from muster.cli import show

    async def fetch() -> jobs.JobView:
        async with reading(Target(kubeconfig, context)) as client:
            return jobs.find(job, jobs.views(await jobs.fetch(client, namespace or "")), newest=True)

    view = asyncio.run(fetch())
    if output is not Output.TABLE:
        show.machine(
            {**jobs.summary(view), "gangs": [jobs.gang_summary(gang) for gang in view.gangs]}, output
        )
        return
    print(show.headline(view))
    for gang in view.gangs:
        for line in show.explanation(gang):
            print(f"  {line}")
