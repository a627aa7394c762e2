"""`muster cancel JOB…`: deletes jobs; returns when their pods have ended within their grace periods."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.completion import job_names
from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context, Kubeconfig, Namespace
from muster.cli.say import say

if TYPE_CHECKING:
    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target

Jobs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="JOB",
        help="Names of jobs, prefixes of names, or NAMESPACE/NAME.",
        autocompletion=job_names,
    ),
]
File = Annotated[
    str | None, typer.Option("--file", "-f", metavar="FILE", help="Cancel the jobs of this job file.")
]


def command(
    names: Jobs = None,
    file: File = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.commands.cancel import cancel_all
    from muster.app.wiring.cluster import Target, acting, attached

    if not names and file is None:
        raise Failure("name the jobs to cancel, or a job file with -f", BAD_INPUT)
    target = Target(kubeconfig, context, namespace)

    async def end(views: "list[JobView]") -> None:
        """Cancels all jobs, and reports each one when its pods are gone."""
        async with acting(target, endpoint) as client:
            async for view in cancel_all(client, views):
                say(f"{view.name} cancelled", flush=True)

    views = asyncio.run(_meant(target, names or [], file))  # first, or a cluster starts needlessly
    with attached(target) as endpoint:
        asyncio.run(end(views))


async def _meant(target: "Target", names: list[str], file: str | None) -> "list[JobView]":
    """The named jobs, each once. Raises UnknownJob for the first that does not exist."""
    from muster.app.commands.cancel import SUFFIX, of_file
    from muster.app.commands.submit import made_from
    from muster.app.views import find, jobs, objects
    from muster.app.wiring.cluster import reading
    from muster.cli import jobfile

    found = []
    async with reading(target) as client:
        found += await find.all_named(client, names, target.scope)
        if file is not None:
            job = jobfile.load(
                file, gang=None, queue=None, volumes=None, target=target, suffix=SUFFIX, runs=False
            )
            there = jobs.views(await objects.fetch(client))
            mine = jobfile.agreed(of_file(made_from(job), there, jobfile.where_from(file)), "cancelled")
            if not mine:
                raise find.UnknownJob(f"no unfinished job of {jobfile.called(file)} is there")
            found += mine
    return list({view.resource.metadata.uid: view for view in found}.values())
