"""`muster compile FILE`: prints what a batch job is compiled to, for muster or another scheduler."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from muster.cli.options import As, File, Into, Output, Policies

if TYPE_CHECKING:
    from muster.workloads.platform import Platform, TargetName


class Scheduler(StrEnum):
    MUSTER = "muster"
    VOLCANO = "volcano"
    NATIVE = "native"


Target = Annotated[
    Scheduler, typer.Option("--target", help="The scheduler: muster, Volcano, or Kubernetes' own gangs.")
]
Form = Annotated[Output, typer.Option("--output", "-o", help="YAML documents, or JSON.")]


def command(
    file: File,
    target: Target = Scheduler.MUSTER,
    policies: Policies = "",
    user: As = "",
    namespace: Into = None,
    output: Form = Output.YAML,
) -> None:
    import sys

    from muster.app.wiring.cluster import Target as Cluster
    from muster.cli import jobfile, show
    from muster.compiler import Facts

    known = platform(policies, user, target.value, Facts())
    where = Cluster(None, None, namespace, "")
    job = jobfile.load(
        file, gang=None, queue=None, volumes=None, target=where, suffix="", runs=False, platform=known
    )
    jobfile.print_notes(job)
    if output is Output.JSON:
        show.machine({"apiVersion": "v1", "kind": "List", "items": job.objects}, output)
        return
    for index, each in enumerate(job.objects):
        if index:
            print("---")
        sys.stdout.flush()
        show.machine(each, Output.YAML)


def platform(
    policies: str, user: str, target: "TargetName" = "muster", facts: "object | None" = None
) -> "Platform":
    """The platform that the options describe. Raises Failure."""
    from pathlib import Path

    from muster.cli.errors import BAD_INPUT, Failure
    from muster.compiler import Facts
    from muster.workloads.platform import Platform, Submitter

    read = None
    if policies:
        from muster.security.policies import InvalidPolicy
        from muster.security.policies import read as read_policies

        try:
            read = read_policies(Path(policies))
        except InvalidPolicy as error:
            raise Failure(str(error), BAD_INPUT) from None
        except OSError as error:
            raise Failure(f"--policies {policies}: {error.strerror}", BAD_INPUT) from None
    assert facts is None or isinstance(facts, Facts)
    return Platform(facts=facts, policies=read, submitter=Submitter(user), target=target)
