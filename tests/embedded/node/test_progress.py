"""A program reports its progress in a file; only the end of a plain file is read."""

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from muster.api.core_v1 import Pod
from muster.api.progress import Report, report
from muster.embedded.node.progress import look
from muster.names import CALLER, PROGRESS, PROGRESS_FILE
from tests.embedded.node.conftest import Cluster

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(directory: Path, recorded: str = "", name: str = "log") -> Pod:
    caller = msgspec.json.encode({"cwd": str(directory)}).decode()
    told = {CALLER: caller, PROGRESS_FILE: name, **({PROGRESS: recorded} if recorded else {})}
    body = {"metadata": {"name": "p", "annotations": told}, "status": {"startTime": "2026-01-01T08:00:00Z"}}
    return msgspec.convert(body, Pod)


def write(path: Path, text: str | bytes, at: datetime = NOW) -> None:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (at.timestamp(), at.timestamp()))


def test_the_last_complete_line_is_the_report(tmp_path: Path) -> None:
    write(tmp_path / "log", "step=1 loss=3\nnothing\nstep=2 loss=0.5\nstep=3 lo")
    told = "step=2 loss=0.5 at=2026-01-01T12:00:00Z"
    assert look(pod(tmp_path), NOW) == told
    assert look(pod(tmp_path, told), NOW) is None, "it is recorded once"


def test_a_file_that_is_written_over_needs_no_end_of_line(tmp_path: Path) -> None:
    write(tmp_path / "log", "step=7 loss=nan")
    assert look(pod(tmp_path, name=str(tmp_path / "log")), NOW) == "step=7 loss=nan at=2026-01-01T12:00:00Z"


def test_the_same_step_again_is_no_progress(tmp_path: Path) -> None:
    write(tmp_path / "log", "step=2 loss=0.4\n")
    known = "step=2 loss=0.5 at=2026-01-01T10:00:00Z"
    assert look(pod(tmp_path, known), NOW) == "step=2 loss=0.4 at=2026-01-01T10:00:00Z"
    write(tmp_path / "log", "step=3 loss=0.4\n")
    assert look(pod(tmp_path, known), NOW) == "step=3 loss=0.4 at=2026-01-01T12:00:00Z"


def test_times_to_come_are_now_and_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    write(tmp_path / "log", "step=2\n", NOW + timedelta(days=9999))
    assert look(pod(tmp_path), NOW) == "step=2 at=2026-01-01T12:00:00Z"
    assert look(pod(tmp_path, "step=2 at=9999-01-01T00:00:00Z"), NOW) == "step=2 at=2026-01-01T12:00:00Z"
    write(tmp_path / "log", "step=2\n", NOW - timedelta(hours=5))
    assert look(pod(tmp_path), NOW) is None


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.truncate(2**40)
        file.seek(0, os.SEEK_END)
        file.write(b"\nstep=9 loss=0.1\n")
    found = look(pod(tmp_path), datetime(9000, 1, 1, tzinfo=UTC))
    assert found is not None
    assert found.startswith("step=9 loss=0.1 at=")


CONTENTS = {"empty": b"", "binary": os.urandom(9999), "one line": b"step=" + b"1" * 99_999, "json": b"{}"}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_other_contents_are_no_report(tmp_path: Path, content: bytes) -> None:
    write(tmp_path / "log", content)
    assert look(pod(tmp_path), NOW) is None


def _link(path: Path) -> None:
    write(path.with_name("elsewhere"), "step=1\n")
    path.symlink_to(path.with_name("elsewhere"))


NO_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "No such file"),
    "a link": (_link, "symbolic links"),
    "a directory": (Path.mkdir, "not a plain file"),
    "a pipe that nobody writes to": (os.mkfifo, "not a plain file"),
}


@pytest.mark.parametrize(("make", "told"), NO_FILES.values(), ids=NO_FILES)
def test_a_progress_file_that_is_not_a_plain_file_is_not_read(
    tmp_path: Path, make: Callable[[Path], object], told: str
) -> None:
    make(tmp_path / "log")
    with pytest.raises(OSError, match=told):
        look(pod(tmp_path), NOW)


def test_a_terminal_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a plain file"):
        look(pod(tmp_path, name="/dev/null"), NOW)


async def test_the_agent_records_what_a_program_reports(cluster: Cluster) -> None:
    log = cluster.root / "log"
    script = 'for n in 1 2 3 4 5 6; do echo "step=$n loss=$n" >> "$0"; done; read line < fifo'
    os.mkfifo(cluster.root / "fifo")
    async with cluster.running():
        await cluster.submit(
            "train",
            ["sh", "-c", script, str(log)],
            metadata={"annotations": {PROGRESS_FILE: str(log)}},
            container={"workingDir": str(cluster.root)},
        )
        told = await cluster.until("train", lambda pod: PROGRESS in pod.metadata.annotations)
        found = report(told.metadata.annotations[PROGRESS])
        assert found is not None
        assert found.at is not None
        assert found.step <= 6
        if found.step == 6:
            assert found == Report(6, 6.0, 3.0, found.at)
        await asyncio.to_thread((cluster.root / "fifo").write_text, "go\n")
        await cluster.ended("train")
