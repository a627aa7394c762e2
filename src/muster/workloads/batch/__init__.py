"""Batch jobs as the developer writes them: BatchJob, and LatticeJob as an import format.

`job` is the model, `reader` reads a file into it, `compiling` compiles it for one of the `targets`.
"""

from collections.abc import Sequence
from typing import Final

from muster.api.base import Object
from muster.api.kinds import BATCH_JOB, LATTICE_JOB
from muster.workloads.formats import Format
from muster.workloads.jobfile import JobFile, Options
from muster.workloads.source import Document

#: apiVersion → kind of this format.
KINDS: Final = {kind.api_version: kind.kind for kind in (BATCH_JOB, LATTICE_JOB)}


def _claims(value: Object) -> bool:
    """Whether a document is a batch job of muster, or of the format that it imports."""
    version = value.get("apiVersion")
    return isinstance(version, str) and KINDS.get(version, "") == value.get("kind")


def _load(documents: Sequence[Document], options: Options) -> JobFile:
    """The JobFile of one batch job. Raises `JobFileError`."""
    from muster.workloads.batch import format  # Cedar's engine is loaded only for jobs that need it

    return format.load(documents, options)


FORMAT: Final = Format("batch", _claims, _load)

__all__ = ["FORMAT"]
