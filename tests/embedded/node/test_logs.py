"""Logs on disk: rotation, followers, tails, pruning."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from muster.embedded.node import logparts
from muster.embedded.node import logs as module
from muster.embedded.node.isolation import Files
from muster.embedded.node.logs import Logs, LogWriter
from muster.kube.client import LogOptions


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path / "logs")


def begin(logs: Logs, tmp_path: Path, restart: int = 0) -> tuple[LogWriter, int]:
    """A writer, and the end that a container would write to."""
    files = Files(tmp_path / str(restart))
    files.directory.mkdir()
    writer = logs.writer("ns", "pod", "uid", "main", restart, files)
    return writer, os.open(files.output, os.O_WRONLY)


async def read(logs: Logs, **how: Any) -> bytes:  # Any: options of many types
    written = logs.read("ns", "pod", "uid", "main", LogOptions(**how))
    return b"".join([chunk async for chunk in written])


async def test_a_follower_sees_everything_through_rotations_and_restarts(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 1000)
    follower = asyncio.create_task(read(logs, follow=True))
    await asyncio.sleep(0)
    expected = b""
    for restart in range(2):
        writer, end = begin(logs, tmp_path, restart)
        for number in range(50):
            line = f"{restart} {number} {'x' * 80}\n".encode()
            os.write(end, line)
            expected += line
            await asyncio.sleep(0.001)
        os.close(end)
        writer.close()
        await asyncio.sleep(0.01)
    logs.pod_ended("ns", "pod", "uid")
    assert await follower == expected


@pytest.mark.parametrize("ends", ["while it reads", "while it waits"])
async def test_a_follower_that_is_too_slow_gets_a_notice_and_the_end(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 1000)
    monkeypatch.setattr(logparts, "KEEP", 2)
    writer, end = begin(logs, tmp_path)
    lines = [f"{number} {'x' * 80}\n".encode() for number in range(200)]

    async def write(some: list[bytes]) -> None:
        for line in some:
            os.write(end, line)
            while line not in tmp_path.joinpath("logs/ns_pod_uid/main/0.log").read_bytes():  # noqa: ASYNC110
                await asyncio.sleep(0)

    os.write(end, b"first\n")
    await asyncio.sleep(0.01)
    follower = logs.read("ns", "pod", "uid", "main", LogOptions(follow=True))
    seen = await anext(follower)
    if ends == "while it waits":
        os.write(end, b"second\n")
        seen += await anext(follower)
    await write(lines)
    os.close(end)
    writer.close()
    logs.pod_ended("ns", "pod", "uid")
    seen += b"".join([chunk async for chunk in follower])
    before, after = seen.split(logparts.LATE)
    assert before.startswith(b"first\n"), "what it had open it reads to the end"
    assert b"".join(lines).endswith(after)
    assert after.endswith(lines[-1])
    assert len(after) > 1000


@pytest.mark.parametrize(
    ("text", "tail", "expected"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\nc\n", 3, b"a\nb\nc\n"),
        (b"a\nb\nc\n", 99, b"a\nb\nc\n"),
        (b"a\nb\nc\n", 0, b""),
        (b"", 1, b""),
        (b"x" * 200_000 + b"\nlast\n", 1, b"last\n"),
        (b"x" * 200_000 + b"\n", 1, b"x" * 200_000 + b"\n"),
    ],
)
async def test_tails(logs: Logs, tmp_path: Path, text: bytes, tail: int, expected: bytes) -> None:
    path = tmp_path / "logs/ns_pod_uid/main/0.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(text)
    assert await read(logs, tail=tail) == expected


async def test_a_tail_reaches_into_older_files(logs: Logs, tmp_path: Path) -> None:
    directory = tmp_path / "logs/ns_pod_uid/main"
    directory.mkdir(parents=True)
    (directory / "0.log.1").write_bytes(b"a\nb\n")
    (directory / "0.log").write_bytes(b"c\n")
    assert await read(logs, tail=2) == b"b\nc\n"
    assert await read(logs) == b"a\nb\nc\n"


async def test_a_log_of_which_the_oldest_output_was_dropped_begins_with_a_whole_line(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 1000)
    monkeypatch.setattr(logparts, "KEEP", 2)
    monkeypatch.setattr(logparts, "CHUNK", 100)  # ends within a line, as a pipe's content does
    writer, end = begin(logs, tmp_path)
    at = ("ns", "pod", "uid", "main")
    for first in (0, 120):
        os.write(end, b"".join(b"line %04d\n" % number for number in range(first, first + 120)))
        while writer._read():
            pass
        if not first:
            assert not logs.is_cut(*at)
    os.write(end, b"".join(b"line %04d\n" % number for number in range(240, 500)))
    os.close(end)
    writer.close()
    lines = (await read(logs)).splitlines()
    assert lines == [b"line %04d" % number for number in range(500 - len(lines), 500)]
    assert 200 <= len(lines) < 310
    assert logs.is_cut(*at)
    assert logs.is_cut(*at, LogOptions(tail=400))
    assert not logs.is_cut(*at, LogOptions(tail=3))
    assert not logs.is_cut(*at, LogOptions(previous=True))
    assert (await read(logs, tail=3)).splitlines() == [b"line %04d" % number for number in range(497, 500)]


async def test_before_the_first_start_there_is_nothing(logs: Logs, tmp_path: Path) -> None:
    for restart, expected in ((0, b""), (1, b"start 0\n")):
        writer, end = begin(logs, tmp_path, restart)
        os.write(end, b"start %d\n" % restart)
        os.close(end)
        writer.close()
        assert await read(logs, previous=True) == expected


async def test_a_start_that_writes_nothing_makes_the_one_before_it_the_previous_one(
    logs: Logs, tmp_path: Path
) -> None:
    writer, end = begin(logs, tmp_path, 0)
    os.write(end, b"start 0\n")
    os.close(end)
    writer.close()
    writer, end = begin(logs, tmp_path, 1)
    assert await read(logs, previous=True) == b"start 0\n"
    assert await read(logs) == b""
    os.close(end)
    writer.close()


async def test_readers_that_have_left_leave_nothing_behind(logs: Logs, tmp_path: Path) -> None:
    writer, end = begin(logs, tmp_path)
    os.write(end, b"a line\n")
    await asyncio.sleep(0.01)
    assert await read(logs) == b"a line\n"
    assert not logs._changed
    staying, leaving = (asyncio.create_task(read(logs, follow=True)) for _ in range(2))
    await asyncio.sleep(0.01)
    leaving.cancel()
    await asyncio.wait([leaving])
    os.write(end, b"another\n")
    await asyncio.sleep(0.01)
    os.close(end)
    writer.close()
    logs.pod_ended("ns", "pod", "uid")
    assert await staying == b"a line\nanother\n"
    assert not logs._changed
    assert not logs._gone, "its directory says so"


async def test_a_pod_that_ended_before_it_wrote_is_known_until_it_is_removed(logs: Logs) -> None:
    follower = asyncio.create_task(read(logs, follow=True))
    await asyncio.sleep(0)
    logs.pod_ended("ns", "pod", "uid")
    logs.prune(0.0, {"uid"})
    assert await follower == b""
    assert await read(logs, follow=True) == b""
    logs.prune(0.0, set())
    assert not logs._gone


async def test_no_log_is_an_empty_log(logs: Logs) -> None:
    assert await read(logs) == b""
    assert await read(logs, previous=True) == b""


def test_logs_of_gone_pods_are_removed_when_old_or_too_many(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOTAL_BYTES", 250)
    for name, age in (("new", 1), ("middle", 2), ("older", 3), ("ancient", 1e9), ("living", 1e9)):
        path = tmp_path / f"logs/ns_pod_{name}/main/0.log"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x" * 100)
        os.utime(path, (2e9 - age, 2e9 - age))
    logs.prune(2e9, {"living"})
    left = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert left == ["ns_pod_living", "ns_pod_middle", "ns_pod_new"]
    logs.prune(2e9, {"living", "middle"}, ended={"living"})
    left = sorted(path.name for path in (tmp_path / "logs").iterdir())
    assert left == ["ns_pod_middle", "ns_pod_new"], "a pod that has ended counts although it exists"


async def test_logs_leave_room_for_others_on_the_disk(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = module.RESERVE
    statvfs = os.statvfs

    def nearly_full(fd: int) -> SimpleNamespace:
        statvfs(fd)
        return SimpleNamespace(f_blocks=2**40, f_frsize=1, f_bavail=free)

    monkeypatch.setattr(os, "statvfs", nearly_full)
    writer, end = begin(logs, tmp_path)
    os.write(end, b"lost")
    await asyncio.sleep(0.01)
    assert await read(logs) == b""
    free += 1000
    os.write(end, b"kept")
    await asyncio.sleep(0.01)
    assert await read(logs) == b"\n[muster: 4 bytes of output lost: the disk was nearly full]\nkept"
    free -= 1000
    os.write(end, b"y" * 1000)  # what the last look at the disk has granted
    await asyncio.sleep(0.01)
    os.write(end, b"lost again")
    os.close(end)
    writer.close()
    assert (await read(logs, tail=1)).startswith(b"[muster: "), "also if there never is room again"
