"""`make reproduce`: all published experiments, their figures beside ours.

    python -m bench.reproduce                all
    python -m bench.reproduce openb --jobs 2  some, in so many processes

The exit code is 1 if a figure misses its goal.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from bench.reproduce.figure import HEADINGS, Figure, row

EXPERIMENTS: Final = ("openb", "kth")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.reproduce", description="Published experiments, run again.")
    parser.add_argument("experiments", nargs="*", choices=[*EXPERIMENTS, []], help="default: all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    asked = parser.parse_args()
    traces = os.environ.get("MUSTER_TRACES")
    if traces is None:
        print("$MUSTER_TRACES is not set: it names the folder with the traces", file=sys.stderr)
        return 2
    missed = False
    for name in asked.experiments or EXPERIMENTS:
        figures: Callable[..., Iterator[Figure]] = importlib.import_module(f"bench.reproduce.{name}").figures
        found = list(figures(Path(traces), asked.jobs, turn=_progress))
        for table, some in groupby(found, lambda figure: figure.table):
            print(f"\n{table}\n")
            _table([HEADINGS, *map(row, some)])
        missed |= any(figure.missed for figure in found)
    return 1 if missed else 0


def _table(rows: list[tuple[str, ...]]) -> None:
    """In the form that the documents have."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rule = tuple("-" * width for width in widths)
    for cells in (rows[0], rule, *rows[1:]):
        name, *others = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        print(f"| {' | '.join((name, *others))} |", flush=True)


def _progress(done: int, all_: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done}/{all_} replays", end="\n" if done == all_ else "", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
