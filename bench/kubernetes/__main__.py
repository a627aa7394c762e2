"""`make bench-cluster`: muster, kube-scheduler and bare binds side by side, on a real control plane.

Each measurement has a control plane of its own, in which nothing else runs (no controllers, no kubelets).
All schedule the same pods on the same nodes: `muster` and `native` in PodGroups, `kube-scheduler` pod by pod.
`bare` sends a Binding for each pod over 32 connections: no scheduler can be faster. A rate is from the first
creation to the answer to the last Binding; in rows marked `before`, where all pods are there before the
scheduler starts, from the scheduler's first write. Times are the API server's (its audit log).
"""

import argparse
import tempfile
from pathlib import Path

from bench.kubernetes.contenders import CONTENDERS, muster
from bench.kubernetes.measure import measure
from bench.kubernetes.rows import ROWS

BARE = "bare"
HEAD = "| row | | pods/s | ms of CPU per pod | of the API server | writes per pod | last pod → all bound, s |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.kubernetes", description=__doc__)
    names = [row.name for row in ROWS]
    parser.add_argument("--rows", nargs="+", choices=names, default=names, metavar="ROW")
    parser.add_argument(
        "--contenders", nargs="+", choices=[*CONTENDERS, BARE], default=[*CONTENDERS, BARE], metavar="NAME"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="measure this part of each row")
    parser.add_argument("--order", nargs="+", choices=["live", "before"], default=["live", "before"])
    parser.add_argument("--profile", metavar="FILE", help="write a profile of muster's scheduler (cProfile)")
    asked = parser.parse_args()
    contenders = dict(CONTENDERS)
    if asked.profile:
        contenders["muster"] = muster(python=("-m", "cProfile", "-o", str(Path(asked.profile).absolute())))
    print(HEAD)
    print("|---|---|---|---|---|---|---|")
    for row in (row for row in ROWS if row.name in asked.rows):
        for order in asked.order:
            for name in asked.contenders:
                groupless = name == "native" and row.size == 1
                if groupless or (name == BARE and order == "live"):
                    continue
                with tempfile.TemporaryDirectory() as home:
                    found = measure(
                        Path(home), row.scaled(asked.scale), contenders.get(name), before=order == "before"
                    )
                print(
                    f"| {row.name}{', before' if order == 'before' else ''} | {name} | {found.rate:.0f} | "
                    f"{found.own:.2f} | {found.server:.2f} | {found.writes:.2f} | {found.wait:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
