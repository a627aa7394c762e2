"""What the page Plan answers for a text, whatever is in it."""

from types import SimpleNamespace
from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.dashboard import plans
from muster.workloads.findings import JobFileError
from tests.dashboard.test_live import Following, node

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: j, labels: {muster.dev/admission: %s}}
spec:
  parallelism: %d
  completions: %d
  completionMode: Indexed
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
"""
SET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: s}
spec:
  replicatedJobs: [{name: r, replicas: 9000, template: {spec: {parallelism: 9000, template: {spec: {}}}}}]
"""


def planned(text: str, *, embedded: bool = False) -> Object:
    one = Following()
    one.put(kinds.NODE, "n", node(4))
    return plans.planned(one.snapshot(), text, embedded=embedded)


@pytest.mark.parametrize("text", [JOB % ("gang", 10**9, 10**9), JOB % ("independent", 10**9, 10**9), SET])
def test_a_text_with_too_many_pods_is_refused_at_once(text: str) -> None:
    nothing: Any = SimpleNamespace(plan=None)  # Any: a snapshot of which no plan is asked
    with pytest.raises(JobFileError, match=r"has [\d,]+ pods, and a page plans 10,000; .*muster plan FILE"):
        plans.planned(nothing, text, embedded=False)


def test_pods_that_run_one_after_the_other_count_once() -> None:
    assert planned(JOB % ("independent", 2, 10**6))["rows"]


@pytest.mark.parametrize("embedded", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "{apiVersion: batch/v1, kind: Job, metadata: 3, spec: 4}",
        "{apiVersion: batch/v1, kind: Job, metadata: {name: [1]}, spec: {template: 4}}",
        "- 3",
        "kind: \x00",
        "[" * 50_000,
        "!!python/object/apply:os.system ['id']",
    ],
)
def test_what_is_no_object_is_refused_by_a_message(text: str, embedded: bool) -> None:
    with pytest.raises(JobFileError):
        planned(text, embedded=embedded)
