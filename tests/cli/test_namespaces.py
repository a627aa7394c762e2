"""Which namespace is meant: the one that is named, the object's own, the context's, in that order."""

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from muster.cli import main as cli
from tests.cli.binary import Muster, until

POD = """apiVersion: v1
kind: Pod
metadata: {{name: {name}{more}}}
spec:
  schedulerName: muster
  containers: [{{name: main, image: none, command: ["true"]}}]
"""
NAMESPACES = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: research}}
- {apiVersion: v1, kind: Namespace, metadata: {name: ml}}
"""
#: a cluster that is used as a real one
REAL = ("--kubeconfig", "other")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(muster: Muster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process; its exit code, stdout and stderr.

    The kubeconfig `other` is of a cluster with the namespaces research, which its context names, and ml.
    """
    muster.run("up", "--detach", "--nodes", "1 x cpu=2,memory=1Gi,runtime=none")
    config = yaml.safe_load((muster.home / "kubeconfig").read_text())
    config["contexts"][0]["context"]["namespace"] = "research"
    muster.file("other", yaml.safe_dump(config))
    muster.run("submit", muster.file("namespaces.yaml", NAMESPACES))
    monkeypatch.chdir(muster.cwd)
    monkeypatch.setenv("MUSTER_HOME", str(muster.home))

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["muster", *words])
        with pytest.raises(SystemExit) as exit:
            cli.main()
        return int(exit.value.code or 0), *capsys.readouterr()

    return run


def pod(muster: Muster, name: str, namespace: str = "") -> str:
    more = f", namespace: {namespace}" if namespace else ""
    return muster.file(f"{name}.yaml", POD.format(name=name, more=more))


def said(run: Run, *words: str) -> Any:  # Any: JSON
    code, out, err = run(*words, "-o", "json")
    assert code == 0, err
    return json.loads(out)


def listed(run: Run, *words: str) -> list[tuple[str, str]]:
    return sorted((job["namespace"], job["name"]) for job in said(run, "list", *words))


def test_the_contexts_namespace_is_the_default(muster: Muster, run: Run) -> None:
    run("submit", pod(muster, "plain"), *REAL)
    run("submit", pod(muster, "named"), *REAL, "-n", "ml")
    run("submit", pod(muster, "own", "default"), *REAL)
    run("submit", pod(muster, "plain"), "--namespace", "ml")
    run("submit", pod(muster, "here"))
    here = [("default", "here"), ("default", "own")]
    ml, research = [("ml", "named"), ("ml", "plain")], [("research", "plain")]

    assert listed(run) == listed(run, *REAL, "-A") == [*here, *ml, *research]
    assert listed(run, *REAL) == research
    assert listed(run, *REAL, "-n", "ml") == ml
    assert "research/" not in run("list", *REAL)[1]
    assert "research/plain" in run("list")[1].split()
    assert run("list", *REAL, "-o", "wide")[1].split()[0] == "NAME"
    assert run("list", "-o", "wide")[1].split()[0] == "NAMESPACE"

    assert "no job named named; there are: plain" in run("why", "named", *REAL)[2]
    assert said(run, "timeline", "ml/named", *REAL)[0]["name"] == "named"
    assert said(run, "timeline", "ml/named")[0]["name"] == "named"
    assert said(run, "get", "ml/named", *REAL)["metadata"]["namespace"] == "ml"
    assert said(run, "get", "plain", *REAL)["metadata"]["namespace"] == "research"
    assert "2 jobs match plain: research/plain (" in run("cancel", "plain")[2]
    run("cancel", "plain", *REAL)
    assert listed(run) == [*here, *ml]

    # else a plan would tell of those that wait, too
    until(lambda: {job["state"] for job in said(run, "list")} == {"running"}, "all to be placed")
    for words, namespace in ((REAL, "research"), (("-n", "ml"), "ml"), ((), "default")):
        (planned,) = said(run, "plan", pod(muster, "new"), *words)["decisions"]
        assert planned["gang"] == f"{namespace}/new"
    muster.run("down")


@pytest.mark.full
def test_a_file_with_another_namespace_than_the_option_is_refused(muster: Muster, run: Run) -> None:
    file = pod(muster, "own", "default")
    refused = "is 'default', and --namespace is ml; omit one of them\n"
    for verb in ("submit", "run", "plan"):
        code, _, err = run(verb, file, "-n", "ml")
        assert (code, err) == (2, f"own.yaml:3: metadata.namespace: {refused}")
    more = "---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n"
    muster.file("more.yaml", POD.format(name="own", more=", namespace: default") + more)
    assert f"more.yaml:3: Pod own: metadata.namespace: {refused}" in run("plan", "more.yaml", "-n", "ml")[2]
    assert said(run, "list") == []
    muster.run("down")
