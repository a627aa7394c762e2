"""The solver: what it answers, and that nothing else loads it."""

import subprocess
import sys
from pathlib import Path

import numpy as np

import muster
from muster.core.placement.exact.solver import Program, integral, optimum


def program(cost: list[float], at_least: float, most: float = 10.0) -> Program:
    """Minimise cost·x, 2·(x0 + x1 + …) ≥ `at_least`, 0 ≤ x ≤ `most`."""
    count = len(cost)
    return Program(
        np.array(cost),
        np.full(count, most),
        np.array([at_least]),
        np.array([np.inf]),
        np.arange(count + 1, dtype=np.int32),
        np.zeros(count, np.int32),
        np.full(count, 2.0),
    )


def test_the_least_cost_and_the_price_of_one_more() -> None:
    found = optimum(program([3.0, 1.0], at_least=5.0))
    assert found is not None
    assert found.cost == 2.5
    assert found.prices.tolist() == [0.5]


def test_whole_numbers() -> None:
    found = integral(program([0.0, 0.0], at_least=5.0, most=2.0), whole=2, nodes=10)
    assert found.x is not None
    assert (found.x == np.rint(found.x)).all()
    assert found.x.sum() >= 3


def test_an_impossible_program_is_exhausted() -> None:
    found = integral(program([0.0], at_least=5.0, most=2.0), whole=1, nodes=10)
    assert found.x is None
    assert found.exhausted
    assert optimum(program([1.0], at_least=5.0, most=2.0)) is None


def test_the_core_starts_without_it_and_one_module_names_it() -> None:
    code = "import sys, muster.core.cycle, muster.core.offline; sys.exit('highspy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    root = Path(muster.__file__).parent
    naming = [str(p.relative_to(root)) for p in root.rglob("*.py") if "import highspy" in p.read_text()]
    assert naming == ["core/placement/exact/solver.py"]


NOISY = """
import os, sys, types
os.environ["OUT"] = "yes"
noisy = types.ModuleType("highspy")
class Highs:
    def __init__(self):
        if os.environ.pop("OUT", ""):
            os.write(1, b"a banner\\n")
noisy.Highs = Highs
sys.modules["highspy"] = noisy
from concurrent.futures import ThreadPoolExecutor
from muster.core.placement.exact import solver
with ThreadPoolExecutor(8) as pool:
    made = list(pool.map(lambda _: solver._new(), range(8)))
os.write(1, b"ours\\n")
"""


def test_what_the_library_prints_when_it_is_loaded_is_discarded() -> None:
    done = subprocess.run([sys.executable, "-c", NOISY], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"ours\n", b"")


def test_a_closed_output_stays_closed() -> None:
    code = (
        "import os; os.close(1)\n"
        "from muster.core.placement.exact import solver; solver._new()\n"
        "try: os.fstat(1)\nexcept OSError: os._exit(0)\nos._exit(1)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
