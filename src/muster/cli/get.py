"""`muster get JOB…`: shows a job's pods in a table, or its objects as JSON or YAML."""

from typing import TYPE_CHECKING

from muster.cli.options import AnyJobNames, Context, Kubeconfig, Namespace, Output, OutputFormat, any_job
from muster.cli.say import say

if TYPE_CHECKING:
    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target


def command(
    jobs: AnyJobNames = None,
    namespace: Namespace = None,
    output: OutputFormat = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    import msgspec

    from muster.api.base import Object
    from muster.app.records import past
    from muster.app.views.find import Meant
    from muster.app.wiring.cluster import Target, reading
    from muster.cli import show

    target = Target(kubeconfig, context, namespace)

    async def fetch() -> tuple[list[Meant], list[Object]]:
        async with reading(target) as client:
            found = [await past.named(client, job, target) for job in any_job(jobs)]
            return found, [
                msgspec.to_builtins(view.resource)
                if view.deleted is not None
                else await client.get_json(view.kind, view.namespace, view.name)
                for view in (each.view for each in found if output is not Output.TABLE)
            ]

    found, whole = asyncio.run(fetch())
    show.meant(found)
    if output is not Output.TABLE:
        several: Object = {"apiVersion": "v1", "kind": "List", "items": whole}
        show.machine(whole[0] if len(whole) == 1 else several, output)
        return
    for number, each in enumerate(found):
        if number:
            say("")
        _show(each.view, target)


def _show(view: "JobView", target: "Target") -> None:
    from muster.app.views import pods
    from muster.cli import show
    from muster.workloads.pod_run import run_of

    say(show.headline(view))
    for line in (*show.origin(view), *show.moved(view), *_directories(view, target)):
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


def _directories(view: "JobView", target: "Target") -> list[str]:
    """The directory of a job that survives its restarts, and the copy that it runs from."""
    from muster.api.visible import visible
    from muster.app.wiring.state_directory import StateDirectory
    from muster.embedded import directories
    from muster.names import SUBMITTED_FROM
    from muster.workloads.jobfile import Source

    if not target.embedded:
        return []
    meta = view.resource.metadata
    source = Source.read(meta.annotations.get(SUBMITTED_FROM))
    found = directories.of_job(StateDirectory.of_user().root, meta, source.copy if source is not None else "")
    return [visible(f"directory: {path}") for path in found]
