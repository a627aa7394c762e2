"""A command and the host of another command that is just leaving."""

import errno
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster.app.wiring import host
from muster.app.wiring.state_directory import StateDirectory
from muster.embedded.storage.store import StoreError
from tests.processes import started

#: A host that is told to stop, and gives its lock back before its process ends.
LEAVING = """
import os, signal, sys
from pathlib import Path
from muster.app.wiring.state_directory import Endpoint, StateDirectory

home = StateDirectory(Path(sys.argv[1]))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
with home.hosting():
    home.announce(Endpoint("https://127.0.0.1:1", os.getpid()))
    print("up", flush=True)
    signal.sigwait([signal.SIGTERM])
print("down", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> StateDirectory:
    home = StateDirectory(tmp_path / "home")
    home.make()
    return home


@pytest.fixture
def leaving(home: StateDirectory) -> Iterator["subprocess.Popen[bytes]"]:
    argv = [sys.executable, "-c", LEAVING, str(home.root)]
    with started(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process


def test_a_host_is_stopped_once_its_process_is_gone(
    home: StateDirectory, leaving: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = select.select

    def end_and_wait(*what: Any) -> Any:
        assert leaving.stdout is not None
        assert leaving.stdin is not None
        assert leaving.stdout.readline() == b"down\n"
        assert not home.hosted()
        leaving.stdin.close()
        return wait(*what)

    with monkeypatch.context() as patch:
        patch.setattr(select, "select", end_and_wait)
        assert host.stop(home) == leaving.pid
    assert leaving.poll() == 0
    assert host.stop(home) is None


@pytest.mark.parametrize(
    ("error", "free", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 2**30, r"the disk of .*home is full\. Free some"),
        (StoreError("database or disk is full"), 0, r"the disk of .*home is full"),
        (
            PermissionError(errno.EACCES, "Permission denied"),
            2**30,
            r"PermissionError: .*Permission denied; see",
        ),
        (RuntimeError(), 2**30, r"could not start: RuntimeError; see .*host\.log"),
    ],
)
def test_a_host_that_cannot_start_says_why(
    error: Exception, free: int, said: str, home: StateDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> int:
        raise error

    monkeypatch.setattr(host, "run", fail)
    # Threads that another test has left would make the host another program, in which nothing fails.
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free, f_frsize=1))
    with pytest.raises(host.HostError, match=said), host.attached(home, ""):
        pass


def test_a_host_that_is_stopping_is_waited_for(home: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has withdrawn its endpoint, and holds its lock."""
    with ExitStack() as stopping:
        stopping.enter_context(home.hosting())
        monkeypatch.setattr(time, "sleep", lambda seconds: stopping.close())
        host.let_go(home)
        assert not home.hosted()


def test_a_host_whose_starter_is_gone_goes_on_to_leave_by_itself() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    host._tell(writer, {"busy": True})
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writer)
