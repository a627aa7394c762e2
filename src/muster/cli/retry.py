"""`muster retry [JOB]…`: runs again what has failed of jobs that have ended, each as a new job."""

import os
from typing import Annotated

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import AnyJobNames, Context, Kubeconfig, Namespace, any_job
from muster.cli.say import say

NewCode = Annotated[
    bool,
    typer.Option(
        "--new-code", help="Of a job that runs from a copy (--copy): use the directory as it is now."
    ),
]


def command(
    jobs: AnyJobNames = None,
    new_code: NewCode = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    from msgspec.structs import replace

    from muster.app.commands.follow import Followed
    from muster.app.commands.retry import retry
    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target
    from muster.app.wiring.state_directory import StateDirectory
    from muster.cli import submission
    from muster.cli.steering import steer as act
    from muster.kube.client import Client
    from muster.names import SUBMITTED_FROM
    from muster.workloads.jobfile import Source
    from muster.workloads.retry import Again

    target = Target(kubeconfig, context, namespace)
    home = StateDirectory.of_user().root if target.embedded else None

    async def again(client: Client, view: JobView) -> tuple[Followed, Again]:
        was = Source.read(view.resource.metadata.annotations.get(SUBMITTED_FROM))
        where, directory = _there(was.cwd) if was is not None else os.getcwd(), ""
        source = submission.record(was.file if was is not None else "", directory=where)
        source = replace(source, suffix=was.suffix if was is not None else "")
        if was is not None and was.copy:
            directory = where if new_code else ""
            if not new_code and not _is_there(was.copy):
                raise Failure(f"the copy of {view.name}'s code is gone; --new-code runs {was.cwd}", BAD_INPUT)
            if not new_code:  # the code of the copy, and of its commit
                source = replace(source, copy=was.copy, cwd=was.cwd, commit=was.commit, dirty=was.dirty)
        elif was is not None and was.commit and (was.commit, was.dirty) != (source.commit, False):
            told = f"{was.commit[:12]}{' with changes' * bool(was.dirty)}"
            say(f"note: {view.name} ran at commit {told}; the code is used as it is now", err=True)
        return await retry(client, view, source, home=home, directory=directory)

    for view, (followed, made) in act(target, any_job(jobs), again):
        say(followed.name)
        if made.pods is not None:
            what = "1 index of {} runs" if made.pods == 1 else f"{made.pods:,} indexes of {{}} run"
            say(f"note: {what.format(view.name)} again", err=True)


def _is_there(directory: str) -> bool:
    return os.path.isdir(directory)


def _there(directory: str) -> str:
    """The directory, or the current one if it is gone."""
    return directory if _is_there(directory) else os.getcwd()
