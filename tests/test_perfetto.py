"""A trace has the structure that ui.perfetto.dev reads, whatever it is told, and in whatever order."""

import json
import string
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import perfetto
from muster.perfetto import Trace, lanes

TIMES = st.floats(-10, 1e7, allow_nan=False)
NAMES = st.text(max_size=5) | st.sampled_from(["<script>", "\x1b[31m", "\u202etxt", "n" * 300])
PERIODS = st.tuples(TIMES, st.floats(0, 1e5, allow_nan=False)).map(lambda each: (each[0], sum(each)))


def events(text: bytes) -> list[dict[str, Any]]:  # Any: JSON
    """The events of a trace, each of which is as the format wants it."""
    read = json.loads(text)
    assert set(read) == {"displayTimeUnit", "traceEvents"}
    found: list[dict[str, Any]] = read["traceEvents"]
    threads = set()
    for each in found:
        assert {"name", "ph", "ts", "pid", "tid"} <= set(each)
        assert each["ph"] in ("M", "X", "C")
        assert all(type(each[key]) is int and each[key] >= 0 for key in ("ts", "pid", "tid"))
        assert each["name"].isprintable()
        assert len(each["name"]) <= 253
        if each["ph"] == "X":
            assert type(each["dur"]) is int
            assert each["dur"] >= 0
            assert (each["pid"], each["tid"]) in threads, "named before it has a slice"
        if each["ph"] == "C":
            assert all(isinstance(value, float | int) for value in each["args"].values())
        if each["name"] == "thread_name":
            threads.add((each["pid"], each["tid"]))
    times = [each["ts"] for each in found]
    assert times == sorted(times)
    slices = defaultdict(list)
    for each in found:
        if each["ph"] == "X":
            slices[each["pid"], each["tid"]].append((each["ts"], each["ts"] + each["dur"]))
    for periods in slices.values():
        assert all(one[1] <= other[0] + 1 for one, other in pairwise(periods))
    return found


@given(
    st.lists(st.tuples(NAMES, st.lists(PERIODS, max_size=9)), max_size=5, unique_by=lambda each: each[0]),
    st.integers(1, 20),
)
def test_what_is_told_in_any_order_is_read_in_that_of_time(
    told: list[tuple[str, list[tuple[float, float]]]], chunk: int
) -> None:
    written: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(perfetto, "CHUNK", chunk)
        with Trace(written.append, 0.0) as trace:
            for name, periods in told:
                pid = trace.process(name)
                for (begin, end), lane in zip(sorted(periods), lanes(sorted(periods)), strict=True):
                    trace.slice(pid, lane, name, name, begin, end, {"note": name})
    found = events(b"".join(written))
    assert sum(each["ph"] == "X" for each in found) == sum(len(periods) for _, periods in told)
    assert sum(each["name"] == "process_name" for each in found) >= len({name for name, _ in told})


@given(st.lists(PERIODS))
def test_lanes_do_not_overlap_and_are_as_few_as_can_be(periods: list[tuple[float, float]]) -> None:
    periods.sort()
    taken: dict[int, float] = {}
    most = 0
    for (begin, end), lane in zip(periods, lanes(periods), strict=True):
        assert taken.get(lane, begin) <= begin
        most = max(most, sum(until > begin for until in taken.values()) + 1)
        taken[lane] = end
    assert len(taken) <= most or not periods


def test_a_counter_has_one_value_at_a_time() -> None:
    written: list[bytes] = []
    with Trace(written.append, 0.0) as trace:
        pid = trace.process(string.ascii_letters)
        for at, value in [(1.0, 1.0), (1.0, 2.0), (2.0, 0.0)]:
            trace.counter(pid, "GPUs used", at, value)
    counted = [(each["ts"], each["args"]) for each in events(b"".join(written)) if each["ph"] == "C"]
    assert counted == [(1_000_000, {"GPUs used": 2.0}), (2_000_000, {"GPUs used": 0.0})]


def test_nothing_is_written_if_it_fails() -> None:
    written: list[bytes] = []
    trace = Trace(written.append, 0.0)
    trace.process("node")
    trace.__exit__(OSError, OSError("full"), None)
    assert written == []
