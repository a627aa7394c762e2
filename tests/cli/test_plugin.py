"""muster as a plug-in of kubectl: the same verbs, on kubectl's cluster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(sys.executable).with_name("kubectl-muster")


@pytest.mark.parametrize(
    ("environ", "file"),
    [
        ({}, "{home}/.kube/config"),
        ({"KUBECONFIG": "/nosuch/kubectls"}, "/nosuch/kubectls"),
        ({"KUBECONFIG": "/nosuch/kubectls", "MUSTER_KUBECONFIG": "/nosuch/musters"}, "/nosuch/musters"),
    ],
    ids=["default", "kubectl's", "muster's own"],
)
def test_it_works_on_the_cluster_of_kubectl(tmp_path: Path, environ: dict[str, str], file: str) -> None:
    said = _run(tmp_path, environ, "list")
    assert said.returncode == 3
    assert f"no usable cluster configuration: {file.format(home=tmp_path)}: " in said.stderr


def test_help_calls_it_as_its_user_does(tmp_path: Path) -> None:
    assert "Usage: kubectl muster why " in _run(tmp_path, {}, "why", "--help").stdout


def _run(home: Path, environ: dict[str, str], *words: str) -> "subprocess.CompletedProcess[str]":
    own = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    return subprocess.run([PLUGIN, *words], env=own | environ, capture_output=True, text=True, check=False)
