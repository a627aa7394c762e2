"""What the run of a BatchJob was granted: the job as it was when it was compiled to this run.

Without it, a change of the BatchJob would decide about the run of the job before the change. So the run keeps
that job, compressed, in an annotation, and the controller compiles it again whenever a policy changes. The
annotation is as trustworthy as the run itself: a user that may change the run may also change what it runs.
"""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from muster import names
from muster.api.base import Object
from muster.api.kinds import BATCH_JOB
from muster.api.muster_v1alpha1 import BatchJob, BatchJobImage
from muster.controllers.batch_run import Run

#: Most bytes of the annotation (all of an object's together may have 256 KiB), and of the run that gets it.
MOST: Final = 64 * 1024
MOST_RUN: Final = 2**20
#: Most bytes of the job itself: an API server stores no larger object.
_MOST_JOB: Final = 2**22
_KUBECTL: Final = "kubectl.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Grant:
    #: hash of what the job was compiled to; "" = not known
    hash: str = ""
    #: the job; None = not known, so that the BatchJob as it is now decides
    job: BatchJob | None = None


class _Noted(msgspec.Struct, frozen=True):
    hash: str
    job: dict[str, Any] | None = None  # Any: JSON that the compiler reads as a user's
    images: list[BatchJobImage] = []


def written(job: BatchJob) -> Object:
    """The job as its author wrote it, without the metadata of the server and of kubectl."""
    meta = job.metadata
    annotations = {key: value for key, value in meta.annotations.items() if not key.startswith(_KUBECTL)}
    kept = {"name": meta.name, "namespace": meta.namespace, "labels": meta.labels, "annotations": annotations}
    return {
        "apiVersion": BATCH_JOB.api_version,
        "kind": BATCH_JOB.kind,
        "metadata": kept,
        "spec": job.spec,
    }


def note(job: BatchJob, hash_: str, images: Sequence[tuple[str, str]], run: Object) -> str:
    """The annotation of a run that `job` is compiled to; without the job if that is too large to keep."""
    pins = [BatchJobImage(image, digest) for image, digest in images]
    whole = _encoded(_Noted(hash_, written(job), pins))
    if len(whole) <= MOST and len(whole) + len(msgspec.json.encode(run)) <= MOST_RUN:
        return whole
    return _encoded(_Noted(hash_))


def read(job: BatchJob, run: Run) -> Grant:
    """What the run was granted, from the annotation that `note` has written."""
    try:
        packed = base64.b64decode(run.metadata.annotations.get(names.GRANTED, ""), validate=True)
        unpacking = zlib.decompressobj()
        noted = msgspec.json.decode(unpacking.decompress(packed, _MOST_JOB), type=_Noted)
        if noted.job is None:
            return Grant(noted.hash)
        author = msgspec.convert(noted.job, BatchJob)
    except (ValueError, zlib.error, msgspec.DecodeError, RecursionError):
        return Grant()
    metadata = replace(job.metadata, labels=author.metadata.labels, annotations=author.metadata.annotations)
    # Its images stay at their digests, as those of a BatchJob that has not changed.
    status = replace(job.status, images=noted.images, observed_generation=job.metadata.generation)
    return Grant(noted.hash, replace(job, metadata=metadata, spec=author.spec, status=status))


def _encoded(noted: _Noted) -> str:
    # Better compression of 1 MiB takes a fifth of a second, during which nothing else is reconciled.
    return base64.b64encode(zlib.compress(msgspec.json.encode(noted, order="sorted"), 1)).decode()
