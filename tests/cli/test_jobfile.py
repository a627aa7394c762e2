"""What is said of a job file before it runs."""

import pytest

from muster.cli.jobfile import header
from muster.workloads.load import load

JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: %s}
spec:
  %s
  replicatedJobs:
  - {name: prepare, template: {spec: {template: {spec: {containers: [{name: c, image: i, command: [x]}]}}}}}
  - {name: work, replicas: 2, %s template: {spec: {parallelism: 2, completions: 2, template: {spec: {
      containers: [
        {name: c, image: i, command: [x], resources: {limits: {nvidia.com/gpu: 2}}}]}}}}}
"""
AFTER = "dependsOn: [{name: prepare, status: Complete}],"
IN_ORDER = "startupPolicy: {startupPolicyOrder: InOrder}"
STAGES = "gang of 1: prepare 1, then gang of 4: work 4 × 2 GPU"


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (JOBSET % ("a", "", ""), "gang", "gang of 5: prepare 1, work 4 × 2 GPU"),
        (JOBSET % ("a", "", ""), "independent", "5 independent pods: prepare 1, work 4 × 2 GPU"),
        (JOBSET % ("a", "", AFTER), "gang", STAGES),
        (JOBSET % ("a", IN_ORDER, ""), "gang", STAGES),
        (JOBSET % ("a", IN_ORDER, "") + "---" + JOBSET % ("b", IN_ORDER, ""), "gang", f"{STAGES}; {STAGES}"),
        (JOBSET % ("a", IN_ORDER, ""), "independent", "5 independent pods: prepare 1, work 4 × 2 GPU"),
    ],
)
def test_each_stage_of_an_order_is_a_gang(text: str, mode: str, said: str) -> None:
    job = load("f.yaml", text=text, suffix="0" * 8, mode="gang" if mode == "gang" else "independent")
    assert header(job) == said
