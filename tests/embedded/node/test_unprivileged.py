"""The agent's tests once more, as a user who may nothing, where these tests run as root."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parents[2]
NOBODY = 65534
NEEDED = "import msgspec, pytest, pytest_asyncio, hypothesis, yaml, muster.embedded.node.agent"


@pytest.mark.full
@pytest.mark.timeout(0)  # each of the tests within has its own
@pytest.mark.skipif(os.geteuid() != 0, reason="these tests run without privileges already")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not here")
def test_a_pod_runs_for_a_user_without_privileges() -> None:
    home = Path("/tmp") / f"muster-nobody-{os.getpid()}"
    home.mkdir(mode=0o700)
    os.chown(home, NOBODY, NOBODY)
    try:
        python = _interpreter(home)
        if python is None:
            pytest.skip("no Python interpreter with our packages that any user may run")
        tests = [str(TESTS / "test_agent.py"), str(TESTS / "test_names.py")]
        options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", f"--basetemp={home}/t"]
        done = _as_nobody([python, "-m", "pytest", *tests, *options], home)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "passed" in done.stdout
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _interpreter(home: Path) -> str | None:
    """Ours, or the system's if it has the same version (then our packages fit it)."""
    system = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, system):
        if os.path.exists(python) and _as_nobody([python, "-c", NEEDED], home).returncode == 0:
            return python
    return None


def _as_nobody(argv: list[str], home: Path) -> subprocess.CompletedProcess[str]:
    path = [str(ROOT / "src"), str(ROOT), *(entry for entry in sys.path if "site-packages" in entry)]
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": os.pathsep.join(path)}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    # by a shell, because setpriv itself still has root's capabilities when it looks for the program
    shell = ["sh", "-c", 'exec "$0" "$@"', *argv]
    command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *shell]
    try:
        return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True)
    except OSError as error:
        return subprocess.CompletedProcess(command, 126, "", str(error))
