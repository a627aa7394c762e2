"""Options that several commands share, so that they read the same everywhere."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.completion import job_names


class Output(StrEnum):
    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class Traced(StrEnum):
    """With a trace that ui.perfetto.dev draws."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    PERFETTO = "perfetto"


Kubeconfig = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        envvar="MUSTER_KUBECONFIG",
        show_envvar=False,
        help="Use this cluster instead of the embedded one. Default: $MUSTER_KUBECONFIG.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="The kubeconfig's context to use."),
]
Namespace = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="Look in this namespace; by default in the context's, on the embedded cluster in all.",
    ),
]
Into = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        metavar="NAME",
        help="The namespace of objects that name none; by default the context's.",
    ),
]
OutputFormat = Annotated[
    Output, typer.Option("--output", "-o", help="A table for people, JSON or YAML for programs.")
]
TracedFormat = Annotated[
    Traced,
    typer.Option("--output", "-o", help="A table for people, JSON or YAML; a trace for ui.perfetto.dev."),
]
JobNames = Annotated[
    list[str],
    typer.Argument(
        metavar="JOB",
        help="A job's name, the one in its file, a prefix, or NAMESPACE/NAME: of several jobs the newest.",
        autocompletion=job_names,
    ),
]
#: For verbs that only look.
AnyJobNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="JOB",
        help="A job's name, the one in its file, a prefix, or NAMESPACE/NAME: of several jobs the newest. "
        "Without a name, the newest of all.",
        autocompletion=job_names,
    ),
]
Failed = Annotated[bool, typer.Option("--failed", help="Only what has failed.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="A job file; - for standard input.")]
Nodes = Annotated[
    str,
    typer.Option(
        "--nodes",
        metavar="SPEC",
        help='Simulated nodes, e.g. "4 x cpu=32,memory=256Gi,nvidia.com/gpu=8", or a YAML file.',
    ),
]
Gang = Annotated[
    bool | None,
    typer.Option(
        "--gang/--independent", help="Start all pods at once or none, or each on its own.", show_default=False
    ),
]
Queue = Annotated[
    str | None,
    typer.Option("--queue", metavar="NAME", help="The queue to wait in."),
]
Volumes = Annotated[
    list[str] | None,
    typer.Option("--volume", metavar="NAME=DIR", help="A directory to use instead of an existing volume."),
]
Policies = Annotated[
    str,
    typer.Option(
        "--policies",
        metavar="DIR",
        help="Check everything that a batch job would get against these Cedar policies (*.cedar).",
    ),
]
VerifyImages = Annotated[
    bool,
    typer.Option(
        "--verify-images",
        help="Look images up in their registries, and check them against the TrustPolicies (*.yaml) "
        "of --policies.",
    ),
]
Every = Annotated[bool, typer.Option("--all", help="All jobs that match, without a question.")]


class NetworkBy(StrEnum):
    CILIUM = "cilium"
    PLAIN = "plain"
    NONE = "none"


class ProgramsBy(StrEnum):
    TETRAGON = "tetragon"
    NONE = "none"


class MeshBy(StrEnum):
    ISTIO = "istio"
    NONE = "none"


Network = Annotated[
    NetworkBy | None,
    typer.Option("--network", help="What restricts connections on the cluster; plain: NetworkPolicies."),
]
Programs = Annotated[
    ProgramsBy | None, typer.Option("--programs", help="What restricts programs on the cluster.")
]
Mesh = Annotated[MeshBy | None, typer.Option("--mesh", help="The mesh that the cluster has.")]
As = Annotated[
    str,
    typer.Option("--as", metavar="USER", help="The user that submits the job, for policies: NAMESPACE/NAME."),
]


def any_job(names: list[str] | None) -> Sequence[str | None]:
    """The names of `AnyJobNames`; None stands for the newest job."""
    return names or [None]
