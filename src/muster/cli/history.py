"""`muster history JOB…`: shows all runs of a job, also deleted ones, with what each has used."""

import sys
from typing import TYPE_CHECKING, Final

from muster.cli import say
from muster.cli.options import AnyJobNames, Context, Kubeconfig, Namespace, Output, OutputFormat, any_job

if TYPE_CHECKING:
    from rich.text import Text

#: Columns that a terminal does not show if they say the same of every run.
_PLAIN: Final = {"WAITED": "0:00", "GPU-HOURS": "0", "CPU-HOURS": "0", "NOTE": ""}


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
                view.which: view for name in any_job(jobs) for view in await past.every(client, name, target)
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
    rows: list[dict[str, str | Text]] = [
        {
            "NAME": view.name,
            "STATE": show.state(view),
            "SUBMITTED": f"{view.created.astimezone():%Y-%m-%d %H:%M}" if view.created else "-",
            "WAITED": clock(line.waited),
            "TIME": show.span(view.created, view.finished) if view.created and view.finished else "-",
            "GPU-HOURS": usage.hours(line.used_gpu_hours),
            "CPU-HOURS": usage.hours(line.used_cpu_hours),
            "NOTE": job_table.note(view),
        }
        for view, line in lines
    ]
    width = say.width(sys.stdout)
    plain = {} if width is None else _PLAIN
    show.lines(show.fitted(rows, width, plain=plain, right=[*rows[0]][3:7]))
