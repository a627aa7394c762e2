"""Where things are drawn, in the units of a picture; templates write them as SVG."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Final
from zlib import crc32

from muster.app.views.nodes import NodeView
from muster.app.views.timeline import Timeline
from muster.names import GPU

#: The width of a timeline, and of a bar.
WIDTH: Final = 1000
#: GPUs that are drawn of a node at most.
CELLS: Final = 64
#: Colours of jobs (`style.css`).
_HUES: Final = 12


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of a bar: where it begins, how wide it is, what it is, and what to say of it."""

    x: float
    width: float
    kind: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    marks: Sequence[Mark]
    note: str = ""


def bars(timeline: Timeline, clock: Mapping[str, str] | None = None) -> list[Bar]:
    """The rows of a timeline. Each span is at least one unit wide, so that it is seen."""
    length = max(timeline.end - timeline.begin, 1e-9)
    return [
        Bar(
            row.label,
            [
                Mark(
                    round((span.begin - timeline.begin) / length * WIDTH, 1),
                    max(round((span.end - span.begin) / length * WIDTH, 1), 1.0),
                    "failed" if span.failed else span.phase.value,
                    f"{span.phase.value} {duration(span.end - span.begin)}",
                )
                for span in row.spans
            ],
            row.note,
        )
        for row in timeline.rows
    ]


def share(amount: float, of: float) -> float:
    """How wide a bar of this amount is, if `of` is the whole width."""
    return round(min(max(amount / of, 0.0), 1.0) * WIDTH, 1) if of > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Fill:
    """What a cell says, and the class of its colour (`style.css`)."""

    text: str = "free"
    kind: str = "h0"
    #: whether something holds it
    used: bool = False
    #: whether it is of the job that is looked for, or of another
    sought: bool = False
    other: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A GPU, or, on a node without any, its CPUs."""

    x: int
    y: int
    fill: "Fill"


@dataclass(frozen=True, slots=True)
class Box:
    """A node."""

    node: NodeView
    cells: Sequence[Cell]
    columns: int
    rows: int


def boxes(nodes: Iterable[NodeView], fills: Mapping[str, Sequence[Fill]]) -> list[Box]:
    """Nodes with a cell for each GPU. `fills`: by node, those of its first GPUs; the others are free."""
    found = []
    for node in nodes:
        number = min(node.capacity.get(GPU, 0), CELLS)
        of = fills.get(node.name, ())
        columns = max(ceil(sqrt(number)), 4) if number > 4 else max(number, 1)
        cells = [Cell(i % columns, i // columns, of[i] if i < len(of) else Fill()) for i in range(number)]
        found.append(Box(node, cells, columns, max(ceil(number / columns), 1)))
    return found


def hue(job: str) -> int:
    """The colour of a job, the same on every page; 0 = none."""
    return crc32(job.encode()) % _HUES + 1 if job else 0


def duration(seconds: float) -> str:
    """`7 s`, `3:05 min`, `2:03 h`, `4 d`."""
    whole = int(max(seconds, 0))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    if whole < 2 * 86_400:
        return f"{whole // 3600}:{whole // 60 % 60:02} h"
    return f"{whole // 86_400} d"
