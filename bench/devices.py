"""Devices: gangs with claims beside the same gangs with a counted resource, and what devices cost to know.

10,000 nodes have 8 devices each, of three kinds, some in use. A gang is 64 pods of 8 devices each that a
selector holds of and that share the value of an attribute. Times are medians of a gang's whole start and end,
in CPU time: they are short, and what else runs on the machine would be most of them.
"""

import gc
import os
import statistics
import time
from typing import Final

from muster.core.cycle import Config, Scheduler
from muster.core.words.devices import (
    ClaimShape,
    DeviceAsk,
    DeviceConstraint,
    DeviceId,
    DeviceKind,
    DeviceKindChanged,
    DeviceRequest,
    DevicesChanged,
    KindId,
)
from muster.core.words.events import GangRemoved, GangSubmitted, NodeChanged
from muster.core.words.gang import Gang, GangId, NodeName, PodSet, Shape

NODES: Final = 10_000
PODS: Final = 64
EACH: Final = 8
CLASS: Final = "deviceclass/gpu"
ROUNDS: Final = 30
CLAIM: Final = ClaimShape(
    "gpus", (DeviceRequest("gpus", (DeviceAsk((CLASS, "large"), EACH),)),), (DeviceConstraint("clique"),)
)
CLAIMING: Final = Shape(((CLASS, EACH),), claims=(CLAIM,))
COUNTING: Final = Shape((("example.com/gpu", EACH),))


def run() -> dict[str, float]:
    counted = _start(cluster(claims=False), COUNTING)
    before = _resident()
    scheduler = cluster(claims=True)
    claimed = _start(scheduler, CLAIMING)
    knows = _resident() - before
    return {
        "64 pods of 8 devices: counted, start and end, ms": counted * 1e3,
        "64 pods of 8 devices: claimed, start and end, ms": claimed * 1e3,
        "64 pods of 8 devices: claimed, × counted": claimed / counted,
        "devices of one node change, ms": _change(scheduler) * 1e3,
        "10,000 nodes with 80,000 devices, MB": knows,
    }


def cluster(*, claims: bool) -> Scheduler:
    """Nodes of 8 devices: of three kinds, all of one clique, and of every tenth node some are in use."""
    scheduler = Scheduler(Config(explain=False))
    for number in range(3) if claims else ():
        kind = DeviceKind(frozenset({CLASS, "large", f"model-{number}"}), (("clique", "string:a"),))
        scheduler.apply(DeviceKindChanged(KindId(number), kind))
    for number in range(NODES):
        name = f"node-{number:05}"
        capacity = () if claims else (("example.com/gpu", EACH if number % 10 else number % 7),)
        scheduler.apply(NodeChanged(NodeName(name), (("cpu", 64_000), *capacity, ("pods", 110))))
        if claims:
            scheduler.apply(devices(name, 0 if number % 10 else EACH - number % 7))
    scheduler.decide(0.0)
    return scheduler


def devices(name: str, taken: int) -> DevicesChanged:
    ids = [DeviceId(f"gpu.example.com/{name}/gpu-{i}") for i in range(EACH)]
    kinds = (0, 0, 0, 0, 1, 1, 2, 2)
    pairs = tuple((each, KindId(kind)) for each, kind in zip(ids, kinds, strict=True))
    return DevicesChanged(name, pairs, taken=tuple(ids[:taken]))


def _start(scheduler: Scheduler, shape: Shape) -> float:
    times = []
    for number in range(ROUNDS):
        gang = Gang(GangId(f"g{number}"), (PodSet("main", shape, PODS, PODS),), PODS, float(number))
        gc.collect()
        begin = time.process_time()
        scheduler.apply(GangSubmitted(gang))
        decisions = scheduler.decide(float(number))
        scheduler.apply(GangRemoved(gang.id))
        scheduler.decide(float(number))
        times.append(time.process_time() - begin)
        assert len(decisions) == 1
    return statistics.median(times)


def _change(scheduler: Scheduler) -> float:
    """Seconds until the next gang's slots know that a device of one node is in use, or free again."""
    times = []
    for number in range(ROUNDS):
        fact = devices(f"node-{number:05}", number % 2 + 1)
        begin = time.process_time()
        scheduler.apply(fact)
        scheduler.fit.slots.room(CLAIMING)
        times.append(time.process_time() - begin)
    return statistics.median(times)


def _resident() -> float:
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
