"""Jobs as people see them."""

from datetime import timedelta

import msgspec
import pytest

from muster.api import groups, kinds
from muster.api.base import Condition, ObjectMeta, OwnerReference
from muster.api.batch_v1 import CONTROLLER, Job, JobSpec, JobStatus
from muster.api.core_v1 import ContainerState, ContainerStatus, PodStatus, Terminated, Waiting
from muster.api.jobset_v1alpha2 import (
    REPLICATED_JOB_NAME,
    JobSet,
    JobSetSpec,
    JobSetStatus,
    ReplicatedJob,
    SuccessPolicy,
)
from muster.api.muster_v1alpha1 import (
    BatchJob,
    BatchJobFinding,
    BatchJobStatus,
    BatchJobTask,
    Gang,
    GangSpec,
    GangStatus,
    Reason,
    Source,
)
from muster.api.scheduling import PodGroup, PodGroupSpec
from muster.app.views.failures import failure_code, judged
from muster.app.views.job import JobView, State
from muster.app.views.jobs import views
from muster.app.views.objects import Objects
from muster.app.views.pods import ended_by_probe, label, pod_order, pod_reason
from muster.app.views.summary import summary
from muster.names import PREEMPTED
from muster.workloads.pod_run import told_to_end
from tests.app.objects import T0, at, labels, pod


def meta(name: str, owner: str = "", **annotations: str) -> ObjectMeta:
    owners = (
        [OwnerReference(kinds.JOBSET.api_version, "JobSet", owner, owner, controller=True)] if owner else []
    )
    return ObjectMeta(
        name=name,
        namespace="default",
        uid=name,
        creation_timestamp=T0,
        owner_references=owners,
        annotations={key.replace("_", "/"): value for key, value in annotations.items()},
    )


def only(objects: Objects) -> JobView:
    (view,) = views(objects)
    return view


def job(name: str = "j", *, suspend: bool = False, owner: str = "", **annotations: str) -> Job:
    spec = JobSpec(completions=2, parallelism=2, suspend=suspend)
    return Job(metadata=meta(name, owner, **annotations), spec=spec)


@pytest.mark.parametrize(
    "spec", [JobSetSpec(), JobSetSpec(replicated_jobs=[ReplicatedJob("w", template={"spec": {}})])]
)
def test_a_job_whose_templates_are_empty_is_listed(spec: JobSetSpec) -> None:
    view = only(Objects(jobsets=[JobSet(metadata=meta("js"), spec=spec)]))
    assert summary(view)["gpus"] == 0


@pytest.mark.parametrize(("limit", "gpus"), [("nvidia.com/gpu", 6), ("amd.com/gpu", 6), ("cpu", 0)])
def test_gpus_of_any_vendor_are_listed(limit: str, gpus: int) -> None:
    container = {"name": "c", "resources": {"limits": {limit: 3}}}
    spec = JobSpec(parallelism=2, template={"spec": {"containers": [container]}})
    assert summary(only(Objects(jobs=[Job(metadata=meta("j"), spec=spec)])))["gpus"] == gpus


@pytest.mark.parametrize(
    ("version", "controller", "listed"),
    [
        ("batch/v1", "CronJob", ["run"]),
        (kinds.JOBSET.api_version, "JobSet", []),
        ("example.com/v1", "JobSet", ["run"]),
    ],
)
def test_a_job_of_a_cron_job_is_a_job_and_one_of_a_deleted_jobset_is_not(
    version: str, controller: str, listed: list[str]
) -> None:
    owner = OwnerReference(version, controller, "o", "o", controller=True)
    run = job("run")
    run = msgspec.structs.replace(
        run, metadata=msgspec.structs.replace(run.metadata, owner_references=[owner])
    )
    assert [view.name for view in views(Objects(jobs=[run]))] == listed


def test_pods_that_failed_count_also_where_the_status_has_not_counted_them() -> None:
    pods = [pod(f"p{i}", "Failed", node="n", owner="j", code=3, ended=5) for i in range(3)]
    pods.append(pod("told", "Failed", node="n", owner="j", code=143, ended=5, deleted=4))
    failing = msgspec.structs.replace(job(), status=JobStatus(failed=2))
    assert only(Objects(jobs=[failing], pods=pods)).failed == 3
    assert only(Objects(jobs=[failing])).failed == 2


@pytest.mark.parametrize(
    ("pods", "state", "running"),
    [
        ([], State.WAITING, 0),
        ([("Pending", "")], State.WAITING, 0),
        ([("Pending", "n")], State.STARTING, 0),
        ([("Pending", "n"), ("Running", "n")], State.RUNNING, 1),
        ([("Succeeded", "n"), ("Pending", "n")], State.RUNNING, 0),
    ],
)
def test_a_job_is_as_its_pods_are(pods: list[tuple[str, str]], state: State, running: int) -> None:
    made = [pod(f"p{i}", phase, node=node, owner="j") for i, (phase, node) in enumerate(pods)]
    view = only(Objects(jobs=[job()], pods=made))
    assert (view.state, view.running, view.wanted) == (state, running, 2)


@pytest.mark.parametrize(
    ("condition", "failed", "ended"),
    [
        (Condition("Complete", "True", "", "", at(78)), 0, 45),
        (Condition("Failed", "True", "BackoffLimitExceeded", "", at(78)), 1, 45),
        (Condition("Complete", "True", "", "", at(44.5)), 0, 45),  # in whole seconds, which are rounded down
        (Condition("Failed", "True", "BackoffLimitExceeded", "", at(40)), 1, 40),  # others ended after it
        (Condition("Failed", "True", "BackoffLimitExceeded", "", at(78)), 2, 78),  # one that failed is gone
        (Condition("Failed", "True", "DeadlineExceeded", "", at(78)), 0, 78),
    ],
)
def test_a_job_ends_with_its_last_container_however_late_that_is_noticed(
    condition: Condition, failed: int, ended: int
) -> None:
    pods = [
        pod("p0", "Succeeded", node="n", owner="j", code=0, ended=30),
        pod("p1", "Failed" if failed else "Succeeded", node="n", owner="j", code=failed, ended=45),
    ]
    status = JobStatus(succeeded=1 if failed else 2, failed=failed, conditions=[condition])
    view = only(Objects(jobs=[msgspec.structs.replace(job(), status=status)], pods=pods))
    assert view.finished == at(ended)


def test_a_job_whose_pods_muster_ended_waits() -> None:
    failed = pod("p", "Failed", node="n", owner="j", code=143, ended=5)
    status = msgspec.structs.replace(failed.status, conditions=[Condition(PREEMPTED, "True")])
    ended = msgspec.structs.replace(failed, status=status)
    assert only(Objects(jobs=[job()], pods=[ended])).state is State.WAITING
    assert only(Objects(jobs=[job()], pods=[failed])).verdict is not None
    assert only(Objects(jobs=[job()], pods=[ended])).verdict is None


def test_a_job_whose_gang_waits_again_after_pods_have_succeeded_waits() -> None:
    waits = GangStatus(phase="Waiting", reason=Reason("NothingMatches", "no node"))
    gang = Gang(
        metadata=meta("job-j"), spec=GangSpec(source=Source("batch/v1", "Job", "j", "j")), status=waits
    )
    done = [pod("p", "Succeeded", node="n", owner="j")]
    view = only(Objects(jobs=[job()], pods=done, gangs=[gang]))
    assert (view.state, view.reason) == (State.WAITING, ("NothingMatches", "no node"))


def test_a_job_suspended_by_its_user_is_suspended_and_one_suspended_by_muster_waits() -> None:
    users, ours = job("users", suspend=True), job("ours", suspend=True, **{"muster.dev_admission": "gang"})
    first, second = views(Objects(jobs=[ours, users]))
    assert (first.name, first.state) == ("ours", State.WAITING)
    assert (second.name, second.state, second.reason and second.reason[0]) == (
        "users",
        State.SUSPENDED,
        "Gated",
    )


@pytest.mark.parametrize(("manager", "left"), [("example.com/other", True), (CONTROLLER, False), ("", False)])
def test_a_job_of_another_controller_says_so(manager: str, left: bool) -> None:
    reason = ("Gated", "left to another controller (spec.managedBy: example.com/other)")
    view = only(Objects(jobs=[Job(metadata=meta("j"), spec=JobSpec(managed_by=manager))]))
    assert (view.state, view.reason, view.managed_by) == (
        State.WAITING,
        reason if left else None,
        manager if left else "",
    )
    theirs = JobSet(metadata=meta("js"), spec=JobSetSpec(managed_by="example.com/other"))
    assert only(Objects(jobsets=[theirs])).reason == reason
    done = JobStatus(conditions=[Condition("Complete", "True")])
    ended = Job(metadata=meta("j"), spec=JobSpec(managed_by=manager), status=done)
    assert only(Objects(jobs=[ended])).reason is None


def test_a_job_and_the_pod_group_that_its_controller_made_are_one_job() -> None:
    by = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid="uid-j", controller=True)
    own = msgspec.structs.replace(meta("j"), uid="uid-j")
    about = msgspec.structs.replace(meta("j-x"), uid="uid-x", owner_references=[by])
    kind = groups.NATIVE.kind
    gang = Gang(
        metadata=meta("native-j-x"),
        spec=GangSpec(queue="team", source=Source(kind.api_version, kind.kind, "j-x", "uid-x")),
        status=GangStatus(reason=Reason("OverShare", "too much")),
    )
    objects = Objects(jobs=[Job(metadata=own)], pod_groups=[(kind, kind.type(metadata=about))], gangs=[gang])
    view = only(objects)
    assert (view.kind, view.reason) == (kinds.JOB, ("OverShare", "too much"))
    assert view.gangs == (gang,)


def test_a_jobset_counts_over_its_jobs() -> None:
    jobset = JobSet(
        metadata=meta("js"),
        spec=JobSetSpec(
            replicated_jobs=[
                ReplicatedJob("a", replicas=2, template={"spec": {"completions": 3, "parallelism": 1}}),
                ReplicatedJob("b", template={"spec": {"parallelism": 4}}),
            ]
        ),
        status=JobSetStatus(restarts=1),
    )
    done = Job(metadata=meta("js-a-0", "js"), status=JobStatus(succeeded=3, failed=1))
    view = only(Objects(jobsets=[jobset], jobs=[done], pods=[pod("p", "Running", node="n", owner="js-a-0")]))
    assert (view.wanted, view.running, view.succeeded, view.failed, view.restarts) == (10, 1, 3, 1, 1)


def test_an_end_is_shown_with_its_reason_only_if_it_failed() -> None:
    failed = JobSetStatus(conditions=[Condition("Failed", "True", "DeadlineExceeded", "too long", at(9))])
    done = JobSetStatus(conditions=[Condition("Completed", "True", "AllJobsCompleted", "all", at(9))])
    first = only(Objects(jobsets=[JobSet(metadata=meta("js"), status=failed)]))
    assert (first.state, first.reason, first.finished) == (
        State.FAILED,
        ("DeadlineExceeded", "too long"),
        at(9),
    )
    second = only(Objects(jobsets=[JobSet(metadata=meta("js"), status=done)]))
    assert (second.state, second.reason) == (State.SUCCEEDED, None)


def test_pods_of_a_group_are_one_job_and_a_pod_alone_is_one_too() -> None:
    group = PodGroup(metadata=meta("g"), spec=PodGroupSpec(min_member=3))
    member = pod("m", "Running", node="n", labels={groups.POD_GROUP.label: "g"})
    first, second = views(
        Objects(pod_groups=[(kinds.POD_GROUP_X, group)], pods=[member, pod("solo", "Failed", code=3)])
    )
    assert (first.name, first.wanted, first.running, first.state) == ("g", 3, 1, State.RUNNING)
    assert (second.name, second.state, second.finished) == ("solo", State.FAILED, at(10))
    assert second.reason is None, "its containers have failed, not the pod"


def test_pods_that_name_a_group_which_is_not_there_are_a_job_that_says_so() -> None:
    named = {groups.POD_GROUP.label: "g"}
    source = Source(kinds.POD_GROUP_X.api_version, kinds.POD_GROUP_X.kind, "g")
    missing = GangStatus(reason=Reason("MembersMissing", "there is no PodGroup g"))
    gang = Gang(metadata=meta("x-g"), spec=GangSpec(source=source), status=missing)
    pods = [pod(name, labels=named) for name in ("a", "b")]
    view = only(Objects(pods=pods, gangs=[gang]))
    assert (view.kind, view.name, view.namespace) == (kinds.POD_GROUP_X, "g", "default")
    assert (view.state, view.wanted, view.created) == (State.WAITING, 2, T0)
    assert view.reason == ("MembersMissing", "there is no PodGroup g")
    assert view.gangs == (gang,)
    of_others = [pod("a", labels=named, owner="j"), pod("b", labels=named, deleted=1)]
    assert not views(Objects(pods=of_others)), "they belong to a Job, or leave"


def test_the_reason_is_the_gangs_else_what_most_pods_share() -> None:
    waits = [pod(f"p{i}", owner="j", waits=("Fragmented" if i else "Other", "why")) for i in range(3)]
    assert only(Objects(jobs=[job()], pods=waits)).reason == ("Fragmented", "2 of 3 waiting pods: why")
    for message, told in (
        ("Fragmented: why", ("Fragmented", "why")),
        ("why: so", ("Unschedulable", "why: so")),
    ):
        one = pod("p", owner="j", waits=("Unschedulable", message))
        assert only(Objects(jobs=[job()], pods=[one])).reason == told
    gang = Gang(
        spec=GangSpec(source=Source("batch/v1", "Job", "j", "j")),
        status=GangStatus(reason=Reason("InsufficientCapacity", "2 are free")),
    )
    view = only(Objects(jobs=[job()], pods=waits, gangs=[gang]))
    assert view.reason == ("InsufficientCapacity", "2 are free")


def test_a_pod_whose_container_cannot_start_says_why() -> None:
    waiting = ContainerState(waiting=Waiting("CrashLoopBackOff", "back-off 20 s"))
    member = pod("p", "Running", node="n", owner="j")
    held = msgspec.structs.replace(
        member, status=PodStatus("Running", container_statuses=[ContainerStatus(name="main", state=waiting)])
    )
    assert only(Objects(jobs=[job()], pods=[held])).reason == ("CrashLoopBackOff", "back-off 20 s")
    assert only(Objects(jobs=[job()], pods=[member])).reason is None


@pytest.mark.parametrize(
    ("policy", "done"),
    [
        (SuccessPolicy(), 4),
        (SuccessPolicy(target_replicated_jobs=["prepare"]), 4),
        (SuccessPolicy(target_replicated_jobs=["train"]), 1),
        (SuccessPolicy("Any"), 1),
    ],
)
def test_pods_of_a_completed_jobset_count_when_their_job_is_gone(policy: SuccessPolicy, done: int) -> None:
    """A Job with `ttlSecondsAfterFinished` is removed before its JobSet."""
    prepare = ReplicatedJob("prepare", replicas=1, template={"spec": {"completions": 3}})
    train = ReplicatedJob("train", replicas=1, template={"spec": {"completions": 1}})
    spec = JobSetSpec(replicated_jobs=[prepare, train], success_policy=policy)
    own = msgspec.structs.replace(meta("js-train-0", "js"), labels={REPLICATED_JOB_NAME: "train"})
    left = Job(metadata=own, spec=JobSpec(), status=JobStatus(succeeded=1))
    for ended, succeeded in ((True, done), (False, 1)):
        status = JobSetStatus(conditions=[Condition("Completed", str(ended))])
        view = only(Objects(jobsets=[JobSet(metadata=meta("js"), spec=spec, status=status)], jobs=[left]))
        assert (view.wanted, view.succeeded) == (4, succeeded)


def test_the_reason_of_a_stopped_pod_is_why_it_was_stopped_not_its_exit_code() -> None:
    failed = pod(phase="Failed", code=137)
    late = msgspec.structs.replace(failed.status, reason="DeadlineExceeded", message="too long")
    assert pod_reason(msgspec.structs.replace(failed, status=late)) == "DeadlineExceeded: too long"
    rejected = msgspec.structs.replace(failed.status, reason="OutOfcpu", message="Node had OutOfcpu")
    assert pod_reason(msgspec.structs.replace(failed, status=rejected)) == "Node had OutOfcpu"


def test_a_failed_pod_whose_init_container_failed_does_not_wait() -> None:
    waits = ContainerStatus(name="main", state=ContainerState(waiting=Waiting("PodInitializing")))
    fetch = ContainerStatus(name="fetch", state=ContainerState(terminated=Terminated(exit_code=3)))
    for phase, reason in (("Pending", "PodInitializing"), ("Failed", "Error")):
        status = PodStatus(phase, container_statuses=[waits], init_container_statuses=[fetch])
        assert pod_reason(msgspec.structs.replace(pod(phase=phase), status=status)) == reason


@pytest.mark.parametrize(
    ("code", "message", "ended"),
    [
        (0, "liveness probe failed 2 times: exit 1", True),
        (0, "startup probe failed once: exit 1", True),
        (0, "done", False),
        (9, "liveness probe failed 2 times: exit 1", False),  # the verdict tells
    ],
)
def test_a_pod_that_a_probe_ended_says_so_although_it_returned_0(
    code: int, message: str, ended: bool
) -> None:
    end = ContainerState(terminated=Terminated(exit_code=code, message=message))
    status = PodStatus(
        "Failed" if code else "Succeeded", container_statuses=[ContainerStatus(name="main", state=end)]
    )
    of = msgspec.structs.replace(pod("p"), status=status)
    assert ended_by_probe(of) == (f"p was ended and returned 0: {message}" if ended else "")
    assert pod_reason(of) == (message if ended or code else "")


def test_the_reason_of_a_pod_is_that_of_the_container_that_failed_first() -> None:
    def ended(name: str, code: int, at: int, message: str) -> ContainerStatus:
        end = Terminated(exit_code=code, message=message, finished_at=T0 + timedelta(seconds=at))
        return ContainerStatus(name=name, state=ContainerState(terminated=end))

    follows, first = ended("a", 1, 5, "lost its peer"), ended("b", 17, 0, "out of memory")
    status = PodStatus("Failed", container_statuses=[follows, first])
    assert pod_reason(msgspec.structs.replace(pod(phase="Failed"), status=status)) == "out of memory"


@pytest.mark.parametrize(("ended", "told"), [(2.9, False), (3.0, True), (40.0, True)])
def test_told_to_end(ended: float, told: bool) -> None:
    assert told_to_end(pod(deleted=3, grace=30), at(ended)) is told
    assert told_to_end(pod(), at(ended)) is False


def test_a_failed_jobs_exit_code_is_its_last_attempts_first_failure() -> None:
    jobset = JobSet(metadata=meta("js"), status=JobSetStatus(conditions=[Condition("Failed", "True")]))
    view = only(Objects(jobsets=[jobset]))
    seen = [
        pod("a", "Failed", code=4, ended=1, labels=labels("worker", 0)),
        pod("b", "Failed", code=5, ended=8, labels=labels("worker", 0, attempt=1)),
        pod("c", "Failed", code=6, ended=9, labels=labels("worker", 1, attempt=1)),
        pod("d", "Failed", code=7, ended=1, labels=labels("worker", 1, attempt=2, jobset="other")),
    ]
    assert failure_code(judged(view, seen)) == 5
    assert judged(view, seen).failed == 2, "in the last attempt"
    assert failure_code(view) == 1, "it failed without one"


def test_a_failed_job_says_once_what_failed_first_and_counts_what_failed_by_itself() -> None:
    """Its status counts pods that were stopped with it, and its own message names no pod."""
    ends = [Condition("Failed", "True", "BackoffLimitExceeded", "the limit is reached")]
    status = JobStatus(failed=8, conditions=ends)
    failed = pod("own", "Failed", node="n", code=9, ended=5, owner="j")
    view = only(Objects(jobs=[msgspec.structs.replace(job(), status=status)], pods=[failed]))
    said = ("BackoffLimitExceeded", "the limit is reached: own exited with code 9 on n")
    assert (view.reason, view.failed, failure_code(view)) == (said, 1, 9)
    assert judged(judged(view, [failed])) == view
    before = pod("gone", "Failed", node="n", code=3, ended=4, labels={"batch.kubernetes.io/job-name": "j"})
    later = judged(view, [before])
    assert later.reason == (
        said[0],
        "the limit is reached: gone exited with code 3 on n; 1 other with code 9, 1 s later",
    )
    assert (later.failed, failure_code(later)) == (2, 3)


def test_a_job_that_exceeded_its_time_did_not_fail_of_a_pod() -> None:
    late = Condition("Failed", "True", "DeadlineExceeded", "too long")
    failed = pod("own", "Failed", code=9, ended=5, owner="j")
    view = only(Objects(jobs=[msgspec.structs.replace(job(), status=JobStatus([late]))], pods=[failed]))
    assert (view.verdict, view.reason, failure_code(view)) == (None, ("DeadlineExceeded", "too long"), 1)
    jobset = JobSet(
        metadata=meta("js"), status=JobSetStatus(conditions=[Condition("Failed", "True", "FailedJobs")])
    )
    owned = msgspec.structs.replace(job(owner="js"), status=JobStatus([late]))
    assert only(Objects([jobset], [owned], pods=[failed])).verdict is None


@pytest.mark.parametrize("reason", ["DeadlineExceeded", "BackoffLimitExceeded"])
@pytest.mark.parametrize("types", [["FailureTarget"], ["FailureTarget", "Failed"]])
@pytest.mark.parametrize("by", [None, "js"])
def test_pods_that_are_stopped_with_their_job_have_not_failed(
    reason: str, types: list[str], by: str | None
) -> None:
    """The status of a Job counts them, at a deadline as well as at the limit of failures."""
    said = [Condition(type_, "True", reason, "", at(6)) for type_ in types]
    own = pod("own", "Failed", code=9, ended=5, owner="j")
    made = msgspec.structs.replace(job(owner=by) if by else job(), status=JobStatus(said, failed=3))
    jobsets = [JobSet(metadata=meta(by))] if by else []
    assert only(Objects(jobsets, [made], pods=[own])).failed == 1
    alone = only(Objects(jobsets, [made])).failed
    assert alone == (0 if reason == "DeadlineExceeded" else 3), "no pod is known that used up the limit"


def test_labels_and_order_are_those_of_the_job_file() -> None:
    member = pod("js-worker-1-0-x", labels=labels("worker", 1, 2))
    assert label(member) == "worker-1-2"
    assert label(pod("j-0-x", labels={"batch.kubernetes.io/job-name": "j", **index(3)})) == "j-3"
    assert label(pod("bare")) == "bare"
    pods = [pod("b", labels=index(10)), pod("a", labels=index(9)), pod("c", labels=index(9))]
    assert [each.metadata.name for each in sorted(pods, key=pod_order)] == ["a", "c", "b"]


def index(number: int) -> dict[str, str]:
    return {"batch.kubernetes.io/job-completion-index": str(number)}


FOUND = [BatchJobFinding("spec.queue", "no policy permits it", "permit (…);")]
TASKS = [BatchJobTask("w", pods=4, active=2, succeeded=1, failed=1), BatchJobTask("e", pods=1, active=1)]


@pytest.mark.parametrize(
    ("spec", "status", "state", "reason"),
    [
        ({}, BatchJobStatus(), State.WAITING, ("Pending", "it has not been compiled yet")),
        ({}, BatchJobStatus("Pending", "quota"), State.WAITING, ("Pending", "quota")),
        ({}, BatchJobStatus("Pending", "no", findings=FOUND), State.DENIED, ("Denied", "no")),
        ({}, BatchJobStatus("Running", "2 active", tasks=TASKS), State.RUNNING, None),
        ({}, BatchJobStatus("Running", "2 active", findings=FOUND), State.RUNNING, None),
        ({}, BatchJobStatus("Succeeded", "done", completion_time=at(9)), State.SUCCEEDED, None),
        ({}, BatchJobStatus("Failed", "w-0: 3", completion_time=at(9)), State.FAILED, ("Failed", "w-0: 3")),
        (
            {"schedule": "@daily"},
            BatchJobStatus("Running", "1 active"),
            State.SCHEDULED,
            ("Schedule", "@daily: 1 active"),
        ),
        ({"schedule": "@daily"}, BatchJobStatus(), State.SCHEDULED, ("Schedule", "@daily")),
        ({"schedule": "x"}, BatchJobStatus("Pending", "bad"), State.DENIED, ("Invalid", "bad")),
        ({"schedule": ["x"]}, BatchJobStatus("Pending", "bad"), State.DENIED, ("Invalid", "bad")),
        (
            {"schedule": "@daily", "suspend": True},
            BatchJobStatus("Running", "suspended"),
            State.SUSPENDED,
            ("Gated", "its schedule is suspended (spec.suspend)"),
        ),
    ],
)
def test_a_batch_job_without_a_run_is_as_its_status_says(
    spec: dict[str, object], status: BatchJobStatus, state: State, reason: tuple[str, str] | None
) -> None:
    job = BatchJob(metadata=meta("b"), spec={"queue": "research"} | spec, status=status)
    view = only(Objects(batch_jobs=[job]))
    assert (view.kind, view.state, view.reason, view.queue) == (kinds.BATCH_JOB, state, reason, "research")
    assert view.finished == status.completion_time
    assert view.findings == status.findings
    counts = (5, 3, 1, 1) if status.tasks else (0, 0, 0, 0)
    assert (view.wanted, view.running, view.succeeded, view.failed) == counts
    assert summary(view)["state"] == state.value


@pytest.mark.parametrize("queue", [None, "", 3, ["q"]])
def test_a_batch_jobs_queue_is_bounded_to_text(queue: object) -> None:
    assert only(Objects(batch_jobs=[BatchJob(metadata=meta("b"), spec={"queue": queue})])).queue == "default"
