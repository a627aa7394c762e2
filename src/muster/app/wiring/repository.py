"""The git repository of a directory: its commit, whether it is changed, and a copy of its files.

A repository may be hostile, unpacked from somewhere: its configuration can name programs that git starts
(hooks, filters, a file system monitor, a transport). All of them are switched off, by variables of git that
take precedence over its configuration; a git that is too old for these is not used. Nothing is written to the
repository, and nothing is fetched. Each question has a time limit, and its answer a size limit, so that a
repository with a million files only makes an answer unknown.
"""

import os
import re
import select
import shutil
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final

#: Seconds that git may take to answer about the commit, and to list the files of a copy.
PATIENCE: Final = 2.0
LISTING: Final = 30.0
#: Files and bytes of a copy, and bytes of the list of its files.
MOST_FILES: Final = 50_000
MOST_BYTES: Final = 2 * 2**30
_MOST_LISTED: Final = 32 * 2**20
_OFF: Final = {
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.untrackedCache": "false",
    "core.sshCommand": "false",
    "core.gitProxy": "",
    "protocol.allow": "never",
    "status.submoduleSummary": "false",
    "diff.ignoreSubmodules": "all",
}
#: What a filter is configured by; the empty text is none.
_FILTERS: Final = r"^filter\..*\.(clean|smudge|process|required)$"
#: The oldest git that reads GIT_CONFIG_COUNT.
_OLDEST: Final = (2, 31)
_VERSION: Final = re.compile(rb"git version (\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True, slots=True)
class State:
    """The commit of a directory's repository."""

    #: "" = no repository, or its state could not be found out
    commit: str = ""
    #: whether tracked files differ from the commit; None = not known
    dirty: bool | None = None


class TooLarge(Exception):
    """A directory that is not copied; the message says why, and what to do."""


def state(directory: Path, patience: float = PATIENCE) -> State:
    """The commit that is checked out in the directory, found within `patience` seconds a question."""
    if not any((above / ".git").exists() for above in (directory, *directory.parents)):
        return State()
    found = _git(directory, ["rev-parse", "--verify", "--quiet", "HEAD"], 100, patience)
    commit = (found or b"").decode(errors="replace").strip()
    if not commit:
        return State()
    off = _filters_off(directory, patience)
    words = ["status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all", "--no-renames"]
    changed = None if off is None else _git(directory, words, 1, patience, off)
    return State(commit, None if changed is None else bool(changed))


def copy(directory: Path, to: Path) -> None:
    """Copies the tracked and the unignored files below a directory; without a repository or git, all files.

    `to` must not exist. Links are copied as links, and nothing is read or written through one; devices, pipes
    and submodules are left out. Raises TooLarge, OSError.
    """
    files = _bounded(directory, _listed(directory))
    to.mkdir(mode=0o700, parents=True)
    number = size = 0
    above: dict[Path, bool] = {}  # whether a directory of the copy is there, and one in the source, too
    try:
        for name in files:
            source, target = directory / name, to / name
            # What was tracked may be something else by now, and may vanish at any time.
            with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError, shutil.SpecialFileError):
                if name.parent not in above:
                    above[name.parent] = _made(directory, to, name.parent)
                if not above[name.parent] or os.path.lexists(target):  # nothing is written through a link
                    continue
                status = source.lstat()
                if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                    continue
                number, size = number + 1, size + status.st_size
                if number > MOST_FILES or size > MOST_BYTES:
                    raise _too_large(directory)
                shutil.copy2(source, target, follow_symlinks=False)
    except BaseException:
        shutil.rmtree(to, ignore_errors=True)
        raise


def _bounded(directory: Path, listed: Iterable[Path]) -> Iterable[Path]:
    """The listed files. Raises TooLarge before any is copied if they are too many, or too large."""
    files, size = list(islice(listed, MOST_FILES + 1)), 0
    if len(files) > MOST_FILES:
        raise _too_large(directory)
    for name in files:
        with suppress(OSError):
            status = (directory / name).lstat()
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    if size > MOST_BYTES:
        raise _too_large(directory)
    return files


def _made(directory: Path, to: Path, name: Path) -> bool:
    """Makes a directory of the copy; False if it, or one above it, is a link or a file, here or there."""
    for each in (*reversed(name.parents), name):
        if each.parts:
            if not stat.S_ISDIR((directory / each).lstat().st_mode):
                return False
            with suppress(FileExistsError):
                (to / each).mkdir()
            if not stat.S_ISDIR((to / each).lstat().st_mode):
                return False
    return True


def _listed(directory: Path) -> Iterable[Path]:
    words = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    there = any((above / ".git").exists() for above in (directory, *directory.parents))
    listed = _git(directory, words, _MOST_LISTED, LISTING) if there else None
    if listed is None:
        return _walked(directory)
    if len(listed) >= _MOST_LISTED:
        raise _too_large(directory)
    found = (Path(os.fsdecode(name)) for name in listed.split(b"\0") if name)
    return [path for path in found if not path.is_absolute() and ".." not in path.parts]


def _walked(directory: Path) -> Iterator[Path]:
    for above, directories, files in os.walk(directory):
        directories[:] = sorted(name for name in directories if name not in (".git", "__pycache__"))
        here = Path(above).relative_to(directory)
        links = [name for name in directories if (Path(above) / name).is_symlink()]
        yield from (here / name for name in sorted([*files, *links]))


def _too_large(directory: Path) -> TooLarge:
    return TooLarge(
        f"--copy: {directory} has more than {MOST_FILES:,} files or {MOST_BYTES >> 30} GiB that git does not "
        "ignore; leave data out by .gitignore, or run without --copy"
    )


def _filters_off(directory: Path, patience: float) -> dict[str, str] | None:
    """The configuration that switches the repository's filters off; None if it cannot be found out."""
    words = ["config", "--null", "--name-only", "--get-regexp", _FILTERS]
    found = _git(directory, words, 2**16, patience, none=(1,))
    if found is None or len(found) >= 2**16:
        return None
    keys = [key.decode(errors="surrogateescape") for key in found.split(b"\0") if key]
    return {key: "false" if key.endswith(".required") else "" for key in keys}


def _git(
    directory: Path,
    words: Sequence[str],
    most: int,
    patience: float,
    config: Mapping[str, str] | None = None,
    none: Sequence[int] = (),
) -> bytes | None:
    """The first `most` bytes that git answers; None without an answer in time, or from too old a git.

    `none`: exit codes besides 0 with which git says that there is nothing.
    """
    if not _takes_variables(os.environ.get("PATH"), patience):
        return None
    settings = {**_OFF, **(config or {})}
    numbered = [
        (f"GIT_CONFIG_{part}_{number}", text)
        for number, pair in enumerate(settings.items())
        for part, text in zip(("KEY", "VALUE"), pair, strict=True)
    ]
    env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    env |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1"}
    env |= {"GIT_ALLOW_PROTOCOL": "none", "GIT_CONFIG_COUNT": str(len(settings)), **dict(numbered)}
    whole = ["--no-pager", "--literal-pathspecs", "-C", str(directory), *words]
    return _answer(whole, most, patience, env, none)


@cache
def _takes_variables(path: str | None, patience: float) -> bool:
    """Whether the git of this PATH is so new that it reads its configuration from variables.

    A hostile repository's programs would run by an older one, which is asked nothing else.
    """
    env = {"LC_ALL": "C", **({"PATH": path} if path is not None else {})}
    found = _VERSION.match(_answer(["version"], 100, patience, env, cwd="/") or b"")
    return found is not None and (int(found[1]), int(found[2])) >= _OLDEST


def _answer(
    words: Sequence[str],
    most: int,
    patience: float,
    env: Mapping[str, str],
    none: Sequence[int] = (),
    cwd: str | None = None,
) -> bytes | None:
    """The first `most` bytes that a command of git prints; None if it fails, or not in time."""
    try:
        process = subprocess.Popen(
            ["git", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=env,
            cwd=cwd,
        )
    except (OSError, ValueError):  # there is no git
        return None
    assert process.stdout is not None, "it is a pipe"
    answer, deadline = b"", time.monotonic() + patience
    try:
        with process.stdout as out:
            while len(answer) < most:
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([out], [], [], left)[0]:
                    return None
                if not (part := os.read(out.fileno(), min(2**16, most - len(answer)))):
                    break
                answer += part
            else:
                return answer
        with suppress(subprocess.TimeoutExpired):
            return answer if process.wait(max(0.1, deadline - time.monotonic())) in (0, *none) else None
        return None
    finally:
        process.kill()
        process.wait()
