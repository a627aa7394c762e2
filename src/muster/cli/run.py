"""`muster run FILE` or `muster run -- COMMAND`: runs a job to its end, in one terminal.

Above is the output of the pods, each line with its pod's name. Below it, one line shows the job's state. At
the end a timeline shows when the pods waited and ran. Without a terminal the state is printed whenever it
changes.
"""

from functools import partial
from typing import Annotated

import typer

from muster.cli.given import Copy, Count, Cpus, Env, EnvFile, Files, Gpus, Image, Memory, Name, Print, given
from muster.cli.options import Context, Gang, Into, Kubeconfig, Nodes, Queue, Volumes

Replace = Annotated[
    bool, typer.Option("--replace", help="First cancel jobs that were made from this file before.")
]


def command(
    called_by: typer.Context,
    files: Files = None,
    gpus: Gpus = 0,
    cpus: Cpus = "",
    memory: Memory = "",
    count: Count = 1,
    gang: Gang = None,
    name: Name = "",
    image: Image = "",
    env: Env = None,
    env_file: EnvFile = None,
    print_only: Print = False,
    copy_files: Copy = False,
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

    what = given(
        called_by,
        files,
        gpus=gpus,
        cpus=cpus,
        memory=memory,
        count=count,
        gang=gang,
        name=name,
        image=image,
        queue=queue,
        env=env,
        env_file=env_file,
        print_only=print_only,
    )
    if what is None:
        return
    target = Target(kubeconfig, context, namespace, nodes)
    copy = jobfile.copied(target) if copy_files else ""
    load = partial(
        jobfile.load,
        what.file,
        gang=what.gang,
        queue=queue,
        volumes=volume,
        env=what.env,
        target=target,
        content=what.content,
        cwd=copy,
    )
    job = load()
    replaced = made_from(load(suffix=SUFFIX)) if replace else []
    jobfile.print_notes(job)
    with attached(target, _import_what_comes_next) as endpoint:
        from muster.cli import show
        from muster.cli.running import Runner

        show.started(endpoint)
        exit_code = asyncio.run(
            Runner(
                job, target, endpoint, jobfile.submission(what.origin, copy), queue, replaced, load=load
            ).run()
        )
    raise typer.Exit(exit_code)


def _import_what_comes_next() -> None:
    """Imports modules that are needed later, while the host starts."""
    import muster.cli.running
    import muster.kube.http  # noqa: F401
