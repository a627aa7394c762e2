"""Text files line by line: compressed or not, broken in all ways, and numbers that are none."""

import gzip
from contextlib import nullcontext
from pathlib import Path

import pytest

from muster.app.plan.fit import as_nodes
from muster.embedded.nodespec import read
from muster.sim import trace
from muster.sim.readers import lines as reading
from muster.sim.readers.csv_lines import MOST_SETS, records
from muster.sim.readers.lines import LONGEST, lines, number
from muster.sim.readers.native import Native
from muster.sim.trace import Tally, TraceError
from tests.sim.traces import write


@pytest.mark.parametrize("compressed", [False, True])
def test_gzip_is_seen_from_the_content_not_from_the_name(tmp_path: Path, compressed: bool) -> None:
    path = write(tmp_path / "trace.txt", "a\r\nb\n\nc", compressed=compressed)
    assert list(lines(path)) == [(1, "a"), (2, "b"), (3, ""), (4, "c")]


def test_gzip_that_ends_in_the_middle_is_named(tmp_path: Path) -> None:
    whole = gzip.compress("".join(f"line {n}\n" for n in range(50_000)).encode())
    path = tmp_path / "trace.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError, match=r"trace.gz: the gzip data ends after line \d{3,}, in the middle"):
        list(lines(path))


@pytest.mark.parametrize("at", [5_000, -6])
def test_damaged_gzip_is_named(tmp_path: Path, at: int) -> None:
    data = bytearray(gzip.compress("".join(f"line {n * n}\n" for n in range(50_000)).encode()))
    data[at : at + 2] = bytes(255 - byte for byte in data[at : at + 2])
    path = tmp_path / "trace.gz"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=r"trace.gz: the gzip data (is damaged|ends) after line \d+"):
        list(lines(path))


def test_a_line_without_end_is_not_read_into_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "trace", "ok\n" + "x" * (LONGEST + 1))
    with pytest.raises(TraceError, match=f"line 2: longer than {LONGEST} bytes"):
        list(lines(path))


def test_bytes_that_are_no_text_are_read_as_something_that_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b"\xff\xfe\x00\n")
    ((_, text),) = lines(path)
    with pytest.raises(TraceError, match="is not a number"):
        number(text, "there", 0)


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")
    assert list(lines(tmp_path / "t")) == [(1, "a"), (2, "\ufeffb")]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nosuch: cannot be read: No such file"):
        list(lines(tmp_path / "nosuch"))
    with pytest.raises(TraceError, match="cannot be read: Is a directory"):
        list(lines(tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not a number"),
        ("12x", "'12x' is not a number"),
        ("nan", "'nan' is out of range"),
        ("inf", "'inf' is out of range"),
        ("1e400", "'1e400' is out of range"),
        ("9007199254740993e3", "is out of range; expected less than 9007199254740992"),
        ("-1", "'-1' is too small; expected 0 or more"),
        ("1.5", "'1.5' is not a whole number"),
        ("9" * 100, "…' is out of range"),
    ],
)
def test_numbers_that_are_none(text: str, said: str) -> None:
    with pytest.raises(TraceError, match=f"^f, line 3: .*{said}") as error:
        number(text, "f, line 3", 0, whole=True)
    assert len(str(error.value)) < 120


@pytest.mark.parametrize(("bound", "value"), [("MOST_LINES", 3), ("MOST_BYTES", 12)])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_that_unpacks_without_end_is_read_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compressed: bool, bound: str, value: int
) -> None:
    monkeypatch.setattr(reading, bound, value)
    path = write(tmp_path / "trace", "one\n" * 3, compressed=compressed)
    assert len(list(lines(path))) == 3
    path = write(tmp_path / "more", "one\n" * 1000, compressed=compressed)
    read = lines(path)
    assert [next(read)[0] for _ in range(3)] == [1, 2, 3]
    with pytest.raises(TraceError, match=r"more, line 4: a trace has .* lines and .* MiB at most"):
        next(read)


@pytest.mark.parametrize("idle", ["\n", " \t\n", "; comment\n", "  ;\n"])
def test_lines_that_hold_nothing_are_read_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, idle: str
) -> None:
    monkeypatch.setattr(reading, "MOST_IDLE", 3)
    path = write(tmp_path / "t", f"one\n{idle * 3}" * 5)
    assert len(list(lines(path))) == 20
    path = write(tmp_path / "u", f"one\n{idle * 4}")
    with pytest.raises(TraceError, match="u, line 5: more than 3 lines in a row are blank or comments"):
        list(lines(path))


@pytest.mark.parametrize("at", ["j,", "k,"])
def test_lines_that_cannot_be_read_are_left_out_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    monkeypatch.setattr(trace, "MOST_BAD", 3)
    nodes = as_nodes(read("1 x cpu=8"))
    for bad, refused in ((3, False), (4, True)):
        text = "job,submit,run\nj,0,1\nk,0,1\n".replace(at, "x\n" * bad + at)
        path = write(tmp_path / f"t{bad}.csv", text)
        with pytest.raises(TraceError, match="more than 3 lines") if refused else nullcontext():
            tally = Tally()
            assert len(list(Native([path], nodes, skip_bad=True).jobs(tally))) == 2
            assert tally.bad >= bad


def test_a_job_whose_pod_sets_do_not_end_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "job,submit,run,pods\nj,0,1,1\n" + ",,,1\n" * MOST_SETS)
    errors = [told for _, told in records(path) if isinstance(told, TraceError)]
    assert f"line {MOST_SETS + 2}: a job has 10,000 pod sets at most" in str(errors[0])
