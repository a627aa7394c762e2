"""`muster list`: jobs, one line each."""

from muster.cli.options import Context, Kubeconfig, Namespace, Output, OutputFormat


def command(
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app import jobs
    from muster.app.cluster import Target, reading
    from muster.cli import show

    async def views() -> list[jobs.JobView]:
        async with reading(Target(kubeconfig, context)) as client:
            return jobs.views(await jobs.fetch(client, namespace or ""))

    found = asyncio.run(views())
    if output is not Output.TABLE:
        show.machine([jobs.summary(view) for view in found], output)
    elif not found:
        print("no jobs")
    else:
        show.table(
            ["NAME", "KIND", "STATE", "WANTED", "RUNNING", "DONE", "FAILED", "RESTARTS", "AGE", "WHY"],
            [
                [
                    view.name,
                    view.kind.kind,
                    show.state(view),
                    *map(str, (view.wanted, view.running, view.succeeded, view.failed, view.restarts)),
                    show.age(view.created),
                    view.reason[0] if view.reason else "",
                ]
                for view in found
            ],
            right=["WANTED", "RUNNING", "DONE", "FAILED", "RESTARTS"],
        )
