"""`muster check FILE…`: reports what is wrong with files, and whether they could start on given nodes."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from muster.cli.errors import BAD_INPUT
from muster.cli.options import (
    As,
    Gang,
    Mesh,
    Network,
    Nodes,
    Output,
    OutputFormat,
    Policies,
    Programs,
    Queue,
    VerifyImages,
    Volumes,
)
from muster.cli.say import say

if TYPE_CHECKING:
    from pathlib import Path

    from muster.api.base import Object
    from muster.api.fields import Finding
    from muster.api.rates import Rates
    from muster.app.plan.preflight import Preflight
    from muster.translate.risk import Risk
    from muster.workloads.jobfile import JobFile
    from muster.workloads.snapshot import Objects

    #: objects of a directory, each with its file
    Administered = Sequence[tuple[Path, Object]]

Files = Annotated[
    list[str], typer.Argument(metavar="FILE", help="Job files, each checked by itself; - for standard input.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")]


class Checked(NamedTuple):
    """What is to be said of one file."""

    findings: "Sequence[Finding]"
    #: why parts of its jobs could never start on the nodes, in sentences
    misfits: Sequence[str] = ()
    risks: "Sequence[Risk]" = ()
    #: the job in a line; "" if the file cannot be read
    title: str = ""


def command(
    files: Files,
    gang: Gang = None,
    queue: Queue = None,
    nodes: Nodes = "",
    volume: Volumes = None,
    strict: Strict = False,
    policies: Policies = "",
    user: As = "",
    verify_images: VerifyImages = False,
    network: Network = None,
    programs: Programs = None,
    mesh: Mesh = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    from pathlib import Path

    from muster.api.fields import Severity
    from muster.app.commands import administered
    from muster.app.plan.fit import as_nodes
    from muster.app.snapshot import Snapshot
    from muster.cli import jobfile, show
    from muster.cli.compile import facts, platform
    from muster.embedded import nodespec
    from muster.workloads.findings import JobFileError

    on_cluster = policies or verify_images or network or programs or mesh
    cluster = facts(network, programs, mesh) if on_cluster else None
    known = platform(policies, user, verify_images, facts=cluster)
    there = as_nodes(nodespec.read(nodes)) if nodes else None
    beside = [*administered.objects(Path(policies))] if policies else []
    remark = f"only this file and {policies} are considered" if beside else "only this file is considered"

    def checked(file: str) -> Checked:
        try:
            job = jobfile.load(
                file, gang=gang, queue=queue, volumes=volume, suffix="", jobs=False, platform=known
            )
            around = Snapshot(_deciding(beside), prices=_prices(job, beside))
            preflight = around.preflight(job.objects)
            return Checked(
                [*_findings(job, preflight, f" ({remark})", alone=there is None)],
                [f"{jobfile.called(file)}: {each}" for each in preflight.misfits(there)]
                if there is not None
                else [],
                preflight.risks(),
                f"{jobfile.called(file)}: {jobfile.header(job) if job.primary else 'nothing to run'}",
            )
        except JobFileError as error:
            return Checked(error.findings)

    every: list[Checked] = []
    for file in files:
        every.append(checked(file))
        if output is Output.TABLE:
            _print(every[-1])
    if output is not Output.TABLE:
        show.machine(
            {
                "findings": [jobfile.finding_json(each) for one in every for each in one.findings],
                "misfits": [each for one in every for each in one.misfits],
                "risks": [each.message for one in every for each in one.risks],
            },
            output,
        )
    bad = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    if any(one.misfits or any(each.severity in bad for each in one.findings) for one in every):
        raise typer.Exit(BAD_INPUT)


def _print(checked: Checked) -> None:
    from muster.cli import jobfile

    for finding in checked.findings:
        jobfile.print_finding(finding)
    jobfile.print_risks([*checked.risks])
    for sentence in checked.misfits:
        jobfile.print_error(sentence)
    if checked.title:
        say(checked.title)


def _deciding(beside: "Administered") -> "Objects":
    """Returns those of the objects that decide about priorities and queues."""
    from itertools import groupby

    from muster.api import kinds
    from muster.workloads.snapshot import Objects, typed

    deciding = (kinds.PRIORITY_CLASS, *kinds.QUEUES, kinds.RESOURCE_QUOTA, kinds.NODE)
    names = [kind.kind for kind in deciding]
    found = Objects()
    for path, group in groupby(beside, lambda each: each[0]):
        objects = [each for _, each in group if each.get("kind") in names]
        found.items |= typed(objects, deciding, str(path)).items
    return found


def _prices(job: "JobFile", beside: "Administered") -> "Rates":
    """The prices of the file, or of those beside the policies."""
    from muster.api import rates
    from muster.api.core_v1 import ConfigMap
    from muster.api.fields import InvalidObject, convert
    from muster.workloads.findings import JobFileError

    priced = rates.Rates()
    own = (("the job's file", each) for each in job.objects)
    for file, each in [*own, *((str(path), each) for path, each in beside)]:
        if each.get("kind") == "ConfigMap" and _name(each) == rates.NAME:
            try:
                priced = rates.read(convert(each, ConfigMap))
            except InvalidObject as error:
                told = f'ConfigMap {rates.NAME}: {error}; write a price as text, such as "3.50"'
                raise JobFileError.of(file, told) from None
    return priced


def _name(each: "Object") -> str:
    meta = each.get("metadata")
    return str(meta.get("name")) if isinstance(meta, dict) else ""


def _findings(job: "JobFile", known: "Preflight", remark: str, *, alone: bool) -> "Iterator[Finding]":
    """The findings about a job of which this is `known`; `remark`: added to those that depend on others.

    `alone`: without nodes, so omit what only a cluster could tell.
    """
    from muster.api.fields import Severity
    from muster.api.foreign_marks import SENTENCES
    from muster.cli import jobfile
    from muster.core.words.gang import MOST_PLACES
    from muster.workloads.check import check
    from muster.workloads.demand import pod_sets
    from muster.workloads.jobfile import Role

    found = [*check(job), *jobfile.unusable(job)]
    yield from found
    if any(each.severity is Severity.ERROR for each in found):
        return
    yield from jobfile.of_jobs(job, known.barred, remark)
    yield from jobfile.of_jobs(job, known.warnings(SENTENCES), remark)
    if not alone:
        return
    refused = known.invalid()
    for name, item in jobfile.gangs(job).items():
        if why := refused.get(name):
            if (
                item.role is Role.PRIMARY
                and sum(pod_set.count for pod_set in pod_sets(item.object)) > MOST_PLACES
            ):  # wherever it runs
                yield item.report(("metadata", "name"), why, Severity.ERROR)
                continue
            yield item.report(("metadata", "name"), why + remark, Severity.WARNING)
