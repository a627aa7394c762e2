"""`muster get JOB`: shows a job's pods in a table, or its objects as JSON or YAML."""

from muster.cli.options import Context, JobName, Kubeconfig, Namespace, Output, OutputFormat
from muster.cli.say import say


def command(
    job: JobName,
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    import msgspec

    from muster.api.base import Object
    from muster.app.records import past
    from muster.app.views import pods
    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target, reading
    from muster.cli import show
    from muster.workloads.pod_run import run_of

    async def fetch() -> tuple[JobView, Object | None]:
        target = Target(kubeconfig, context, namespace)
        async with reading(target) as client:
            view = await past.named(client, job, target)
            if output is Output.TABLE:
                return view, None
            if view.deleted is not None:
                return view, msgspec.to_builtins(view.resource)
            return view, await client.get_json(view.kind, view.namespace, view.name)

    view, whole = asyncio.run(fetch())
    if whole is not None:
        show.machine(whole, output)
        return
    say(show.headline(view))
    for line in show.moved(view):
        say(line)
    for gang in view.gangs:
        for line in show.preemptions(gang.status.preemptions):
            say(line)
    if view.pods:
        show.table(
            ["POD", "NODE", "PHASE", "EXIT", "RESTARTS", "AGE", "REASON"],
            [
                [
                    pods.label(pod),
                    pod.spec.node_name or "-",
                    "Terminating" if pod.metadata.deletion_timestamp else pod.status.phase or "Pending",
                    str(code) if (code := run_of(pod).exit_code) is not None else "-",
                    str(pods.restarts_of(pod)),
                    show.age(pod.metadata.creation_timestamp),
                    pods.pod_reason(pod),
                ]
                for pod in sorted(view.pods, key=pods.pod_order)
            ],
            right=["EXIT", "RESTARTS"],
        )
