"""How the core's work grows with nodes, gangs, queues and shapes.

    python -m bench.growth              a table
    python -m bench.growth FILE.svg     and the plot of it that docs/performance.md shows

Everything else is held at 10,000 nodes, 1,000 gangs, 1 queue and 1 shape.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from bench.core import GPU, cluster, gang, selection, timed
from muster.core.events import GangSubmitted, PodBound, QueueChanged
from muster.core.gang import Gang, NodeName, PodId, PodSet, Queue, Shape
from muster.core.scheduler import Scheduler

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
    scheduler.apply(PodBound(PodId("one"), NodeName("node-00000"), ()))
    return 1e3 * timed(scheduler)


def _of_shape(number: int, shapes: int, count: int) -> Gang:
    shape = Shape((("cpu", 8_000), ("memory", 60_000 + number % shapes), (GPU, 1)))
    return replace(
        gang(f"default/g-{number}", count, float(number)), pod_sets=(PodSet("main", shape, count, count),)
    )


def main() -> None:
    for one in series():
        points = "   ".join(f"{size:,}: {value:,.1f}" for size, value in one.points)
        print(f"{one.name}, {one.unit}, by {one.along:8} {points}", flush=True)


if __name__ == "__main__":
    main()
