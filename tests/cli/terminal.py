"""A terminal of 80×24 in which a shell runs the real `muster`, and what its screen shows.

`pyte` draws what is written to the terminal, as xterm does.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pyte

from tests.cli.binary import Muster
from tests.patience import PATIENCE

COLUMNS, LINES = 80, 24
#: What the shell writes when a command has ended, with its exit code.
_PROMPT: Final = re.compile(r"\[\d+\]\$")


class _Screen(pyte.HistoryScreen):
    """Remembers which of its lines went on because they were longer than the screen is wide."""

    def __init__(self) -> None:
        super().__init__(COLUMNS, LINES, history=1000, ratio=0.5)
        self.wrapped: list[str] = []

    def draw(self, data: str) -> None:
        for sign in data:
            if self.cursor.x == COLUMNS:
                self.wrapped.append(self.display[self.cursor.y])
            super().draw(sign)


@dataclass(frozen=True)
class Shown:
    """What the screen shows below a command when it has ended, with what has scrolled off it."""

    lines: list[str]

    def __contains__(self, text: str) -> bool:
        """Whether the text is there, wherever its sentence is folded."""
        return text in " ".join(" ".join(self.lines).split())

    def table(self, first: str) -> list[list[str]]:
        """The cells of the table whose header begins with this word; its columns are aligned."""
        begin = next(i for i, line in enumerate(self.lines) if line.split()[:1] == [first])
        end = next((i for i in range(begin, len(self.lines)) if not self.lines[i]), len(self.lines))
        rows = [line.ljust(COLUMNS) for line in self.lines[begin:end]]
        blank = "".join(" " if all(row[i] == " " for row in rows) else "x" for i in range(COLUMNS))
        columns = [match.span() for match in re.finditer(r"x+(?: x+)*", blank)]
        cells = [[row[left:right].strip() for left, right in columns] for row in rows]
        assert len(columns) == len(rows[0].split()), f"columns are not aligned: {self.lines}"
        return cells

    def __str__(self) -> str:
        return "\n".join(self.lines)


class Shell:
    """`sh` at a terminal, in the directory of a test."""

    def __init__(self, muster: Muster) -> None:
        self._screen = _Screen()
        self._stream = pyte.ByteStream(self._screen)
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._process: subprocess.Popen[Any] = subprocess.Popen(  # Any: bytes to a terminal
            ["setsid", "--ctty", "--wait", "sh"],
            cwd=muster.cwd,
            env={**muster.environ, "TERM": "xterm-256color", "PS1": "[$?]$ "},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        muster.adopt(self._process)
        self._first = 0  # the line at which a command may end
        self._until(self._ended, "a prompt")
        self._first = 1

    def run(self, command: str, code: int = 0) -> Shown:
        """Types a command and returns what the screen shows at its end. No line is wider than the screen."""
        self.begin(command)
        return self.end(code)

    def begin(self, command: str) -> None:
        assert len(command) < COLUMNS - len("[130]$ ")
        self._screen.reset()
        self._screen.history.top.clear()
        self._screen.wrapped.clear()
        self.type(f"{command}\n")

    def until(self, text: str) -> list[str]:
        """Waits until the text is on the screen; returns the lines of the screen."""
        self._until(lambda: text in " ".join(self._display()), repr(text))
        return self._display()

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self, code: int = 0) -> Shown:
        self._until(self._ended, "the end of the command")
        above = ["".join(line[i].data for i in range(COLUMNS)) for line in self._screen.history.top]
        lines = [line.rstrip() for line in above] + self._display()
        last = max(i for i, line in enumerate(lines) if line)
        shown = Shown(lines[1:last])
        assert lines[last] == f"[{code}]$", "\n".join(lines)
        assert self._screen.wrapped == [], f"{lines[0]}\n{shown}"
        return shown

    def close(self) -> None:
        """Ends the shell."""
        self.type("exit\n")
        self._process.wait(PATIENCE)
        os.close(self._master)

    def _ended(self) -> bool:
        """Whether the last line is a prompt, and not the one at which the command has just been typed."""
        line = self._screen.cursor.y
        return line >= self._first and _PROMPT.fullmatch(self._display()[line]) is not None

    def _display(self) -> list[str]:
        return [line.rstrip() for line in self._screen.display]

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            left = max(0.0, deadline - time.monotonic())
            shown = "\n".join(self._display())
            assert select.select([self._master], [], [], left)[0], f"waited in vain for {what}:\n{shown}"
            self._stream.feed(os.read(self._master, 65536))
