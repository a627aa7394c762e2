"""`muster dashboard`: shows the cluster in a browser."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context, Kubeconfig
from muster.cli.say import say

if TYPE_CHECKING:
    from muster.app.views.job import JobView
    from muster.app.views.logs import Line
    from muster.app.wiring.cluster import Target
    from muster.app.wiring.state_directory import Endpoint
    from muster.dashboard.changes import Change
    from muster.kube.client import Client

Port = Annotated[
    int,
    typer.Option("--port", "-p", min=0, max=65_535, help="The port to serve at; any free one by default."),
]
ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="Show only: no job is cancelled, held or released from a page.")
]


def command(
    port: Port = 0, read_only: ReadOnly = False, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    import asyncio

    from muster.app.wiring.cluster import Target, attached
    from muster.dashboard.server import PortTaken

    target = Target(kubeconfig, context)
    with attached(target) as endpoint:
        try:
            asyncio.run(_serve(target, endpoint, port, read_only=read_only))
        except PortTaken as error:
            raise Failure(f"{error}; choose another with --port", BAD_INPUT) from None


#: Pods of a real cluster whose output a page shows, and seconds for which that is kept.
FEW: Final = 4
FRESH: Final = 5.0


async def _serve(target: "Target", endpoint: "Endpoint | None", port: int, *, read_only: bool) -> None:
    """Serves the pages until it is interrupted."""
    import asyncio
    import signal
    import time

    from muster.app.records import runs
    from muster.app.views import pods
    from muster.app.views.logs import read, read_archive
    from muster.app.wiring.cluster import acting, archive
    from muster.dashboard.cluster import Cluster
    from muster.dashboard.pages import PODS, Pages, Sources, gathered
    from muster.dashboard.server import application, serving
    from muster.kube.client import LogOptions
    from muster.kube.clock import first

    kept = archive(target)
    known: dict[str, tuple[float, Sequence[Line]]] = {}

    async with acting(target, endpoint) as client:

        async def output(view: "JobView", most: int) -> "Sequence[Line]":
            how = LogOptions(tail=most)
            if kept is not None:
                record = await asyncio.to_thread(runs.of_view, target, view)
                return await gathered(read_archive(kept, record.runs[-PODS:], how), most)
            uid, now = view.resource.metadata.uid, time.monotonic()
            if uid not in known or now - known[uid][0] > FRESH:  # each is a request to a kubelet
                known.clear()
                first = view.verdict.first.uid if view.verdict is not None else ""
                some = sorted(view.pods, key=lambda pod: (pod.metadata.uid != first, pods.pod_order(pod)))[
                    :FEW
                ]
                known[uid] = now, await gathered(read(client, some, how), most)
            return known[uid][1]

        cluster = Cluster(client, target.schedulers)
        sources = Sources(
            lambda view, now: runs.of_view(target, view).timeline(now),
            output,
            embedded=target.embedded,
            changes={} if read_only else _changes(client),
        )
        pages = Pages(cluster, sources)
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        async with serving(port, lambda access: application(cluster, pages, access)) as address:
            say(f"the dashboard is at {address}")
            say("The address opens it once, in one browser. Ctrl-C ends it; jobs go on.", flush=True)
            await first(cluster.run(), stopped.wait())


def _changes(client: "Client") -> "Mapping[Change, Callable[[JobView], Awaitable[None]]]":
    """What the pages do with a job, as `muster cancel`, `hold` and `release` do it."""
    from muster.app.commands import change
    from muster.app.commands.cancel import Replaced, begin
    from muster.dashboard.changes import Change, Refused

    def told(act: "Callable[[Client, JobView], Awaitable[object]]") -> "Callable[[JobView], Awaitable[None]]":
        async def acted(view: "JobView") -> None:
            try:
                await act(client, view)
            except (change.Refused, Replaced) as error:
                raise Refused(str(error)) from None

        return acted

    return {Change.CANCEL: told(begin), Change.HOLD: told(change.hold), Change.RELEASE: told(change.release)}
