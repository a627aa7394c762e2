"""`muster hold JOB…`: keeps a job from starting until `muster release`; running pods continue."""

from muster.cli.options import Context, JobNames, Kubeconfig, Namespace
from muster.cli.say import say


def command(
    jobs: JobNames, namespace: Namespace = None, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    from muster.app.commands import change
    from muster.app.wiring.cluster import Target
    from muster.cli.steering import steer as act

    for view, _ in act(Target(kubeconfig, context, namespace), jobs, change.hold):
        say(f"{view.name} held" + (f"; {view.running} of its pods run on" if view.running else ""))
