"""`muster run FILE`: runs a job from its file to its end, in one terminal.

Above is the output of the pods, each line with its pod's name. Below it, one line shows the job's state. At
the end a timeline shows when the pods waited and ran. Without a terminal the state is printed whenever it
changes.
"""

from functools import partial
from typing import Annotated

import typer

from muster.cli.options import Context, File, Gang, Into, Kubeconfig, Nodes, Queue, Volumes

Replace = Annotated[
    bool, typer.Option("--replace", help="First cancel jobs that were made from this file before.")
]


def command(
    file: File,
    gang: Gang = None,
    queue: Queue = None,
    volume: Volumes = None,
    namespace: Into = None,
    replace: Replace = False,
    nodes: Nodes = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.commands.cancel import SUFFIX
    from muster.app.commands.submit import made_from
    from muster.app.wiring.cluster import Target, attached
    from muster.cli import jobfile

    target = Target(kubeconfig, context, namespace, nodes)
    content = jobfile.stdin() if file == "-" else None
    load = partial(jobfile.load, file, gang=gang, queue=queue, volumes=volume, target=target, content=content)
    job = load()
    replaced = made_from(load(suffix=SUFFIX)) if replace else []
    jobfile.print_notes(job)
    with attached(target, _import_what_comes_next) as endpoint:
        from muster.cli import show
        from muster.cli.running import Runner

        show.started(endpoint)
        exit_code = asyncio.run(
            Runner(job, target, endpoint, jobfile.where_from(file), queue, replaced).run()
        )
    raise typer.Exit(exit_code)


def _import_what_comes_next() -> None:
    """Imports modules that are needed later, while the host starts."""
    import muster.cli.running
    import muster.kube.http  # noqa: F401
