"""docs/start/install.md is true, word for word: from an empty cluster to a gang, an upgrade, and back.

The control plane has the default scheduler here, and `muster fake-nodes` plays the kubelets. It pretends that
muster's own pods run. So their processes are started beside it: what the Deployments say, after each command.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.cli.console import commands, comparable, run
from tests.cluster.chart import NAMESPACE, Chart, found
from tests.cluster.control_plane import running
from tests.patience import CLUSTER, LONGEST

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/start/install.md"
#: What Helm's client logs if it ends a watch while an answer is being read.
NOISE = re.compile(r"^E\d{4} .* request\.go:\d+\] .*context canceled.*\n", re.MULTILINE)


@dataclass
class Kubelet:
    """Runs the containers of muster's Deployments."""

    chart: Chart
    replicas: dict[str, list[subprocess.Popen[bytes]]] = field(default_factory=dict)

    def follow(self) -> None:
        """Starts what the Deployments say, and ends what they no longer say."""
        listed = json.loads(
            self.chart.kubectl("get", "deployments", f"--namespace={NAMESPACE}", "--output=json")
        )
        wanted = {
            hashlib.sha256(json.dumps(each["spec"]["template"]).encode()).hexdigest(): each
            for each in listed["items"]
        }
        for key in self.replicas.keys() - wanted.keys():
            self.end(key)
        started = wanted.keys() - self.replicas.keys()
        if started:
            self.chart.await_roles()
        for key in started:
            spec, daemon = wanted[key]["spec"], wanted[key]["metadata"]["name"].removeprefix("muster-")
            arguments = [*self.chart.arguments(daemon), "--kubeconfig", str(self.chart.kubeconfig(daemon))]
            with (self.chart.home / f"{daemon}.log").open("ab") as log:
                self.replicas[key] = [
                    subprocess.Popen(
                        [sys.executable, "-m", "muster", *arguments],
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                    for _ in range(spec["replicas"])
                ]

    def end(self, key: str) -> None:
        processes = self.replicas.pop(key)
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(CLUSTER)


@contextmanager
def kubelet(chart: Chart) -> Iterator[Kubelet]:
    made = Kubelet(chart)
    try:
        yield made
    finally:
        for key in list(made.replicas):
            made.end(key)


@contextmanager
def nodes(kubeconfig: Path, home: Path) -> Iterator[None]:
    with (home / "nodes.log").open("wb") as log:
        spec = "3 x cpu=8,memory=32Gi,pods=110"
        process = subprocess.Popen(
            [sys.executable, "-m", "muster", "fake-nodes", spec, "--kubeconfig", str(kubeconfig)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(CLUSTER)


def patiently(command: str) -> str:
    """The command of the page, on a machine that is busy with other things."""
    return re.sub(r"--timeout=\d+s", f"--timeout={CLUSTER:.0f}s", command)


@pytest.mark.skipif("KUBECONFIG" in os.environ, reason="the page begins with an empty cluster")
def test_the_page_is_true(tmp_path: Path) -> None:
    path = ":".join(
        [*(str(found(program).parent) for program in ("helm", "kubectl")), str(Path(sys.executable).parent)]
    )
    with running(tmp_path / "plane", scheduler=True) as plane:
        chart = Chart(plane.kubeconfig, tmp_path)
        environ = {
            "PATH": f"{path}:{os.environ['PATH']}",
            "HOME": str(tmp_path),
            "KUBECONFIG": str(plane.kubeconfig),
            "LANG": "C.UTF-8",
        }
        with nodes(plane.kubeconfig, tmp_path), kubelet(chart) as plays:
            has_roles = True
            for command in commands(PAGE.read_text()):
                output = NOISE.sub("", run(patiently(command.text), ROOT, environ, LONGEST))
                logs = "".join(log.read_text()[-2000:] for log in tmp_path.glob("*.log"))
                where = f"docs/start/install.md:{command.line}: {command.text}\n{output}\n{logs}"
                assert comparable(output) == comparable(command.output), where
                has_roles = has_roles and "uninstall" not in command.text
                assert not (has_roles and plane.forbidden(chart.accounts))
                plays.follow()
            kustomize(tmp_path, environ, chart, plays)


def kustomize(home: Path, environ: dict[str, str], chart: Chart, plays: Kubelet) -> None:
    """The page's last section, on the cluster that Helm has left, with the job that still runs there."""
    section = PAGE.read_text().partition("\n## Kustomize\n")[2]
    shown = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    overlay = home / "overlay"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text("".join(f"{line}\n" for line in shown[:2]))
    shutil.copytree(ROOT / "kustomize", home / "kustomize")
    chart.forget()
    install, *uninstall = shown[2:]
    whole = "kubectl wait --for=jsonpath={.status.phase}=Standing gang/job-first --timeout=60s"
    for command in (
        install,
        f"kubectl wait --for=create gang/job-first --timeout=60s && {whole}",
        *uninstall,
    ):
        output = run(patiently(command), home, environ, LONGEST)
        assert "[exit" not in output, f"docs/start/install.md: {command}\n{output}"
        plays.follow()
    assert chart.kubectl("get", "crd", "--output=name") == ""
    assert "muster" not in chart.kubectl("get", "namespaces,clusterroles", "--output=name")
    running = chart.kubectl("get", "pods", "--selector=job-name=first", "--output=name")
    assert len(running.split()) == 3


def test_the_pages_commands_are_found() -> None:
    assert sum("helm " in command.text for command in commands(PAGE.read_text())) == 3
