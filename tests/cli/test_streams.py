"""Standard streams that the caller has closed."""

import subprocess

import pytest

from tests.cli.binary import MUSTER, Muster, manifest
from tests.patience import PATIENCE


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
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
