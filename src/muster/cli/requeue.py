"""`muster requeue JOB`: stops a job's running pods, and requeues the job with its old age."""

from muster.cli.options import Context, JobName, Kubeconfig, Namespace
from muster.cli.say import say


def command(
    job: JobName, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    from muster.app.commands import change
    from muster.app.views.job import JobView
    from muster.app.wiring.cluster import Target
    from muster.cli.steering import steer as act
    from muster.kube.client import Client
    from muster.kube.clock import SystemClock

    async def requeue(client: Client, view: JobView) -> bool:
        return await change.requeue(client, view, SystemClock())

    view, stopped = act(Target(kubeconfig, context, namespace), job, requeue)
    say(f"{view.name} requeued" if stopped else f"{view.name} is already waiting")
