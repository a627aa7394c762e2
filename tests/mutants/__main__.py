"""`make mutants`: are the tests able to fail? Each fault goes into a copy of the source, and must be caught.

    python -m tests.mutants              all
    python -m tests.mutants slot rollback    those whose name contains one of these words

A test that never failed proves little. Here something is broken on purpose, for each invariant of
docs/internals/proofs.md at least one thing, and the tests that guard it run against the broken copy. A fault
that they let pass *survives*, and the exit code is 1; so it is if the tests fail without any fault, or if a
fault's place in the source is no longer found. Only a test that fails is a catch: where the run crashes or
hangs, no test has said what is wrong, and the fault has to be replaced by a better one.

The full tier of the tests catches all faults. The quick tier (MUSTER_TESTS=quick) lets `QUICK_MISSES` of them
pass at most: that is what the time that it saves may cost.

Two run at a time. Hypothesis does not shrink here (`shrink`): that something fails is all that is asked.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Final

from tests.mutants import committing, faults, leading, outside, training
from tests.mutants.faults import SOURCE, Fault, outdated
from tests.tiers import FULL

#: Runs at a time.
JOBS: Final = 2
#: Seconds of CPU after which a run is ended: a fault may make the core go round in circles. A machine that is
#: busy with other things makes no fault hang.
PATIENCE: Final = 240
#: Seconds after which a run that waits for something is ended.
WAITING: Final = 1800
#: The share of the faults that the quick tier may let pass.
QUICK_MISSES: Final = 0.1
ROOT: Final = SOURCE.parent
FAULTS: Final = (*faults.FAULTS, *committing.FAULTS, *leading.FAULTS, *outside.FAULTS, *training.FAULTS)
#: What pytest-timeout prints.
_TIMED_OUT: Final = b"Timeout (>"
#: How a process ends that has used up its CPU time.
_OUT_OF_CPU: Final = (-signal.SIGXCPU, -signal.SIGKILL)


def main(words: list[str]) -> int:
    chosen = [fault for fault in FAULTS if not words or any(word in fault.name for word in words)]
    if wrong := outdated(chosen):
        print("\n".join(wrong))
        return 1
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(JOBS) as pool:
        tests = {test for fault in chosen for test in fault.tests}
        sound = pool.submit(_sound, Path(folder), tests)
        outcomes = list(pool.map(lambda fault: _shown(fault, Path(folder)), chosen))
        if not sound.result():
            print("the tests fail without any fault (`make test` says how); nothing can be said")
            return 1
    caught = outcomes.count(Outcome.CAUGHT)
    tier = "full" if FULL else "quick"
    print(f"\n{caught} of {len(chosen)} faults caught, in {time.monotonic() - started:.0f} s ({tier} tier)")
    return 0 if enough(caught, len(chosen)) else 1


def enough(caught: int, of: int, full: bool = FULL) -> bool:
    """Whether a tier may let the others pass."""
    return of - caught <= (0 if full else QUICK_MISSES * of)


def _sound(folder: Path, tests: Iterable[str]) -> bool:
    return _tested(_copy(folder / "sound"), sorted(tests), WAITING) is Outcome.SURVIVED


def _shown(fault: Fault, folder: Path) -> "Outcome":
    """Whether the fault is caught; prints its line of the table."""
    began = time.monotonic()
    source = _copy(folder / fault.name.replace(" ", "-"))
    broken = source / "muster" / fault.file
    broken.write_text(fault.applied(broken.read_text()))
    outcome = _tested(source, fault.tests)
    took = time.monotonic() - began
    print(f"{outcome.value:10}{fault.invariant:20}{fault.name:56}{took:6.1f} s", flush=True)
    return outcome


def _copy(target: Path) -> Path:
    shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def _tested(source: Path, tests: Iterable[str], patience: int = PATIENCE) -> "Outcome":
    same = ["-p", "no:randomly", "--hypothesis-seed=0", f"--timeout={WAITING}"]
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *same, *tests]
    command = ["sh", "-c", f'ulimit -t {patience}; exec "$@"', "sh", *pytest]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MUSTER_TESTS_SHRINK": "no",
    }
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, timeout=WAITING, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome.HANGS
    if done.returncode in _OUT_OF_CPU or _TIMED_OUT in done.stdout:
        return Outcome.HANGS
    if done.returncode == 1 and b" failed" not in done.stdout:
        return Outcome.BROKEN  # some program has ended with 1, and no test has
    return _OUTCOMES.get(done.returncode, Outcome.BROKEN)


class Outcome(Enum):
    CAUGHT = "caught"
    SURVIVED = "SURVIVED"
    #: the tests did not come to their end
    HANGS = "HANGS"
    #: the tests could not be collected, or their run crashed: the fault is no program
    BROKEN = "BROKEN"


#: By pytest's exit code. With 5 this tier has none of the tests.
_OUTCOMES: Final = {0: Outcome.SURVIVED, 1: Outcome.CAUGHT, 5: Outcome.SURVIVED}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
