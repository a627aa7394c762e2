"""Checkpoint files: programs report checkpoints, and receive requests for them, without an API client.

A pod names a file in `muster.dev/checkpoint-file`, absolute or relative to its working directory. The program
touches the file after each checkpoint, and the file's time becomes the pod's annotation
`muster.dev/checkpoint`. Before an eviction that waits for a checkpoint, `FILE.requested` is created beside
it. The files are read and created with the rights of the user, which the program has too. What a program
reports about its progress is read by `muster.embedded.node.progress`.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from muster.api import times
from muster.api.core_v1 import Pod
from muster.api.kinds import POD
from muster.embedded.node import progress
from muster.embedded.node.environment import Unavailable, caller_of
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.errors import ApiError, Unanswered, Unreachable
from muster.names import CHECKPOINT, CHECKPOINT_FILE, CHECKPOINT_REQUESTED, PROGRESS, PROGRESS_FILE

log = logging.getLogger(__name__)

#: Seconds between two checks of the files.
LOOK: Final = 1.0
#: The suffix of the file that requests a checkpoint.
REQUESTED: Final = ".requested"
_FILES: Final = frozenset({CHECKPOINT_FILE, PROGRESS_FILE})


class Checkpoints:
    """Checks the files of the pods that name one. `pods`: by `namespace/name`, kept up to date."""

    def __init__(self, client: Client, pods: Mapping[str, Pod], clock: Clock) -> None:
        self._client, self._pods, self._clock = client, pods, clock
        self._named: set[str] = set()
        #: when each pod's progress is recorded again at the earliest
        self._due: dict[str, datetime] = {}
        self._any = asyncio.Event()

    def changed(self, old: Pod | None, new: Pod | None) -> None:
        """Notes a change of a pod on a node that runs processes."""
        if new is not None and not _FILES.isdisjoint(new.metadata.annotations) and not new.terminal:
            self._named.add(new.key)
            self._any.set()
        elif (pod := new or old) is not None:
            self._named.discard(pod.key)
            self._due.pop(pod.key, None)

    async def run(self) -> None:
        while True:
            if not self._named:
                self._any.clear()
                await self._any.wait()
            await self._clock.sleep(LOOK)
            for key in sorted(self._named):
                if (pod := self._pods.get(key)) is not None:
                    await self._look(pod)

    async def _look(self, pod: Pod) -> None:
        meta, now, told = pod.metadata, self._clock.now(), dict[str, str]()
        if CHECKPOINT_FILE in meta.annotations and (saved := _found(look, pod, now)) is not None:
            told[CHECKPOINT] = saved
        if PROGRESS_FILE in meta.annotations and self._due.get(pod.key, now) <= now:
            self._due[pod.key] = now + progress.REFRESH
            if (report := _found(progress.look, pod, now)) is not None:
                told[PROGRESS] = report
        if not told:
            return
        try:
            body = {"metadata": {"uid": meta.uid, "annotations": told}}
            await self._client.patch(POD, meta.namespace, meta.name, body)
        except (ApiError, Unanswered, Unreachable) as error:
            log.warning("pod %s: its checkpoint or progress is not recorded: %s", pod.key, error)


def _found(look: Callable[[Pod, datetime], str | None], pod: Pod, now: datetime) -> str | None:
    try:
        return look(pod, now)
    except (OSError, OverflowError, ValueError, Unavailable):
        return None  # no file yet, or one that cannot be read


def look(pod: Pod, now: datetime) -> str | None:
    """Creates the request if it is due, and returns the time of a checkpoint that is not recorded yet.

    Raises OSError or ValueError if there is no such file, Unavailable if the working directory is not known.
    """
    annotations = pod.metadata.annotations
    path = Path(caller_of(pod).cwd, annotations[CHECKPOINT_FILE])
    if path.exists() and not path.is_file():
        return None  # a directory changes with every file in it, and nothing is saved
    requested = annotations.get(CHECKPOINT_REQUESTED)
    if requested is not None:
        _request(path, times.seconds(times.read(requested)))
    modified = path.stat().st_mtime
    began = pod.status.start_time
    if (began is not None and modified < times.seconds(began)) or modified > now.timestamp() + LOOK:
        return None  # of an earlier run, or in the future
    saved = times.written(datetime.fromtimestamp(modified, UTC))
    return None if annotations.get(CHECKPOINT) == saved else saved


def _request(path: Path, since: float) -> None:
    """Creates the request, unless the work has been saved since; a request that exists stays as it is."""
    with contextlib.suppress(OSError):
        if path.stat().st_mtime >= since:
            return
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(path.with_name(path.name + REQUESTED), flags, 0o600))
