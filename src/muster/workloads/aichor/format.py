"""Compiles the text of an AIchor manifest to a JobFile: parses, checks what spans fields, compiles."""

import re
from collections.abc import Sequence
from typing import Final

from muster import names
from muster.api.base import Object
from muster.api.fields import Finding, Path, Severity, dotted
from muster.api.koordinator_v1alpha1 import TOPOLOGY_SPEC
from muster.workloads import dns
from muster.workloads.aichor import variables
from muster.workloads.aichor.jobset import compile_jobset, hosts
from muster.workloads.aichor.manifest import Manifest, parse
from muster.workloads.aichor.scheduling import MARKED, Scheduling
from muster.workloads.findings import JobFileError
from muster.workloads.formats import Format
from muster.workloads.jobfile import Item, JobFile, Mode, Options, Role
from muster.workloads.source import Document

#: The manifest's field for each field of the compiled JobSet.
_ORIGIN: Final[dict[Path, Path]] = {
    ("metadata", "name"): ("name",),
    ("metadata", "annotations", names.DEADLINE): ("spec", "timeout"),
    ("metadata", "annotations", names.RESTART_BUDGET): ("spec", "restartPolicy", "backoffLimit"),
    ("metadata", "annotations", names.SHARED_VOLUME): ("spec", "storage", "sharedVolume"),
    ("metadata", "annotations", TOPOLOGY_SPEC): ("spec", "scheduling", "topology"),
    ("metadata", "annotations", names.EXCLUSIVE): ("spec", "scheduling", "exclusive"),
    ("metadata", "annotations", names.MATRIX): ("spec", "scheduling", "matrix"),
    **{
        ("metadata", "annotations", mark.key): ("spec", "scheduling", field) for field, mark in MARKED.items()
    },
    ("spec", "failurePolicy"): ("spec", "restartPolicy", "backoffLimit"),
}


def claims(value: Object) -> bool:
    """Whether a document is an AIchor manifest; fragments may omit kind and apiVersion."""
    kind, version = value.get("kind"), value.get("apiVersion")
    if kind is not None:
        return str(kind).lower() == "aichormanifest"
    return version is None or not isinstance(version, str) or version.startswith("0.")


def load(documents: Sequence[Document], options: Options) -> JobFile:
    """The JobFile of one manifest. Raises `JobFileError` with everything that is wrong with the manifest."""
    document = documents[0]
    if len(documents) > 1:
        raise JobFileError(
            [
                documents[1].finding(
                    (), "an AIchor manifest must be the only document; put this one into its own file"
                )
            ]
        )
    manifest, errors = parse(document)
    name = f"{manifest.name}-{options.suffix}"
    errors += _name(document, manifest, name)
    if not errors:
        errors += [*_lengths(document, manifest, name), *_outside(document, manifest, options)]
    if errors:
        raise JobFileError(sorted(errors, key=lambda finding: (finding.line, finding.column)))
    mode: Mode = options.mode or manifest.scheduling.mode or "independent"
    scheduling = manifest.scheduling
    if mode != "gang" and (scheduling.topology or scheduling.exclusive):
        field = "topology" if scheduling.topology else "exclusive"
        message = "is for pods that start together: write mode: gang beside it, or give --gang"
        raise JobFileError([document.finding(("spec", "scheduling", field), message)])
    if mode == "gang" and (field := _of_independent(scheduling)):
        message = "is for pods that start by themselves: omit it; restartPolicy.backoffLimit restarts a gang"
        raise JobFileError([document.finding(("spec", "scheduling", field), message)])
    jobset = compile_jobset(manifest, name, mode, options)

    def report(path: Path, message: str, severity: Severity = Severity.ERROR) -> Finding:
        return document.finding(_origin(manifest, path), message, severity)

    return JobFile(
        name=name,
        format=FORMAT.name,
        items=(Item(jobset, Role.PRIMARY, report),),
        notes=tuple(_notes(document, manifest, name)),
        gang=mode == "gang",
    )


def _of_independent(scheduling: Scheduling) -> str:
    """The field that a gang cannot have; "" if none is given."""
    if scheduling.matrix is not None:
        return "matrix"
    return "retries" if scheduling.retries is not None else ""


def _name(document: Document, manifest: Manifest, name: str) -> list[Finding]:
    if dns.is_label(f"{manifest.name}-x"):
        if len(name) <= dns.LABEL:
            return []
        most = dns.LABEL - len(name) + len(manifest.name)
        return [document.finding(("name",), f"has {len(manifest.name)} characters; the most is {most}")]
    better = re.sub(r"[^a-z0-9]+", "-", manifest.name.lower()).strip("-0123456789")
    advice = f", such as {better}" if better else ""
    message = (
        f"{manifest.name!r} cannot name an experiment: use lowercase letters, digits and hyphens, "
        f"beginning with a letter{advice}"
    )
    return [document.finding(("name",), message)]


def _lengths(document: Document, manifest: Manifest, name: str) -> list[Finding]:
    """Findings about types whose pod names would exceed DNS limits, by JobSet's own rule."""
    errors = []
    for t in manifest.types:
        longest = dns.longest_pod(name, t.name, t.count, t.completions)
        if len(longest) > dns.LABEL:
            over = len(longest) - dns.LABEL
            errors.append(
                document.finding(
                    ("spec", "types", t.name),
                    f"its last pod would be called {longest}, {len(longest)} characters, {over} more than "
                    f"the {dns.LABEL} of a DNS label; shorten the type's name, or `name`, by {over}",
                )
            )
    return errors


def _outside(document: Document, manifest: Manifest, options: Options) -> list[Finding]:
    """Findings that depend on where the file is to run."""
    errors: list[Finding] = []
    if not options.runs:
        return errors
    if not options.local:
        if not manifest.image:
            errors.append(
                document.finding(("spec", "image"), "is missing; a cluster runs containers, so name an image")
            )
        if manifest.shared_volume is not None:
            errors.append(
                document.finding(
                    ("spec", "storage", "sharedVolume"),
                    "is supported on the embedded cluster only; on a real one attach an existing PVC",
                )
            )
        return errors
    for volume in manifest.existing_volumes:
        if volume.name not in options.volumes:
            errors.append(
                document.finding(
                    volume.path,
                    f"the embedded cluster has no PVCs; name a directory to use instead: "
                    f"--volume {volume.name}=DIR",
                )
            )
    return errors


def _notes(document: Document, manifest: Manifest, name: str) -> list[Finding]:
    notes = []
    if manifest.ignored:
        first, *others = manifest.ignored
        also = f", as are {', '.join(map(dotted, others))}" if others else ""
        message = f"has no meaning here and is ignored{also}"
        notes.append(document.finding(first, message, Severity.NOTE))
    if manifest.without_resources:
        types = ", ".join(manifest.without_resources)
        notes.append(
            document.finding(
                ("spec", "types", manifest.without_resources[0]),
                f"no resources given; 1 CPU and 2 GiB each for {types}",
                Severity.NOTE,
            )
        )
    for t in manifest.types:
        if t.parallelisms > t.completions:
            notes.append(
                document.finding(
                    ("spec", "types", t.name, "parallelisms"),
                    f"is more than completions; {t.completions} pods of a job run at a time",
                    Severity.WARNING,
                )
            )
    peers = hosts(manifest, name)
    if not peers:
        notes.append(
            document.finding(("spec", "types"), "every count is 0: there is nothing to run", Severity.WARNING)
        )
    elif not variables.fits(peers):
        notes.append(
            document.finding(
                ("spec", "types"),
                f"{len(peers):,} pods run at a time, too many for one variable; {variables.PEERS} is not set",
                Severity.WARNING,
            )
        )
    return notes


def _origin(manifest: Manifest, path: Path) -> Path:
    """The manifest's field that a field of the JobSet is compiled from."""
    match path:
        case ("spec", "replicatedJobs", int(index), *_):
            return ("spec", "types", manifest.types[index].name)
    for length in range(len(path), 0, -1):
        if (origin := _ORIGIN.get(path[:length])) is not None:
            return origin
    return ("spec",)


FORMAT: Final = Format("aichor", claims, load)
