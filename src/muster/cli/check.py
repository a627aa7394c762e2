"""`muster check FILE`: what is wrong with it, and, against nodes, whether it could ever start."""

import typer

from muster.cli.errors import BAD_INPUT
from muster.cli.options import File, Gang, Nodes, Output, OutputFormat, Queue, Volumes


def command(
    file: File,
    gang: Gang = None,
    queue: Queue = None,
    nodes: Nodes = "",
    volume: Volumes = None,
    output: OutputFormat = Output.TABLE,
) -> None:
    from muster.app import fit
    from muster.cli import jobfile, show
    from muster.local import nodespec
    from muster.workloads.check import check
    from muster.workloads.findings import Severity

    job = jobfile.load(file, gang=gang, queue=queue, volumes=volume, suffix="", jobs=False)
    findings = [*check(job), *jobfile.unusable(job)]
    never = fit.misfits(job, fit.as_nodes(nodespec.read(nodes))) if nodes else []
    if output is not Output.TABLE:
        show.machine(
            {"findings": [jobfile.finding_json(each) for each in findings], "misfits": never}, output
        )
    else:
        for finding in findings:
            jobfile.print_finding(finding)
        for sentence in never:
            jobfile.print_error(sentence)
        print(f"{jobfile.called(file)}: {jobfile.header(job) if job.primary else 'nothing to run'}")
    if never or any(finding.severity is Severity.ERROR for finding in findings):
        raise typer.Exit(BAD_INPUT)
