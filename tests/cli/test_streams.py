"""Standard streams that the caller has closed."""

import subprocess
import sys

import pytest

from tests.cli.binary import MUSTER, Muster, manifest
from tests.patience import PATIENCE


@pytest.mark.parametrize(
    "closed",
    [
        pytest.param("<&-", marks=pytest.mark.full),
        pytest.param(">&-", marks=pytest.mark.full),
        "<&- >&- 2>&-",
    ],
)
def test_what_is_opened_next_does_not_take_the_place_of_a_closed_stream(muster: Muster, closed: str) -> None:
    """A job runs to its end, and its exit code is told, whatever is closed."""
    muster.file("job.yaml", manifest("exit 7"))
    for words, code in (("run job.yaml", 7), ("check -", 2), ("list", 0)):
        done = subprocess.run(
            ["sh", "-c", f"exec {MUSTER} {words} {closed}"],
            cwd=muster.cwd,
            env=muster.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == code, done
        assert "Traceback" not in done.stderr


NOISY = """
import ctypes, os, sys
sys.argv = ["muster", "examples"]
from muster.cli import main
def command() -> None:
    sys.stdout.write("ours")
    ctypes.CDLL(None).puts(b"a library's")
    ctypes.CDLL(None).fflush(None)
    os.write(1, b"a library's\\n")
    print(" only")
main.app.command("examples")(command)
main.main()
"""


def test_nothing_that_a_library_prints_gets_into_the_output() -> None:
    done = subprocess.run([sys.executable, "-c", NOISY], capture_output=True, check=True)
    assert done.stdout == b"ours only\n"
    assert done.stderr.count(b"a library's\n") == 2
