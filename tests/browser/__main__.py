"""`make test-browser`: runs the tests in Chromium, which root gets from Debian if it is missing."""

import os
import shutil
import subprocess
import sys

from tests.browser.chromium import NAMES, chromium


def main() -> int:
    if chromium() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {"stdout": subprocess.DEVNULL, "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}}
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", "chromium"]):
            if subprocess.run(["apt-get", *command], check=False, **quiet).returncode:  # type: ignore[call-overload]
                break
    if chromium() is None:
        print(f"make test-browser: skipped, there is no {' or '.join(NAMES)}: sudo apt install chromium")
        return 0
    arguments = ["-q", "-n", "0", "-p", "no:randomly", "tests/browser", *sys.argv[1:]]
    environment = {**os.environ, "MUSTER_TEST_BROWSER": "1", "MUSTER_TESTS": "full"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], check=False, env=environment
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
