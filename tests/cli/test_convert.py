"""`muster convert`: what it prints where, and its exit codes."""

import json
from pathlib import Path

import pytest
import yaml

from tests.cli.binary import Muster

FILE = """\
apiVersion: scheduling.sigs.k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 1, scheduleTimeoutSeconds: 30}
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {pod-group.scheduling.sigs.k8s.io: g}}
spec: {containers: [{name: c, image: busybox}]}
"""


@pytest.fixture
def file(muster: Muster) -> Path:
    path = muster.cwd / "f.yaml"
    path.write_text(FILE)
    return path


def test_objects_go_to_stdout_and_losses_to_stderr(muster: Muster, file: Path) -> None:
    done = muster.run("convert", "f.yaml", "--to", "volcano", "--scheduler", "volcano")
    group, pod = yaml.safe_load_all(done.out)
    assert (group["apiVersion"], group["spec"]) == ("scheduling.volcano.sh/v1beta1", {"minMember": 1})
    assert pod["metadata"] == {"name": "a", "annotations": {"scheduling.k8s.io/group-name": "g"}}
    assert pod["spec"]["schedulerName"] == "volcano"
    assert done.err.startswith("warning: f.yaml:4: spec.scheduleTimeoutSeconds: is lost")
    listed = json.loads(muster.run("convert", "f.yaml", "--to", "volcano", "-o", "json").out)
    assert [each["kind"] for each in listed["items"]] == ["PodGroup", "Pod"]


def test_exit_codes(muster: Muster, file: Path) -> None:
    assert muster.run("convert", "f.yaml", "--to", "volcano", "--strict", code=1).out
    assert muster.run("convert", "f.yaml", "--to", "coscheduling", "--strict").err == ""
    assert "Invalid value for '--to'" in muster.run("convert", "f.yaml", "--to", "slurm", code=2).err
    piped = muster.run("convert", "-", "--to", "native", stdin=FILE)
    assert "standard input:4: spec.scheduleTimeoutSeconds: is lost" in piped.err
    file.write_text("")
    assert "f.yaml: is empty" in muster.run("convert", "f.yaml", "--to", "volcano", code=2).err
