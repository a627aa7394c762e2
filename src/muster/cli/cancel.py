"""`muster cancel JOB…`: deletes jobs; returns when their pods have ended within their grace periods."""

from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.completion import job_names
from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context, Every, Kubeconfig, Namespace
from muster.cli.say import say

if TYPE_CHECKING:
    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target

Jobs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="JOB",
        help="Names of jobs, those in their files, prefixes, or NAMESPACE/NAME.",
        autocompletion=job_names,
    ),
]
File = Annotated[
    str | None, typer.Option("--file", "-f", metavar="FILE", help="Cancel the jobs of this job file.")
]


def command(
    names: Jobs = None,
    file: File = None,
    every: Every = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.commands.cancel import cancel_all
    from muster.app.wiring.cluster import Target, acting, attached

    target = Target(kubeconfig, context, namespace)
    if not names and file is None and not every:
        raise Failure("name the jobs to cancel, or a job file with -f, or write --all", BAD_INPUT)
    if not names and file is None and not target.embedded:
        raise Failure("--all needs a name: a cluster's other jobs may be other people's", BAD_INPUT)

    async def end(views: "list[JobView]") -> None:
        """Cancels all jobs, and reports each one when its pods are gone."""
        async with acting(target, endpoint) as client:
            async for view in cancel_all(client, views):
                say(f"{view.name} cancelled", flush=True)

    # looked up first, so that no cluster is started needlessly
    views = asyncio.run(_meant(target, names or [], file, every=every))
    if not views:
        return
    with attached(target) as endpoint:
        asyncio.run(end(views))


async def _meant(target: "Target", names: list[str], file: str | None, *, every: bool) -> "list[JobView]":
    """The jobs to cancel, each once. Raises UnknownJob for the first name that no job has."""
    from muster.app.commands.cancel import SUFFIX, of_file
    from muster.app.commands.submit import made_from
    from muster.app.views import find, jobs, objects
    from muster.app.wiring.cluster import reading
    from muster.cli import jobfile, submission
    from muster.cli.steering import to_end

    found = []
    async with reading(target) as client:
        if names:
            matches = await find.all_matching(client, names, target.scope)
            found += to_end(matches, "cancelled", every=every)
        elif file is None:
            there = jobs.views(await objects.fetch(client, target.scope))
            found += [view for view in there if not view.state.finished]
        if file is not None:
            job = jobfile.load(
                file, gang=None, queue=None, volumes=None, target=target, suffix=SUFFIX, runs=False
            )
            there = jobs.views(await objects.fetch(client))
            mine = jobfile.agreed(of_file(made_from(job), there, submission.where_from(file)), "cancelled")
            if not mine:
                raise find.UnknownJob(f"no unfinished job of {jobfile.called(file)} is there")
            found += mine
    return list({view.which: view for view in found}.values())
