"""Reads a job file of any format into objects for a cluster.

    job = load("train.yaml", Options(suffix="3f9a1c20", mode="gang"))
    job.objects      # what to create, in order
    job.notes        # what to tell the user

The first document decides the format. Nothing here connects to a cluster, and the same file and options
always give the same objects.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from muster.api.fields import Finding, Severity
from muster.api.kinds import JOBSET
from muster.api.templates import pod_templates
from muster.workloads import aichor, annotate, batch, hints, kubernetes, source, training, variables
from muster.workloads.findings import JobFileError
from muster.workloads.formats import Format
from muster.workloads.jobfile import PLAIN, JobFile, Options, Role

#: The first format that recognises a file reads it.
FORMATS: Final[tuple[Format, ...]] = (aichor.FORMAT, batch.FORMAT, kubernetes.FORMAT)


def load(
    file: str | os.PathLike[str], options: Options = PLAIN, *, text: str | bytes | None = None
) -> JobFile:
    """The job file `file`, or `text` from elsewhere (at most `source.MAX_BYTES`), called `file` in errors.

    Raises `JobFileError` with every error that was found.
    """
    called = os.fspath(file)
    content = source.read(Path(file)) if text is None else text
    if isinstance(content, bytes):
        content = source.decode(content, called)
    if not options.suffix:
        options = replace(options, suffix=hashlib.sha256(content.encode()).hexdigest()[:8])
    documents = source.parse(content, called)
    job = replace(format_of(documents[0]).load(documents, options), suffix=options.suffix)
    if options.queue is not None:
        for item in job.items:
            annotate.in_queue(item.object, options.queue)
    if options.env:
        _give_variables(job, options.env)
    unprepared = [
        item.report(("metadata", "annotations"), why, Severity.ERROR)
        for item in job.items
        if item.object["kind"] == JOBSET.kind and (why := training.prepare(item.object))
    ]
    if unprepared:
        raise JobFileError(unprepared)
    hint = hints.rendezvous(job) if options.mode is None else None
    return job if hint is None else replace(job, notes=(*job.notes, hint))


def _give_variables(job: JobFile, env: Mapping[str, str]) -> None:
    """Adds the variables to all containers of the file's jobs. Raises `JobFileError` if it must not."""
    jobs = [item for item in job.items if item.role is Role.PRIMARY]
    if job.kind:  # its policies decide what its containers get
        told = f"--env is not for a {job.kind}; write the variables into its file"
        raise JobFileError([item.report((), told, Severity.ERROR) for item in jobs[:1]])
    if job.format == aichor.FORMAT.name and (set_ := [name for name in env if aichor.protected(name)]):
        told = f"is set for every pod and cannot be given; choose another name than {set_[0]}"
        raise JobFileError([Finding((), told, file="--env")])
    for item in jobs:
        for _, template in pod_templates(item.object):
            for container in training.containers(template.get("spec") or {}):
                variables.give(container, env)


def holds_no_more(content: str | bytes, called: str) -> bool:
    """Whether the content holds only objects that `load` accepts, with jobs or without.

    False if the content holds a kind that is not allowed in job files. Raises `JobFileError` if it is not
    YAML, or has no known format.
    """
    documents = source.parse(
        source.decode(content, called) if isinstance(content, bytes) else content, called
    )
    return format_of(documents[0]) is not kubernetes.FORMAT or kubernetes.known(documents)


def format_of(document: source.Document) -> Format:
    """The format of the file that begins with this document. Raises `JobFileError` if it is none."""
    value: Any = document.value  # Any: a user's YAML
    if not isinstance(value, dict):
        raise JobFileError(
            [document.finding((), "is not a job file: a mapping with spec, or with kind, is needed")]
        )
    for each in FORMATS:
        if each.claims(value):
            return each
    known = ", ".join(each.name for each in FORMATS)
    raise JobFileError([document.finding(("kind",), f"unrecognised job file format; supported: {known}")])
