"""`muster release JOB…`: lets a job start that `muster hold` held back."""

from muster.cli.options import Context, JobNames, Kubeconfig, Namespace
from muster.cli.say import say


def command(
    jobs: JobNames, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    from muster.app.commands import change
    from muster.app.wiring.cluster import Target
    from muster.cli.steering import steer as act

    for view, held in act(Target(kubeconfig, context, namespace), jobs, change.release):
        say(f"{view.name} released" if held else f"{view.name} is not held")
