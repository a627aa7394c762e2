"""What pods report of their progress becomes curves."""

import math
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.core_v1 import Pod
from muster.api.progress import Report
from muster.dashboard.drawing import WIDTH
from muster.dashboard.progress import HEIGHT, PODS, POINTS, ROWS, Point, Reports, curves, rows
from muster.kube.decode import decode
from muster.names import PROGRESS


def pod(uid: str, told: str | None = None) -> Pod:
    meta: dict[str, Any] = {"name": f"p-{uid}", "namespace": "default", "uid": uid}
    if told is not None:
        meta["annotations"] = {PROGRESS: told}
    found: Pod = decode(kinds.POD, msgspec.json.encode({"metadata": meta, "spec": {"containers": []}}))
    return found


VALUES = st.floats() | st.floats(0, 10) | st.none()


@given(st.lists(st.tuples(st.floats(0, 2e9), st.integers(0, 10**18), VALUES), max_size=40))
def test_each_curve_is_within_its_picture(told: list[tuple[float, int, float | None]]) -> None:
    points = [Point(at, Report(step, loss)) for at, step, loss in sorted(told, key=lambda each: each[0])]
    for curve in curves(points):
        for line in curve.lines:
            pairs = [tuple(map(float, pair.split(","))) for pair in line.split()]
            assert len(pairs) > 1
            assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in pairs)
    shown = rows(points)
    assert len(shown) == min(len(points), ROWS)
    if points:
        assert (shown[0][1], shown[-1][1]) == (points[0].report.step, points[-1].report.step)


def test_a_loss_that_falls_is_drawn_from_the_top_to_the_bottom() -> None:
    points = [Point(at, Report(at * 10, loss)) for at, loss in ((0, 3.0), (1, math.nan), (2, 2.0), (3, 1.0))]
    step, loss = curves(points)
    assert step.lines == ["0.0,156.0 333.3,105.3 666.7,54.7 1000.0,4.0"]
    assert loss.lines == ["0.0,4.0 0.0,4.0", "666.7,80.0 1000.0,156.0"]
    assert loss.text == "from 3 to 1 from report to report, between 1 and 3; 1 reports are no finite number"


def test_a_report_alone_is_no_curve() -> None:
    assert curves([Point(0.0, Report(1, 2.0))]) == []
    assert curves([]) == []


@given(st.integers(1, 3_000))
def test_of_each_pod_its_whole_course_is_kept_in_few_reports(number: int) -> None:
    kept, before = Reports(), None
    for step in range(number):
        now = pod("a", f"step={step}")
        kept.take(before, now, float(step))
        kept.take(now, now, float(step))  # the same again
        before = now
    label, points = kept.of([now])
    assert label == "p-a"
    assert len(points) <= POINTS
    steps = [each.report.step for each in points]
    assert (steps[0], steps[-1]) == (0, number - 1)
    assert steps == sorted({*steps})
    assert len(points) >= min(number, POINTS // 2)


def test_reports_of_a_pod_end_with_it_and_those_of_too_many_pods_are_left_out() -> None:
    kept = Reports()
    old = pod("a", "step=1")
    kept.take(None, old)
    kept.take(old, pod("b", "step=2"))  # another of its name
    assert kept.of([old]) == ("", ())
    kept.take(pod("b"), None)
    for number in range(PODS + 5):
        kept.take(None, pod(str(number), "step=1"))
    assert len(kept._of) == PODS


def test_what_cannot_be_read_is_no_report() -> None:
    kept = Reports()
    for text in ("", "loss=1", "step=x", "step=" + "9" * 500):
        kept.take(None, pod("a", text))
    kept.take(None, pod("a"))
    assert kept.of([pod("a")]) == ("", ())
