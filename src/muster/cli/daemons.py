"""`muster scheduler`, `controllers`, `fake-nodes` and `crds`: muster on a real cluster."""

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import Context
from muster.cli.say import say

if TYPE_CHECKING:
    from muster.api.fields import Finding
    from muster.app.wiring.settings import Common, Live, Log
    from muster.kube.http import Connection

    S = TypeVar("S", bound=Common)

Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="The cluster's; by default $KUBECONFIG, ~/.kube/config, or in a pod its service account.",
    ),
]
Config = Annotated[
    str,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Read settings from this YAML file (docs/reference/daemons.md), and again when it changes. "
        "Options given here win.",
        show_default=False,
    ),
]
Lease = Annotated[
    str | None,
    typer.Option(
        "--lease", metavar="NAMESPACE/NAME", help="The Lease that replicas compete for; one leads at a time."
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Serve /healthz, /readyz and /metrics at this address; not served by default.",
    ),
]
Qps = Annotated[
    float | None,
    typer.Option("--qps", metavar="NUMBER", help="Requests per second to the API server; 0: no limit."),
]
Burst = Annotated[
    int | None,
    typer.Option("--burst", metavar="NUMBER", help="Requests that may be sent at once; by default as --qps."),
]
LogFormat = Annotated[
    str | None, typer.Option("--log-format", metavar="FORMAT", help="text, or json: one object per line.")
]
LogLevel = Annotated[
    str | None, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
]
SchedulerNames = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler-name",
        metavar="NAME",
        help="Schedule pods with this spec.schedulerName; may be repeated. By default muster.",
    ),
]
NodeSelector = Annotated[
    str | None,
    typer.Option(
        "--node-selector",
        metavar="LABELS",
        help="Use only nodes with these labels, such as pool=batch; by default all.",
    ),
]
JournalFile = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="FILE",
        help="Record events and decisions in this file, for muster replay; not recorded by default.",
    ),
]
JournalSize = Annotated[
    str | None,
    typer.Option(
        "--journal-size",
        metavar="BYTES",
        help="Size at which the journal is renamed to FILE.1, such as 64Mi.",
    ),
]
Only = Annotated[
    str | None,
    typer.Option(
        "--only",
        metavar="NAMES",
        help="Controllers to run, separated by commas: gang, podgroup, batchjob, gpuhealth, job, jobset, "
        "cronjob, resourceclaim, garbage. By default gang,podgroup,batchjob.",
    ),
]


def scheduler(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Config = "",
    lease: Lease = None,
    scheduler_name: SchedulerNames = None,
    node_selector: NodeSelector = None,
    listen: Listen = None,
    qps: Qps = None,
    burst: Burst = None,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
    journal: JournalFile = None,
    journal_size: JournalSize = None,
) -> None:
    from muster.app.wiring import daemon
    from muster.app.wiring.settings import SchedulerSettings

    given = {
        **_common(lease, listen, qps, burst, log_format, log_level),
        "schedulerNames": scheduler_name or None,
        "nodeSelector": node_selector,
        "journal.file": journal,
        "journal.size": journal_size,
    }
    live = _live(SchedulerSettings, config, given)
    _run(lambda connection: daemon.scheduler(connection, live), kubeconfig, context, live.now.log)


def controllers(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    config: Config = "",
    lease: Lease = None,
    only: Only = None,
    listen: Listen = None,
    qps: Qps = None,
    burst: Burst = None,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
) -> None:
    from muster.app.wiring import daemon
    from muster.app.wiring.settings import ControllersSettings

    given = {
        **_common(lease, listen, qps, burst, log_format, log_level),
        "only": None if only is None else [name.strip() for name in only.split(",")],
    }
    live = _live(ControllersSettings, config, given, daemon.known_controllers)
    _run(lambda connection: daemon.controllers(connection, live), kubeconfig, context, live.now.log)


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
    from muster.app.wiring.settings import Log
    from muster.embedded import nodespec

    specs = [msgspec.structs.replace(spec, runtime="none") for spec in nodespec.read(nodes)]
    _run(
        lambda connection: daemon.fake_nodes(connection, specs, lambda line: say(line, flush=True)),
        kubeconfig,
        context,
        Log(),
    )


def crds(
    lattice_jobs: Annotated[
        bool,
        typer.Option("--lattice-jobs", help="Print the definition of LatticeJobs, and no other."),
    ] = False,
) -> None:
    import yaml

    from muster.api.crd import definition, definitions
    from muster.api.kinds import LATTICE_JOB

    found = [definition(LATTICE_JOB)] if lattice_jobs else definitions()
    say(yaml.safe_dump_all(found, sort_keys=False).rstrip("\n"))


def _common(
    lease: str | None,
    listen: str | None,
    qps: float | None,
    burst: int | None,
    log_format: str | None,
    log_level: str | None,
) -> dict[str, Any]:  # Any: settings of any type
    return {
        "lease": lease,
        "listen": listen,
        "qps": qps,
        "burst": burst,
        "log.format": log_format,
        "log.level": log_level,
    }


def _live(
    type_: "type[S]",
    file: str,
    options: Mapping[str, Any],  # Any: settings of any type; None: not given
    check: "Callable[[S], list[Finding]] | None" = None,
) -> "Live[S]":
    """The settings of the file and the options, which follow the file from now on."""
    from muster.app.wiring.settings import Live, load

    given = {name: value for name, value in options.items() if value is not None}

    def read() -> "S":
        return load(type_, file, given, check)

    return Live(read, file, read())


def _run(
    daemon: "Callable[[Connection], Coroutine[Any, Any, None]]",
    kubeconfig: str | None,
    context: str | None,
    log: "Log",
) -> None:
    """Runs a daemon until it is told to stop."""
    from muster.app.wiring import event_loop, logs
    from muster.app.wiring.daemon import OthersNode
    from muster.kube import config
    from muster.runtime.leader import Deposed

    logs.configure(log)
    connection = config.load(kubeconfig, context)
    try:
        event_loop.run(daemon(connection))
    except Deposed as error:
        raise Failure(str(error)) from error
    except OthersNode as error:
        raise Failure(str(error), BAD_INPUT) from error
