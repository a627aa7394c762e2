"""`muster check FILE`: what is wrong with it, and, against nodes, whether it could ever start."""

import typer

from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.options import File, Gang, Nodes, Queue, Volumes


def command(
    file: File, gang: Gang = None, queue: Queue = None, nodes: Nodes = "", volume: Volumes = None
) -> None:
    from muster.app import fit
    from muster.cli import jobfile
    from muster.local import nodespec
    from muster.workloads.check import check
    from muster.workloads.findings import Severity

    job = jobfile.load(file, gang=gang, queue=queue, volumes=volume, embedded=True, suffix="")
    findings = check(job)
    for finding in findings:
        jobfile.print_finding(finding)
    wrong = any(finding.severity is Severity.ERROR for finding in findings)
    if nodes:
        try:
            specs = nodespec.read(nodes)
        except nodespec.InvalidNodes as error:
            raise Failure(str(error), BAD_INPUT) from error
        for sentence in fit.misfits(job, fit.as_nodes(specs)):
            jobfile.print_error(sentence)
            wrong = True
    print(f"{file}: {jobfile.header(job)}")
    if wrong:
        raise typer.Exit(BAD_INPUT)
