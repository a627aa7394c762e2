"""How much the emptyDirs of a pod take, and which of them exceeds its `sizeLimit`.

A pod with such a volume is evicted, as on a kubelet. Source: kubernetes pkg/kubelet/eviction/
eviction_manager.go (emptyDirLimitEviction). Usage is what `du` counts, files in memory included. Walking a
large volume takes long, so the pause between two walks grows with them: they take at most 2 % of a core.
"""

import asyncio
import contextlib
import os
import threading
from pathlib import Path
from typing import Final

from muster.api import quantity
from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.embedded.node import volumes
from muster.embedded.node.machine import Machine

PERIOD: Final = 10.0  # seconds between two walks at least, as on a kubelet
PAUSES: Final = 50  # how many times as long as a walk the pause after it is at least
GRACE: Final = 1.0  # seconds that an evicted pod has to end
_BLOCK: Final = 512  # bytes of a block in a file's status


async def exceeded(machine: Machine, pod: Pod) -> str:
    """Waits until a volume exceeds its limit; returns the message. Returns "" at once if none has a limit."""
    limited = [volume for volume in pod.spec.volumes if _limit(volume)]
    directory = machine.volumes(pod.metadata.uid)
    while limited:
        begin = machine.clock.monotonic()
        if (told := await _in_thread(limited, directory)) is not None:
            return told
        took = machine.clock.monotonic() - begin
        await machine.clock.sleep(max(PERIOD, PAUSES * took))
    return ""


async def _in_thread(limited: list[Object], directory: Path) -> str | None:
    """Walks the volumes in a thread, since a disk may be slow; the thread ends when this is cancelled."""
    stopped = threading.Event()
    try:
        return await asyncio.to_thread(_first_over, limited, directory, stopped)
    finally:
        stopped.set()


def _first_over(limited: list[Object], directory: Path, stopped: threading.Event) -> str | None:
    for volume in limited:
        path, limit = volumes.empty_dir(volume, directory), _limit(volume)
        if path is not None and used(path, limit, stopped) > limit:
            return f'Usage of EmptyDir volume "{volume["name"]}" exceeds the limit "{_size_limit(volume)}".'
    return None


def used(root: Path, most: int, stopped: threading.Event) -> int:
    """Bytes on disk below a directory. Above `most`, or once `stopped`, the rest is not counted.

    A file of several names counts at each name by its share. What goes meanwhile does not count.
    """
    total, pending = 0, [os.fspath(root)]
    while pending and total <= most and not stopped.is_set():
        with contextlib.suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        found = entry.stat(follow_symlinks=False)
                        total += found.st_blocks * _BLOCK // (found.st_nlink or 1)
    return total


def _size_limit(volume: Object) -> str:
    return str((volume.get("emptyDir") or {}).get("sizeLimit") or "0")


def _limit(volume: Object) -> int:
    """Bytes; 0 means none."""
    return int(quantity.parse(_size_limit(volume)))
