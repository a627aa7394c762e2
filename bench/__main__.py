"""`make bench`: every figure that the documents claim, measured here and now, beside its goal.

    python -m bench              all
    python -m bench core store   some

A goal missed is shown, and the exit code is 1; a machine that is busy with other things misses goals.
"""

import importlib
import sys
from collections.abc import Callable
from typing import Final

BENCHES: Final = (
    "core",
    "exact",
    "preemption",
    "devices",
    "replay",
    "store",
    "http_api",
    "controllers",
    "compiling",
    "command",
    "cluster",
    "binding",
    "dashboard",
)

#: name → (at most or at least, goal)
GOALS: Final[dict[str, tuple[str, float]]] = {
    "group of 8, nodes and counts, × floor": ("≤", 2),
    "group of 64, nodes and counts, × floor": ("≤", 2),
    "group of 512, nodes and counts, × floor": ("≤", 2),
    "refusal of what cannot fit, µs": ("≤", 5),
    "pods placed one by one, 1/s": ("≥", 20_000),
    "six pod sets of 50, three layers, nodes and counts, µs": ("≤", 500),
    "100,000 nodes: group of 512, µs": ("≤", 500),
    "decide: 1,000 gangs of eight in 20 queues, µs per gang": ("≤", 400),
    "decide: 10,000 gangs wait, one event, none, ms": ("≤", 50),
    "decide: 10,000 gangs wait, one event, easy, ms": ("≤", 500),
    "preemption: 256 pods of 1 among 600 jobs, warm, ms": ("≤", 20),
    "decide: 10,000 gangs wait behind a reservation, one event, ms": ("≤", 500),
    "64 pods of 8 devices: claimed, × counted": ("≤", 3),
    "devices of one node change, ms": ("≤", 1),
    "10,000 nodes with 80,000 devices, MB": ("≤", 240),
    "replay KTH-SP2, pack, s": ("≤", 8),
    "replay KTH-SP2, easy, s": ("≤", 8),
    "replay RICC-2010, pack, s": ("≤", 240),
    "replay RICC-2010, pack, MB": ("≤", 1024),
    "replay RICC-2010, easy, s": ("≤", 240),
    "replay RICC-2010, easy, MB": ("≤", 1024),
    "exact: 1,000 regular nodes, fits: cached, ms": ("≤", 50),
    "exact: 1,000 regular nodes, subtle no: cached, ms": ("≤", 10),
    "exact: 10,000 regular nodes, fits: cached, ms": ("≤", 50),
    "exact: 10,000 regular nodes, subtle no: cached, ms": ("≤", 20),
    "exact: 10,000 regular nodes, subtle no: cold, ms": ("≤", 150),
    "exact: 10,000 irregular nodes, fits: cached, ms": ("≤", 50),
    "exact: 10,000 irregular nodes, subtle no: cached, ms": ("≤", 20),
    "exact: 10,000 irregular nodes, subtle no: cold, ms": ("≤", 150),
    "muster run of `true`, cold home, s": ("≤", 1.2),
    "muster --help, × import typer": ("≤", 3),
    "reconcile: a Job of 10,000 pods, × decoding them": ("≤", 1),
    "1,000 batch jobs compiled under 200 policies, s": ("≤", 5),
    "writes/s, 32 connections": ("≥", 1_000),
    "watch deliveries/s meanwhile": ("≥", 10_000),
    "500 sleeps: all bound, s": ("≤", 2),
    "500 sleeps: all running, s": ("≤", 10),
    "10000 pods, runtime=none: all bound, s": ("≤", 20),
    "resident MB with 10,000 pods": ("≤", 300),
    "binding: gang of 20, ms of CPU per pod": ("≤", 0.8),
    "binding: gang of 500, ms of CPU per pod": ("≤", 0.8),
    "binding: gang of 10,000, ms of CPU per pod": ("≤", 0.8),
    "first paint of the slowest page, s": ("≤", 1),
    "update of the slowest page, ms": ("≤", 100),
    "update of the largest page, KB": ("≤", 50),
    "100,000 pods: first paint of the slowest page, s": ("≤", 1),
    "100,000 pods: update of the largest page, KB": ("≤", 50),
    "binding: gang of 500, a dashboard beside it, × alone": ("≤", 1.15),
    "50 viewers, nothing changes, % of a core": ("≤", 10),
}


def main() -> int:
    missed = 0
    if unknown := set(sys.argv[1:]) - {*BENCHES}:
        print(f"{', '.join(sorted(unknown))}: there is only {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    for name in sys.argv[1:] or BENCHES:
        run: Callable[[], dict[str, float]] = importlib.import_module(f"bench.{name}").run
        print(f"\n{name}")
        for figure, value in run().items():
            sign, goal = GOALS.get(figure, ("", 0.0))
            met = not sign or (value <= goal if sign == "≤" else value >= goal)
            missed += not met
            result = f"  {sign} {goal:,g} {'met' if met else 'MISSED'}" if sign else ""
            print(f"  {figure:<56}{value:>14,.4g}{result}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
