"""`muster history JOB…`: shows all runs of a job, also deleted ones, with what each has used."""

from typing import TYPE_CHECKING

from muster.cli.options import AnyJobNames, Context, Kubeconfig, Namespace, Output, OutputFormat, any_job

if TYPE_CHECKING:
    from rich.text import Text


def command(
    jobs: AnyJobNames = None,
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio
    import time

    from muster.app.records import past
    from muster.app.records.accounting import Account, account
    from muster.app.views import summary, usage
    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target, reading
    from muster.cli import job_table, show
    from muster.cli.bars import clock

    target = Target(kubeconfig, context, namespace)

    async def fetch() -> tuple[list[JobView], Account]:
        async with reading(target) as client:
            views = {
                view.resource.metadata.uid: view
                for name in any_job(jobs)
                for view in await past.every(client, name, target)
            }
            return [*views.values()], await account(client, target, time.time(), views.values())

    views, found = asyncio.run(fetch())
    lines = [(view, found.of(view.resource.metadata.uid)) for view in views]
    if output is not Output.TABLE:
        used = [usage.summary(line, found.rates, ()) for _, line in lines]
        show.machine(
            [{**summary.summary(view), "used": each} for view, each in zip(views, used, strict=True)], output
        )
        return
    rows: list[list[str | Text]] = [
        [
            view.name,
            show.state(view),
            f"{view.created.astimezone():%Y-%m-%d %H:%M}" if view.created else "-",
            clock(line.waited),
            show.span(view.created, view.finished) if view.created and view.finished else "-",
            usage.hours(line.used_gpu_hours),
            usage.hours(line.used_cpu_hours),
            job_table.note(view),
        ]
        for view, line in lines
    ]
    columns = ["NAME", "STATE", "SUBMITTED", "WAITED", "TIME", "GPU-HOURS", "CPU-HOURS", "NOTE"]
    show.table(columns, rows, right=columns[3:7])
