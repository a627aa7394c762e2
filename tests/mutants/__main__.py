"""`make mutants`: are the tests able to fail? Each fault goes into a copy of the source, and must be caught.

    python -m tests.mutants              all
    python -m tests.mutants slot rollback    those whose name contains one of these words

A test that never failed proves little. Here something is broken on purpose, for each invariant of
docs/internals/proofs.md at least one thing, and the tests that guard it run against the broken copy. A fault
that they let pass *survives*, and the exit code is 1; so it is if the tests fail without any fault, or if a
fault's place in the source is no longer found. Only a test that fails is a catch: where the run crashes or
hangs, no test has said what is wrong, and the fault has to be replaced by a better one.

The full tier of the tests catches all faults. The quick tier lets `QUICK_MISSES` of them pass at most: that
is what the time that it saves may cost. Its tests are among those of the full tier, so each fault meets them
first and is *caught* there, or meets the full tier and is *found* by it. With MUSTER_TESTS=quick, the quick
tier alone is asked.

Two run at a time. Hypothesis does not shrink here (`shrink`): that something fails is all that is asked. The
copies have the bytecode of the source, so only what is broken is compiled again.
"""

import compileall
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
from importlib.util import cache_from_source
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
    if not chosen:
        print(f"no fault's name contains {' or '.join(words)}; tests/mutants/*.py have the names")
        return 2
    if wrong := outdated(chosen):
        print("\n".join(wrong))
        return 1
    started = time.monotonic()
    compileall.compile_dir(SOURCE, quiet=2)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(JOBS) as pool:
        outcomes = list(pool.map(lambda fault: _shown(fault, Path(folder)), chosen))
        tests = sorted({test for fault in chosen for test in fault.tests})
        sound = list(pool.map(lambda test: _tested(SOURCE, [test], FULL, WAITING) is Outcome.SURVIVED, tests))
    if not all(sound):
        failing = [test for test, passes in zip(tests, sound, strict=True) if not passes]
        print(f"these fail without any fault, so nothing can be said: {' '.join(failing)}")
        return 1
    took = time.monotonic() - started
    quick, full = outcomes.count(Outcome.CAUGHT), outcomes.count(Outcome.FOUND)
    print(
        f"\n{quick} of {len(chosen)} caught by the quick tier, {full} more by the full one, in {took:.0f} s"
    )
    return 0 if enough(quick, full, len(chosen), FULL, chosen=bool(words)) else 1


def enough(quick: int, full: int, of: int, both: bool, chosen: bool = False) -> bool:
    """Whether the tiers may let the others pass: the quick one catches `quick` faults, the full one more.

    Of faults that are `chosen` by a word, the quick tier may let all pass if the full one is asked too.
    """
    few = of - quick <= QUICK_MISSES * of
    return quick + full == of and (few or chosen) if both else few


def _shown(fault: Fault, folder: Path) -> "Outcome":
    """Whether the fault is caught, and by which tier; prints its line of the table."""
    began = time.monotonic()
    source = _copy(folder / fault.name.replace(" ", "-"))
    broken = source / "muster" / fault.file
    broken.write_text(fault.applied(broken.read_text()))
    Path(cache_from_source(broken)).unlink(missing_ok=True)
    outcome = _tested(source, fault.tests, full=False)
    if FULL and outcome is not Outcome.CAUGHT:
        outcome = _tested(source, fault.tests, full=True)
        outcome = Outcome.FOUND if outcome is Outcome.CAUGHT else outcome
    took = time.monotonic() - began
    print(f"{outcome.value:10}{fault.invariant:20}{fault.name:56}{took:6.1f} s", flush=True)
    shutil.rmtree(source)
    return outcome


def _copy(target: Path) -> Path:
    return shutil.copytree(SOURCE, target)


def _tested(source: Path, tests: Iterable[str], full: bool, patience: int = PATIENCE) -> "Outcome":
    same = ["-p", "no:randomly", "--hypothesis-seed=0", f"--timeout={WAITING}"]
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *same, *tests]
    command = ["sh", "-c", f'ulimit -t {patience}; exec "$@"', "sh", *pytest]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "",
        "MUSTER_TESTS": "full" if full else "quick",
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
    #: by the quick tier
    CAUGHT = "caught"
    #: by the full tier only
    FOUND = "found"
    SURVIVED = "SURVIVED"
    #: the tests did not come to their end
    HANGS = "HANGS"
    #: the tests could not be collected, or their run crashed: the fault is no program
    BROKEN = "BROKEN"


#: By pytest's exit code. With 5 this tier has none of the tests.
_OUTCOMES: Final = {0: Outcome.SURVIVED, 1: Outcome.CAUGHT, 5: Outcome.SURVIVED}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
