"""The real `muster`, in a home and a directory of its own, and nothing left of it afterwards.

With `forks`, as in the quick tier, commands that run to their end are forked from a process that has loaded
muster (`tests/cli/forked.py`). What a test starts and talks to meanwhile is always a program of its own.
"""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, Final

from tests.cli import forked
from tests.patience import PATIENCE

MUSTER: Final = Path(sys.executable).with_name("muster")
EXAMPLES: Final = Path(__file__).parents[2] / "examples"


class Muster:
    def __init__(self, directory: Path, *, forks: bool) -> None:
        self._forks = forks
        self.home = directory / "home"
        self.cwd = directory / "work"
        self.cwd.mkdir()
        self._started: list[subprocess.Popen[Any]] = []  # Any: text, or bytes to a terminal
        self.environ = {
            "MUSTER_HOME": str(self.home),
            "HOME": str(directory),
            "PATH": f"{MUSTER.parent}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            # the muster that is tested here, which need not be the one that is installed
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }
        if forks:  # what a shell finds, too
            (directory / "bin").mkdir()
            forked.program(directory / "bin" / "muster")
            self.environ["PATH"] = f"{directory / 'bin'}:{self.environ['PATH']}"

    def file(self, name: str, text: str) -> str:
        (self.cwd / name).write_text(text)
        return name

    def run(self, *words: str, code: int = 0, stdin: str = "") -> "Done":
        """Runs a command to its end and expects its exit code."""
        same = "PYTHONIOENCODING" not in self.environ  # it is read when an interpreter begins
        done = (self._forked if self._forks and same else self._run)(words, stdin)
        assert "Traceback" not in done.err, done.err
        assert done.code == code, f"exit {done.code}\n{done.out}\n{done.err}\n{self.log()}"
        return done

    def _run(self, words: Sequence[str], stdin: str) -> "Done":
        done = subprocess.run(
            [MUSTER, *words],
            cwd=self.cwd,
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        return Done(done.stdout, done.stderr, done.returncode)

    def _forked(self, words: Sequence[str], stdin: str) -> "Done":
        with ExitStack() as open_files:
            given, out, err = (open_files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            given.write(stdin.encode())
            given.seek(0)
            streams = [stream.fileno() for stream in (given, out, err)]
            code = forked.command(forked.server(), words, str(self.cwd), self.environ, streams)
            return Done(_text(out), _text(err), code)

    def json(self, *words: str) -> Any:  # Any: what JSON says
        return json.loads(self.run(*words, "-o", "json").out)

    def start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [MUSTER, *words],
            cwd=self.cwd,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.adopt(process)
        return process

    def adopt(self, process: subprocess.Popen[Any]) -> None:
        """Waits for the process at the end, also if the test failed."""
        self._started.append(process)

    def host(self) -> int:
        """The process id of the host."""
        return int(json.loads((self.home / "endpoint.json").read_text())["pid"])

    def processes(self) -> list[int]:
        """Every process that belongs to this home: hosts, wrappers, containers."""
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if self._owns(path)]

    def log(self) -> str:
        log = self.home / "host.log"
        return log.read_text() if log.exists() else ""

    def end(self) -> None:
        """Ends whatever a failed test has left, and says so."""
        deadline = time.monotonic() + PATIENCE
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._started:
            process.communicate()
        assert not left, f"left behind: {left}\n{self.log()}"

    def _owns(self, process: Path) -> bool:
        try:
            text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            zombie = (process / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return False  # gone, or another's
        if b"forked" in text and self._opened(process):
            return True
        return str(self.home).encode() in text and not zombie

    def _opened(self, process: Path) -> bool:
        """Whether a file of this home is open there; what is forked has its forker's words."""
        with suppress(OSError):  # gone
            return any(self.home in Path(os.readlink(file)).parents for file in (process / "fd").iterdir())
        return False


class Terminal:
    """A command in a terminal of its own, 100 columns wide: muster's, unless another program is named."""

    def __init__(self, muster: Muster, *words: str, program: "str | Path" = MUSTER) -> None:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        # `setsid --ctty` makes it the terminal that Ctrl-C comes from
        self._process = subprocess.Popen(
            ["setsid", "--ctty", "--wait", program, *words],
            cwd=muster.cwd,
            env={**muster.environ, "TERM": "xterm-256color"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        muster.adopt(self._process)
        self._master = master
        self.seen = ""

    def until(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert self._read(deadline), f"ended without {text!r}: {self.seen}"

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def exit_code(self) -> int:
        """Reads to the end."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        os.close(self._master)
        return self._process.wait(PATIENCE)

    def _read(self, deadline: float) -> bool:
        assert select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0], self.seen
        try:
            chunk = os.read(self._master, 65536)
        except OSError:  # no process has the terminal open any more
            return False
        self.seen += chunk.decode(errors="replace")
        return bool(chunk)


class Done:
    def __init__(self, out: str, err: str, code: int) -> None:
        self.out, self.err, self.code = out, err, code
        self.lines = out.splitlines()


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


def until(holds: Callable[[], bool], what: str) -> None:
    """Waits for processes to do something; bounded."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def manifest(command: str, *, count: int = 1, cpus: float = 0.1, spec: str = "", name: str = "job") -> str:
    """An AIchor manifest of one type, `worker`; `spec` is YAML that goes into its spec."""
    return f"""name: {name}
spec:
  operator: jobset
  command: {json.dumps(command)}
  {spec}
  types:
    worker:
      count: {count}
      resources: {{cpus: {cpus}, memory: 0.1}}
"""


def names(jobs: Sequence[Any]) -> list[str]:
    return [job["name"] for job in jobs]
