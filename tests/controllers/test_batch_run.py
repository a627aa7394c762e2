"""The first form of a run, its release, and how far it is, on every target, task by task."""

from typing import Any

import msgspec
import pytest

from muster.api.batch_v1 import Job
from muster.api.jobset_v1alpha2 import REPLICATED_JOB_NAME, JobSet
from muster.api.volcano_v1alpha1 import VolcanoJob
from muster.controllers.batch_run import Progress, first, must_not_exist, order, progress, released
from muster.names import ADMISSION, GRANTED


def jobset(*conditions: str, suspend: bool = False) -> JobSet:
    """A master, and three workers of which each is a Job of its own."""
    replicated = [
        {"name": "master", "replicas": 1, "template": {"spec": {"completions": 1}}},
        {"name": "workers", "replicas": 3, "template": {"spec": {"completions": 2}}},
    ]
    ended = [{"type": each, "status": "True", "message": f"{each}!"} for each in conditions]
    body = {"spec": {"replicatedJobs": replicated, "suspend": suspend}, "status": {"conditions": ended}}
    return msgspec.convert(body, JobSet)


def job(task: str, deleted: bool = False, **status: int) -> Job:
    meta: dict[str, Any] = {"labels": {REPLICATED_JOB_NAME: task}}
    if deleted:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert({"metadata": meta, "status": status}, Job)


MADE: dict[str, Any] = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "j", "namespace": "ns", "labels": {ADMISSION: "gang", "team": "ml"}},
    "spec": {"suspend": False},
}
VOLCANO: dict[str, Any] = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {},
}
SUPPORT = [{"kind": kind, "metadata": {"name": "x"}} for kind in ("ServiceAccount", "ConfigMap", "Secret")]


def test_no_pod_of_a_runs_first_form_starts() -> None:
    run = first(MADE, "granted")
    assert run["spec"]["suspend"] is True
    assert run["metadata"]["labels"] == {"team": "ml"}
    assert run["metadata"]["annotations"] == {GRANTED: "granted"}
    assert MADE["spec"]["suspend"] is False


def test_what_lets_volcanos_pods_start_is_made_last_and_must_not_be_there() -> None:
    assert [each["kind"] for each in order(SUPPORT)] == ["ConfigMap", "Secret", "ServiceAccount"]
    assert must_not_exist(VOLCANO, SUPPORT) == SUPPORT[:1]
    assert must_not_exist(MADE, SUPPORT) == []


def test_a_run_is_released_as_it_was_observed() -> None:
    run = msgspec.convert({**MADE, "metadata": {**MADE["metadata"], "resourceVersion": "7"}}, JobSet)
    body = released(run, MADE, "hash").body
    assert isinstance(body, dict)
    assert body["metadata"]["resourceVersion"] == "7"
    assert (body["spec"], body["metadata"]["labels"]) == ({"suspend": False}, MADE["metadata"]["labels"])


def test_a_jobsets_pods_are_counted_by_task_over_all_its_jobs() -> None:
    jobs = [
        job("master", succeeded=1),
        job("workers", active=2),
        job("workers", active=1, succeeded=1, failed=2),
        job("workers", succeeded=2),
        job("workers", deleted=True, succeeded=2),
    ]
    found = progress(jobset(), jobs)
    assert (found.phase, found.message) == ("Running", "runs")
    assert found.tasks == [
        {"name": "master", "pods": 1, "active": 0, "succeeded": 1, "failed": 0, "completed": True},
        {"name": "workers", "pods": 6, "active": 3, "succeeded": 3, "failed": 2, "completed": False},
    ]


def test_the_end_of_a_jobset_and_its_wait() -> None:
    assert progress(jobset("Completed"), []).phase == "Succeeded"
    assert progress(jobset("Failed"), []).message == "Failed!"
    assert progress(jobset(suspend=True), []).phase == "Pending"


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ("", ("Pending", "waits to be started")),
        ("Pending", ("Pending", "waits to be started")),
        ("Running", ("Running", "runs")),
        ("Completing", ("Running", "runs")),
        ("Restarting", ("Running", "Volcano: Restarting")),
        ("Aborting", ("Running", "Volcano: Aborting")),
        ("Terminating", ("Running", "Volcano: Terminating")),
        ("Completed", ("Succeeded", "all tasks completed")),
        ("Failed", ("Failed", "the job failed")),
        ("Terminated", ("Failed", "the job failed")),
        ("Aborted", ("Failed", "the job failed")),
    ],
)
def test_volcanos_phases(phase: str, expected: tuple[str, str]) -> None:
    found = progress(msgspec.convert({"status": {"state": {"phase": phase}}}, VolcanoJob), [])
    assert (found.phase, found.message) == expected


def test_volcanos_counts() -> None:
    counts = {"work": {"phase": {"Running": 2, "Pending": 1, "Succeeded": 4, "Failed": 1, "Unknown": 1}}}
    spec = {"tasks": [{"name": "work", "replicas": 8}, {"name": "later", "replicas": 1}]}
    body = {"spec": spec, "status": {"state": {"phase": "Running"}, "taskStatusCount": counts}}
    found: Progress = progress(msgspec.convert(body, VolcanoJob), [])
    assert found.tasks == [
        {"name": "work", "pods": 8, "active": 3, "succeeded": 4, "failed": 1, "completed": False},
        {"name": "later", "pods": 1, "active": 0, "succeeded": 0, "failed": 0, "completed": False},
    ]
