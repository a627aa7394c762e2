"""The output of pods: lines, and whose."""

import os
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from muster.api.core_v1 import ContainerStatus, Pod, PodStatus
from muster.api.failures import Failure
from muster.app.views.logs import OLDER, Selection, chunks, labelled, last_lines, read, read_archive
from muster.embedded.client import LocalClient
from muster.embedded.node.logs import CUT, Logs
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.client import EVERYTHING, LogOptions
from muster.kube.errors import NotFound
from tests.app.objects import labels, pod, ran


class Spoken(LocalClient):
    """Says these chunks for every container; NotFound if there are none."""

    def __init__(self, *chunks: bytes) -> None:
        super().__init__(Registry(Store(":memory:")))
        self._chunks = chunks

    async def log(
        self, namespace: str, name: str, *, container: str = "", how: LogOptions = EVERYTHING
    ) -> AsyncIterator[bytes]:
        self.asked = how
        if not self._chunks:
            raise NotFound("gone")
        for chunk in self._chunks:
            yield chunk


async def test_lines_are_put_together_from_chunks() -> None:
    client = Spoken(b"a\nb", b"c\r\n", b"\n", b"1%\r2%\r", b"\x1b[2J\xff end")
    assert [line.text async for line in read(client, [pod()])] == ["a", "bc", "", "\ufffd end"]


def archive(root: Path, name: str, text: str, container: str = "main", start: int = 0) -> Logs:
    directory = root / f"default_{name}_uid-{name}" / container
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{start}.log").write_text(text)
    return Logs(root)


async def test_a_pod_that_is_gone_is_read_from_the_archive(tmp_path: Path) -> None:
    kept = archive(tmp_path, "p", "last words\n")
    found = [chunk async for chunk in chunks(Spoken(), pod(), "main", archive=kept)]
    assert found == [b"last words\n"]
    with pytest.raises(NotFound):
        [chunk async for chunk in chunks(Spoken(), pod(), "main")]


async def test_recorded_runs_are_read_in_the_order_of_attempts(tmp_path: Path) -> None:
    archive(tmp_path, "b", "second\n")
    archive(tmp_path, "c", "side\n", "side")
    kept = archive(tmp_path, "a", "first\n")
    archive(tmp_path, "c", "third\n")
    runs = [ran("b", attempt=1, created=5.0), ran("a"), ran("c", job_index=1), ran("silent", job_index=2)]
    assert [(line.pod, line.text) async for line in read_archive(kept, runs)] == [
        ("worker-0-0", "first"),
        ("worker-1-0/main", "third"),
        ("worker-1-0/side", "side"),
        ("worker-0-0 (2)", "second"),
    ]
    assert os.listdir(tmp_path), "reading leaves the files"


async def test_containers_are_read_in_the_order_in_which_they_start(tmp_path: Path) -> None:
    for container in ("fetch", "a-main"):
        kept = archive(tmp_path, "p", f"{container}\n", container)
    run = ran("p", containers="fetch a-main")
    assert [line.pod for line in [line async for line in read_archive(kept, [run])]] == [
        "worker-0-0/fetch",
        "worker-0-0/a-main",
    ]
    silent = archive(tmp_path, "q", "x\n")
    lines = [line async for line in read_archive(silent, [ran("q", containers="fetch main")])]
    assert [line.pod for line in lines] == ["worker-0-0/main"], "as it is labelled while it runs"


@pytest.mark.parametrize("tail", [None, *range(7)])
async def test_the_output_of_every_start_is_kept_and_counted_from_its_end(
    tmp_path: Path, tail: int | None
) -> None:
    for start, text in enumerate(("a\nb\n", "", "c\nd\n", "e\n")):
        kept = archive(tmp_path, "p", text, start=start)
    every = ["a", "b", "c", "d", "e"]
    how = LogOptions(tail=tail)
    lines = [line.text async for line in read_archive(kept, [ran("p")], how)]
    assert lines == (every if tail is None else every[len(every) - min(tail, len(every)) :])
    newest = [line.text async for line in read_archive(kept, [ran("p")], LogOptions(previous=True))]
    assert newest == ["c", "d"]


async def test_a_real_cluster_keeps_the_output_of_two_starts() -> None:
    class Two(Spoken):
        async def log(
            self, namespace: str, name: str, *, container: str = "", how: LogOptions = EVERYTHING
        ) -> AsyncIterator[bytes]:
            yield b"before\n" if how.previous else b"now\n"

    def restarted(count: int) -> Pod:
        made = pod()
        status = ContainerStatus(name="main", restart_count=count)
        return msgspec.structs.replace(made, status=PodStatus("Running", container_statuses=[status]))

    async def lines(count: int, how: LogOptions) -> list[str]:
        return [line.text async for line in read(Two(), [restarted(count)], how)]

    every = LogOptions(every_start=True)
    assert await lines(0, every) == ["now"]
    assert await lines(1, every) == ["before", "now"]
    assert await lines(2, every) == [OLDER, "before", "now"]
    assert await lines(2, LogOptions()) == ["now"]


async def test_the_last_lines_of_a_failure_are_of_the_start_that_failed(tmp_path: Path) -> None:
    for start in range(3):
        kept = archive(tmp_path, "p", "".join(f"{start}.{line}\n" for line in range(9)) + "\n", start=start)
    failure = Failure("default", "p", "uid-p", "p", "n", "main", False, 9, "", None, times=2, start=1)
    assert await last_lines(Spoken(), failure, archive=kept) == [f"1.{line}" for line in range(4, 9)]
    assert await last_lines(Spoken(b"one\n", b"two\x1b[2J\n"), failure) == ["one", "two"]
    assert await last_lines(Spoken(), failure) == []
    assert await last_lines(Spoken(b"x"), replace(failure, container="")) == []


async def test_a_log_whose_oldest_output_was_dropped_begins_with_a_line_that_says_so(tmp_path: Path) -> None:
    kept = archive(tmp_path, "p", "orn\nwhole\n")
    (tmp_path / "default_p_uid-p/main/0.log.cut").touch()
    assert [line.text async for line in read_archive(kept, [ran("p")])] == [CUT, "whole"]
    assert [line.text async for line in read_archive(kept, [ran("p")], LogOptions(tail=1))] == ["whole"]
    found = [chunk async for chunk in chunks(Spoken(b"whole\n"), pod(), "main", archive=kept)]
    assert found == [CUT.encode() + b"\n", b"whole\n"]
    assert b"".join([chunk async for chunk in kept.read("default", "p", "uid-p", "main")]) == b"whole\n"


async def test_previous_output_is_that_before_the_last_restart(tmp_path: Path) -> None:
    for name, text in (("a1", "a first\n"), ("a2", "a second\n"), ("a3", "a third\n"), ("c", "c only\n")):
        kept = archive(tmp_path, name, text)
    for start in range(3):
        kept = archive(tmp_path, "b", f"b start {start}\n", start=start)
    runs = [
        *(ran(f"a{number}", attempt=number, created=float(number)) for number in (1, 2, 3)),
        ran("b", job_index=1),
        ran("c", job_index=2),
    ]
    found = [(line.pod, line.text) async for line in read_archive(kept, runs, LogOptions(previous=True))]
    assert found == [("worker-1-0", "b start 1"), ("worker-0-0 (2)", "a second")]


async def test_times_are_passed_on_and_kept(tmp_path: Path) -> None:
    os.utime(archive(tmp_path, "a", "1%\r2%\r3%\n")._directory / "default_a_uid-a/main/0.log", (0, 0))
    stamped = LogOptions(timestamps=True, since=datetime.fromtimestamp(0, UTC))
    found = [line.text async for line in read_archive(Logs(tmp_path), [ran("a")], stamped)]
    assert found == ["1970-01-01T00:00:00.00Z 3%"]
    spoken = Spoken(b"T 1%\r2%\n")
    assert [line.text async for line in read(spoken, [pod()], stamped)] == ["T 2%"]
    assert spoken.asked == stamped


def test_labels_of_runs_are_those_of_their_pods() -> None:
    runs = [
        ran("x"),
        ran("y", replicated_job="", job="j", completion_index=4),
        ran("z", replicated_job="", job="j", completion_index=None),
        ran("w", replicated_job="", job="", job_index=None, completion_index=None),
    ]
    assert sorted(name for name, _ in labelled(runs)) == ["j-4", "w", "worker-0-0", "z"]


@pytest.mark.parametrize(
    ("selection", "holds"),
    [
        (Selection(), True),
        (Selection("worker"), True),
        (Selection("other"), False),
        (Selection(index=1), True),
        (Selection("worker", 2), True),
        (Selection("worker", 3), False),
        (Selection(failed=True), False),
        (Selection(pods=("p",)), True),
        (Selection(pods=("other", "p")), True),
        (Selection(pods=("worker-1-2",)), True),
        (Selection(pods=("worker-1",)), False),
    ],
)
def test_selections_mean_the_same_of_pods_and_of_runs(selection: Selection, holds: bool) -> None:
    assert selection.holds(pod(labels=labels("worker", 1, 2))) is holds
    assert selection.holds_run(ran("p", job_index=1, completion_index=2)) is holds
