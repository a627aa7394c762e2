"""The Job controller, feature by feature, on a cluster in miniature."""

import pytest

from tests.controllers.job.cluster import Cluster, Crash, job_object


def started(**spec: object) -> Cluster:
    cluster = Cluster(job_object(dict(spec)))
    cluster.settle()
    return cluster


def indexed(completions: int, **spec: object) -> Cluster:
    return started(
        **{"completionMode": "Indexed", "completions": completions, "parallelism": completions} | spec
    )


def test_a_job_of_one_pod_runs_to_its_end() -> None:
    cluster = started()
    (name,) = cluster.active()
    assert cluster.counts() == (1, 0, 0)
    assert cluster.status["startTime"] == "2030-01-01T00:00:00Z"
    cluster.run(name)
    cluster.settle()
    assert cluster.status["ready"] == 1
    cluster.end(name)
    cluster.settle()
    assert cluster.counts() == (0, 1, 0)
    assert cluster.reason("SuccessCriteriaMet") == cluster.reason("Complete") == "CompletionsReached"
    assert cluster.status["completionTime"] == "2030-01-01T00:00:00Z"
    assert cluster.pods[name]["metadata"]["finalizers"] == []
    assert cluster.status["uncountedTerminatedPods"] == {}
    assert cluster.events == ["Completed"]


@pytest.mark.parametrize("room", [0, 2, 3])
def test_pods_that_a_quota_refuses_do_not_count_as_active_however_often_they_are_tried(room: int) -> None:
    cluster = Cluster(job_object({"parallelism": 4, "completions": 9}), room=room)
    for tries in range(4):
        cluster.catch_up()
        cluster.reconcile()
        cluster.catch_up()
        assert cluster.status["active"] <= room
        assert cluster.status["active"] == (room if tries else 0), "those of the first start are seen later"
    assert set(cluster.events) == {"FailedCreate"}
    cluster.room = None
    cluster.settle()
    assert cluster.status["active"] == 4


def test_a_start_and_a_replacement_are_counted_in_one_write() -> None:
    cluster = started(parallelism=4, completions=9)
    for _ in range(3):
        cluster.end(cluster.active()[0])
        cluster.catch_up()
        cluster.reconcile()
        assert cluster.status["active"] == len(cluster.active()) == 4


def test_a_damaged_status_is_read_as_far_as_it_is_valid() -> None:
    cluster = indexed(3, parallelism=3)
    cluster.job["status"]["completedIndexes"] = "1,none,2-"
    cluster._job_changed()
    cluster.end(cluster.of_index(0))
    cluster.settle()
    assert cluster.status["completedIndexes"] == "0,1"


def test_lowest_indexes_first_and_at_most_parallelism() -> None:
    cluster = indexed(5, parallelism=2)
    assert sorted(map(cluster.index, cluster.active())) == [0, 1]
    cluster.end(cluster.of_index(1))
    cluster.settle()
    assert sorted(map(cluster.index, cluster.active())) == [0, 2]
    assert cluster.status["completedIndexes"] == "1"
    for index in (0, 2, 3, 4):
        cluster.end(cluster.of_index(index))
        cluster.settle()
    assert cluster.status["completedIndexes"] == "0-4"
    assert cluster.counts() == (0, 5, 0)
    assert cluster.reason("Complete") == "CompletionsReached"


def test_an_index_is_complete_in_one_write() -> None:
    """Nothing waits for finalizers: the last index and the end of the Job go into one status."""
    cluster = indexed(1)
    cluster.end(cluster.of_index(0))
    cluster.catch_up()
    cluster.reconcile()
    assert cluster.reason("Complete") == "CompletionsReached"


def test_a_work_queue_ends_when_one_succeeded_and_the_others_have_ended() -> None:
    cluster = started(completions=None, parallelism=3)
    first, second, third = cluster.active()
    cluster.end(first)
    cluster.settle()
    assert len(cluster.active()) == 2
    assert cluster.condition("Complete") is None
    cluster.end(second)
    cluster.end(third, 1)
    cluster.settle()
    assert cluster.reason("Complete") == "CompletionsReached"
    assert cluster.counts() == (0, 2, 1)


def test_no_completions_wanted() -> None:
    assert started(completions=0).reason("Complete") == "CompletionsReached"


def test_failed_pods_are_replaced_until_the_limit() -> None:
    cluster = started(backoffLimit=2)
    for failures, wait in ((1, 10), (2, 20)):
        cluster.end(cluster.active()[0], 1)
        cluster.settle()
        assert cluster.counts() == (0, 0, failures)
        assert cluster.requeue is not None
        assert (cluster.requeue - cluster.now).total_seconds() == wait
        cluster.advance(wait)
        cluster.settle()
        assert cluster.counts() == (1, 0, failures)
    cluster.end(cluster.active()[0], 1)
    cluster.catch_up()
    cluster.reconcile()
    assert cluster.reason("FailureTarget") == "BackoffLimitExceeded"
    assert cluster.condition("Failed") is None, "the last pod is not counted yet"
    cluster.settle()
    assert cluster.reason("Failed") == "BackoffLimitExceeded"
    assert cluster.counts() == (0, 0, 3)
    assert "completionTime" not in cluster.status
    assert cluster.events == ["BackoffLimitExceeded"]


def test_failure_is_reported_before_the_other_pods_have_ended() -> None:
    cluster = indexed(3, backoffLimit=0)
    for name in cluster.active():
        cluster.run(name)
    cluster.end(cluster.of_index(1), 3)
    cluster.settle()
    assert cluster.reason("FailureTarget") == "BackoffLimitExceeded"
    assert cluster.condition("Failed") is None
    assert len(cluster.terminating()) == 2
    assert cluster.status["terminating"] == 2
    for name in cluster.terminating():
        cluster.end(name, 143)
    cluster.settle()
    assert cluster.reason("Failed") == "BackoffLimitExceeded"
    assert cluster.counts() == (0, 0, 3), "pods that a failure cuts short count as failed"


def test_a_pod_stuck_in_termination_holds_back_nothing_but_the_last_condition() -> None:
    cluster = indexed(2, parallelism=2)
    stuck = cluster.of_index(0)
    cluster.run(stuck)
    cluster.delete(stuck)
    cluster.settle()
    assert cluster.counts() == (2, 0, 1)
    replacement = cluster.of_index(0)
    assert replacement != stuck
    cluster.end(replacement)
    cluster.end(cluster.of_index(1))
    cluster.settle()
    assert cluster.reason("SuccessCriteriaMet") == "CompletionsReached"
    assert cluster.condition("Complete") is None
    assert cluster.counts() == (0, 2, 1)
    cluster.end(stuck)
    cluster.settle()
    assert cluster.reason("Complete") == "CompletionsReached"
    assert cluster.counts() == (0, 2, 1)


def test_replacement_only_once_the_pod_has_ended() -> None:
    cluster = indexed(1, podReplacementPolicy="Failed")
    name = cluster.of_index(0)
    cluster.run(name)
    cluster.delete(name)
    cluster.settle()
    assert cluster.counts() == (0, 0, 0)
    assert cluster.status["terminating"] == 1
    assert cluster.made == 1
    cluster.end(name, 143)
    cluster.settle()
    assert cluster.counts() == (1, 0, 1)
    assert cluster.status["terminating"] == 0


def test_plain_pods_too_are_replaced_only_once_they_have_ended() -> None:
    cluster = started(podReplacementPolicy="Failed")
    (name,) = cluster.active()
    cluster.run(name)
    cluster.delete(name)
    cluster.settle()
    assert cluster.made == 1
    cluster.end(name, 143)
    cluster.settle()
    assert cluster.counts() == (1, 0, 1)


def test_a_pod_noted_as_failed_stays_so_though_it_ends_well() -> None:
    cluster = started()
    (name,) = cluster.active()
    cluster.run(name)
    cluster.delete(name)
    cluster.catch_up()
    with pytest.raises(Crash):
        cluster.reconcile(crash_after=1)
    cluster.end(name, 0)
    cluster.settle()
    assert cluster.counts() == (1, 0, 1)


def test_a_pod_deleted_before_it_was_bound_has_ended() -> None:
    cluster = indexed(1, podReplacementPolicy="Failed")
    name = cluster.of_index(0)
    cluster.delete(name)
    cluster.settle()
    assert cluster.counts() == (1, 0, 1)
    assert len(cluster.pods) == 1


def test_restarts_of_containers_use_up_the_limit() -> None:
    template = {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "main"}]}}
    cluster = started(template=template, backoffLimit=2)
    (name,) = cluster.active()
    cluster.run(name)
    for restarts in (1, 2):
        assert cluster.condition("FailureTarget") is None
        cluster.restart_containers(name, restarts)
        cluster.settle()
    assert cluster.reason("FailureTarget") == "BackoffLimitExceeded"


@pytest.mark.parametrize(("suspended", "decided"), [(False, True), (True, False)])
def test_deadline_runs_unless_suspended(suspended: bool, decided: bool) -> None:
    cluster = started(activeDeadlineSeconds=60)
    assert cluster.requeue is not None
    assert (cluster.requeue - cluster.now).total_seconds() == 60
    cluster.set_job(suspend=suspended)
    cluster.advance(60)
    cluster.settle()
    assert (cluster.reason("Failed") == "DeadlineExceeded") is decided


def test_suspending_deletes_pods_uncounted_and_resuming_restarts_the_clock() -> None:
    cluster = indexed(2, activeDeadlineSeconds=60)
    for name in cluster.active():
        cluster.run(name)
    cluster.end(cluster.of_index(1))
    cluster.settle()
    cluster.set_job(suspend=True)
    cluster.settle()
    assert cluster.reason("Suspended") == "JobSuspended"
    assert cluster.active() == []
    assert cluster.status["terminating"] == 1
    (old,) = cluster.terminating()
    cluster.end(old, 143)
    cluster.advance(1000)
    cluster.settle()
    assert cluster.counts() == (0, 1, 0)
    cluster.set_job(suspend=False)
    cluster.settle()
    assert cluster.counts() == (1, 1, 0), "at once: what was let go delays nothing"
    assert cluster.status["startTime"] == "2030-01-01T00:16:40Z"
    assert [c["reason"] for c in cluster.status["conditions"] if c["type"] == "Suspended"] == ["JobResumed"]
    cluster.end(cluster.of_index(0))
    cluster.settle()
    assert cluster.counts() == (0, 2, 0)
    assert cluster.reason("Complete") == "CompletionsReached"
    assert cluster.events == ["Suspended", "Resumed", "Completed"]


def test_resumed_while_an_old_pod_is_stuck() -> None:
    cluster = indexed(1)
    stuck = cluster.of_index(0)
    cluster.run(stuck)
    cluster.set_job(suspend=True)
    cluster.settle()
    cluster.set_job(suspend=False)
    cluster.settle()
    assert cluster.of_index(0) != stuck


def test_created_suspended() -> None:
    cluster = started(suspend=True)
    assert cluster.made == 0
    assert "startTime" not in cluster.status
    cluster.advance(5)
    cluster.set_job(suspend=False)
    cluster.settle()
    assert cluster.status["startTime"] == "2030-01-01T00:00:05Z"
    assert cluster.counts() == (1, 0, 0)


def test_less_parallelism_lets_the_least_advanced_go() -> None:
    cluster = indexed(3)
    cluster.run(cluster.of_index(2))
    cluster.set_job(parallelism=1)
    cluster.settle()
    assert [cluster.index(name) for name in cluster.active()] == [2]
    assert cluster.counts() == (1, 0, 0)


def test_a_pod_let_go_is_deleted_even_if_the_controller_stopped_before() -> None:
    cluster = started(parallelism=2, completions=2)
    for name in cluster.active():
        cluster.run(name)
    cluster.set_job(parallelism=1)
    cluster.catch_up()
    with pytest.raises(Crash):
        cluster.reconcile(crash_after=2)
    (released,) = cluster.let_go
    cluster.set_job(parallelism=2)
    cluster.settle()
    assert [cluster.pods[name]["metadata"]["uid"] for name in cluster.terminating()] == [released]
    assert cluster.counts() == (2, 0, 0)


def test_fewer_completions() -> None:
    """Elastic Indexed Jobs: completions and parallelism shrink together."""
    cluster = indexed(4)
    cluster.end(cluster.of_index(3))
    cluster.settle()
    cluster.set_job(parallelism=2, completions=2)
    cluster.settle()
    assert sorted(map(cluster.index, cluster.active())) == [0, 1]
    assert cluster.status["completedIndexes"] == ""
    assert cluster.counts() == (2, 0, 0)


def test_a_success_policy_ends_the_job_early() -> None:
    cluster = indexed(3, successPolicy={"rules": [{"succeededIndexes": "0"}]})
    for name in cluster.active():
        cluster.run(name)
    cluster.end(cluster.of_index(0))
    cluster.settle()
    assert cluster.reason("SuccessCriteriaMet") == "SuccessPolicy"
    assert cluster.condition("Complete") is None
    for name in cluster.terminating():
        cluster.end(name, 143)
    cluster.settle()
    assert cluster.reason("Complete") == "SuccessPolicy"
    assert cluster.condition("FailureTarget") is None, "success once met never turns into failure"
    assert cluster.counts() == (0, 1, 2)


def test_failure_comes_before_success_in_one_look() -> None:
    cluster = indexed(2, backoffLimit=0, successPolicy={"rules": [{"succeededIndexes": "0"}]})
    first, second = cluster.of_index(0), cluster.of_index(1)
    cluster.end(first)
    cluster.end(second, 1)
    cluster.settle()
    assert cluster.reason("Failed") == "BackoffLimitExceeded"
    assert cluster.condition("SuccessCriteriaMet") is None


def test_backoff_per_index() -> None:
    cluster = indexed(2, backoffLimit=2**31 - 1, backoffLimitPerIndex=1)
    cluster.end(cluster.of_index(0), 1)
    cluster.settle()
    failed = next(iter(cluster.pods.values()))
    assert failed["metadata"]["finalizers"], "held until its replacement is there"
    assert cluster.counts() == (1, 0, 0)
    assert len(cluster.status["uncountedTerminatedPods"]["failed"]) == 1
    cluster.advance(10)
    cluster.settle()
    replacement = cluster.pods[cluster.of_index(0)]
    assert replacement["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"
    assert cluster.counts() == (2, 0, 1)
    cluster.end(cluster.of_index(0), 1)
    cluster.settle()
    assert cluster.status["failedIndexes"] == "0"
    assert cluster.condition("FailureTarget") is None, "the other index goes on"
    assert cluster.counts() == (1, 0, 2), "no replacement will come, so nothing is held"
    cluster.end(cluster.of_index(1))
    cluster.settle()
    assert cluster.reason("Failed") == "FailedIndexes"
    assert cluster.counts() == (0, 1, 2)
    assert cluster.status["completedIndexes"] == "1"


def test_too_many_failed_indexes() -> None:
    cluster = indexed(4, backoffLimit=2**31 - 1, backoffLimitPerIndex=0, maxFailedIndexes=1)
    for index in (0, 2):
        assert cluster.condition("FailureTarget") is None
        cluster.end(cluster.of_index(index), 1)
        cluster.settle()
    assert cluster.reason("Failed") == "MaxFailedIndexesExceeded"
    assert cluster.status["failedIndexes"] == "0,2"
    assert cluster.counts() == (0, 0, 4)


def test_fail_index() -> None:
    rules = [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]
    cluster = indexed(
        2,
        backoffLimit=2**31 - 1,
        backoffLimitPerIndex=5,
        podFailurePolicy={"rules": rules},
        podReplacementPolicy="Failed",
    )
    cluster.end(cluster.of_index(1), 42)
    cluster.settle()
    assert cluster.status["failedIndexes"] == "1"
    assert sorted(map(cluster.index, cluster.active())) == [0]


def test_fail_job() -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]
    cluster = indexed(2, podFailurePolicy={"rules": rules}, podReplacementPolicy="Failed")
    name = cluster.of_index(1)
    cluster.end(name, 42)
    cluster.catch_up()
    cluster.reconcile()
    target = cluster.condition("FailureTarget")
    assert target is not None
    assert target["reason"] == "PodFailurePolicy"
    assert target["message"] == (
        f"Container main for pod ml/{name} failed with exit code 42 matching FailJob rule at index 0"
    )
    cluster.settle()
    assert cluster.reason("Failed") == "PodFailurePolicy"
    assert cluster.counts() == (0, 0, 2)


def test_ignored_failures_are_replaced_and_not_counted() -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    cluster = indexed(1, backoffLimit=0, podFailurePolicy={"rules": rules}, podReplacementPolicy="Failed")
    cluster.end(cluster.of_index(0), 143, ["DisruptionTarget"])
    cluster.settle()
    assert cluster.counts() == (0, 0, 0)
    cluster.advance(10)
    cluster.settle()
    assert cluster.counts() == (1, 0, 0)
    cluster.end(cluster.of_index(0), 1)
    cluster.settle()
    assert cluster.reason("Failed") == "BackoffLimitExceeded"


@pytest.mark.parametrize("marker", [{"muster.dev/admission": "gang"}, {"muster.dev/queue": "ml"}])
@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_a_pod_that_muster_evicts_is_no_failure(marker: dict[str, str], where: str) -> None:
    cluster = Cluster(job_object({"backoffLimit": 0}, **{where: marker}))
    cluster.settle()
    cluster.end(cluster.active()[0], 143, ["DisruptionTarget", "muster.dev/Preempted"])
    cluster.settle()
    assert cluster.counts() == (1, 0, 0), "replaced at once"


def test_other_evictions_are_failures() -> None:
    unmarked = started(backoffLimit=0)
    unmarked.end(unmarked.active()[0], 143, ["DisruptionTarget", "muster.dev/Preempted"])
    unmarked.settle()
    assert unmarked.reason("Failed") == "BackoffLimitExceeded"
    evicted = Cluster(job_object({"backoffLimit": 0}, labels={"muster.dev/queue": "ml"}))
    evicted.settle()
    evicted.end(evicted.active()[0], 143, ["DisruptionTarget"])
    evicted.settle()
    assert evicted.reason("Failed") == "BackoffLimitExceeded"


def test_time_to_live() -> None:
    cluster = started(ttlSecondsAfterFinished=30)
    cluster.end(cluster.active()[0])
    cluster.settle()
    assert cluster.requeue is not None
    assert (cluster.requeue - cluster.now).total_seconds() == 30
    cluster.advance(30)
    cluster.catch_up()
    cluster.reconcile()
    assert "deletionTimestamp" in cluster.job["metadata"]


def test_a_deleted_job_lets_its_pods_go() -> None:
    cluster = indexed(2)
    cluster.job["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    cluster._job_changed()
    cluster.catch_up()
    cluster.reconcile()
    assert [pod["metadata"]["finalizers"] for pod in cluster.pods.values()] == [[], []]
    assert len(cluster.active()) == 2, "deleting them is the garbage collector's"


def test_many_pods_at_once_go_through_the_list_in_turns() -> None:
    cluster = started(parallelism=700, completions=700, backoffLimit=1000)
    assert cluster.counts() == (700, 0, 0)
    for number, name in enumerate(cluster.active()):
        cluster.end(name, number % 2)
    cluster.catch_up()
    cluster.reconcile()
    listed = cluster.status["uncountedTerminatedPods"]
    assert len(listed["succeeded"]) + len(listed["failed"]) == 500
    cluster.advance(360)
    cluster.settle()
    assert cluster.counts() == (350, 350, 350)
