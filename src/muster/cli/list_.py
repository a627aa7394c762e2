"""`muster list`: jobs, one line each."""

from typing import Annotated

import typer

from muster.cli.options import Context, Kubeconfig, Namespace, Output, OutputFormat

All = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look in all namespaces.")]


def command(
    namespace: Namespace = None,
    everywhere: All = False,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio
    import sys

    from muster.app import jobs
    from muster.app.cluster import Target, hosted, reading
    from muster.cli import show

    target = Target(kubeconfig, context, "" if everywhere else namespace)

    async def views() -> list[jobs.JobView]:
        async with reading(target) as client:
            return jobs.views(await jobs.fetch(client, target.scope))

    found = asyncio.run(views())
    if output is not Output.TABLE:
        show.machine([jobs.summary(view) for view in found], output)
    elif not found:
        print("no jobs")
    else:
        several = len({view.namespace for view in found}) > 1
        columns = ["NAME", "KIND", "STATE", "WANTED", "RUNNING", "DONE", "FAILED", "RESTARTS", "AGE", "WHY"]
        show.table(
            ["NAMESPACE", *columns] if several else columns,
            [
                [
                    *([view.namespace] if several else []),
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
        going = [view for view in found if not (view.state.finished or view.managed_by)]
        if going and not hosted(target):
            note = "the embedded cluster is not running; `muster up` goes on with what has not finished"
            print(note, file=sys.stderr)
