"""`muster logs JOB`: what its pods print, each line with its pod's name."""

import asyncio
import sys
from typing import Annotated

import typer

from muster.cli.errors import BAD_INPUT, Failure, explained
from muster.cli.options import Context, JobName, Kubeconfig, Namespace

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")]
Group = Annotated[
    str | None, typer.Option("--group", "-g", metavar="G", help="Only this type (replicated job).")
]
Index = Annotated[
    int | None,
    typer.Option("--index", "-i", metavar="I", help="Only this index: of the job, then of the pod."),
]
Tail = Annotated[int | None, typer.Option("--tail", metavar="N", help="Only the last N lines of each pod.")]


def command(
    job: JobName,
    follow: Follow = False,
    group: Group = None,
    index: Index = None,
    tail: Tail = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    from muster.app import jobs
    from muster.app.cluster import Target, reading
    from muster.app.follow import Followed
    from muster.app.follow import follow as following
    from muster.app.logs import Line, Selection, read

    selection = Selection(group, index)

    def show(line: Line, width: int) -> None:
        sys.stdout.write(f"{line.pod:<{width}} │ {line.text}\n")

    async def act() -> None:
        async with reading(Target(kubeconfig, context)) as client:
            view = jobs.find(job, jobs.views(await jobs.fetch(client, namespace or "")))
            pods = [pod for pod in view.pods if selection.holds(pod)]
            if view.pods and not pods:
                names = ", ".join(sorted({jobs.label(pod) for pod in view.pods})[:20])
                raise Failure(f"no pod of {view.name} is meant by that; there are: {names}", BAD_INPUT)
            width = max((len(jobs.label(pod)) for pod in pods), default=0)
            if follow:
                followed = Followed(view.kind, view.namespace, view.name)
                async for news in following(client, [followed], only=selection.holds, tail=tail):
                    if isinstance(news, Line):
                        show(news, width)
                        sys.stdout.flush()
            else:
                async for line in read(client, pods, tail):
                    show(line, width)

    with explained():
        asyncio.run(act())
