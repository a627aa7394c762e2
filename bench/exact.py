"""Exact answers for large gangs of six shapes, where greedy placement finds none.

Nodes of 20 shapes are filled to about 92 % of their GPUs, and a gang asks for nearly all that is left.
Three gangs: one that is known to fit, because it was drawn from a packing of the free room; the same with
some of its small pods joined to larger ones, so that the totals are as before and only the relaxation
can tell; and one that asks for more GPUs than are free. In a regular cluster cores and memory keep step
with GPUs; in an irregular one they do not, and its nodes differ much more.

"Cold" is the first answer, patterns included; "cached" has the patterns of every kind of node at hand;
"kept" looks an earlier proof through after one node has changed. highspy is imported beforehand. All are
medians of 5, in milliseconds of processor time: everything runs in one thread.
"""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from muster.core.cycle import Scheduler
from muster.core.demand import Demand, Part, Request
from muster.core.placement import Infeasible, Placed, Reason
from muster.core.placement.exact import Exact
from muster.core.placement.exact.solver import Program, optimum
from muster.core.placement.greedy import place
from muster.core.words.events import NodeChanged, PodsBound
from muster.core.words.gang import Amounts, NodeName, PodId, Shape

GPU: Final = "nvidia.com/gpu"
#: cores, GiB and GPUs of a pod
PODS: Final = ((8, 64, 1), (16, 128, 2), (32, 256, 4), (90, 700, 8), (4, 16, 0), (24, 300, 1))
#: how often each is drawn for the gang, and for what fills the cluster beforehand
WANTED: Final = (3.0, 5.0, 8.0, 20.0, 0.3, 3.0)
FILLS: Final = {"regular": (6, 4, 3, 2, 0, 0), "irregular": (6, 4, 3, 2, 1, 1)}
FULL: Final = 0.92

Room = list[list[int]]


def run() -> dict[str, float]:
    """Figures by name; every name says its unit."""
    none = np.zeros(0)
    optimum(Program(none, none, none, none, np.zeros(1, np.int32), np.zeros(0, np.int32), none))
    figures: dict[str, float] = {}
    for nodes in (1_000, 10_000):
        for fill, weights in FILLS.items():
            scheduler, room = cluster(nodes, weights)
            fits = planted(room)
            for name, counts in (
                ("fits", fits),
                ("subtle no", subtle(scheduler, fits)),
                ("no by totals", [n + nodes * (i == 1) for i, n in enumerate(fits)]),
            ):
                figures |= measured(f"exact: {nodes:,} {fill} nodes, {name}", scheduler, wanted(counts))
    return figures


def cluster(nodes: int, weights: Sequence[int]) -> tuple[Scheduler, Room]:
    """A cluster in use, and the cores, GiB and GPUs free on each of its nodes."""
    rng = random.Random(1)
    kinds = [
        (rng.choice([96, 112, 128, 160]), rng.choice([768, 1024, 1152, 1536]), rng.choice([4, 8]))
        for _ in range(20)
    ]
    scheduler, room = Scheduler(), []
    for i in range(nodes):
        kind = rng.choice(kinds)
        scheduler.apply(NodeChanged(NodeName(f"node-{i:05}"), amounts(kind)))
        room.append(list(kind))
    free = sum(node[2] for node in room)
    least = (1 - FULL) * free
    for serial in range(60 * nodes):
        if free <= least:
            break
        node, pod = rng.randrange(nodes), rng.choices(PODS, weights)[0]
        if fits_on(room[node], pod):
            take(room[node], pod)
            free -= pod[2]
            scheduler.apply(
                PodsBound({PodId(f"pod-{serial}"): None}, NodeName(f"node-{node:05}"), amounts(pod))
            )
    scheduler.decide(0.0)
    return scheduler, room


def planted(room: Room) -> list[int]:
    """A gang that fills the GPUs that are free, as far as they can be used."""
    rng = random.Random(2)
    counts = [0] * len(PODS)
    for free in (list(node) for node in room):
        while free[2]:
            can = [i for i, pod in enumerate(PODS) if fits_on(free, pod)]
            if not can:
                break
            chosen = rng.choices(can, [WANTED[i] for i in can])[0]
            take(free, PODS[chosen])
            counts[chosen] += 1
    return counts


def subtle(scheduler: Scheduler, counts: Sequence[int]) -> list[int]:
    """The gang with pairs of its one-GPU pods made into pods of two, until only the relaxation says no."""
    fewer, more, *rest = counts
    step = len(scheduler.world.nodes) // 500
    while fewer >= 2 * step:
        fewer, more = fewer - 2 * step, more + step
        answer, _ = answered(fresh(scheduler), scheduler, wanted([fewer, more, *rest]))
        if answer == Infeasible(Reason.RELAXATION):
            return [fewer, more, *rest]
    raise LookupError("the relaxation holds all of them")


def measured(name: str, scheduler: Scheduler, demand: Demand) -> dict[str, float]:
    def cold() -> float:
        return answered(fresh(scheduler), scheduler, demand)[1]

    known = fresh(scheduler)
    answer, _ = answered(known, scheduler, demand)
    figures = {f"{name}: greedy, ms": median(lambda: greedy(scheduler, demand))}
    if not answer and answer.reason is Reason.TOTALS:
        return figures | {f"{name}: totals, ms": median(cold)}

    def cached() -> float:
        known.budget.next_cycle()
        return answered(known, scheduler, demand)[1]

    figures |= {f"{name}: cold, ms": median(cold), f"{name}: cached, ms": median(cached)}
    if not answer:
        column = int(np.flatnonzero(scheduler.world.nodes.free(scheduler.world.nodes.resources[GPU]))[0])

        def kept() -> float:
            for times in (1, -1):
                scheduler.world.ledger.take_at(column, ((0, 1),), times)
            started = time.process_time()
            known.budget.next_cycle()
            assert known.refutes(demand) is not None
            return time.process_time() - started

        figures[f"{name}: kept, ms"] = median(kept)
    return figures


def answered(exact: Exact, scheduler: Scheduler, demand: Demand) -> tuple[Placed | Infeasible, float]:
    """The answer and its seconds; the ledger is as before."""
    tried = scheduler.world.ledger.log.trial()
    started = time.process_time()
    answer = exact.place(Request(demand, [range(part.count) for part in demand.parts]))
    took = time.process_time() - started
    tried.undo()
    return answer, took


def greedy(scheduler: Scheduler, demand: Demand) -> float:
    tried = scheduler.world.ledger.log.trial()
    started = time.process_time()
    place(
        Request(demand, [range(part.count) for part in demand.parts]),
        scheduler.world.ledger,
        scheduler.fit.slots,
    )
    took = time.process_time() - started
    tried.undo()
    return took


def fresh(scheduler: Scheduler) -> Exact:
    exact = Exact(scheduler.world.ledger, scheduler.fit.slots)
    exact.budget.next_cycle()
    return exact


def wanted(counts: Sequence[int]) -> Demand:
    parts = [
        Part(f"set-{i}", Shape(amounts(pod)), n, n)
        for i, (pod, n) in enumerate(zip(PODS, counts, strict=True))
    ]
    return Demand(tuple(part for part in parts if part.count), sum(counts))


def amounts(pod: Sequence[int]) -> Amounts:
    cores, gib, gpus = pod
    return (("cpu", 1_000 * cores), ("memory", gib * 2**30), *(((GPU, gpus),) if gpus else ()))


def fits_on(free: Sequence[int], pod: Sequence[int]) -> bool:
    return all(have >= asked for have, asked in zip(free, pod, strict=True))


def take(free: list[int], pod: Sequence[int]) -> None:
    for r, asked in enumerate(pod):
        free[r] -= asked


def median(once: Callable[[], float]) -> float:
    return 1e3 * statistics.median(once() for _ in range(5))


if __name__ == "__main__":
    for figure, value in run().items():
        print(f"{figure:60} {value:12,.2f}")
