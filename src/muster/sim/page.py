"""A report as one self-contained HTML page: figures, and charts of the replay over time.

The page is readable in light and dark mode, on screen and on paper, and small enough to be sent around (below
200 kB): a chart has as many points as a history has slices, whatever the trace.
"""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Final

import numpy as np

from muster.sim import charts
from muster.sim.charts import Floats
from muster.sim.history import History
from muster.sim.metrics import Stop
from muster.sim.report import Report, readable
from muster.sim.trace import Clock
from muster.sim.units import pieces

#: Queues with a colour of their own, the largest; the others share one.
_QUEUES: Final = 7

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1c2127;--dim:#5f6b7a;--grid:#dfe4ea;--paper:#fff;
--c0:#3b7dd8;--c1:#d1495b;--c2:#5b6773;--c3:#2e9e6b;--c4:#c98a1b;--c5:#8a5cc2;--c6:#1f9aa8;--c7:#a0a7b0}
@media(prefers-color-scheme:dark){:root{--ink:#e3e7ec;--dim:#9aa5b1;--grid:#333b45;--paper:#15191e;
--c0:#6aa5f2;--c1:#ef7b8b;--c2:#a6b1bd;--c3:#5cc796;--c4:#e5b454;--c5:#b491e4;--c6:#58c2ce;--c7:#737d88}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:800px;
margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .3rem}p{margin:.3rem 0;color:var(--dim)}
svg{width:100%;height:auto}svg text{font-size:11px;fill:var(--dim)}svg .n{font-size:10px}
svg .g{stroke:var(--grid);stroke-width:1}
.legend{font-size:.85rem}.legend span{margin-right:1.2em;white-space:nowrap}
.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.4em;border-radius:2px}
.c0{background:var(--c0)}.c1{background:var(--c1)}.c2{background:var(--c2)}.c3{background:var(--c3)}
.c4{background:var(--c4)}.c5{background:var(--c5)}.c6{background:var(--c6)}.c7{background:var(--c7)}
table{border-collapse:collapse;margin-top:.6rem;font-variant-numeric:tabular-nums}
th,td{padding:.15rem 1rem .15rem 0;text-align:right}th:first-child,td:first-child{text-align:left}
th{color:var(--dim);font-weight:500}td{border-top:1px solid var(--grid)}
"""


def page(
    title: str,
    headline: str,
    resource: str,
    report: Report,
    notes: tuple[str, ...] = (),
    clock: Clock = Clock.SECONDS,
) -> str:
    """Return the whole page; charts show the first seed. `clock`: what the times of the trace count."""
    body = [
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(line)}</p>" for line in (headline, *notes)),
        _figures(report, resource),
        *pictures(report, resource, clock),
        "<p>Replayed by muster, through the scheduler itself. The figures: docs/guides/replay.md.</p>",
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _figures(report: Report, resource: str) -> str:
    several = report.drawn and len(report.seeds) > 1
    head = ["metric", *(["mean", "std"] if several else ["value"]), "unit"]
    cells = [
        [name, mean, *([std] if several else []), unit]
        for name, mean, std, unit in readable(report, resource)
        if report.metrics[name].mean is not None
    ]
    seeds = f"<p>over {len(report.seeds)} seeds</p>" if several else ""
    stops = _stops(report)
    return f"{_table(head, cells)}{seeds}{f'<p>{escape(stops)}</p>' if stops else ''}"


def _stops(report: Report) -> str:
    told = {Stop.PREEMPTED: "preempted", Stop.FAILED: "failed", Stop.NODE_LOST: "lost with their node"}
    counts = [f"{report.stops[why]} {word}" for why, word in told.items() if report.stops[why]]
    return f"Runs that did not come to their end: {', '.join(counts)}." if counts else ""


def pictures(report: Report, resource: str, clock: Clock) -> Iterator[str]:
    """Yields titles, notes and charts of the first seed, as HTML; nothing if no history was kept."""
    history = report.results[0].history
    if history is None:
        return
    series = history.series
    slices = np.arange(len(series["capacity"]), dtype=np.float64)
    times: Floats = history.start + (slices + 0.5) * history.width
    if len(times) < 2:
        return
    if len(report.seeds) > 1:
        yield f"<p>The charts show seed {report.seeds[0]}.</p>"
    top = float(series["capacity"].max())
    asked = np.minimum(series["demand"], 2 * top)
    unit = escape(pieces(resource))
    yield f"<h2>Allocation and demand ({unit})</h2>"
    over = " The line stops at twice the capacity." if (series["demand"] > 2 * top).any() else ""
    row_amounts = (
        "running and waiting jobs" if clock is Clock.SECONDS else "all jobs that have arrived so far"
    )
    axis = "" if clock is Clock.SECONDS else " The horizontal axis counts arrivals."
    yield f"<p>Demand is what {row_amounts} ask for together.{axis}{over}</p>"
    rows = {"allocated": series["allocated"], "demand": asked, "capacity": series["capacity"]}
    yield charts.lines(times, rows, clock, area="allocated", top=max(top, float(asked.max())))
    yield "<h2>Utilisation</h2>"
    there = np.where(series["capacity"] > 0, series["capacity"], np.inf)
    yield charts.lines(times, {"utilisation": series["allocated"] / there}, clock, unit="%", top=1.0)
    if history.waits:
        yield "<h2>Waits by size</h2>"
        yield f"<p>Jobs by size ({unit}), with the number of jobs of each size below; logarithmic scale.</p>"
        yield _waits(history)
    queues = {name.removeprefix("queue "): row for name, row in series.items() if name.startswith("queue ")}
    if len(queues) > 1:
        yield f"<h2>Allocation by queue ({unit})</h2>"
        yield charts.stacked(times, _largest(queues), clock, top=top)


def _waits(history: History) -> str:
    classes = sorted(history.waits)
    found = [np.frombuffer(history.waits[power]) for power in classes]
    rows = {
        "median": [float(np.median(waits)) for waits in found],
        "mean": [float(np.mean(waits)) for waits in found],
        "95 %": [float(np.percentile(waits, 95)) for waits in found],
    }
    counts = [f"{len(waits):,}" for waits in found]
    return charts.bars([_class(power) for power in classes], rows, notes=counts)


def _class(power: int) -> str:
    if power < 1:
        return "<1" if power < 0 else "1"
    return f"{2**power}–{2 ** (power + 1) - 1}"


def _largest(queues: Mapping[str, Floats]) -> dict[str, Floats]:
    order = sorted(queues, key=lambda name: (-float(queues[name].sum()), name))
    shown = {name: queues[name] for name in order[:_QUEUES]}
    if rest := order[_QUEUES:]:
        shown[f"{len(rest)} others"] = np.sum([queues[name] for name in rest], axis=0)
    return shown


def _table(head: list[str], rows: list[list[str]]) -> str:
    def row(cells: list[str], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(each, 'td') for each in rows)}</table>"
