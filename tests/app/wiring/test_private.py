"""Other users of the machine: what a run leaves on it, under any umask, and which directories are refused."""

import errno
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.app.wiring.state_directory import NotPrivate, StateDirectory
from muster.embedded.credentials import write_private
from tests.cli.binary import MUSTER
from tests.patience import PATIENCE
from tests.tiers import sample

JOB = """
apiVersion: v1
kind: Secret
metadata: {name: s}
stringData: {password: hunter2}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      volumes:
      - {name: m, emptyDir: {medium: Memory}}
      - {name: e, emptyDir: {}}
      - {name: s, secret: {secretName: s}}
      - {name: h, hostPath: {path: HOST, type: DirectoryOrCreate}}
      containers:
      - name: c
        image: x
        command: [sh, -c, "umask; df -P /m | tail -1; ls -ld /m; touch /e/f /h/f; cat FIFO"]
        volumeMounts:
        - {name: m, mountPath: /m}
        - {name: e, mountPath: /e}
        - {name: s, mountPath: /s}
        - {name: h, mountPath: /h}
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", sample([0o000, 0o077], 1))
def test_all_that_a_run_leaves_is_private(tmp_path: Path, mask: int) -> None:
    """The pod itself has the user's umask, and makes files as the user would."""
    root, fifo, host = tmp_path / "deep/home", tmp_path / "fifo", tmp_path / "host"
    os.mkfifo(fifo)
    (tmp_path / "job.yaml").write_text(JOB.replace("FIFO", str(fifo)).replace("HOST", str(host)))
    environ = {**os.environ, "MUSTER_HOME": str(root)}
    memory = set(Path("/dev/shm").glob("muster-*"))
    try:
        with umask(mask):
            run = subprocess.Popen(
                [MUSTER, "run", "job.yaml"],
                cwd=tmp_path,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        with fifo.open("w"):  # waits until the pod reads
            found = list(root.rglob("*"))
            made = set(Path("/dev/shm").glob("muster-*")) - memory
            lax = {str(p.relative_to(tmp_path)): oct(mode(p)) for p in found if lax_mode(p)}
            assert not lax
            assert mode(root) == mode(root.parent) == 0o700
            assert all(mode(path) == 0o700 for path in made)
            names = {path.name for path in found}
        said, _ = run.communicate(timeout=PATIENCE)
    finally:
        subprocess.run([MUSTER, "down"], env=environ, timeout=PATIENCE, check=False)
    assert run.returncode == 0, said
    assert {"store.sqlite", "journal.jsonl", "token", "kubeconfig", "endpoint.json", "host.log"} <= names
    assert f"{mask:04o}" in said
    assert mode(host) == 0o777 & ~mask
    assert mode(host / "f") == 0o666 & ~mask


def lax_mode(path: Path) -> bool:
    """What a pod asked for or wrote itself has the mode that it chose; its directory is closed."""
    parts = path.parts
    if "hosts" in parts or ("volumes" in parts and len(parts) - parts.index("volumes") > 2):
        return False
    return not path.is_symlink() and mode(path) & 0o077 != 0


def test_a_directory_that_others_may_enter_is_closed(tmp_path: Path) -> None:
    for name in ("empty", "used", "secrets only"):
        home = StateDirectory(tmp_path / name)
        home.root.mkdir()
        home.root.chmod(0o755)
        if name != "empty":
            (home.root / ("host.log" if name == "used" else "secrets")).touch()
        home.make()
        assert mode(home.root) == 0o700


@pytest.mark.parametrize("left", [0o755, 0o1777])
def test_a_directory_of_other_things_is_not_closed(tmp_path: Path, left: int) -> None:
    """`MUSTER_HOME=~` must not close a home."""
    (tmp_path / "document").touch()
    tmp_path.chmod(left)
    with pytest.raises(NotPrivate, match="of its own" if left == 0o755 else "may write to"):
        StateDirectory(tmp_path).make()
    assert mode(tmp_path) == left
    tmp_path.chmod(0o700)


def test_a_directory_that_others_may_write_to_may_have_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading refuses it, too: the endpoint and the token in it may be another user's."""
    (tmp_path / "store.sqlite").touch()
    tmp_path.chmod(0o777)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path))
    with pytest.raises(NotPrivate, match=f"chmod 700 {tmp_path}"):
        StateDirectory.of_user()
    done = subprocess.run([MUSTER, "list"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"other users may write to {tmp_path}")


def test_a_directory_above_in_which_others_may_rename(tmp_path: Path) -> None:
    above = tmp_path / "open"
    above.mkdir()
    above.chmod(0o777)
    with pytest.raises(NotPrivate, match=f"chmod go-w {above}"):
        StateDirectory(above / "x/home").make()
    above.chmod(0o1777)  # as /tmp
    StateDirectory(above / "x/home").make()


def test_what_belongs_to_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home")
    StateDirectory(tmp_path / "link").make()  # a link of one's own
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 4711)
    with pytest.raises(NotPrivate, match=r"belongs to another user|another user's symbolic link"):
        StateDirectory(tmp_path / "home").make()
    if os.getuid():  # links of root are trusted
        with pytest.raises(NotPrivate, match="another user's symbolic link"):
            StateDirectory(tmp_path / "link").make()


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(NotPrivate):
        StateDirectory(tmp_path / "a").make()


@given(st.integers(0, 0o7777), st.booleans())
def test_only_what_is_private_is_accepted(bits: int, used: bool) -> None:
    """Whatever mode a directory has: it is refused, or private afterwards."""
    directory = Path(tempfile.mkdtemp())
    try:
        if used:
            (directory / "store.sqlite").touch()
        directory.chmod(bits | 0o700)
        try:
            StateDirectory(directory).make()
        except NotPrivate:
            assert bits & 0o077
            assert mode(directory) == bits | 0o700
        else:
            assert not mode(directory) & 0o077
            assert not (used and bits & 0o022)
    finally:
        directory.chmod(0o700)
        shutil.rmtree(directory)


@pytest.mark.parametrize("fails", ["write", "replace"])
def test_a_file_that_a_full_disk_does_not_take_leaves_nothing_behind(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_private(tmp_path / "token", "old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if fails == "write":
        monkeypatch.setattr(os, "fdopen", full)
    else:
        monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_private(tmp_path / "token", "new")
    assert [each.name for each in tmp_path.iterdir()] == ["token"]
    assert (tmp_path / "token").read_text() == "old"
