"""`muster convert FILE --to DIALECT`: prints a file with its gangs in the words of another scheduler."""

from enum import StrEnum
from typing import Annotated

import typer

from muster.cli.compile import Form, Printed
from muster.cli.options import File
from muster.cli.say import say


class Dialect(StrEnum):
    """What a file can be converted to; a test compares it with the table of groups."""

    JOBSET = "jobset"
    COSCHEDULING = "coscheduling"
    KOORDINATOR = "koordinator"
    VOLCANO = "volcano"
    KUBE_BATCH = "kube-batch"
    KUBE_BATCH_V1ALPHA2 = "kube-batch-v1alpha2"
    NATIVE = "native"


To = Annotated[
    Dialect,
    typer.Option(
        "--to",
        help="JobSets and Jobs that are gangs of muster, or the PodGroups of scheduler-plugins, Koordinator, "
        "Volcano, kube-batch or Kubernetes.",
    ),
]
Scheduler = Annotated[
    str, typer.Option("--scheduler", metavar="NAME", help="Write this schedulerName on the pods of gangs.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 if anything is lost.")]


def command(
    file: File, to: To, scheduler: Scheduler = "", strict: Strict = False, output: Printed = Form.YAML
) -> None:
    import sys
    from pathlib import Path

    from muster.api.fields import Severity
    from muster.cli import jobfile, show
    from muster.cli.options import Output
    from muster.workloads import source
    from muster.workloads.convert import TARGETS, convert

    content = jobfile.stdin() if file == "-" else source.read(Path(file))
    row = next(row for row in TARGETS if str(row) == to.value)
    found = convert(content, jobfile.called(file), row, scheduler)
    for finding in found.findings:
        jobfile.print_finding(finding)
    if output is Form.JSON:
        show.machine({"apiVersion": "v1", "kind": "List", "items": found.objects}, Output.JSON)
    for index, each in enumerate(found.objects if output is Form.YAML else ()):
        if index:
            say("---")
        sys.stdout.flush()
        show.machine(each, Output.YAML)
    if strict and any(each.severity is Severity.WARNING for each in found.findings):
        raise typer.Exit(1)
