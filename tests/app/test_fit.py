"""Whether a job could ever start: the scheduler's answer about stages, gangs and independent pods."""

import pytest

from muster.app.fit import as_nodes, misfits
from muster.local.nodespec import read
from muster.workloads.load import load

NODES = as_nodes(read("2 x cpu=8,memory=32Gi"))
JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  %s
  replicatedJobs:
  - {name: prepare, template: {spec: {parallelism: 10, completions: 10, template: {spec: {containers: [
      {name: c, image: i, command: [x], resources: {requests: {cpu: 1}}}]}}}}}
  - {name: work, %s template: {spec: {parallelism: %d, completions: 20, template: {spec: {containers: [
      {name: c, image: i, command: [x], resources: {requests: {cpu: 1}}}]}}}}}
"""
AFTER = "dependsOn: [{name: prepare, status: Complete}],"
IN_ORDER = "startupPolicy: {startupPolicyOrder: InOrder}"


@pytest.mark.parametrize(
    ("policy", "depends", "width", "mode", "said"),
    [
        ("", "", 6, "gang", []),
        ("", "", 7, "gang", ["train can never start here: InsufficientCapacity"]),
        ("", "", 17, "independent", []),
        # the stages of an order are gangs of their own: each has to fit, not all of them together
        ("", AFTER, 16, "gang", []),
        (IN_ORDER, "", 16, "gang", []),
        (IN_ORDER, "", 17, "gang", ["train/work can never start here: InsufficientCapacity"]),
    ],
)
def test_what_has_to_fit_together(policy: str, depends: str, width: int, mode: str, said: list[str]) -> None:
    text = JOBSET % (policy, depends, width)
    job = load("f.yaml", text=text, suffix="0" * 8, mode="gang" if mode == "gang" else "independent")
    assert [why.partition(". ")[0] for why in misfits(job, NODES)] == said


def test_a_stage_without_pods_fits_anywhere() -> None:
    text = JOBSET.replace("work, %s", "work, replicas: 0, %s") % (IN_ORDER, "", 100)
    assert not list(misfits(load("f.yaml", text=text, suffix="0" * 8, mode="gang"), NODES))


@pytest.mark.parametrize(
    ("nodes", "asks", "hinted"),
    [
        ("1 x cpu=8,memory=32Gi", "nvidia.com/gpu: 1", True),
        ("1 x cpu=8,memory=32Gi,nvidia.com/gpu=0", "nvidia.com/gpu: 1", True),
        ("1 x cpu=8,memory=32Gi,nvidia.com/gpu=1", "nvidia.com/gpu: 8", False),
        ("1 x cpu=8,memory=32Gi", "cpu: 100", False),
        ("1 x cpu=8,memory=32Gi", "memory: 100Gi", False),
    ],
)
def test_gpus_are_hinted_at_only_where_they_are_what_is_missing(nodes: str, asks: str, hinted: bool) -> None:
    text = JOBSET.replace("{requests: {cpu: 1}}", f"{{requests: {{{asks}}}, limits: {{{asks}}}}}")
    job = load("f.yaml", text=text % ("", "", 1), suffix="0" * 8, mode="gang")
    told = list(misfits(job, as_nodes(read(nodes))))
    assert "can never start here" in told[0]
    assert any("there are no GPUs here" in why for why in told) is hinted
