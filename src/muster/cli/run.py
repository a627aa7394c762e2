"""`muster run FILE` or `muster run -- COMMAND`: runs a job to its end, in one terminal.

Above is the output of the pods, each line with its pod's name. Below it, one line shows the job's state. At
the end a timeline shows when the pods waited and ran. Without a terminal the state is printed whenever it
changes.
"""

from typing import Annotated

import typer

from muster.cli.given import Asked, taking_a_job, work

Replace = Annotated[
    bool, typer.Option("--replace", help="First cancel jobs that were made from this file before.")
]


@taking_a_job
def command(called_by: typer.Context, asked: Asked, replace: Replace = False) -> None:
    import asyncio

    from muster.app.commands.cancel import SUFFIX
    from muster.app.commands.submit import made_from
    from muster.app.wiring.cluster import attached
    from muster.cli import jobfile

    found = work(called_by, asked, jobs=True)
    if found is None:
        return
    job = found.load()
    replaced = made_from(found.load(suffix=SUFFIX)) if replace else []
    jobfile.print_notes(job)
    with attached(found.target, _import_what_comes_next) as endpoint:
        from muster.cli import show
        from muster.cli.running import Runner

        show.started(endpoint)
        runner = Runner(
            *(job, found.target, endpoint, found.source, asked.queue, replaced),
            load=found.load,
            notify=found.notify,
        )
        exit_code = asyncio.run(runner.run())
    raise typer.Exit(exit_code)


def _import_what_comes_next() -> None:
    """Imports modules that are needed later, while the host starts."""
    import muster.cli.running
    import muster.kube.http  # noqa: F401
