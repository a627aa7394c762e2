"""`muster dashboard`: shows the cluster in a browser."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context, Kubeconfig
from muster.cli.say import say

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from muster.api.rates import Rates
    from muster.app.views.job import JobView
    from muster.app.views.logs import Line
    from muster.app.views.usage import Usage
    from muster.app.wiring.cluster import Target
    from muster.app.wiring.state_directory import Endpoint
    from muster.dashboard.access import Viewer
    from muster.dashboard.changes import Change
    from muster.dashboard.tls import Certificate as TlsCertificate
    from muster.kube.client import Client

Port = Annotated[
    int,
    typer.Option("--port", "-p", min=0, max=65_535, help="The port to serve at; any free one by default."),
]
ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="Show only: no job is cancelled, held or released from a page.")
]
Listen = Annotated[
    str,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Serve the users of a cluster at this address: each signs in with a bearer token and sees what "
        "it may list. Read only.",
        show_default=False,
    ),
]
Hosts = Annotated[
    list[str] | None,
    typer.Option(
        "--host",
        metavar="NAME",
        help="A name by which browsers reach --listen, besides localhost; may be repeated.",
    ),
]

Certificate = Annotated[
    str,
    typer.Option(
        "--tls-cert",
        metavar="FILE",
        help="Serve --listen over TLS with this certificate and its chain (PEM); read again when it changes.",
        show_default=False,
    ),
]
Key = Annotated[
    str, typer.Option("--tls-key", metavar="FILE", help="The key of --tls-cert (PEM).", show_default=False)
]


def command(
    port: Port = 0,
    read_only: ReadOnly = False,
    listen: Listen = "",
    host: Hosts = None,
    tls_cert: Certificate = "",
    tls_key: Key = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import asyncio

    from muster.app.wiring.cluster import Target, attached
    from muster.dashboard.server import PortTaken

    if host and not listen:
        raise Failure("--host is for --listen", BAD_INPUT)
    if bool(tls_cert) != bool(tls_key):
        raise Failure("--tls-cert and --tls-key belong together; give both", BAD_INPUT)
    if tls_cert and not listen:
        raise Failure("--tls-cert is for --listen", BAD_INPUT)
    certificate = _certificate(tls_cert, tls_key) if tls_cert else None
    at = _address(listen) if listen else None
    # without a file, the service account of the pod
    target = Target(kubeconfig or "", context) if listen else Target(kubeconfig, context)
    if listen and target.connection.certified:
        text = "--listen reads output with the tokens of its users: use a kubeconfig with a token, "
        raise Failure(f"{text}not with a client certificate", BAD_INPUT)
    with attached(target) as endpoint:
        try:
            asyncio.run(
                _serve(
                    target,
                    endpoint,
                    port,
                    read_only=read_only,
                    listen=at,
                    hosts=host or (),
                    certificate=certificate,
                )
            )
        except PortTaken as error:
            raise Failure(f"{error}; choose another with --port", BAD_INPUT) from None


#: Pods of a real cluster whose output a page shows, and seconds for which that is kept.
FEW: Final = 4
FRESH: Final = 5.0
#: Seconds for which prices are kept, and for how many viewers.
PRICED: Final = 60.0
TOKENS: Final = 1_000


async def _serve(
    target: "Target",
    endpoint: "Endpoint | None",
    port: int,
    *,
    read_only: bool,
    listen: tuple[str, int] | None,
    hosts: Sequence[str],
    certificate: "TlsCertificate | None",
) -> None:
    """Serves the pages until it is interrupted."""
    import asyncio
    import signal
    import time

    from muster.app.records import accounting, runs
    from muster.app.views import pods
    from muster.app.views.logs import read, read_archive
    from muster.app.wiring.cluster import acting, archive
    from muster.dashboard.access import Access
    from muster.dashboard.cluster import Cluster
    from muster.dashboard.pages import PODS, Pages, Sources, gathered
    from muster.dashboard.replays import Replays
    from muster.dashboard.reviews import Reviews
    from muster.dashboard.server import HOST, Once, application, serving
    from muster.dashboard.sign_in import SignIn
    from muster.dashboard.work import REPLAY, Work
    from muster.kube.client import LogOptions
    from muster.kube.clock import first

    kept = archive(target)
    #: the latest, by the viewer's token and the job
    known: dict[tuple[str, str], tuple[float, Sequence[Line]]] = {}

    async with acting(target, endpoint) as client:

        async def output(view: "JobView", most: int, viewer: "Viewer") -> "Sequence[Line]":
            how = LogOptions(tail=most)
            if kept is not None:
                record = await asyncio.to_thread(runs.of_view, target, view)
                return await gathered(read_archive(kept, record.runs[-PODS:], how), most)
            key, now = (viewer.token, view.resource.metadata.uid), time.monotonic()
            at, lines = known.get(key, (0.0, ()))
            if now - at > FRESH:  # each is a request to a kubelet
                first = view.verdict.first.uid if view.verdict is not None else ""
                some = sorted(view.pods, key=lambda pod: (pod.metadata.uid != first, pods.pod_order(pod)))[
                    :FEW
                ]
                async with _as(viewer, target, client) as reader:
                    lines = await gathered(read(reader, some, how), most)
                known.clear()
                known[key] = now, lines
            return lines

        #: prices that viewers may read, by their tokens
        prices: dict[str, tuple[float, Rates]] = {}

        async def used(view: "JobView", now: float, viewer: "Viewer") -> "tuple[Usage, Rates]":
            at, rates = prices.get(viewer.token, (0.0, None))
            if rates is None or now - at > PRICED:
                async with _as(viewer, target, client) as reader:
                    rates = await accounting.rates_of(reader)
                if len(prices) >= TOKENS:
                    prices.clear()
                prices[viewer.token] = now, rates
            record = await asyncio.to_thread(runs.of_view, target, view)
            return accounting.used(view, record.runs, rates, now), rates

        cluster = Cluster(client, target.schedulers)
        sources = Sources(
            lambda view, now: runs.of_view(target, view).timeline(now),
            output,
            used,
            embedded=target.embedded,
            changes={} if read_only or listen else _changes(client),
            # it reads files as the user of this process, and a viewer of --listen is another user
            replays=None if listen else Replays(Work(REPLAY), _journal(target)),
        )
        pages = Pages(cluster, sources)
        stopped = asyncio.Event()
        for end in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(end, stopped.set)
        if listen:
            gate = SignIn(Reviews(client), pages, hosts, cluster.missing)
            tls = certificate.context if certificate is not None else None
            made_for_all = application(cluster, pages, gate)
            async with serving(lambda _: made_for_all, listen[1], listen[0], tls) as number:
                say(f"the dashboard listens at port {number}", flush=True)
                renewing = [certificate.follow()] if certificate is not None else []
                await first(cluster.run(), stopped.wait(), *renewing)
            return
        token = ""

        def made(number: int) -> "ASGIApp":
            nonlocal token
            access = Access(number)
            token = access.token
            return application(cluster, pages, Once(access, pages))

        async with serving(made, port) as number:
            say(f"the dashboard is at http://{HOST}:{number}/?token={token}")
            say("The address opens it once, in one browser. Ctrl-C ends it; jobs go on.", flush=True)
            await first(cluster.run(), stopped.wait())


def _certificate(chain: str, key: str) -> "TlsCertificate":
    from pathlib import Path

    from muster.dashboard.tls import BadCertificate, Certificate

    try:
        return Certificate(Path(chain), Path(key))
    except BadCertificate as error:
        raise Failure(f"--tls-cert: {error}", BAD_INPUT) from None


def _address(listen: str) -> tuple[str, int]:
    """The host and the port of HOST:PORT; no host: all addresses."""
    host, _, port = listen.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 65_536):
        raise Failure(f"--listen {listen}: write HOST:PORT, such as :8081", BAD_INPUT)
    return host.strip("[]"), int(port)


@asynccontextmanager
async def _as(viewer: "Viewer", target: "Target", client: "Client") -> "AsyncIterator[Client]":
    """A client with the viewer's rights: what only the API server may permit, it permits to the viewer."""
    if not viewer.token:
        yield client
        return
    from muster.kube.http import Connection, HttpClient

    of = target.connection
    bearer = {"Authorization": f"Bearer {viewer.token}"}
    its = HttpClient(
        Connection(of.server, of.tls, lambda: bearer, proxy=of.proxy, server_name=of.server_name)
    )
    try:
        yield its
    finally:
        await its.close()


def _journal(target: "Target") -> str:
    """The path of the journal of the embedded cluster's scheduler; "" of another's, which is elsewhere."""
    from muster.app.wiring.state_directory import StateDirectory

    return str(StateDirectory.of_user().journal) if target.embedded else ""


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
