"""What is said when something of a job fails and the job goes on."""

import msgspec
import pytest

from muster.api.base import Condition, ObjectMeta, OwnerReference
from muster.api.batch_v1 import JOB_NAME, Job, JobSpec, JobStatus
from muster.api.core_v1 import ContainerState, ContainerStatus, Pod, PodStatus, Terminated
from muster.api.jobset_v1alpha2 import FailurePolicy, JobSet, JobSetSpec, JobSetStatus
from muster.api.kinds import JOBSET
from muster.app.views.jobs import views
from muster.app.views.objects import Objects
from muster.app.views.restarts import NAMED, Restarts
from tests.app.objects import at, labels, pod


def job(limit: int, failed: int = 0, *, ended: bool = False, owner: str = "") -> Job:
    owners = [OwnerReference(JOBSET.api_version, "JobSet", owner, owner, controller=True)] if owner else []
    meta = ObjectMeta(name="j", namespace="default", uid="uid-j", owner_references=owners)
    conditions = [Condition("Failed", "True")] if ended else []
    return Job(metadata=meta, spec=JobSpec(backoff_limit=limit), status=JobStatus(conditions, failed=failed))


def told(
    restarts: Restarts, pods: list[Pod], *, of: Job | None = None, jobset: JobSet | None = None
) -> list[str]:
    objects = Objects([jobset] if jobset else [], [of] if of else [], pods=pods)
    (view,) = views(objects)
    return restarts.look(view, pods, {"default/j": of} if of else {})[0]


def failed(name: str, code: int = 3, **more: object) -> Pod:
    return pod(name, "Failed", node="n", labels={JOB_NAME: "j"}, owner="uid-j", code=code, **more)  # type: ignore[arg-type]


def again(code: int, restarts: int, message: str = "", policy: str = "OnFailure", ended: float = 5) -> Pod:
    """A pod whose container runs for another time."""
    last = ContainerState(terminated=Terminated(exit_code=code, message=message, finished_at=at(ended)))
    status = ContainerStatus(name="main", restart_count=restarts, last_state=last)
    made = pod("a", "Running", node="n", labels={JOB_NAME: "j"}, owner="uid-j")
    spec = msgspec.structs.replace(made.spec, restart_policy=policy)
    return msgspec.structs.replace(made, spec=spec, status=PodStatus("Running", container_statuses=[status]))


@pytest.mark.parametrize(
    ("limit", "so_far", "left"),
    [
        (6, 0, "5 more failures are allowed"),
        (6, 4, "2 more failures are allowed"),
        (2, 0, "1 more failure is allowed"),
        (1, 1, "no more failure is allowed"),
    ],
)
def test_a_pod_that_its_job_replaces(limit: int, so_far: int, left: str) -> None:
    restarts = Restarts()
    of = job(limit, so_far)
    assert told(restarts, [failed("a")], of=of) == [
        f"a failed with exit code 3 and is replaced within 10 s, {left}"
    ]
    assert told(restarts, [failed("a")], of=of) == [], "it is told once"


def test_a_failure_that_ends_the_job_is_left_to_the_jobs_status() -> None:
    assert told(Restarts(), [failed("a")], of=job(0)) == []
    assert told(Restarts(), [failed("a")], of=job(6, 7, ended=True)) == []


def test_a_pod_that_was_stopped_has_not_failed() -> None:
    assert told(Restarts(), [failed("a", code=143, ended=10, deleted=9)], of=job(6)) == []


def test_a_container_that_starts_again_in_place() -> None:
    restarts = Restarts()
    (first,) = told(restarts, [again(1, 1)], of=job(4))
    assert first == "a failed with exit code 1 and starts again, 2 more failures are allowed"
    (second,) = told(restarts, [again(128, 2, "command 'x' not found", ended=6)], of=job(4))
    assert second == (
        "a failed with exit code 128 (command 'x' not found) and starts again, 1 more failure is allowed"
    )
    assert told(restarts, [again(128, 2, "command 'x' not found", ended=6)], of=job(4)) == []


@pytest.mark.parametrize(("limit", "allowed"), [(0, 0), (1, 0), (2, 1), (3, 2), (6, 5)])
def test_as_many_restarts_in_place_are_allowed_as_the_job_controller_allows(limit: int, allowed: int) -> None:
    """A Job fails once its containers have started again `backoffLimit` times, and once if that is 0."""
    restarts, lines = Restarts(), list[str]()
    for count in range(1, limit + 3):
        lines += told(restarts, [again(1, count, ended=count)], of=job(limit))
    assert len(lines) == allowed, "one that ends the job is told by the job's result"
    if lines:
        assert lines[-1].endswith("no more failure is allowed")


def test_many_that_fail_at_a_time_are_counted() -> None:
    lines = told(Restarts(), [failed(f"p{number}") for number in range(NAMED + 7)], of=job(100))
    assert len(lines) == NAMED + 1
    assert lines[-1] == "… and 7 more failed"


def test_a_gang_that_restarts_as_a_whole() -> None:
    def jobset(restarts: int, counted: int) -> JobSet:
        meta = ObjectMeta(name="js", namespace="default", uid="uid-js")
        status = JobSetStatus(restarts=restarts, restarts_count_towards_max=counted)
        return JobSet(
            metadata=meta, spec=JobSetSpec(failure_policy=FailurePolicy(max_restarts=3)), status=status
        )

    def worker(index: int, code: int, ended: float) -> Pod:
        group = labels("worker", index) | {JOB_NAME: "j"}
        return pod(f"w{index}", "Failed", node="n", labels=group, owner="uid-j", code=code, ended=ended)

    restarts, of = Restarts(), job(0, owner="uid-js")
    pods = [worker(0, 143, 20), worker(1, 7, 10)]
    assert told(restarts, pods, of=of, jobset=jobset(0, 0)) == []
    assert told(restarts, pods, of=of, jobset=jobset(1, 1)) == [
        "worker-1-0 exited with code 7 on n; 1 other with code 143, 10 s later: restart 1 of 3"
    ]
    assert told(restarts, pods, of=of, jobset=jobset(1, 1)) == []
    (last,) = told(restarts, [], of=of, jobset=jobset(3, 3))
    assert last == "restart 3 of 3"
    (last,) = told(restarts, [], of=of, jobset=jobset(4, 3))
    assert last == "restart 4, no more restart is allowed", "a rule of its failure policy lets it not count"
