"""Charts as inline SVG: lines, stacked areas and bars, with readable axes.

No script and no asset: a chart is text, coloured by the page's CSS variables (`--c0`, `--c1`, …, `--ink`,
`--grid`) and classes (`c0`, …), so that it follows a light or a dark page, and needs no style of its own.
"""

from collections.abc import Mapping, Sequence
from html import escape
from math import floor, log10
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.sim.trace import Clock
from muster.sim.units import duration

Floats = npt.NDArray[np.float64]

WIDTH: Final = 760
HEIGHT: Final = 240
#: Room for the axes: left, top, right, bottom.
_LEFT, _TOP, _RIGHT, _BOTTOM = 56, 12, 12, 34
_COLOURS: Final = 8
_TICKS: Final = 6
#: Where a logarithmic axis of durations has its ticks.
_DURATIONS: Final = (1, 10, 60, 600, 3600, 36_000, 86_400, 864_000, 8_640_000)


class Frame:
    """The mapping from values to positions in the picture."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self._x, self._y = x, y

    def x(self, value: float) -> float:
        low, high = self._x
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * (value - low) / ((high - low) or 1.0)

    def y(self, value: float) -> float:
        low, high = self._y
        return HEIGHT - _BOTTOM - (HEIGHT - _TOP - _BOTTOM) * (value - low) / ((high - low) or 1.0)


def lines(
    times: Floats,
    rows: Mapping[str, Floats],
    clock: Clock,
    *,
    area: str = "",
    unit: str = "",
    top: float | None = None,
) -> str:
    """Draw rows over time as lines; `area` names one that is filled. `top`: where the y axis ends."""
    highest = top if top is not None else max((float(row.max(initial=0)) for row in rows.values()), default=0)
    frame = Frame((float(times[0]), float(times[-1])), (0.0, highest or 1.0))
    marks = []
    for number, (name, row) in enumerate(rows.items()):
        points = _points(frame, times, row)
        if name == area:
            low = frame.y(0)
            outline = f"{points} L{frame.x(times[-1]):.1f},{low:.1f} L{frame.x(times[0]):.1f},{low:.1f}Z"
            marks.append(f'<path d="M{outline}" fill="var(--c{number})" fill-opacity=".45"/>')
        else:
            marks.append(f'<path d="M{points}" fill="none" stroke="var(--c{number})" stroke-width="1.6"/>')
    return _svg([*_time_axis(frame, times, clock), *_y_axis(frame, highest or 1.0, unit), *marks], list(rows))


def stacked(times: Floats, rows: Mapping[str, Floats], clock: Clock, *, unit: str = "", top: float) -> str:
    """Draw rows over time as stacked areas."""
    frame = Frame((float(times[0]), float(times[-1])), (0.0, top or 1.0))
    below = np.zeros(len(times))
    marks = []
    for number, row in enumerate(rows.values()):
        above = below + row
        upper, lower = _points(frame, times, above), _points(frame, times[::-1], below[::-1])
        marks.append(f'<path d="M{upper} L{lower}Z" fill="var(--c{number % _COLOURS})" fill-opacity=".75"/>')
        below = above
    return _svg([*_time_axis(frame, times, clock), *_y_axis(frame, top or 1.0, unit), *marks], list(rows))


def bars(groups: Sequence[str], rows: Mapping[str, Sequence[float]], *, notes: Sequence[str] = ()) -> str:
    """Draw groups of durations as bars, on a log axis from one second; `notes` below the groups' names."""
    highest = max(max((value for row in rows.values() for value in row), default=0.0), 10.0)
    frame = Frame((0.0, float(len(groups) or 1)), (0.0, log10(highest)))
    parts = []
    for tick in _DURATIONS:
        if tick <= highest:
            at = frame.y(log10(tick))
            parts.append(
                f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="g"/>'
                f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{duration(tick)}</text>'
            )
    width = 0.7 / max(len(rows), 1)
    for number, row in enumerate(rows.values()):
        for group, value in enumerate(row):
            left = frame.x(group + 0.15 + number * width)
            upper = frame.y(log10(value)) if value > 1 else frame.y(0)
            parts.append(
                f'<rect x="{left:.1f}" y="{upper:.1f}" width="{frame.x(width) - frame.x(0) - 1:.1f}" '
                f'height="{max(frame.y(0) - upper, 1):.1f}" fill="var(--c{number})">'
                f"<title>{escape(groups[group])}: {duration(value)}</title></rect>"
            )
    for group, name in enumerate(groups):
        at = frame.x(group + 0.5)
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - 18}" text-anchor="middle">{escape(name)}</text>')
        if group < len(notes):
            note = escape(notes[group])
            parts.append(f'<text x="{at:.1f}" y="{HEIGHT - 4}" text-anchor="middle" class="n">{note}</text>')
    return _svg(parts, list(rows))


def _points(frame: Frame, times: Floats, row: Floats) -> str:
    return " L".join(f"{frame.x(t):.1f},{frame.y(v):.1f}" for t, v in zip(times, row, strict=True))


def _time_axis(frame: Frame, times: Floats, clock: Clock) -> list[str]:
    begin, end = float(times[0]), float(times[-1])
    counts = clock is Clock.ARRIVALS
    step = _step(end - begin, () if counts else (60, 300, 900, 1800, 3600, 7200, 14_400, 43_200, 86_400))
    parts = []
    for number in range(floor((end - begin) / step) + 1):
        at = frame.x(begin + number * step)
        text = "0" if not number else f"{number * step:,.0f}" if counts else duration(number * step)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}" class="g"/>'
            f'<text x="{at:.1f}" y="{HEIGHT - 16}" text-anchor="middle">{text}</text>'
        )
    return parts


def _y_axis(frame: Frame, highest: float, unit: str) -> list[str]:
    step = _step(highest, ())
    parts = []
    for number in range(floor(highest / step + 1e-9) + 1):
        value = number * step
        at = frame.y(value)
        text = f"{value:.0%}" if unit == "%" else f"{value:g}"
        parts.append(
            f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="g"/>'
            f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{text}</text>'
        )
    return parts


def _step(span: float, nice: Sequence[float]) -> float:
    """Return a round number that divides the span into a few steps."""
    wanted = (span or 1.0) / _TICKS
    for step in nice:
        if step >= wanted:
            return step
    days = 86_400.0 if nice else 1.0
    power = 10.0 ** floor(log10(wanted / days))
    return days * next(power * n for n in (1, 2, 5, 10) if power * n >= wanted / days - 1e-12)


def _svg(parts: Sequence[str], names: Sequence[str]) -> str:
    """Return the SVG, with its legend below if it needs one."""
    legend = "".join(
        f'<span><i class="c{number % _COLOURS}"></i>{escape(name)}</span>'
        for number, name in enumerate(names)
    )
    said = escape(", ".join(names))
    picture = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{said}">{"".join(parts)}</svg>'
    return picture + (f'<p class="legend">{legend}</p>' if len(names) > 1 else "")
