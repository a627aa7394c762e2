"""The directories that belong to a job of the embedded cluster, besides those of its pods.

- `checkpoints/NAMESPACE/NAME.UID`: `MUSTER_CHECKPOINT_DIR` of all of the job's pods, over all restarts.
- `copies/ID`: the files that `run --copy` ran from, which the job's `muster.dev/submitted-from` names.

They follow the job's record: as long as the job exists, or is remembered after its deletion, they stay.
`sweep` removes those without a record. What a user may have written never chooses what is removed: the names
are matched, and only what is below these two directories.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import Final, NamedTuple

from muster.api.base import ObjectMeta, controller_of
from muster.api.core_v1 import Pod
from muster.api.jobset_v1alpha2 import JOBSET_NAME, JOBSET_UID

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


def sweep(root: Path, uids: Set[str], kept: Iterable[str], now: float) -> list[Path]:
    """Removes the directories of jobs without a record, unless they are young; returns them.

    `uids`: of all jobs that exist or are remembered; `kept`: the copies that these name. `now`: seconds since
    1970.
    """
    named = {os.path.basename(copy) for copy in kept}
    unknown = [
        *(path for path in _below(root / _CHECKPOINTS, 2) if path.name.rpartition(".")[2] not in uids),
        *(
            path
            for path in _below(root / _COPIES, 1)
            if _COPY.fullmatch(path.name) and path.name not in named
        ),
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
