"""A program says that it has saved its work by touching a file, and is asked to by a file."""

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from muster.api.core_v1 import Pod
from muster.embedded.node.checkpoints import look
from muster.names import CALLER, CHECKPOINT, CHECKPOINT_FILE, CHECKPOINT_REQUESTED

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
AT_TEN = datetime(2026, 1, 1, 10, tzinfo=UTC).timestamp()


def pod(directory: Path, name: str = "saved", **annotations: str) -> Pod:
    caller = msgspec.json.encode({"cwd": str(directory)}).decode()
    told = {CALLER: caller, CHECKPOINT_FILE: name, **annotations}
    body = {"metadata": {"name": "p", "annotations": told}, "status": {"startTime": "2026-01-01T08:00:00Z"}}
    return msgspec.convert(body, Pod)


def touch(path: Path, at: float) -> None:
    path.touch()
    os.utime(path, (at, at))


def test_a_touched_file_is_a_checkpoint_once(tmp_path: Path) -> None:
    touch(tmp_path / "saved", AT_TEN)
    assert look(pod(tmp_path), NOW) == "2026-01-01T10:00:00Z"
    assert look(pod(tmp_path, **{CHECKPOINT: "2026-01-01T10:00:00Z"}), NOW) is None
    assert look(pod(tmp_path, str(tmp_path / "saved")), NOW) == "2026-01-01T10:00:00Z"


@pytest.mark.parametrize("hours", [-3, 3], ids=["of an earlier run", "a time to come"])
def test_other_times_do_not_count(tmp_path: Path, hours: int) -> None:
    touch(tmp_path / "saved", AT_TEN + hours * 3600)
    assert look(pod(tmp_path), NOW) is None


@pytest.mark.parametrize("name", ["missing", "x/y", "a\0b", "x" * 5000, ""])
def test_without_a_file_nothing_is_saved(tmp_path: Path, name: str) -> None:
    asked = pod(tmp_path, name, **{CHECKPOINT_REQUESTED: "2026-01-01T11:00:00Z"})
    with contextlib.suppress(OSError, ValueError):
        assert look(asked, NOW) is None


@pytest.mark.parametrize("name", ["", ".", "..", "pipe", "/", "/proc/self"])
def test_only_a_plain_file_is_a_checkpoint_and_beside_anything_else_no_file_is_created(
    tmp_path: Path, name: str
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    os.mkfifo(inner / "pipe")
    for path in (inner / "pipe", inner, tmp_path):
        os.utime(path, (AT_TEN, AT_TEN))
    assert look(pod(inner, name, **{CHECKPOINT_REQUESTED: "2026-01-01T11:00:00Z"}), NOW) is None
    assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["inner", "pipe"]


def test_a_request_is_a_file_until_the_work_is_saved(tmp_path: Path) -> None:
    asked = pod(tmp_path, **{CHECKPOINT_REQUESTED: "2026-01-01T11:00:00Z"})
    with pytest.raises(FileNotFoundError):
        look(asked, NOW)
    request = tmp_path / "saved.requested"
    assert request.exists()
    request.unlink()
    touch(tmp_path / "saved", AT_TEN + 5400)
    assert look(asked, NOW) == "2026-01-01T11:30:00Z"
    assert not request.exists()


def test_a_request_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "saved.requested").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError):
        look(pod(tmp_path, **{CHECKPOINT_REQUESTED: "2026-01-01T11:00:00Z"}), NOW)
    assert not (tmp_path / "elsewhere").exists()
