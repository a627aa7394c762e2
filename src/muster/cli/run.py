"""`muster run FILE`: the job from its file to its end, in one terminal.

Above, what the pods print, each line with its pod's name; below it one line that says how the job
stands; at the end who ran when. Without a terminal the line is printed whenever it changes.
"""

from muster.cli.options import Context, File, Gang, Into, Kubeconfig, Nodes, Queue, Volumes


def command(
    file: File,
    gang: Gang = None,
    queue: Queue = None,
    volume: Volumes = None,
    namespace: Into = None,
    nodes: Nodes = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    import typer

    from muster.app.cluster import Target, attached
    from muster.cli import jobfile

    target = Target(kubeconfig, context, namespace, nodes)
    job = jobfile.load(file, gang=gang, queue=queue, volumes=volume, target=target)
    jobfile.print_notes(job)
    with attached(target, _import_what_comes_next) as endpoint:
        from muster.cli import show
        from muster.cli.running import Runner

        show.started(endpoint)
        exit_code = asyncio.run(Runner(job, target, endpoint, queue).run())
    raise typer.Exit(exit_code)


def _import_what_comes_next() -> None:
    """While the host starts."""
    import muster.cli.running
    import muster.kube.http  # noqa: F401
