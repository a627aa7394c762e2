"""What pods have reported of their progress since the dashboard began to look, and its curves.

A pod bears its last report only (`api.progress`). So the reports are kept as they arrive: of each pod so many
that its whole course can be drawn, the fewer of each hour the longer it runs.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf, isfinite
from typing import Final

from muster.api.core_v1 import Pod
from muster.api.progress import Report, report
from muster.app.views import pods
from muster.dashboard.drawing import WIDTH
from muster.names import PROGRESS

#: Reports of a pod that are kept, and pods whose reports are.
POINTS: Final = 128
PODS: Final = 2_000
#: The height of a curve, and the rows of the table that says the same.
HEIGHT: Final = 160
ROWS: Final = 12


@dataclass(frozen=True, slots=True)
class Point:
    #: Unix seconds
    at: float
    report: Report


@dataclass(frozen=True, slots=True)
class Curve:
    """One quantity. `lines`: its parts as `points` of SVG; it is broken where a value is no number."""

    title: str
    #: what a reader is told who does not see it
    text: str
    lines: Sequence[str]
    #: the smallest and the greatest value, at the bottom and at the top
    low: str
    high: str


class Reports:
    def __init__(self) -> None:
        self._of: dict[str, list[Point]] = {}

    def take(self, old: Pod | None, new: Pod | None, now: float | None = None) -> None:
        """Notes a change of a pod; the arguments are a reflector's. `now`: Unix seconds."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._of.pop(old.metadata.uid, None)
        if new is None or (text := new.metadata.annotations.get(PROGRESS)) is None:
            return
        told, points = report(text), self._of.get(new.metadata.uid)
        if told is None or (points and points[-1].report == told):
            return
        if points is None:
            if len(self._of) >= PODS:
                return
            points = self._of[new.metadata.uid] = []
        elif len(points) >= POINTS:
            del points[1::2]
        points.append(Point(time.time() if now is None else now, told))

    def of(self, some: Iterable[Pod]) -> tuple[str, Sequence[Point]]:
        """The label and the reports, oldest first, of the first pod in the job file that has any."""
        for pod in sorted(some, key=pods.pod_order):
            if points := self._of.get(pod.metadata.uid):
                return pods.label(pod), points
        return "", ()


def curves(points: Sequence[Point]) -> list[Curve]:
    """The step over the time, and the loss over the reports, each if it has two values or more."""
    begin = points[0].at if points else 0.0
    steps = [(each.at - begin, float(each.report.step)) for each in points]
    losses = [
        (float(number), each.report.loss)
        for number, each in enumerate(points)
        if each.report.loss is not None
    ]
    found = (_curve("step", "over time", steps), _curve("loss", "from report to report", losses))
    return [each for each in found if each is not None]


def rows(points: Sequence[Point]) -> list[tuple[str, int, str]]:
    """Time, step and loss of some reports, evenly chosen, with the first and the last."""
    if len(points) > ROWS:
        points = [points[number * (len(points) - 1) // (ROWS - 1)] for number in range(ROWS)]
    return [
        (f"{datetime.fromtimestamp(each.at, UTC):%H:%M:%S} UTC", each.report.step, _number(each.report.loss))
        for each in points
    ]


def _curve(title: str, along: str, values: Sequence[tuple[float, float]]) -> Curve | None:
    finite = [value for _, value in values if isfinite(value)]
    if len(finite) < 2:
        return None
    low, high, end = min(finite), max(finite), max(values[-1][0], 1e-9)
    lines, part = list[str](), list[str]()
    for x, value in [*values, (0.0, inf)]:
        if isfinite(value):
            # halves: the difference of two numbers may be none
            up = (value / 2 - low / 2) / ((high / 2 - low / 2) or 1.0)
            part.append(f"{max(x, 0.0) / end * WIDTH:.1f},{4 + (1 - up) * (HEIGHT - 8):.1f}")
        elif part:
            lines.append(" ".join(part if len(part) > 1 else part * 2))
            part = []
    gaps = f"; {len(values) - len(finite)} reports are no finite number" if len(finite) < len(values) else ""
    text = (
        f"from {_number(values[0][1])} to {_number(values[-1][1])} {along}, "
        f"between {_number(low)} and {_number(high)}{gaps}"
    )
    return Curve(title, text, lines, _number(low), _number(high))


def _number(value: float | None) -> str:
    """As few digits as tell it; steps have all of theirs."""
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) < 1e9 and value.is_integer() else f"{value:.4g}"
