"""How the core's work grows with nodes, gangs, queues and shapes.

    python -m bench.growth              a table
    python -m bench.growth FILE.svg     and the plot of it that docs/internals/performance.md shows

Everything else is held at 10,000 nodes, 1,000 gangs, 1 queue and 1 shape; where domains are chosen, at 500
racks and 6 pod sets.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10
from pathlib import Path
from typing import Final

from bench.core import GPU, cluster, domain_choice, gang, selection, three_layers, timed
from muster.core.cycle import Scheduler
from muster.core.demand import Demand, Part, Request
from muster.core.words.events import GangSubmitted, PodsBound, QueueChanged
from muster.core.words.gang import Gang, NodeName, PodId, PodSet, Queue, Shape

_GANGS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Series:
    """`name` in `unit` over `along`: (how many, how long)."""

    name: str
    unit: str
    along: str
    points: tuple[tuple[int, float], ...]


def series() -> Iterator[Series]:
    yield _series("place a group of 512", "µs", "nodes", (1_000, 10_000, 100_000), _placement)
    yield _series("choose a domain", "µs", "racks", (50, 500, 5_000), _racks)
    yield _series("choose a domain", "µs", "pod sets", (1, 2, 6, 12), _pod_sets)
    yield _series("start gangs of eight, each", "µs", "gangs", (10, 100, 1_000), _start)
    yield _series("start gangs of eight, each", "µs", "queues", (1, 10, 100, 1_000), _queues)
    yield _series("start gangs of eight, each", "µs", "shapes", (1, 10, 100, 1_000), _shapes)
    yield _series("one event, all wait", "ms", "gangs", (100, 1_000, 10_000), _waiting)
    yield _series("one event, all wait", "ms", "shapes", (1, 10, 100), _waiting_shapes)


def _series(
    name: str, unit: str, along: str, sizes: tuple[int, ...], measure: Callable[[int], float]
) -> Series:
    return Series(name, unit, along, tuple((size, measure(size)) for size in sizes))


def _placement(nodes: int) -> float:
    return selection(cluster(nodes), 512)


def _racks(racks: int) -> float:
    return _domain(cluster(20 * racks, labels=True), 6)


def _pod_sets(pod_sets: int) -> float:
    return _domain(cluster(labels=True), pod_sets)


def _domain(scheduler: Scheduler, pod_sets: int) -> float:
    """A gang of 48 pods, as many of each set, that prefers the tightest of three layers."""
    each = 48 // pod_sets
    parts = tuple(Part(f"p{p}", _shape(p), each, each) for p in range(pod_sets))
    request = Request(Demand(parts, 48, three_layers()), [range(each)] * pod_sets)
    return domain_choice(scheduler, request)


def _start(gangs: int) -> float:
    scheduler = cluster()
    for i in range(gangs):
        scheduler.apply(GangSubmitted(gang(f"default/g-{i}", 8, float(i))))
    return 1e6 * timed(scheduler) / gangs


def _queues(queues: int) -> float:
    scheduler = cluster()
    for q in range(queues):
        scheduler.apply(QueueChanged(Queue(f"q-{q:04}")))
    for i in range(_GANGS):
        one = gang(f"default/g-{i}", 8, float(i))
        scheduler.apply(GangSubmitted(replace(one, queue=f"q-{i % queues:04}")))
    return 1e6 * timed(scheduler) / _GANGS


def _shapes(shapes: int) -> float:
    scheduler = cluster()
    for i in range(_GANGS):
        scheduler.apply(GangSubmitted(_of_shape(i, shapes, 8)))
    return 1e6 * timed(scheduler) / _GANGS


def _waiting(gangs: int) -> float:
    return _one_event(cluster(), [_of_shape(i, 1, 100_000) for i in range(gangs)])


def _waiting_shapes(shapes: int) -> float:
    return _one_event(cluster(), [_of_shape(i, shapes, 100_000) for i in range(_GANGS)])


def _one_event(scheduler: Scheduler, gangs: list[Gang]) -> float:
    """Milliseconds of a cycle after one pod has come to a node, when none of these fits."""
    for one in gangs:
        scheduler.apply(GangSubmitted(one))
    scheduler.decide(0.0)
    scheduler.apply(PodsBound({PodId("one"): None}, NodeName("node-00000"), ()))
    return 1e3 * timed(scheduler)


def _of_shape(number: int, shapes: int, count: int) -> Gang:
    shape = _shape(number % shapes)
    return replace(
        gang(f"default/g-{number}", count, float(number)), pod_sets=(PodSet("main", shape, count, count),)
    )


def _shape(number: int) -> Shape:
    return Shape((("cpu", 8_000), ("memory", (60_000 + number) * 2**20), (GPU, 1)))


def plot(rows: Sequence[Series]) -> str:
    """An SVG: how many along, how long up, both logarithmic; a line per series."""
    width, height, left, low = 720, 400, 60, 360
    most = max(size for one in rows for size, _ in one.points)
    times = [_MICROSECONDS[one.unit] * value for one in rows for _, value in one.points]
    bottom, top = floor(log10(min(times))), ceil(log10(max(times)))
    along = (width - left - 230) / ceil(log10(most))
    up = (low - 20) / (top - bottom)

    def at(size: int, time: float) -> tuple[float, float]:
        return left + along * log10(size), low - up * (log10(time) - bottom)

    size = f'viewBox="0 0 {width} {height}" font-size="12" font-family="sans-serif" fill="#666"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for power in range(bottom, top + 1):
        _, y = at(1, 10.0**power)
        parts.append(f'<path d="M{left} {y:.0f}H{width - 225}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.0f}" text-anchor="end">{_told(10.0**power)}</text>')
    for power in range(ceil(log10(most)) + 1):
        x, _ = at(10**power, 1.0)
        parts.append(f'<text x="{x:.0f}" y="{low + 18}" text-anchor="middle">{10**power:,}</text>')
    ends = []
    for one, colour in zip(rows, _COLOURS, strict=True):
        points = [at(number, _MICROSECONDS[one.unit] * value) for number, value in one.points]
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        ends.append((points[-1][1] + 4, f"{one.name}, by {one.along}", colour))
    lowest = 0.0
    for y, name, colour in sorted(ends):
        lowest = max(y, lowest + 15)  # names do not lie on each other
        parts.append(f'<text x="{width - 215}" y="{lowest:.0f}" fill="{colour}">{name}</text>')
    return "".join([*parts, "</svg>\n"])


_MICROSECONDS: Final = {"µs": 1.0, "ms": 1e3}
_COLOURS: Final = ("#1b6ca8", "#2a9d5c", "#b5651d", "#8e44ad", "#c0392b", "#555555", "#16a085", "#d35400")


def _told(microseconds: float) -> str:
    unit = next((u for u, size in (("s", 1e6), ("ms", 1e3)) if microseconds >= size), "µs")
    return f"{microseconds / {'s': 1e6, 'ms': 1e3, 'µs': 1.0}[unit]:g} {unit}"


def main() -> None:
    rows = []
    for one in series():
        rows.append(one)
        points = "   ".join(f"{size:,}: {value:,.1f}" for size, value in one.points)
        print(f"{one.name}, {one.unit}, by {one.along:8} {points}", flush=True)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(plot(rows))


if __name__ == "__main__":
    main()
