"""`import muster`: what it offers, and what it costs."""

import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

import muster
from tests.app.plan.test_plan import node, pod

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_importing_it_imports_nothing_heavy() -> None:
    program = (
        "import sys, muster; print([m for m in sys.modules if m in ('numpy', 'msgspec', 'yaml', 'asyncio')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_core_can_be_used_as_a_library() -> None:
    program = "import muster; print(muster.core.__name__, 'core' in muster.__all__)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "muster.core True\n"
    with pytest.raises(AttributeError, match="module 'muster' has no attribute 'nosuch'"):
        _ = muster.nosuch


def test_a_job_file_is_compiled_and_planned(tmp_path: Path) -> None:
    objects = muster.compile(EXAMPLES / "13-coordinator.yaml")
    cluster = [{"apiVersion": "v1", "kind": "List", "items": [node("n-0"), pod("old", 1, node="n-0")]}]
    (decision,) = muster.plan(objects, cluster)
    assert muster.plan(objects, cluster[0]) == [decision]
    assert (decision.outcome, set(decision.assignments.values())) == ("place", {"n-0"})
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    assert muster.plan(objects, tmp_path / "cluster.json", now=datetime.now(UTC)) == [decision]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(cluster))
    assert muster.plan(objects, str(tmp_path / "cluster.yaml")) == [decision]


def test_a_value_that_is_not_an_object_raises_value_error() -> None:
    with pytest.raises(ValueError, match="snapshot: object 2: is not a Kubernetes object"):
        muster.plan([], [node("n-0"), {"kind": "Pod"}])
    with pytest.raises(ValueError, match="objects: object 1: Pod x: spec: Expected `object`, got `int`"):
        muster.plan([pod("x", 1) | {"spec": 4}], [])


def test_the_examples_in_the_documentation_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(__file__).parents[1]
    monkeypatch.chdir(root)
    programs = re.findall(r"```python\n(.*?)```", (root / "docs/guides/python.md").read_text(), re.DOTALL)
    assert len(programs) > 1
    for program in programs:
        exec(program, {})
    assert "place" in capsys.readouterr().out


def test_a_mode_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mode 'gangs': write one of gang, independent"):
        muster.compile(tmp_path / "none.yaml", mode="gangs")  # type: ignore[arg-type]


def test_another_system_is_named_in_one_line() -> None:
    for spoil in ("sys.platform = 'darwin'", "sys.platform = 'win32'", "del os.pidfd_open"):
        code = f"import os, sys; {spoil}; from muster.__main__ import main; main()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
        assert "a container" in done.stderr
        assert "WSL" in done.stderr
