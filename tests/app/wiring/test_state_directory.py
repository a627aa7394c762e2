"""The state directory of the embedded cluster: locks tell which process lives."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from muster.app.wiring.state_directory import RESERVE, Endpoint, StateDirectory
from tests.processes import started

HOST = """
import os, signal, sys
from pathlib import Path
from muster.app.wiring.state_directory import Endpoint, StateDirectory

home = StateDirectory(Path(sys.argv[1]))
with home.hosting():
    home.announce(Endpoint("https://127.0.0.1:1", os.getpid()))
    print("up", flush=True)
    signal.pause()
"""


@pytest.fixture
def home(tmp_path: Path) -> StateDirectory:
    home = StateDirectory(tmp_path / "home")
    home.make()
    return home


def test_the_home_is_private(home: StateDirectory) -> None:
    assert home.root.stat().st_mode & 0o777 == 0o700


def test_an_endpoint_counts_only_while_its_host_lives(home: StateDirectory) -> None:
    endpoint = Endpoint("https://127.0.0.1:1", os.getpid())
    assert home.endpoint() is None
    with home.hosting():
        assert home.endpoint() is None, "not ready yet"
        home.announce(endpoint)
        assert home.endpoint() == endpoint
    assert home.endpoint() is None


def test_a_killed_host_leaves_no_endpoint_that_counts(home: StateDirectory) -> None:
    with started([sys.executable, "-c", HOST, str(home.root)], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"up\n"
        assert home.endpoint() is not None
    assert home.endpoint() is None
    with home.hosting():
        assert home.endpoint() is None, "the next host has not announced itself yet"


def test_a_lock_that_outlives_its_host_makes_no_endpoint(home: StateDirectory) -> None:
    with started(["true"]) as gone:
        gone.wait()
    with home.hosting():  # as by a child of a host that was killed while it started it
        home.announce(Endpoint("https://127.0.0.1:1", gone.pid))
        assert home.endpoint() is None


def test_there_is_one_host(home: StateDirectory) -> None:
    with home.hosting(), pytest.raises(BlockingIOError), home.hosting():
        pass


def test_a_host_knows_whether_a_client_is_attached(home: StateDirectory) -> None:
    with home.nobody_attached() as alone:
        assert alone
    with home.attached(), home.attached(), home.nobody_attached() as alone:
        assert not alone


@pytest.mark.parametrize("text", ["", "{", "[]", '{"server": 1}'])
def test_a_damaged_endpoint_is_no_endpoint(home: StateDirectory, text: str) -> None:
    with home.hosting():
        (home.root / "endpoint.json").write_text(text)
        assert home.endpoint() is None


@pytest.mark.parametrize("text", ["", "x", "\0"])
def test_a_damaged_port_is_no_port(home: StateDirectory, text: str) -> None:
    (home.root / "port").write_text(text)
    assert home.last_port() == 0
    home.remember_port(4711)
    assert home.last_port() == 4711


@pytest.mark.parametrize(("free", "kept"), [(2**30, True), (2**24, False)])
def test_space_is_reserved_on_a_disk_that_has_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, kept: bool
) -> None:
    home = StateDirectory(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bavail=free, f_frsize=1))
    home.give_up_reserve()
    for _ in range(2):
        home.keep_reserve()
    assert [path.stat().st_blocks * 512 >= RESERVE for path in tmp_path.iterdir()] == [True] * kept
    home.give_up_reserve()
    assert list(tmp_path.iterdir()) == []
