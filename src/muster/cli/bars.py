"""Draws bars in the terminal: when each place waited and ran, to half a character.

Each cell has a left and a right half, each of which waits, runs or is empty; a cell is drawn by what fills
most of it. Failures are marked where the bar ends, so that a restart shows as a break in its row.
"""

import shutil
from collections.abc import Iterable, Sequence
from math import ceil, floor
from typing import Final

from muster.app.views.timeline import Phase, Row, Span, Timeline

_CELLS: Final = {
    (None, None): " ",
    (Phase.RUNNING, Phase.RUNNING): "█",
    (Phase.RUNNING, None): "▌",
    (None, Phase.RUNNING): "▐",
    (Phase.WAITING, Phase.RUNNING): "▐",
    (Phase.RUNNING, Phase.WAITING): "▌",
}
_WAITING: Final = "░"
_FAILED: Final = "✗"
#: Cells of a bar on the narrowest terminal.
_FEWEST: Final = 10
_STEPS: Final = (
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    21600,
    43200,
    86400,
)


def lines(drawn: Timeline, most: int | None = None, indent: int = 0) -> list[str]:
    """The bars, as wide as the terminal up to 100 columns; at most `most` rows, preferably with notes.

    `indent`: cells that the caller writes before each line.
    """
    rows = list(drawn.rows)
    left_out = max(0, len(rows) - most) if most is not None else 0
    if left_out:
        kept = sorted(range(len(rows)), key=lambda index: (not rows[index].note, index))[:most]
        rows = [rows[index] for index in sorted(kept)]
    width = min(100, shutil.get_terminal_size((80, 24)).columns) - indent
    text = draw(rows, drawn.begin, drawn.end, width)
    return [*text, f"and {left_out} more: muster timeline"] if left_out else text


def draw(rows: Sequence[Row], begin: float, end: float, width: int) -> list[str]:
    """The rows as text with a time axis below, `width` characters at most.

    Bars have `_FEWEST` cells at least; labels and notes are shortened to make room for them. A terminal too
    narrow even for that gets longer lines.
    """
    labels = max((len(row.label) for row in rows), default=0)
    notes = max((len(row.note) for row in rows), default=0)
    room = max(0, width - _FEWEST - 2)
    labels = min(labels, max(room // 2, _FEWEST))
    notes = min(notes, max(room - labels - 2, 0))
    gutter = labels + 2
    cells = max(_FEWEST, width - gutter - (notes + 2 if notes else 0))
    span = max(end - begin, 1e-9)
    lines = []
    for row in rows:
        bar, note = _bar(row.spans, begin, span, cells), _shortened(row.note, notes)
        lines.append(f"{_shortened(row.label, labels):<{gutter}}{bar}  {note}".rstrip())
    lines.append(" " * gutter + _axis(span, cells, width - gutter))
    return lines


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(0, most - 1)] + "…"[:most]


def _bar(spans: Iterable[Span], begin: float, span: float, cells: int) -> str:
    halves: list[Phase | None] = [None] * (2 * cells)
    marks = []

    def half(time: float) -> int:
        return min(2 * cells, max(0, round((time - begin) / span * 2 * cells)))

    for piece in sorted(spans, key=lambda piece: piece.begin):
        first, last = half(piece.begin), half(piece.end)
        if piece.phase is Phase.RUNNING and first == last:  # every run is visible, however short
            first, last = (first, first + 1) if first < 2 * cells else (first - 1, first)
        halves[first:last] = [piece.phase] * (last - first)
        if piece.failed:
            marks.append(min(cells - 1, (last + 1) // 2))
    text = [_CELLS.get((halves[2 * cell], halves[2 * cell + 1]), _WAITING) for cell in range(cells)]
    for cell in marks:
        text[cell] = _FAILED
    return "".join(text)


def _axis(span: float, cells: int, width: int) -> str:
    """The time axis `0:00      1:00      2:00`: as many round times as fit into `width` characters."""
    widest = len(clock(span, fine=span < _STEPS[3] * cells)) + 2
    step: float = next((step for step in _STEPS if step / span * cells >= widest), _STEPS[-1])
    step *= max(1, ceil(widest * span / cells / step))
    line = ""
    for tick in range(floor(span / step * (1 + 1e-9)) + 1):
        at, text = round(tick * step / span * cells), clock(tick * step, fine=step < 1)
        if tick and at + len(text) > width:
            break
        line = f"{line:<{at}}{text}"
    return line


def clock(seconds: float, *, fine: bool = False) -> str:
    """The time as `0:07`, `12:30`, `3:05:00`; `0:07.5` if fine."""
    whole = int(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    text = f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
    return f"{text}.{int(seconds * 10) % 10}" if fine else text
