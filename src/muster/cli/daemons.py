"""`muster scheduler`, `controllers`, `fake-nodes` and `crds`: muster on a real cluster."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context, Kubeconfig

if TYPE_CHECKING:
    from muster.app.wiring.daemon import Place
    from muster.kube.http import Connection

NAMESPACE = "muster-system"

Lease = Annotated[
    str,
    typer.Option(
        "--lease", metavar="NAMESPACE/NAME", help="The Lease that replicas compete for; one leads at a time."
    ),
]
Listen = Annotated[
    str,
    typer.Option("--listen", metavar="HOST:PORT", help="Serve /healthz and /readyz here; by default not."),
]
SchedulerNames = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler-name",
        metavar="NAME",
        help="Schedule pods with this spec.schedulerName; may be repeated. By default muster.",
    ),
]
Only = Annotated[
    str,
    typer.Option(
        "--only",
        metavar="NAMES",
        help="Controllers to run, separated by commas: gang, podgroup, job, jobset, garbage.",
    ),
]


def scheduler(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lease: Lease = f"{NAMESPACE}/muster-scheduler",
    scheduler_name: SchedulerNames = None,
    listen: Listen = "",
) -> None:
    from muster.app.wiring import daemon
    from muster.names import SCHEDULER

    names = frozenset(scheduler_name or [SCHEDULER])
    _run(
        lambda connection: daemon.scheduler(connection, _place(lease), names, _address(listen)),
        kubeconfig,
        context,
    )


def controllers(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    lease: Lease = f"{NAMESPACE}/muster-controllers",
    only: Only = "gang,podgroup",
    listen: Listen = "",
) -> None:
    from muster.app.wiring import daemon

    chosen = [name.strip() for name in only.split(",")]
    if unknown := [name for name in chosen if name not in daemon.CONTROLLERS]:
        there = ", ".join(daemon.CONTROLLERS)
        raise Failure(f"--only: no controller is called {unknown[0]!r}; there are {there}", BAD_INPUT)
    _run(
        lambda connection: daemon.controllers(connection, _place(lease), chosen, _address(listen)),
        kubeconfig,
        context,
    )


def fake_nodes(
    nodes: Annotated[
        str,
        typer.Argument(
            metavar="SPEC", help='Such as "4 x cpu=32,memory=256Gi,nvidia.com/gpu=8", or a YAML file.'
        ),
    ],
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    import msgspec

    from muster.app.wiring import daemon
    from muster.local import nodespec

    specs = [msgspec.structs.replace(spec, runtime="none") for spec in nodespec.read(nodes)]
    _run(
        lambda connection: daemon.fake_nodes(connection, specs, lambda line: print(line, flush=True)),
        kubeconfig,
        context,
    )


def crds() -> None:
    import yaml

    from muster.api.crd import definitions

    print(yaml.safe_dump_all(definitions(), sort_keys=False), end="")


def _run(
    daemon: "Callable[[Connection], Coroutine[Any, Any, None]]", kubeconfig: str | None, context: str | None
) -> None:
    """Runs a daemon until it is told to stop."""
    import asyncio
    import logging
    import sys

    from muster.app.wiring.daemon import Lost, OthersNode
    from muster.kube import config
    from muster.runtime.leader import Deposed

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    connection = config.load(kubeconfig, context)
    try:
        asyncio.run(daemon(connection))
    except (Deposed, Lost) as error:
        raise Failure(str(error)) from error
    except OthersNode as error:
        raise Failure(str(error), BAD_INPUT) from error


def _place(lease: str) -> "Place":
    from muster.app.wiring.daemon import Place

    namespace, slash, name = lease.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise Failure(
            f"--lease: {lease!r} is no NAMESPACE/NAME, such as {NAMESPACE}/muster-scheduler", BAD_INPUT
        )
    return Place(namespace, name)


def _address(listen: str) -> str:
    _, colon, port = listen.rpartition(":")
    if listen and not (colon and port.isascii() and port.isdecimal() and 0 < int(port) < 2**16):
        raise Failure(f"--listen: {listen!r} is no HOST:PORT, such as 0.0.0.0:8080 or :8080", BAD_INPUT)
    return listen
