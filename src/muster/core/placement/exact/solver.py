"""The linear and mixed-integer solver: the only module that imports highspy, and only at the first call.

highspy takes 0.1 to 0.3 s to import, which most processes never need. Everything that could make two runs
differ is fixed: one thread, no parallel search, one random seed, and limits in simplex iterations and
nodes of the search tree, never in seconds. Presolve is off: on programs over patterns, which have few
rows and nothing redundant, it takes longer than the solution. Results are floating point and never trusted:
callers verify bounds and placements with integers.

The first solver of a process prints a banner to the descriptor of standard output, and no option turns it off
(HiGHS 1.16). It is discarded: standard output may be JSON for a program.

Source: HiGHS, https://highs.dev (Huangfu and Hall, Parallelizing the dual revised simplex method, 2018).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Simplex iterations of one solve; a linear program over 5,000 patterns takes a few hundred.
ITERATIONS: Final = 100_000

_OPTIONS: Final[dict[str, bool | int | str]] = {
    "output_flag": False,
    "threads": 1,
    "parallel": "off",
    "random_seed": 0,
    "simplex_iteration_limit": ITERATIONS,
    "presolve": "off",
    "mip_heuristic_run_feasibility_jump": False,
}

_first: Final = Lock()
#: highspy, once its banner is printed
_loaded: Final[list[Any]] = []


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Minimise `cost`·x over 0 ≤ x ≤ `upper`, `rows_lower` ≤ A·x ≤ `rows_upper`.

    A by columns: entries `starts[j]:starts[j + 1]` of `rows` and `values` are those of x[j].
    """

    cost: Floats
    upper: Floats
    rows_lower: Floats
    rows_upper: Floats
    starts: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int32]
    values: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The least cost, an x that has it, and the shadow price of each row."""

    cost: float
    x: Floats
    prices: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Integral:
    """A feasible x. `x` None: there is none (`exhausted`), or none was found within the budget."""

    x: Floats | None
    exhausted: bool


def optimum(program: Program) -> Optimum | None:
    """Return the cheapest x, with fractions if necessary; None if there is none, or the solver gave up."""
    solver = _solver(program)
    solver.run()
    if solver.getModelStatus().name != "kOptimal":
        return None
    solution, cost = solver.getSolution(), solver.getInfo().objective_function_value
    return Optimum(cost, np.array(solution.col_value), np.array(solution.row_dual))


def integral(program: Program, whole: int, nodes: int) -> Integral:
    """Return any feasible x, the first `whole` variables integers, in a search of at most `nodes` nodes."""
    solver = _solver(program, whole)
    solver.setOptionValue("mip_max_nodes", nodes)
    solver.setOptionValue("mip_max_improving_sols", 1)
    solver.run()
    if solver.getModelStatus().name == "kInfeasible":
        return Integral(None, exhausted=True)
    solution = solver.getSolution()
    return Integral(np.array(solution.col_value) if solution.value_valid else None, exhausted=False)


def _solver(program: Program, whole: int = 0) -> Any:  # highspy has no types
    solver = _new()
    for option, value in _OPTIONS.items():
        solver.setOptionValue(option, value)
    count = len(program.cost)
    kinds = np.zeros(count, np.int32)
    kinds[:whole] = 1
    solver.passModel(
        count,
        len(program.rows_lower),
        len(program.values),
        0,  # without a Hessian
        1,  # columns first
        0,
        1,  # minimise
        0.0,
        program.cost,
        np.zeros(count),
        program.upper,
        program.rows_lower,
        program.rows_upper,
        program.starts,
        program.rows,
        program.values,
        np.zeros(0, np.int32),
        np.zeros(0, np.int32),
        np.zeros(0),
        kinds,
    )
    return solver


def _new() -> Any:
    with _first:  # two threads that change the descriptor at once could lose it
        if not _loaded:
            with _discarded(1):
                import highspy

                highspy.Highs()  # type: ignore[no-untyped-call]
            _loaded.append(highspy)
    return _loaded[0].Highs()


@contextmanager
def _discarded(descriptor: int) -> Iterator[None]:
    """Discards what native code writes to the descriptor; a closed one stays closed."""
    try:
        kept = os.dup(descriptor)
    except OSError:
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, descriptor)
        yield
    finally:
        os.dup2(kept, descriptor)
        os.close(nowhere)
        os.close(kept)
