"""Times of logs: what `--since` and `--timestamps` read, however a log was written."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.embedded.node import logparts
from muster.embedded.node import logs as module
from muster.embedded.node.isolation import Files
from muster.embedded.node.logs import Logs, LogWriter
from muster.embedded.node.logtimes import beside
from muster.kube.client import LogOptions
from tests.embedded.node.virtual import VirtualClock
from tests.tiers import examples

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)


class Container:
    """Writes output at given times, through a writer, without an event loop's help."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock = root, VirtualClock()
        self.logs = Logs(root / "logs", self.clock)
        self.path = root / "logs/ns_pod_uid/main/0.log"
        self._writer: LogWriter | None = None

    def write(self, text: bytes, at: float) -> None:
        self.clock.advance(at - self.clock.monotonic())
        if self._writer is None:
            files = Files(self.root / "files")
            files.directory.mkdir(exist_ok=True)
            self._writer = self.logs.writer("ns", "pod", "uid", "main", 0, files)
        self._writer._write(text)  # as what it reads from its FIFO

    def end(self) -> None:
        """As a crash would, or a host that leaves."""
        assert self._writer is not None
        self._writer.close()
        self._writer = None

    async def read(self, **how: Any) -> str:  # Any: options of many types
        since = how.pop("since", None)
        begin = None if since is None else BEGIN + timedelta(seconds=since)
        chunks = self.logs.read("ns", "pod", "uid", "main", LogOptions(since=begin, **how))
        return b"".join([chunk async for chunk in chunks]).decode()


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


async def test_a_line_has_the_time_at_which_its_beginning_was_read(container: Container) -> None:
    container.write(b"a\nb\n", 0)
    container.write(b"c", 60)
    container.write(b"c\nd\n", 61.5)
    container.write(b"e", 3600.019)
    assert await container.read(timestamps=True) == (
        "2030-01-01T00:00:00.00Z a\n"
        "2030-01-01T00:00:00.00Z b\n"
        "2030-01-01T00:01:00.00Z cc\n"
        "2030-01-01T00:01:01.50Z d\n"
        "2030-01-01T01:00:00.01Z e"
    )


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"since": -5}, "a\nbb\nc\nd\n"),
        ({"since": 0}, "a\nbb\nc\nd\n"),
        ({"since": 1}, "c\nd\n"),  # the rest of b's line began before
        ({"since": 10}, "c\nd\n"),
        ({"since": 10.5}, "d\n"),
        ({"since": 21}, ""),
        ({"since": 1, "tail": 1}, "d\n"),
        ({"since": 20, "tail": 3}, "d\n"),
        ({"since": 20, "tail": 0}, ""),
        ({"since": 20, "timestamps": True}, "2030-01-01T00:00:20.00Z d\n"),
    ],
)
async def test_since(container: Container, how: dict[str, Any], expected: str) -> None:
    container.write(b"a\nb", 0)
    container.write(b"b\nc\n", 10)
    container.write(b"d\n", 20)
    assert await container.read(**how) == expected


async def test_times_are_kept_through_rotations_and_new_hosts(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 100)
    monkeypatch.setattr(logparts, "KEEP", 3)
    for second in range(40):
        container.write(f"{second:02} {'x' * 20}\n".encode(), second)
        if second % 7 == 0:
            container.end()
    everything = (await container.read(timestamps=True)).splitlines()
    assert len(everything) < 40, "the oldest are dropped"
    assert len(everything) >= 16
    for line in everything:
        assert line[17:19] == line.split()[1], "a line's own second"
    assert (await container.read(since=30)).startswith("30 ")
    files = sorted(path.name for path in container.path.parent.iterdir())
    numbers = [f"0.{what}{suffix}" for what in ("log", "times") for suffix in ("", ".1", ".2", ".3")]
    assert files == sorted([*numbers, "0.log.cut"])


async def test_a_follower_gets_the_times_of_new_lines(container: Container) -> None:
    container.write(b"a\nb", 0)
    how = LogOptions(follow=True, since=BEGIN + timedelta(seconds=5), timestamps=True)
    follower = container.logs.read("ns", "pod", "uid", "main", how)
    container.write(b"b\n", 6)
    container.write(b"c\n", 6)
    assert await anext(follower) == b"2030-01-01T00:00:06.00Z c\n"
    container.write(b"d", 7)
    container.write(b"d\ne\n", 8)
    assert await anext(follower) == b"2030-01-01T00:00:07.00Z dd\n2030-01-01T00:00:08.00Z e\n"
    await follower.aclose()  # type: ignore[attr-defined]  # it is a generator


async def test_a_log_without_times_has_that_of_its_last_write(container: Container) -> None:
    container.path.parent.mkdir(parents=True)
    container.path.write_bytes(b"old\n")
    os.utime(container.path, ns=(int(BEGIN.timestamp() * 1e9),) * 2)
    assert await container.read() == "old\n"
    assert await container.read(timestamps=True) == "2030-01-01T00:00:00.00Z old\n"
    assert (await container.read(since=0), await container.read(since=1)) == ("old\n", "")
    container.write(b"new\n", 9)  # an earlier muster's log goes on
    expected = "2030-01-01T00:00:00.00Z old\n2030-01-01T00:00:09.00Z new\n"
    assert await container.read(timestamps=True) == expected
    assert await container.read(since=1) == "new\n"


async def test_half_an_entry_does_not_spoil_the_others(container: Container) -> None:
    container.write(b"a\n", 1)
    container.end()
    with beside(container.path).open("ab") as file:
        file.write(b"\x01\x02\x03")
    assert await container.read(timestamps=True) == "2030-01-01T00:00:01.00Z a\n"
    container.write(b"b\n", 2)
    expected = "2030-01-01T00:00:01.00Z a\n2030-01-01T00:00:02.00Z b\n"
    assert await container.read(timestamps=True) == expected


async def test_a_rotation_that_was_broken_off_leaves_no_wrong_times(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As killed between the two renames: the log is where it was, its times have moved."""
    container.write(b"a\n", 1)
    container.end()
    beside(container.path).rename(beside(container.path.with_name("0.log.1")))
    os.utime(container.path, ns=(int(BEGIN.timestamp() * 1e9 + 2e9),) * 2)
    monkeypatch.setattr(module, "FILE_BYTES", 5)
    for second in range(3, 6):
        container.write(b"%d\n" % second, second)
    assert await container.read(timestamps=True) == (
        "2030-01-01T00:00:02.00Z a\n"
        "2030-01-01T00:00:03.00Z 3\n"
        "2030-01-01T00:00:04.00Z 4\n"
        "2030-01-01T00:00:05.00Z 5\n"
    )


async def test_lines_written_at_once_share_a_time(container: Container) -> None:
    for number in range(10_000):
        container.write(b"x\n", number / 100_000)
    assert beside(container.path).stat().st_size <= 8 * 11


async def test_an_index_that_is_larger_than_its_log_is_bounded_too(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 80)
    for second in range(200):
        container.write(b"\n", second)
    sizes = [path.stat().st_size for path in container.path.parent.glob("*.times*")]
    assert len(sizes) == logparts.KEEP + 1
    assert max(sizes) <= 80


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.tuples(st.text("ab\n", max_size=8), st.integers(1, 200)), min_size=1, max_size=20),
    st.integers(0, 4_000),
    st.integers(1, 60),
)
@example([("a", 1), ("", 1), ("a", 1)], 3, 1)
async def test_since_is_the_lines_whose_times_are_not_before(
    tmp_path_factory: pytest.TempPathFactory, chunks: list[tuple[str, int]], begin: int, size: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FILE_BYTES", size)
        patch.setattr(logparts, "KEEP", 30)
        container = Container(tmp_path_factory.mktemp("times"))
        now = 0
        for text, later in chunks:
            now += later  # hundredths of a second
            container.write(text.encode(), now / 100)
        stamped = (await container.read(timestamps=True)).splitlines(keepends=True)
        least = (BEGIN + timedelta(seconds=begin / 100)).strftime("%Y-%m-%dT%H:%M:%S.") + f"{begin % 100:02}Z"
        late = [line for line in stamped if line.split(" ")[0] >= least]
        assert await container.read(since=begin / 100, timestamps=True) == "".join(late)
        assert "".join(line.split(" ", 1)[1] for line in stamped) == "".join(text for text, _ in chunks)
