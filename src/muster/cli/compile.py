"""`muster compile FILE`: prints what a batch job is compiled to, for muster or another scheduler."""

from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from muster.cli.options import (
    As,
    File,
    Into,
    Mesh,
    MeshBy,
    Network,
    NetworkBy,
    Output,
    Policies,
    Programs,
    ProgramsBy,
    VerifyImages,
)
from muster.cli.say import say

if TYPE_CHECKING:
    from muster.compiler import Facts
    from muster.workloads.platform import Platform, TargetName


class Scheduler(StrEnum):
    MUSTER = "muster"
    VOLCANO = "volcano"
    NATIVE = "native"


class Form(StrEnum):
    YAML = "yaml"
    JSON = "json"


#: Characters of `--as`.
MAX_USER: Final = 1_000

Target = Annotated[
    Scheduler, typer.Option("--target", help="The scheduler: muster, Volcano, or Kubernetes' own gangs.")
]
Printed = Annotated[Form, typer.Option("--output", "-o", help="YAML documents, or JSON.")]


def command(
    file: File,
    target: Target = Scheduler.MUSTER,
    policies: Policies = "",
    user: As = "",
    verify_images: VerifyImages = False,
    network: Network = None,
    programs: Programs = None,
    mesh: Mesh = None,
    namespace: Into = None,
    output: Printed = Form.YAML,
) -> None:
    import sys

    from muster.app.wiring.cluster import Target as Cluster
    from muster.cli import jobfile, show

    known = platform(policies, user, verify_images, target.value, facts(network, programs, mesh))
    where = Cluster(None, None, namespace, "")
    job = jobfile.load(
        file, gang=None, queue=None, volumes=None, target=where, suffix="", runs=False, platform=known
    )
    jobfile.print_notes(job)
    if output is Form.JSON:
        show.machine({"apiVersion": "v1", "kind": "List", "items": job.objects}, Output.JSON)
        return
    for index, each in enumerate(job.objects):
        if index:
            say("---")
        sys.stdout.flush()
        show.machine(each, Output.YAML)


def facts(network: NetworkBy | None, programs: ProgramsBy | None, mesh: MeshBy | None) -> "Facts":
    """Returns what enforces declarations on the cluster; by default Cilium and Tetragon."""
    from muster.compiler import Facts

    return Facts(
        network=network.value if network is not None else "cilium",
        tetragon=programs is not ProgramsBy.NONE,
        istio=mesh is MeshBy.ISTIO,
    )


def platform(
    policies: str,
    user: str,
    verify_images: bool,
    target: "TargetName" = "muster",
    facts: "Facts | None" = None,
) -> "Platform":
    """The platform that the options describe. Raises Failure."""
    from pathlib import Path

    from muster.cli.errors import BAD_INPUT, Failure
    from muster.workloads.platform import Platform, Submitter

    if facts is not None:
        facts = replace(facts, now=datetime.now(UTC))
    if not user.isprintable() or len(user) > MAX_USER:
        raise Failure(f"--as: a user is printable text of at most {MAX_USER} characters", BAD_INPUT)
    known = Platform(facts=facts, submitter=Submitter(user), target=target)
    if not policies and not verify_images:
        return known
    from muster.app.commands import administered
    from muster.app.commands.images import looker
    from muster.compiler.declared import declared
    from muster.security.images.trust import InvalidPolicy as InvalidTrust
    from muster.security.policies import InvalidPolicy

    try:
        if policies:
            known = replace(known, policies=administered.policies(Path(policies)))
            if facts is not None:
                found = (each for _, each in administered.objects(Path(policies)))
                known = replace(known, facts=declared(facts, found))
        if verify_images:
            known = replace(
                known, look_up=looker(administered.trust_policies(Path(policies)) if policies else [])
            )
        elif policies:
            administered.check_trust_policies(Path(policies))
    except (InvalidPolicy, InvalidTrust) as error:
        raise Failure(str(error), BAD_INPUT) from None
    except OSError as error:
        raise Failure(f"--policies {policies}: {error.strerror}", BAD_INPUT) from None
    return known
