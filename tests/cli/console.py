"""Runs the `console` blocks of a Markdown page, in order, in one directory, and compares what they print.

`$ ` begins a command, `> ` continues it, everything else is its output; `[exit N]` at the end of an output
is the command's exit code where it is not 0. Compared is what does not vary from run to run:

- names' suffixes, process ids, ports, times and ages become one sign each, as do the home directory, that of
  a submission, and the machine;
- runs of spaces, and bars however long, count once;
- lines of pods that run side by side may come in any order, and how a job stands on the way to its end
  (waiting, starting, running) may be said more often or less;
- a time axis is not compared.
"""

import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.patience import PATIENCE

_BLOCK: Final = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_ON_THE_WAY: Final = re.compile(r"(waiting|starting|running) · \d+ of \d+ running\b")
_READS: Final = re.compile(r"\bmuster (list|nodes|plan|why)\b")
_AXIS: Final = re.compile(r"[\s\d:.]*\d:\d\d[\s\d:.]*")
_VARYING: Final = (
    (re.compile(r"-[0-9a-f]{8}\b"), "-SUFFIX"),
    (re.compile(r"-[0-9a-f]{5}\b(-r\d+\b)?(-[a-z0-9]{10}\b)?"), r"-SUFFIX\1"),
    (re.compile(r"\bexited with code (\d+) on \S+"), r"exited with code \1 on NODE"),
    (re.compile(r"^  in /.*"), "  in DIRECTORY"),
    (re.compile(r"\bpid \d+"), "pid N"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:PORT"),
    (re.compile(r"KUBECONFIG=\S+"), "KUBECONFIG=FILE"),
    (re.compile(r"\b\d+:\d\d(\.\d)?"), "TIME"),
    (re.compile(r" (\d+m)?\d+[smhd]\b"), " AGE"),
    (re.compile(r"^LAST DEPLOYED: .*"), "LAST DEPLOYED: TIME"),
    (re.compile(r"[░▐█▌]+"), "BAR"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True)
class Command:
    line: int
    text: str
    output: str


def commands(page: str) -> Iterator[Command]:
    """What the page shows, in its order."""
    for block in _BLOCK.finditer(page):
        first = page.count("\n", 0, block.start(1)) + 1
        text, output, at = "", "", first
        for number, line in enumerate(block[1].splitlines(), first):
            if line.startswith("$ "):
                if text:
                    yield Command(at, text, output)
                text, output, at = line[2:], "", number
            elif not output and (line == ">" or line.startswith("> ")):
                text += "\n" + line[2:]
            else:
                output += line + "\n"
        yield Command(at, text, output)


def run(command: str, directory: Path, environ: Mapping[str, str], patience: float = PATIENCE) -> str:
    """What the command prints, on both streams; ends with its exit code if that is not 0."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=directory,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patience,
    )
    return done.stdout + (f"[exit {done.returncode}]\n" if done.returncode else "")


def run_until(expected: str, command: str, directory: Path, environ: Mapping[str, str]) -> str:
    """As `run`. A command that only reads is repeated until it prints that: what was begun takes its time."""
    deadline = time.monotonic() + PATIENCE
    while True:
        output = run(command, directory, environ)
        told = comparable(output) == comparable(expected)
        if told or not _READS.search(command) or time.monotonic() > deadline:
            return output


def comparable(output: str) -> list[str]:
    """The output without what varies."""
    lines: list[str] = []
    beside: list[str] = []  # lines of pods, which come in any order
    for line in output.splitlines():
        if " │ " in line:
            beside.append(_normal(line))
        elif not _ON_THE_WAY.match(line) and not _AXIS.fullmatch(line):
            lines += [*sorted(beside), _normal(line)]
            beside.clear()
    return [*lines, *sorted(beside)]


def _normal(line: str) -> str:
    for pattern, sign in _VARYING:
        line = pattern.sub(sign, line)
    return line.strip()
