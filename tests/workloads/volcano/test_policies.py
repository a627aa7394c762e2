"""What a Job does when its pods end, as policies of a JobSet."""

from typing import Any

import pytest

from muster.api.base import Object
from muster.api.fields import Severity
from tests.workloads.volcano.jobs import job, jobset, loaded, policy, refused, spec_of, task

PREEMPTED = {"action": "Ignore", "onPodConditions": [{"type": "muster.dev/Preempted", "status": "True"}]}


def evicted(action: str) -> list[Object]:
    return [
        {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": action, "onExitCodes": {"operator": "In", "values": [143]}},
    ]


def of_pods(made: Object, number: int = 0) -> Any:
    spec = spec_of(made, number)
    return spec["backoffLimit"], spec["podFailurePolicy"]["rules"]


def test_without_policies_a_failure_fails_the_job_and_an_evicted_pod_is_made_again() -> None:
    made = jobset(job(task("w", 2)))
    assert made["spec"]["failurePolicy"] == {"maxRestarts": 0}
    assert of_pods(made) == (0, [PREEMPTED, *evicted("Ignore")])


@pytest.mark.parametrize(("retries", "restarts"), [(0, 2), (1, 0), (3, 2), (2**31 - 1, 2**31 - 2)])
@pytest.mark.parametrize("event", ["PodFailed", "TaskFailed", "*"])
def test_a_failure_restarts_the_job_until_it_has_failed_so_often(
    event: str, retries: int, restarts: int
) -> None:
    more = {"maxRetry": retries} if retries else {}
    made = jobset(job(task("w", 2), policies=[policy(event, "RestartJob")], **more))
    failure = made["spec"]["failurePolicy"]
    assert failure == {"maxRestarts": restarts}


def test_an_eviction_restarts_the_job_and_a_failure_fails_it() -> None:
    """What most people write: PodEvicted → RestartJob."""
    made = jobset(job(task("w", 2), policies=[policy("PodEvicted", "RestartJob")]))
    assert of_pods(made) == (0, [PREEMPTED, *evicted("FailJob")])
    first, second = made["spec"]["failurePolicy"]["rules"]
    assert (first["action"], first["onJobFailureReasons"]) == ("RestartJobSet", ["PodFailurePolicy"])
    assert (second["action"], "onJobFailureReasons" in second) == ("FailJobSet", False)
    assert made["spec"]["failurePolicy"]["maxRestarts"] == 2


def test_both_restart_the_job() -> None:
    events = {"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}
    made = jobset(job(task("w", 2), policies=[events]))
    assert of_pods(made) == (0, [PREEMPTED])
    assert made["spec"]["failurePolicy"] == {"maxRestarts": 2}


@pytest.mark.parametrize("action", ["AbortJob", "TerminateJob"])
def test_a_failure_ends_the_job(action: str) -> None:
    made = jobset(job(task("w", 2), policies=[policy("PodFailed", action)]))
    assert made["spec"]["failurePolicy"] == {"maxRestarts": 0}


def test_an_aborted_job_cannot_be_resumed() -> None:
    (note,) = loaded(job(task("w"), policies=[policy("PodFailed", "AbortJob")])).notes
    assert (note.severity, note.field) == (Severity.NOTE, "spec.policies[0].action")


def test_a_policy_of_a_task_counts_more_than_that_of_the_job() -> None:
    tasks = [task("a", policies=[policy("PodFailed", "TerminateJob")]), task("b")]
    made = jobset(job(*tasks, policies=[policy("*", "RestartJob")]))
    rules = made["spec"]["failurePolicy"]["rules"]
    assert [
        (each["action"], each.get("onJobFailureReasons"), each["targetReplicatedJobs"]) for each in rules
    ] == [
        ("RestartJobSet", ["PodFailurePolicy"], ["a"]),
        ("FailJobSet", None, ["a"]),
        ("RestartJobSet", None, ["b"]),
    ]


def test_a_task_may_be_restarted_alone() -> None:
    made = jobset(job(task("a"), task("b"), policies=[policy("PodFailed", "RestartTask")]))
    (rule,) = made["spec"]["failurePolicy"]["rules"]
    assert (rule["action"], rule["targetReplicatedJobs"]) == ("RestartJob", ["a", "b"])


def test_a_pod_may_be_restarted_alone() -> None:
    made = jobset(job(task("a", policies=[policy("PodFailed", "RestartPod")]), maxRetry=5))
    assert spec_of(made)["backoffLimit"] == 5
    assert made["spec"]["failurePolicy"] == {"maxRestarts": 0}


def test_containers_that_restart_in_place_do_so_without_limit() -> None:
    spec = {"restartPolicy": "OnFailure"}
    made = jobset(job(task("w", 2, spec=spec)))
    assert (spec_of(made)["backoffLimit"], "podFailurePolicy" in spec_of(made)) == (2**31 - 1, False)
    bounded = jobset(job(task("w", spec=spec, maxRetry=5), policies=[policy("TaskFailed", "RestartJob")]))
    assert spec_of(bounded)["backoffLimit"] == 5
    (warning,) = loaded(job(task("w", spec=spec), policies=[policy("PodEvicted", "RestartJob")])).notes
    assert "restartPolicy: Never" in warning.message


def test_the_end_of_a_task_completes_the_job() -> None:
    done = [policy("TaskCompleted", "CompleteJob")]
    made = jobset(job(task("master", policies=done), task("worker", 3)))
    assert made["spec"]["successPolicy"] == {"operator": "All", "targetReplicatedJobs": ["master"]}
    either = jobset(job(task("a"), task("b"), policies=done))
    assert either["spec"]["successPolicy"] == {"operator": "Any", "targetReplicatedJobs": ["a", "b"]}
    alone = jobset(job(task("a", 3), policies=done))
    assert "successPolicy" not in alone["spec"]


def test_some_successes_may_be_enough() -> None:
    spec = spec_of(jobset(job(task("w", 5), minSuccess=2)))
    assert spec["successPolicy"] == {"rules": [{"succeededCount": 2}]}
    assert (spec["backoffLimitPerIndex"], spec["maxFailedIndexes"]) == (0, 3)
    assert "successPolicy" not in spec_of(jobset(job(task("w", 5), minSuccess=5)))
    (error,) = refused(job(task("a"), task("b"), minSuccess=1))
    assert error.field == "spec.minSuccess"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (policy("PodPending", "RestartJob"), "spec.policies[0].event"),
        (policy("PodRunning", "RestartJob", timeout="1h"), "spec.policies[0].timeout"),
        (policy("PodFailed", "CompleteJob"), "spec.policies[0].action"),
        (policy("TaskCompleted", "RestartJob"), "spec.policies[0].action"),
        (policy("PodFailed", "RestartPartition"), "spec.policies[0].action"),
        ({"exitCode": 3, "action": "RestartJob"}, "spec.policies[0].exitCode"),
        ({"action": "RestartJob"}, "spec.policies[0]"),
    ],
)
def test_what_a_jobset_cannot_do_is_refused_by_its_field(wrong: Object, field: str) -> None:
    errors = [each.field for each in refused(job(task("w"), policies=[wrong]))]
    assert field in errors


def test_the_event_of_a_gang_in_part_never_occurs() -> None:
    made = jobset(job(task("w", 2), policies=[policy("Unknown", "RestartJob")]))
    assert made["spec"]["failurePolicy"] == {"maxRestarts": 0}
