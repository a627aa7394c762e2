"""Processes that a test starts end with it, also if it fails: a process that is left fails other tests."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def started(argv: Sequence[str | Path], **how: Any) -> Iterator["subprocess.Popen[Any]"]:
    """A process, which is killed when the context ends unless it has ended; `how` is `subprocess.Popen`'s."""
    with subprocess.Popen(argv, **how) as process:
        try:
            yield process
        finally:
            process.kill()
