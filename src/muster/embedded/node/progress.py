"""Files in which programs report their progress.

A pod names a file in `muster.dev/progress-file`, absolute or relative to its working directory. Its program
writes lines such as `step=1200 loss=0.31` to it: it appends them, or overwrites the last one. The last report
becomes the pod's annotation `muster.dev/progress`, with the time of the first report of its step. The file is
read with the rights of the user, which the program has too. Only a plain file is read, and only its end.
"""

import os
import stat
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from muster.api import progress
from muster.api.core_v1 import Pod
from muster.embedded.node.environment import caller_of
from muster.names import PROGRESS, PROGRESS_FILE

#: Bytes of the file's end that are read.
_END: Final = 16_384
#: Least time between two records of a pod's reports.
REFRESH: Final = timedelta(seconds=10)
#: The modification time of a file may be this much before the start of the pod that wrote it.
_COARSE: Final = timedelta(seconds=1)


def look(pod: Pod, now: datetime) -> str | None:
    """Returns the last report if it is not recorded yet.

    Raises OSError or ValueError if there is no such file, Unavailable if the working directory is not known.
    """
    annotations, began = pod.metadata.annotations, pod.status.start_time
    text, modified = _end(Path(caller_of(pod).cwd, annotations[PROGRESS_FILE]))
    if began is not None and modified < began - _COARSE:
        return None  # of an earlier run
    found = progress.last(_lines(text))
    if found is None:
        return None
    known = progress.report(annotations.get(PROGRESS, ""))
    since = min(modified, now)
    if known is not None and known.step == found.step and known.at is not None:
        since = min(known.at, now)
    told = str(replace(found, at=since))
    return None if told == annotations.get(PROGRESS) else told


def _end(path: Path) -> tuple[str, datetime]:
    """The end of a file, and when it was written. Raises OSError, also for what is not a plain file."""
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path} is not a plain file")
        read = os.pread(opened, _END, max(status.st_size - _END, 0))
    finally:
        os.close(opened)
    return read.decode(errors="replace"), datetime.fromtimestamp(status.st_mtime, UTC)


def _lines(text: str) -> list[str]:
    """The lines that are complete; a text without line ends is one line."""
    lines = text.split("\n")
    return lines[:-1] or lines
