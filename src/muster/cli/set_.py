"""`muster set JOB… --priority P --queue Q`: changes a job's priority while it waits, and its queue."""

from typing import Annotated

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context, JobNames, Kubeconfig, Namespace, Queue
from muster.cli.say import say

Priority = Annotated[
    str | None,
    typer.Option("--priority", metavar="P", help="A number, higher first, or the name of a PriorityClass."),
]


def command(
    jobs: JobNames,
    priority: Priority = None,
    queue: Queue = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    from muster.app.commands import change
    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target
    from muster.cli.steering import steer as act
    from muster.kube.client import Client

    if priority is None and queue is None:
        raise Failure("nothing to set: --priority P, --queue Q, or both", BAD_INPUT)

    async def move(client: Client, view: JobView) -> str:
        return await change.move(client, view, priority, queue)

    said = {"priority": priority, "queue": queue}
    told = ", ".join(f"{what} {value}" for what, value in said.items() if value is not None)
    for view, lowered in act(Target(kubeconfig, context, namespace), jobs, move):
        say(f"{view.name}: {told}")
        if lowered:
            say(f"warning: {view.name}: {lowered}", err=True)
