"""One embedded cluster, one dashboard and one browser for all tests."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.chromium import FLAGS, chromium
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
NODES = "1 x cpu=8,memory=16Gi"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            if os.environ.get("MUSTER_TEST_BROWSER") != "1":
                item.add_marker(pytest.mark.skip(reason="MUSTER_TEST_BROWSER=1 (make test-browser) runs it"))
            item.add_marker(pytest.mark.timeout(5 * PATIENCE))


@dataclass
class Site:
    """The pages of an embedded cluster, in a browser that has access."""

    home: Path
    #: without a path
    address: str
    browser: Browser
    #: the cookie of those who have access
    state: Path
    _open: list[BrowserContext] = field(default_factory=list)

    def muster(self, *arguments: str, stdin: str = "") -> str:
        return muster(self.home, *arguments, stdin=stdin)

    def submit(self, name: str, command: str, cpu: str = "100m", gang: str = "true") -> None:
        self.muster("submit", "-", stdin=job(name, command, cpu, gang))

    def page(self, path: str = "/", *, access: bool = True, **how: object) -> Page:
        """A page in a context of its own, on which no script fails and which loads nothing from elsewhere."""
        state = {"storage_state": str(self.state)} if access else {}
        context = self.browser.new_context(base_url=self.address, **state, **how)  # type: ignore[arg-type]
        self._open.append(context)
        return self.tab(context, path)

    def tab(self, context: BrowserContext, path: str) -> Page:
        page = context.new_page()
        page.on("pageerror", lambda error: self.faults.append(f"{page.url}: {error}"))
        page.on("dialog", lambda dialog: self.faults.append(f"{page.url}: a dialog {dialog.message}"))
        page.on("request", self._requested)
        page.goto(path)
        return page

    #: what no page may do
    faults: list[str] = field(default_factory=list)

    def _requested(self, request: object) -> None:
        url: str = request.url  # type: ignore[attr-defined]
        if not url.startswith(self.address):
            self.faults.append(f"a request to {url}")

    def close(self) -> None:
        for context in self._open:
            context.close()
        self._open.clear()


def job(name: str, command: str, cpu: str, gang: str) -> str:
    return f"""
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, labels: {{muster.dev/gang: "{gang}"}}}}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers:
      - name: c
        image: none
        command: [sh, -c, {json.dumps(command)}]
        resources: {{requests: {{cpu: {cpu}}}}}
"""


def muster(home: Path, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "muster", *arguments],
        env={**os.environ, "MUSTER_HOME": str(home)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=home.parent,
    )
    assert done.returncode == 0, f"muster {' '.join(arguments)}\n{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def dashboard(home: Path, *options: str) -> Iterator[str]:
    """The first line that `muster dashboard` prints; it runs while the context lasts."""
    process = subprocess.Popen(
        [sys.executable, "-m", "muster", "dashboard", *options],
        env={**os.environ, "MUSTER_HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline()
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The state directory of a cluster that runs, and the address of its dashboard, with the token."""
    home = tmp_path_factory.mktemp("browser") / "home"
    muster(home, "up", "--detach", "--nodes", NODES)
    try:
        with dashboard(home) as said:
            found = re.search(r"http://\S+", said)
            assert found is not None, said
            yield home, found[0]
    finally:
        muster(home, "down")


@pytest.fixture(scope="session")
def everything(served: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home, address = served
    state = tmp_path_factory.mktemp("state") / "state.json"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        context = browser.new_context()
        context.new_page().goto(address)
        context.storage_state(path=str(state))
        context.close()
        yield Site(home, address.partition("/?")[0], browser, state)
        browser.close()


@pytest.fixture
def site(everything: Site) -> Iterator[Site]:
    yield everything
    everything.close()
    faults, everything.faults = everything.faults, []
    assert faults == []
