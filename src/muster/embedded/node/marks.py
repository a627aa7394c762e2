"""Marks that identify a container's processes when neither the parent nor the session does any more.

All processes of one start of a container have two marks, which they pass on to every process that they fork:

- the environment variable `MUSTER_CONTAINER`, the directory of that start;
- where there is no PID namespace to end them all, a limit of the resident set size. Linux has kept that limit
  and ignored it since 2.4.30, so muster's number in it changes nothing. Unlike the environment, `exec` never
  replaces it, and no daemon clears it. The number is a hash of the directory.

In the midst of `execve`, a process has no environment; on a busy machine this lasts for some milliseconds.
A wrapper is recognised all the same: it holds the FIFO of its container's output.

A daemon that forked twice, left the session and emptied its environment is therefore found, too, even by a
muster that was started after the crash of the one that started the container.
"""

import os
import resource
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final, NewType

MARK: Final = "MUSTER_CONTAINER"
#: The FIFO of a container's output, in the directory of the start, and the wrapper's own descriptor of it.
OUTPUT: Final = "output"
OUTPUT_FD: Final = 9
#: A limit in KiB that identifies the container of a process.
Tag = NewType("Tag", int)
#: All tags are of this form: far above any memory, far below "unlimited".
_FIRST: Final = 1 << 52
_BITS: Final = 48
_KEY: Final = f"{MARK}=".encode()
_LIMIT: Final = b"Max resident set"


def tag(directory: str) -> Tag:
    digest = int.from_bytes(blake2b(directory.encode(), digest_size=8).digest())
    return Tag(_FIRST + digest % (1 << _BITS))


def tagging(directory: str) -> str:
    """The shell command that tags the shell and its children; "" if such a limit is already in force."""
    limited = resource.getrlimit(resource.RLIMIT_RSS)[1] != resource.RLIM_INFINITY
    return "" if limited else f"ulimit -m {tag(directory)}"


def processes() -> Iterator[tuple[int, str | Tag]]:
    """All live processes with a mark: the variable if they have it, else the tag."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := variable(int(name)) or _tag_of(int(name))):
            yield int(name), found


def carries(pid: int, directory: str) -> bool:
    found = variable(pid) or _tag_of(pid)
    return found is not None and belongs(found, directory)


def belongs(mark: str | Tag, directory: str) -> bool:
    """Whether `mark` is that of this start of a container, or of a probe of it, which is a path below."""
    if isinstance(mark, str):
        return mark == directory or mark.startswith(f"{directory}/")
    return mark == tag(directory)


def variable(pid: int) -> str:
    """The mark in a process's environment; "" for other users' processes, zombies and ended processes."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        if not environ:
            directory, name = os.path.split(os.readlink(f"/proc/{pid}/fd/{OUTPUT_FD}"))
            return directory if name == OUTPUT else ""
    except OSError:
        return ""
    return next(
        (os.fsdecode(entry[len(_KEY) :]) for entry in environ.split(b"\0") if entry.startswith(_KEY)), ""
    )


def _tag_of(pid: int) -> Tag | None:
    try:
        limits = Path(f"/proc/{pid}/limits").read_bytes()
        at = limits.index(_LIMIT) + len(_LIMIT)
        soft = limits[at:].split(maxsplit=1)[0]
        if not soft.isdigit() or not _FIRST <= int(soft) >> 10 < _FIRST + (1 << _BITS):
            return None
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (OSError, ValueError, IndexError):
        return None
    return None if state == b"Z" else Tag(int(soft) >> 10)
