"""`muster submit FILE` or `muster submit -- COMMAND`: submits a job to the cluster and returns.

Queues may be submitted without a job.
"""

from functools import partial

import typer

from muster.cli.given import Copy, Count, Cpus, Env, EnvFile, Files, Gpus, Image, Memory, Name, Print, given
from muster.cli.options import (
    Context,
    Gang,
    Into,
    Kubeconfig,
    Nodes,
    Output,
    OutputFormat,
    Queue,
    Volumes,
)
from muster.cli.say import say


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
    nodes: Nodes = "",
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.commands.submit import Submitted, submit, written
    from muster.app.wiring.cluster import Target, acting, attached
    from muster.cli import jobfile, show
    from muster.kube.apply import Outcome
    from muster.workloads.jobfile import Role

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
        jobs=False,
    )
    job = load()
    jobfile.print_notes(job)
    with attached(target) as endpoint:
        show.started(endpoint)

        async def act() -> Submitted:
            async with acting(target, endpoint) as client:
                found = await jobfile.preflight(client, job, queue, target, load)
                return await submit(client, found, source=jobfile.submission(what.origin, copy))

        submitted = asyncio.run(act())
    if output is not Output.TABLE:
        show.machine(
            [{"kind": job.kind.kind, "namespace": job.namespace, "name": job.name} for job in submitted.jobs],
            output,
        )
        return
    for item, outcome in submitted.outcomes:
        if item.role is Role.PRIMARY and outcome is not Outcome.CREATED:
            say(f"note: {written(job, item)} exists already: {outcome.value}", err=True)
    for followed in submitted.jobs:
        say(followed.name)
    if not submitted.jobs:
        for item, outcome in submitted.outcomes:
            say(f"{item.object['kind']} {item.object['metadata']['name']} {outcome.value}")
