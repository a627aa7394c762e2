"""What is ahead of jobs, and what evictions have cost them."""

from datetime import UTC, datetime
from math import inf
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.base import Object
from muster.api.muster_v1alpha1 import Gang
from muster.app.views.job import JobView, State
from muster.dashboard import calendar
from muster.dashboard.drawing import WIDTH

NOW = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


class Moment:
    def __init__(self, jobs: list[JobView], ends: dict[tuple[str, str], float] | None = None) -> None:
        self.jobs, self._ends = jobs, ends or {}

    def text(self, text: str) -> str:
        return text

    def ends(self) -> dict[tuple[str, str], float]:
        return self._ends


def view(name: str, state: State, status: Object | None = None) -> JobView:
    meta = {"name": name, "namespace": "x", "uid": name}
    resource = msgspec.convert({"metadata": meta}, kinds.JOB.type)
    gang = msgspec.convert({"metadata": meta, "status": status or {}}, Gang)
    return JobView(kinds.JOB, resource, state, 1, 0, 0, 0, gangs=(gang,))


def ahead(moment: Any, reserved: dict[tuple[str, str], tuple[float, int]] | None = None) -> Object:
    return calendar.calendar(moment, NOW, reserved or {})


def test_ends_come_first_then_starts_each_by_time() -> None:
    waits = {"explanation": {"expectedStart": {"at": "2026-01-01T01:00:00Z", "basis": "when a ends"}}}
    never = {"explanation": {"expectedStart": {"at": None, "basis": "a has no limit"}}}
    jobs = [
        view("never", State.WAITING, never),
        view("waits", State.WAITING, waits),
        view("next", State.WAITING, waits),
        view("b", State.RUNNING),
        view("a", State.RUNNING),
        view("endless", State.RUNNING),
        view("over", State.SUCCEEDED),
        view("silent", State.WAITING),
    ]
    ends = {("x", "a"): NOW + 1800, ("x", "b"): NOW + 3600}
    found = ahead(Moment(jobs, ends), {("x", "next"): (NOW + 1800, 2)})
    told = [(entry.view.name, entry.kind, entry.at) for entry, _ in found["rows"]]
    assert told == [
        ("a", "running", 1800),
        ("b", "running", 3600),
        ("next", "reserved", 1800),
        ("waits", "expected", 3600),
        ("never", "expected", inf),
    ]
    assert found["unknown"] == 1
    assert "2 nodes are kept for it from then on" in found["rows"][2][0].note


@pytest.mark.parametrize(
    "told", [None, "soon", {"at": 7}, {"at": "never"}, {"at": "9999-99-99", "basis": []}]
)
def test_a_start_that_cannot_be_read_is_no_time(told: Any) -> None:
    one = view("w", State.WAITING, {"explanation": {"expectedStart": told}})
    rows = ahead(Moment([one]))["rows"]
    assert [entry.at for entry, _ in rows] == ([inf] if isinstance(told, dict) else [])


@given(st.lists(st.floats(-1e6, 1e9) | st.just(inf), max_size=150))
def test_each_bar_is_within_the_picture(times: list[float]) -> None:
    jobs = [view(f"w{n}", State.WAITING) for n in range(len(times))]
    found = ahead(Moment(jobs), {("x", f"w{n}"): (NOW + at, 1) for n, at in enumerate(times)})
    assert len(found["rows"]) + found["more"] == len(times)
    for _, marks in found["rows"]:
        assert all(mark.x >= 0 and mark.width >= 0 and mark.x + mark.width <= WIDTH + 0.1 for mark in marks)


def test_evictions_say_for_whom_and_what_they_cost() -> None:
    def entry(at: str, **more: Any) -> Object:
        return {"at": at, "by": "x/urgent", "kind": "preemption", "lostResourceSeconds": 7200.0, **more}

    first = entry("2026-01-01T00:00:00Z", gpuHoursLost="2", costLost="7")
    later = entry("2026-01-02T00:00:00Z", pods=3)
    damaged: Object = {"at": "yesterday", "by": 7}
    moment: Any = Moment([view("v", State.WAITING, {"preemptions": [first, damaged, later]})])
    found = calendar.evictions(moment)
    assert [(each.by, each.pods, each.lost) for each in found["rows"]] == [
        ("x/urgent", 3, "7,200 resource-seconds"),
        ("x/urgent", None, "2 GPU-hours"),
    ]
    assert (found["total"], str(found["hours"]), found["rows"][1].cost) == (2, "2", found["cost"])
