"""A case: commands of kubectl in order, and what each must print."""

import os
import re
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.patience import PATIENCE
from tests.processes import started


class Run(NamedTuple):
    """One command. Each of `prints` is a regular expression that its output (both streams) must match.

    A blank in an expression matches any blanks, also over lines.
    """

    command: str
    prints: Sequence[str] = ()
    #: what its output must not match
    never: Sequence[str] = ()
    code: int = 0
    stdin: str = ""
    #: commands that run while this one streams; each regular expression of `then` must match what follows
    meanwhile: "Sequence[Run]" = ()
    then: Sequence[str] = ()
    #: variables of the command's environment
    environ: Sequence[tuple[str, str]] = ()
    #: run it again until it prints that: what a controller does takes a moment
    again: bool = False


class Case(NamedTuple):
    name: str
    steps: Sequence[Run]
    #: why the case does not run on a real API server; "" if it does
    embedded_only: str = ""


@dataclass(frozen=True)
class Kubectl:
    """The real kubectl, with a home of its own."""

    kubeconfig: Path
    home: Path
    #: seconds that a step waits for what must come about
    patience: float = PATIENCE

    def check(self, case: Case) -> None:
        for step in case.steps:
            self.step(step)

    def step(self, step: Run) -> None:
        if step.meanwhile or step.then:
            self._stream(step)
            return
        until = time.monotonic() + self.patience
        while True:
            done = subprocess.run(
                self._words(step),
                cwd=self.home,
                env=self._environ(step),
                input=step.stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=self.patience,
            )
            wrong = _wrong(step, done.returncode, done.stdout)
            if not wrong or not step.again or time.monotonic() > until:
                break
            time.sleep(0.1)
        assert not wrong, f"kubectl {step.command}\nexit {done.returncode}: {wrong}\n{done.stdout}"

    def _stream(self, step: Run) -> None:
        with started(
            self._words(step),
            cwd=self.home,
            env=self._environ(step),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            _read(process, step.prints, step.command, self.patience)
            for inner in step.meanwhile:
                self.step(inner)
            _read(process, step.then, step.command, self.patience)

    def _words(self, step: Run) -> list[str]:
        verb, *words = shlex.split(step.command)
        patience = [f"--timeout={self.patience:.0f}s"] if verb == "wait" else []  # its own is half a minute
        return ["kubectl", verb, *words, *patience]

    def _environ(self, step: Run) -> dict[str, str]:
        own = {"KUBECONFIG": str(self.kubeconfig), "HOME": str(self.home), "PATH": os.environ["PATH"]}
        return own | dict(step.environ)


def absent() -> str:
    """Why these tests cannot run here; "" if they can."""
    return "" if shutil.which("kubectl") else "kubectl is not installed"


def _found(pattern: str, output: str) -> bool:
    return re.search(pattern.replace(" ", r"\s+"), output, re.M) is not None


def _wrong(step: Run, code: int, output: str) -> str:
    if code != step.code:
        return f"exit code {step.code} was expected"
    for pattern in step.prints:
        if not _found(pattern, output):
            return f"no match of {pattern!r}"
    for pattern in step.never:
        if _found(pattern, output):
            return f"a match of {pattern!r}"
    return ""


def _read(process: "subprocess.Popen[bytes]", patterns: Sequence[str], command: str, patience: float) -> None:
    """Reads what a command streams until all patterns have matched, in any order."""
    assert process.stdout is not None
    seen, until = "", time.monotonic() + patience
    while not all(_found(pattern, seen) for pattern in patterns):
        readable, _, _ = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))
        chunk = os.read(process.stdout.fileno(), 65536) if readable else b""
        seen += chunk.decode(errors="replace")
        assert chunk, f"kubectl {command}\nended, or printed nothing more, without {patterns}:\n{seen}"
