"""The real `muster`, in a home and a directory of its own, and nothing left of it afterwards."""

import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.patience import PATIENCE

MUSTER: Final = Path(sys.executable).with_name("muster")
EXAMPLES: Final = Path(__file__).parents[2] / "examples"


class Muster:
    def __init__(self, directory: Path) -> None:
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

    def file(self, name: str, text: str) -> str:
        (self.cwd / name).write_text(text)
        return name

    def run(self, *words: str, code: int = 0, stdin: str = "") -> "Done":
        """Runs a command to its end and expects its exit code."""
        done = subprocess.run(
            [MUSTER, *words],
            cwd=self.cwd,
            env=self.environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}\n{self.log()}"
        return Done(done.stdout, done.stderr)

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
        return str(self.home).encode() in text and not zombie


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
    def __init__(self, out: str, err: str) -> None:
        self.out, self.err = out, err
        self.lines = out.splitlines()


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
