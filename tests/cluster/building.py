"""Programs that are built with Go once, and kept in the cache directory for as long as their sources stay.

Beside each program `NAME.built-from` says what it was built from: the pinned versions.
"""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path


class Missing(Exception):
    """What this machine lacks for a control plane, or for a controller that runs on it."""


def cache() -> Path:
    """The directory in which programs are kept; it need not exist."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster-test-cluster"


def kept(program: str, source: str) -> Path | None:
    """The program, if it has been built from this."""
    binary, known = cache() / program, cache() / f"{program}.built-from"
    return binary if binary.exists() and known.exists() and known.read_text() == source else None


def built(program: str, source: str, build: Callable[[Path], None]) -> Path:
    """The program that is kept, or that `build` writes to the path it is given. Raises Missing."""
    if there := kept(program, source):
        return there
    cache().mkdir(parents=True, exist_ok=True)
    binary, known = cache() / program, cache() / f"{program}.built-from"
    known.unlink(missing_ok=True)
    build(binary)
    known.write_text(source)
    return binary


def go(at: Path, *arguments: str, **environment: str) -> str:
    """What `go` prints in this directory. Raises Missing.

    CGO_ENABLED is the same for all, or what they share is compiled twice.
    """
    if shutil.which("go") is None:
        raise Missing("there is no `go`")
    done = subprocess.run(
        ["go", *arguments],
        cwd=at,
        env={**os.environ, "CGO_ENABLED": "0", **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        raise Missing(f"go {arguments[0]} failed; its output is above")
    return done.stdout
