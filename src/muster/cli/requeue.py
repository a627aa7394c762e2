"""`muster requeue JOB…`: stops a job's running pods, and requeues the job with its old age."""

from muster.cli.options import Context, Every, JobNames, Kubeconfig, Namespace
from muster.cli.say import say


def command(
    jobs: JobNames,
    every: Every = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    from collections.abc import Sequence

    from muster.app.commands import change
    from muster.app.views.find import Matches, Meant
    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target
    from muster.cli.steering import steer as act
    from muster.cli.steering import to_end
    from muster.kube.client import Client
    from muster.kube.clock import SystemClock

    async def requeue(client: Client, view: JobView) -> bool:
        return await change.requeue(client, view, SystemClock())

    def choose(found: Sequence[Matches[JobView]]) -> list[Meant]:
        return [Meant(view) for view in to_end(found, "requeued", every=every)]

    for view, stopped in act(Target(kubeconfig, context, namespace), jobs, requeue, choose):
        say(f"{view.name} requeued" if stopped else f"{view.name} is already waiting")
