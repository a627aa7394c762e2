"""The directories that belong to a job of the embedded cluster, besides those of its pods.

- `checkpoints/NAMESPACE/NAME.UID`: `MUSTER_CHECKPOINT_DIR` of all of the job's pods, over all restarts.
- `copies/ID`: the files that `run --copy` ran from, which the job's `muster.dev/submitted-from` names.

They follow the job's record: as long as the job exists, or is remembered after its deletion, they stay. A
retry uses those of the job that it retries. `sweep` removes those that no record uses. What a user may have
written never chooses what is removed: the names are matched, and only what is below these two directories.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Final, NamedTuple

from muster.api.base import ObjectMeta, controller_of
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JOBSET_NAME, JOBSET_UID
from muster.names import RETRY_OF, SUBMITTED_FROM
from muster.workloads.jobfile import Source
from muster.workloads.retry import Retry

#: The variable with the directory of a job that survives restarts.
CHECKPOINT_DIR: Final = "MUSTER_CHECKPOINT_DIR"
#: Seconds for which a directory without a job stays: its job may be about to be submitted.
YOUNG: Final = 3_600.0
_CHECKPOINTS: Final = "checkpoints"
_COPIES: Final = "copies"
_STEP: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,252}", re.ASCII)
_COPY: Final = re.compile(r"[0-9a-f]{16}", re.ASCII)


class Named(NamedTuple):
    """A job as its directories name it."""

    namespace: str
    name: str
    uid: str


def job_of(pod: Pod) -> Named:
    """The job whose pod this is: its JobSet, else its controller, else the pod itself."""
    meta = pod.metadata
    if JOBSET_UID in meta.labels:
        return Named(meta.namespace, meta.labels.get(JOBSET_NAME, ""), meta.labels[JOBSET_UID])
    owner = controller_of(pod)
    return Named(meta.namespace, *((meta.name, meta.uid) if owner is None else (owner.name, owner.uid)))


def checkpoints(root: Path, job: Named) -> Path | None:
    """The job's directory for checkpoints in the state directory; None if its names cannot be a path."""
    if not all(_STEP.fullmatch(each) for each in job):
        return None
    return root / _CHECKPOINTS / job.namespace / f"{job.name}.{job.uid}"


def copies(root: Path) -> Path:
    """The directory of the copies."""
    return root / _COPIES


def of_job(root: Path, meta: ObjectMeta, copy: str) -> list[Path]:
    """The directories of a job that exist. `copy`: the copy that the job says it runs from, or ""."""
    found = checkpoints(root, Named(meta.namespace, meta.name, meta.uid))
    wanted = [found] if found is not None else []
    if copy and _COPY.fullmatch(os.path.basename(copy)) and Path(copy).parent == copies(root):
        wanted.append(Path(copy))
    return [path for path in wanted if path.is_dir() and not path.is_symlink()]


def present(root: Path) -> bool:
    """Whether there is anything to sweep."""
    return any((root / each).is_dir() for each in (_CHECKPOINTS, _COPIES))


class Used(NamedTuple):
    """Which directories jobs use."""

    #: of the jobs whose checkpoints they write: their own uids, and those of the first jobs that they retry
    uids: Set[str]
    #: names of the copies that they run from
    copies: Set[str]

    @staticmethod
    def by(jobs: Iterable[tuple[str, Mapping[str, str]]]) -> "Used":
        """What these jobs say that they use, by their uids and annotations."""
        uids, copies = set[str](), set[str]()
        for uid, annotations in jobs:
            retried = Retry.read(annotations.get(RETRY_OF))
            uids |= {uid, retried.uid} if retried is not None else {uid}
            source = Source.read(annotations.get(SUBMITTED_FROM))
            copies.add(os.path.basename(source.copy) if source is not None else "")
        return Used(uids, copies)

    def holds(self, directory: Path) -> bool:
        """Whether one of them uses this directory of a job."""
        return directory.name.rpartition(".")[2] in self.uids or directory.name in self.copies


def sweep(root: Path, used: Used, now: float) -> list[Path]:
    """Removes the directories of jobs without a record, unless they are young; returns them.

    `used`: by all jobs that exist or are remembered. `now`: seconds since 1970.
    """
    copied = (path for path in _below(root / _COPIES, 1) if _COPY.fullmatch(path.name))
    unknown = [
        path for each in (_below(root / _CHECKPOINTS, 2), copied) for path in each if not used.holds(path)
    ]
    old = [path for path in unknown if _changed(path) < now - YOUNG]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
    return old


def _below(directory: Path, levels: int) -> Iterator[Path]:
    try:
        entries = sorted(entry.path for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return
    for each in map(Path, entries):
        yield from _below(each, levels - 1) if levels > 1 else (each,)


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return float("inf")
