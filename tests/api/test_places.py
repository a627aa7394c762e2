"""How many pods a Job runs at a time, and whether a JobSet starts in stages: said once, for every reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.batch_v1 import JobSpec
from muster.api.fields import convert
from muster.api.jobset_v1alpha2 import JobSetSpec
from muster.workloads.demand import pod_sets

COUNTS = st.none() | st.integers(0, 9)


@given(COUNTS, COUNTS, COUNTS)
def test_a_file_is_counted_as_its_objects_are(
    replicas: int | None, parallelism: int | None, completions: int | None
) -> None:
    template: Object = {"spec": {"containers": []}}
    job: Object = {"parallelism": parallelism, "completions": completions, "template": template}
    replicated: Object = {"name": "w", "replicas": replicas, "template": {"spec": job}}
    owner: Object = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "a"},
        "spec": {"replicatedJobs": [replicated]},
    }
    [found] = pod_sets(owner)
    spec, times = convert(job, JobSpec), 1 if replicas is None else replicas
    assert (found.count, found.pods) == (times * spec.places, times * spec.pods)
    assert spec.places == min(1 if parallelism is None else parallelism, spec.pods)
    assert (found.template, found.stage) == (template, "")


def test_no_count_is_below_nothing() -> None:
    assert JobSpec(parallelism=-1).places == 0


@pytest.mark.parametrize(
    ("spec", "in_order", "staged"),
    [
        ({}, False, False),
        ({"startupPolicy": {"startupPolicyOrder": "AnyOrder"}}, False, False),
        ({"startupPolicy": {"startupPolicyOrder": "InOrder"}}, True, True),
        ({"replicatedJobs": [{"name": "a"}]}, False, False),
        ({"replicatedJobs": [{"name": "a", "dependsOn": [{"name": "b", "status": "Ready"}]}]}, False, True),
    ],
)
def test_a_jobset_is_staged_if_its_jobs_start_in_an_order(spec: Object, in_order: bool, staged: bool) -> None:
    found = convert(spec, JobSetSpec)
    assert (found.in_order, found.staged) == (in_order, staged)
