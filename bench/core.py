"""The core alone: placement, refusal, pod by pod, and whole cycles, on nodes partly in use.

Times are medians in microseconds of process-local work, next to a floor that is timed in the same run: bare
NumPy that divides every node's free amounts by one request and selects the best nodes. The ratio is
what stays comparable between machines.
"""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from muster.core.cycle import Config, Scheduler
from muster.core.demand import AffinityContext, Demand, Part, Request, Rules
from muster.core.placement.greedy import place
from muster.core.placement.slots import tightest_group
from muster.core.reservations import Backfill
from muster.core.words.events import (
    Footprint,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    PodsBound,
    QueueChanged,
)
from muster.core.words.gang import (
    Gang,
    GangId,
    Gather,
    HostPort,
    Layer,
    NodeName,
    Operator,
    PodId,
    PodSet,
    PodTerm,
    Queue,
    Requirement,
    Shape,
    Spread,
    Strategy,
)
from muster.core.world.nodes import Ints

NODES: Final = 10_000
GROUP: Final = 512
GROUPS: Final = (8, 64, 512)
GANGS: Final = 10_000
QUEUES: Final = 20
GPU: Final = "nvidia.com/gpu"
SHAPE: Final = Shape((("cpu", 8_000), ("memory", 64 * 2**30), (GPU, 1)))
#: GPUs, milli-CPU, MiB and number of the pods of a gang of six shapes
_SIX: Final = (
    (1, 8_000, 65_536, 20),
    (2, 16_000, 65_536, 10),
    (4, 32_000, 262_144, 5),
    (8, 90_000, 700_000, 2),
    (0, 4_000, 16_384, 8),
    (1, 24_000, 300_000, 5),
)
SIX: Final = tuple(
    Part(
        f"p{p}",
        Shape((("cpu", cpu), ("memory", memory * 2**20), *(((GPU, gpu),) if gpu else ()))),
        count,
        count,
    )
    for p, (gpu, cpu, memory, count) in enumerate(_SIX)
)


def run() -> dict[str, float]:
    """Figures by name; every name says its unit."""
    scheduler = cluster()
    floor = bare_numpy(scheduler)
    figures = {"floor: bare NumPy, µs": floor}
    for pods in GROUPS:
        took = selection(scheduler, pods)
        figures[f"group of {pods}, nodes and counts, µs"] = took
        figures[f"group of {pods}, nodes and counts, × floor"] = took / floor
    figures["group of 512, charged and by place, µs"] = whole_placement(scheduler)
    tree = cluster(labels=True)
    for name, request in topology_requests().items():
        figures[f"{name}, nodes and counts, µs"] = domain_choice(tree, request)
        figures[f"{name}, charged and by place, µs"] = whole_fit(tree, request)
    figures |= constrained(tree)
    figures["cold shape: eligibility, slots and order, µs"] = cold_shape(scheduler)
    figures["refusal of what cannot fit, µs"] = refusal(scheduler)
    figures["pods placed one by one, 1/s"] = one_by_one(scheduler)
    large = cluster(10 * NODES)
    figures["100,000 nodes: group of 512, µs"] = selection(large, 512)
    return figures | cycles()


def cluster(nodes: int = NODES, labels: bool = False, config: Config | None = None) -> Scheduler:
    """Nodes of 8 GPUs, 96 CPUs and 768 GiB, between empty and full; in racks of 20, blocks of 10 racks and
    spines of 10 blocks, if they have `labels`."""
    scheduler = Scheduler(config)
    if labels:
        scheduler.apply(LayersChanged(tuple(Layer(name, (name,)) for name in ("spine", "block", "rack"))))
    random = np.random.default_rng(1)
    for i, used in enumerate(random.integers(0, 9, nodes).tolist()):
        name = NodeName(f"node-{i:05}")
        capacity = (("cpu", 96_000), ("memory", 768 * 2**30), (GPU, 8), ("pods", 110))
        own = ("kubernetes.io/hostname", name)
        where = (("block", f"b{i // 200}"), own, ("rack", f"r{i // 20}"), ("spine", f"s{i // 2000}"))
        scheduler.apply(NodeChanged(name, capacity, labels=where if labels else ()))
        if used:
            requests = (("cpu", 8_000 * used), ("memory", 64 * 2**30 * used), (GPU, used))
            scheduler.apply(PodsBound({PodId(f"pod-{i}"): None}, name, requests))
    scheduler.decide(0.0)
    return scheduler


def bare_numpy(scheduler: Scheduler) -> float:
    """Slots of one shape over all nodes, and the best `GROUP` nodes by argpartition."""
    nodes = scheduler.world.nodes
    row_amounts = [
        (nodes.free(nodes.resources[resource]).copy(), amount) for resource, amount in SHAPE.requests
    ]
    slots: Ints = np.empty(NODES, np.int32)
    quotient: Ints = np.empty(NODES, np.int32)

    def once() -> None:
        slots.fill(2**31 - 1)
        for free, amount in row_amounts:
            np.floor_divide(free, amount, out=quotient)
            np.minimum(slots, quotient, out=slots)
        np.argpartition(slots, GROUP)

    return median(once)


def selection(scheduler: Scheduler, pods: int) -> float:
    """From the shape to node indices and counts, after 64 nodes have changed."""
    columns = np.arange(0, len(scheduler.world.nodes), len(scheduler.world.nodes) // 64)
    row_amounts = scheduler.world.nodes.row_amounts(SHAPE.requests)

    def change() -> None:
        times = np.zeros(len(columns), np.int64)
        scheduler.world.ledger.take_at(columns, row_amounts, times)

    return median(lambda: tightest_group(scheduler.fit.slots.of(SHAPE), pods), before=change)


def whole_placement(scheduler: Scheduler) -> float:
    demand = Demand((Part("main", SHAPE, GROUP, GROUP),), GROUP)
    times = []
    for _ in range(200):
        tried = scheduler.world.ledger.log.trial()
        started = time.perf_counter()
        placed = place(Request(demand, [range(GROUP)]), scheduler.world.ledger, scheduler.fit.slots)
        times.append(time.perf_counter() - started)
        assert placed is not None
        tried.undo()
    return 1e6 * statistics.median(times)


def topology_requests() -> dict[str, Request]:
    """Gangs that ask for one block, for fours in each rack or for racks of their own, or that prefer the
    tightest of three layers."""
    must = Rules((Gather("block", Strategy.MUST_GATHER),))
    fours = Rules((Gather("rack", None, 4),))
    main = (Part("main", SHAPE, 64, 64),)
    demands = {
        "group of 64 in one block": Demand(main, 64, must),
        "group of 64, in fours per rack": Demand(main, 64, fours),
        "group of 64, alone in its racks": Demand(main, 64, Rules(exclusive="rack")),
        "six pod sets of 50, three layers": Demand(SIX, sum(part.count for part in SIX), three_layers()),
    }
    return {
        name: Request(demand, [range(part.count) for part in demand.parts])
        for name, demand in demands.items()
    }


def three_layers() -> Rules:
    """The tightest of them, from the rack outwards."""
    return Rules(tuple(Gather(layer, Strategy.PREFER_GATHER) for layer in ("spine", "block", "rack")))


def domain_choice(scheduler: Scheduler, request: Request) -> float:
    """From a request to its domain, and how many pods of each part go to which of its nodes; not charged, nor
    named. All nodes that it used have changed since the last."""
    times = []
    for _ in range(200):
        started = time.perf_counter()
        excluded = scheduler.fit.exclusive_domains.barred(request.demand)
        search = scheduler.fit.topology_placement.search(request._replace(excluded=excluded))
        assert search is not None
        found = next(
            choice
            for level, asked in search.tries()
            if (choice := search.choose(level, search.domains.of(level, asked).tolist(), asked)) is not None
        )
        times.append(time.perf_counter() - started)
        assert found
        tried = scheduler.world.ledger.log.trial()
        scheduler.fit.fit(request)
        tried.undo()
    return 1e6 * statistics.median(times)


def whole_fit(scheduler: Scheduler, request: Request) -> float:
    """From a request to places and columns, charged; all nodes that it used have changed since the last."""
    times = []
    for _ in range(200):
        tried = scheduler.world.ledger.log.trial()
        started = time.perf_counter()
        placed = scheduler.fit.fit(request)
        times.append(time.perf_counter() - started)
        assert placed
        tried.undo()
    return 1e6 * statistics.median(times)


def constrained(scheduler: Scheduler) -> dict[str, float]:
    """A thousand pods that look at where others are: not on one node, or evenly over the five spines."""
    own = (Requirement("app", Operator.IN, ("bench",)),)
    apart = PodTerm("kubernetes.io/hostname", own, ("bench",))
    evenly = Spread("spine", 1, own)
    figures = {}
    for name, shape in (
        ("a host port", replace(SHAPE, ports=(HostPort(8080),))),
        ("one per node", replace(SHAPE, pod_anti_affinity=(apart,))),
        ("one per node, evenly over 5 spines", replace(SHAPE, pod_anti_affinity=(apart,), spread=(evenly,))),
    ):
        who = Footprint("bench", (("app", "bench"),), shape.ports, shape.pod_anti_affinity)
        part = Part("main", shape, 1_000, 1_000, AffinityContext(who, frozenset(shape.pod_anti_affinity)))
        request = Request(Demand((part,), 1_000), [range(1_000)], footprints={"main": who})
        figures[f"1,000 pods, {name}, µs"] = whole_fit(scheduler, request)
    return figures


def cold_shape(scheduler: Scheduler) -> float:
    fresh = iter(Shape((*SHAPE.requests, ("scratch", 0)), selector=((f"k{i}", ""),)) for i in range(20))
    times = []
    for shape in fresh:
        started = time.perf_counter()
        scheduler.fit.slots.of(shape)
        times.append(time.perf_counter() - started)
    return 1e6 * statistics.median(times)


def refusal(scheduler: Scheduler) -> float:
    demand = Demand((Part("main", SHAPE, NODES * 8, NODES * 8),), NODES * 8)
    request = Request(demand, [range(NODES * 8)])

    def once() -> None:
        assert place(request, scheduler.world.ledger, scheduler.fit.slots) is None

    return median(once)


def one_by_one(scheduler: Scheduler) -> float:
    """Gangs of one, each placed and charged before the next."""
    demand = Demand((Part("main", SHAPE, 1, 1),), 1)
    tried = scheduler.world.ledger.log.trial()
    started = time.perf_counter()
    for _ in range(GANGS):
        assert place(Request(demand, [range(1)]), scheduler.world.ledger, scheduler.fit.slots)
    took = time.perf_counter() - started
    tried.undo()
    return GANGS / took


def cycles() -> dict[str, float]:
    """Whole calls of `decide`, decisions and explanations included."""
    scheduler = cluster()
    for i in range(GANGS):
        scheduler.apply(GangSubmitted(gang(f"default/single-{i}", 1, float(i))))
    figures = {"decide: 10,000 gangs of one, 1/s": GANGS / timed(scheduler)}
    for i in range(GANGS):
        scheduler.apply(GangRemoved(GangId(f"default/single-{i}")))
    scheduler.decide(0.0)
    for q in range(QUEUES):
        scheduler.apply(QueueChanged(Queue(f"queue-{q:02}", weight=1 + q % 3)))
    for i in range(1_000):
        eight = gang(f"default/eight-{i}", 8, float(i))
        scheduler.apply(GangSubmitted(replace(eight, queue=f"queue-{i % QUEUES:02}")))
    figures["decide: 1,000 gangs of eight in 20 queues, µs per gang"] = 1e6 * timed(scheduler) / 1_000
    for i in range(GANGS):
        scheduler.apply(GangSubmitted(gang(f"default/large-{i}", 8 * NODES, float(i))))
    figures["decide: 10,000 gangs begin to wait, ms"] = 1e3 * timed(scheduler)
    return figures | waiting() | behind_a_reservation()


def waiting() -> dict[str, float]:
    """Nothing fits, ever, and one pod comes."""
    figures = {}
    for backfill in (Backfill.NONE, Backfill.EASY):
        scheduler = cluster(config=Config(backfill=backfill))
        for i in range(GANGS):
            scheduler.apply(GangSubmitted(gang(f"default/large-{i}", 8 * NODES, float(i))))
        scheduler.decide(0.0)
        name = f"decide: 10,000 gangs wait, one event, {backfill.value}, ms"
        figures[name] = statistics.median(_event(scheduler, i) for i in range(5))
    return figures


def _event(scheduler: Scheduler, number: int) -> float:
    """Milliseconds of the cycle after a pod has come to a node."""
    scheduler.apply(PodsBound({PodId(f"one-{number}"): None}, NodeName("node-00000"), ()))
    return 1e3 * timed(scheduler)


def behind_a_reservation() -> dict[str, float]:
    """The cluster is full of gangs with limits; the first that waits has a time, the others wait for it."""
    scheduler = cluster()
    for i in range(1_500):
        running = gang(f"default/running-{i}", 32, 0.0)
        scheduler.apply(GangSubmitted(replace(running, limit=1_000.0 + i)))
    scheduler.decide(0.0)
    for i in range(GANGS):
        scheduler.apply(GangSubmitted(replace(gang(f"default/next-{i}", 64, 1.0 + i), limit=9_000.0)))
    scheduler.decide(0.0)
    scheduler.apply(PodsBound({PodId("one"): None}, NodeName("node-00000"), ()))
    took = timed(scheduler)
    assert scheduler.reservations.made, "nobody waits for a time"
    return {"decide: 10,000 gangs wait behind a reservation, one event, ms": 1e3 * took}


def gang(name: str, count: int, submitted: float) -> Gang:
    return Gang(GangId(name), (PodSet("main", SHAPE, count, count),), count, submitted)


def timed(scheduler: Scheduler) -> float:
    gc.collect()  # else a pass over all clusters of earlier rows, 0.2 s, falls into this row or that
    started = time.perf_counter()
    scheduler.decide(0.0)
    return time.perf_counter() - started


def median(call: Callable[[], object], before: Callable[[], None] | None = None) -> float:
    """Microseconds of one call, the median of 300."""
    times = []
    for _ in range(300):
        if before is not None:
            before()
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return 1e6 * statistics.median(times)


if __name__ == "__main__":
    for figure, value in run().items():
        print(f"{figure:52} {value:12,.1f}")
