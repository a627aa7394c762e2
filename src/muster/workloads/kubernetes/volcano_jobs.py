"""Compiles the Jobs of Volcano among the objects of a file (`muster.workloads.volcano`).

On a cluster that runs Volcano's controllers they are left as they are: its users expect their own Jobs, with
the status that their tools read.
"""

from dataclasses import replace

from muster.api import kinds
from muster.api.fields import Finding, Path, Severity
from muster.workloads import volcano
from muster.workloads.jobfile import Options
from muster.workloads.kubernetes.objects import Entry


def compiled(entries: list[Entry], options: Options) -> tuple[list[Entry], list[Finding]]:
    """The entries with what each Job of Volcano is compiled to in its place, and findings about these."""
    if all(entry.kind is not kinds.VOLCANO_JOB for entry in entries):
        return entries, []
    findings: list[Finding] = []
    found: list[Entry] = []
    taken = {_identity(entry): entry for entry in entries if entry.kind is not kinds.VOLCANO_JOB}
    for entry in entries:
        if entry.kind is not kinds.VOLCANO_JOB:
            found.append(entry)
            continue
        if options.volcano:
            if options.mode == "independent":
                told = "Volcano's controllers start it as spec.minAvailable says; remove --independent"
                findings.append(entry.report((), told))
            found.append(entry)
            continue
        for made in _of(entry, options, findings):
            if (other := taken.setdefault(_identity(made), made)) is not made:
                told = f"becomes a {made.kind.kind} {made.name}, which is already in line {_line(other)}"
                findings.append(entry.report(("metadata", "name"), f"{told}; rename one"))
            found.append(made)
    return found, findings


def _of(entry: Entry, options: Options, findings: list[Finding]) -> list[Entry]:
    """What one Job becomes; nothing if it has errors."""
    mine: list[Finding] = []

    def report(path: Path, message: str, severity: Severity) -> None:
        mine.append(entry.report(path, message, severity))

    job = volcano.read(entry.object, report)
    made = volcano.compiled(job, report, options.mode, options.scheduler) if job is not None else []
    findings += mine
    if any(each.severity is Severity.ERROR for each in mine):
        return []
    return [
        replace(
            entry,
            kind=kinds.BY_NAME[each.object["apiVersion"], each.object["kind"]],
            object=each.object,
            origin=each.origin,
            owned=each.owned,
            written=entry.kind.kind,
        )
        for each in made
    ]


def _identity(entry: Entry) -> tuple[str, str, str]:
    return entry.kind.path(), entry.namespace, entry.name


def _line(entry: Entry) -> int:
    return entry.document.mark(entry.at).line
