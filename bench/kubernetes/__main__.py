"""`make bench-cluster`: muster, kube-scheduler and bare binds side by side, on a real control plane.

Each measurement has a control plane of its own, in which nothing else runs (no controllers, no kubelets).
All schedule the same pods on the same nodes: `muster` and `native` in PodGroups, `kube-scheduler` pod by pod.
`bare` sends a Binding for each pod over 32 connections: no scheduler can be faster. A rate is from the first
creation to the answer to the last Binding; in rows marked `before`, where all pods are there before the
scheduler starts, from the scheduler's first write. Times are the API server's (its audit log). A contender
that needs longer than `--longest` is judged by what is bound by then (the part is in brackets). The figures
`capped` (a limit on requests), `refused` (gangs that cannot fit), `failures` (failed starts and lost leaders)
and `large` (100,000 pods on a recorded API server) are muster's alone. Missed goals do not change the exit
code: the machine may be busy.
"""

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.kubernetes.contenders import CONTENDERS, muster
from bench.kubernetes.figures import FIGURES, Figure
from bench.kubernetes.measure import Result, measure
from bench.kubernetes.rows import ROWS

BARE = "bare"
HEAD = "| row | | pods/s | ms of CPU per pod | of the API server | writes per pod | last pod → all bound, s |"
#: By row, order (`live`, `before`) and contender.
Results = dict[tuple[str, str, str], Result]


def main() -> None:
    asked = _asked()
    contenders = dict(CONTENDERS)
    if asked.profile:
        contenders["muster"] = muster(python=("-m", "cProfile", "-o", str(Path(asked.profile).absolute())))
    began, results, failed = time.monotonic(), Results(), 0
    if asked.rows:
        print(HEAD)
        print("|---|---|---|---|---|---|---|")
    for row in (row for row in ROWS if row.name in asked.rows):
        for order in asked.order:
            for name in asked.contenders:
                if (name == "native" and (row.size == 1 or order == "before")) or (name, order) == (
                    BARE,
                    "live",
                ):
                    continue
                try:
                    with tempfile.TemporaryDirectory() as home:
                        found = measure(
                            Path(home),
                            row.scaled(asked.scale),
                            contenders.get(name),
                            before=order == "before",
                            longest=asked.longest,
                        )
                except Exception:  # the other rows are worth having
                    traceback.print_exc()
                    failed += 1
                    continue
                results[row.name, order, name] = found
                title = f"{row.name}, before" if order == "before" else row.name
                part = f" ({found.bound:.0%})" if found.bound < 1 else ""
                print(
                    f"| {title} | {name} | {found.rate:.0f}{part} | "
                    f"{found.own:.2f} | {found.server:.2f} | {found.writes:.2f} | {found.wait:.2f} |",
                    flush=True,
                )
    print("\n| figure | measured | goal | |\n|---|---|---|---|")
    for figure in _compared(results):
        _show(figure)
    for name in asked.figures:
        try:
            with tempfile.TemporaryDirectory() as home:
                for figure in FIGURES[name](Path(home), asked.scale):
                    _show(figure)
        except Exception:
            traceback.print_exc()
            failed += 1
    print(f"\n{time.monotonic() - began:.0f} s" + f"; {failed} measurements failed" * bool(failed))
    sys.exit(1 if failed else 0)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.kubernetes", description=__doc__)
    names = [row.name for row in ROWS]
    all_ = [*CONTENDERS, BARE]
    parser.add_argument("--rows", nargs="*", choices=names, default=names, metavar="ROW")
    parser.add_argument("--contenders", nargs="+", choices=all_, default=all_, metavar="NAME")
    parser.add_argument("--figures", nargs="*", choices=[*FIGURES], default=[*FIGURES], metavar="NAME")
    parser.add_argument("--scale", type=float, default=1.0, help="measure this part of each row and figure")
    parser.add_argument("--order", nargs="+", choices=["live", "before"], default=["live", "before"])
    parser.add_argument("--longest", type=float, default=90.0, help="seconds that one contender may take")
    parser.add_argument("--profile", metavar="FILE", help="write a profile of muster's scheduler (cProfile)")
    return parser.parse_args()


def _compared(results: Mapping[tuple[str, str, str], Result]) -> Iterator[Figure]:
    """The goals that compare a row of muster's with another."""
    for (row, order, name), found in results.items():
        if name != "muster":
            continue
        if order == "live":
            if (other := results.get((row, order, "kube-scheduler"))) and other.bound:
                goal = 0.9 if row == ROWS[0].name else 1.0
                yield Figure(f"{row}: × kube-scheduler", found.rate / other.rate, ("≥", goal))
            yield Figure(f"{row}: ms of CPU per pod", found.own, ("≤", 1.0))
            if row == "500×20":
                yield Figure(f"{row}: last pod → all bound, median, s", found.wait, ("≤", 0.3))
        elif (other := results.get((row, order, BARE))) and other.bound:
            yield Figure(f"{row}, before: × bare", found.rate / other.rate, ("≥", 0.8))


def _show(figure: Figure) -> None:
    sign, goal = figure.goal or ("", 0.0)
    result = {True: "met", False: "missed", None: ""}[figure.met]
    print(
        f"| {figure.what} | {figure.found:.2f} | {f'{sign} {goal:g}' * bool(sign)} | {result} |", flush=True
    )


if __name__ == "__main__":
    main()
