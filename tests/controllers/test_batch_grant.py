"""A run keeps what it was granted: changes of its BatchJob do not decide about it, policies do."""

import base64
import hashlib
import json
import zlib
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster import names
from muster.api.base import Object
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import BATCH_JOB, JOBSET, VOLCANO_JOB
from muster.api.muster_v1alpha1 import BatchJob
from muster.controllers import batch_grant
from muster.effects import RecordEvent
from tests.controllers.test_batch_job import FIRST, IMAGE, Cluster, Registry, known
from tests.tiers import examples
from tests.workloads.batch.jobs import small

DEPLOY: Final = 'permit (principal, action == Muster::Action::"DeployImage", resource);'
ROOT: Final = 'permit (principal, action == Muster::Action::"OverrideSecurity", resource);'


def secured(**security: Any) -> Object:
    """Changes of the job's container that need a permit of their own."""
    container = {"security": security or None}
    return {"tasks": {"work": {"workload": {"containers": {"app": container}}}}}


AS_ROOT: Final = secured(runAsUser=0, runAsNonRoot=False)
PLAIN: Final = secured()


def running(policies: str = DEPLOY, **more: Any) -> Cluster:
    cluster = Cluster(policies, **more)
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert cluster.status.phase == "Running"
    return cluster


def uid(cluster: Cluster) -> str:
    return str(cluster.jobset()["metadata"]["uid"])


def test_a_change_that_is_denied_is_told_and_changes_nothing_that_runs() -> None:
    cluster = running()
    before = dict(cluster.memory.objects)
    cluster.change(**AS_ROOT)
    told = [each for each in cluster.decide() if isinstance(each, RecordEvent)]
    assert [(each.type, each.reason) for each in told] == [("Warning", "Denied")]
    cluster.settle()
    after = {key: body for key, body in cluster.memory.objects.items() if key[0] is not BATCH_JOB}
    assert after == {key: body for key, body in before.items() if key[0] is not BATCH_JOB}
    assert cluster.status.phase == "Running"
    assert [each.message.split(":")[0] for each in cluster.status.findings] == ["security override denied"]
    assert cluster.status.message.startswith(
        "runs as before the last change, which is denied: security override denied"
    )
    cluster.change(**PLAIN)
    cluster.settle()
    assert (cluster.status.message, cluster.status.findings) == ("runs", [])


def test_a_change_that_cannot_be_read_is_told_and_changes_nothing_that_runs() -> None:
    cluster = running()
    before = uid(cluster)
    cluster.change(tasks=None)
    cluster.settle()
    assert uid(cluster) == before
    assert cluster.status.phase == "Running"
    assert [each.field for each in cluster.status.findings] == ["spec.tasks"]
    cluster.run("Completed")
    cluster.settle()
    assert (cluster.status.phase, cluster.status.message) == ("Succeeded", "over")
    assert cluster.status.findings == []


@pytest.mark.parametrize("change", [PLAIN, {"tasks": None}, secured(privileged=True)])
def test_a_permit_that_is_withdrawn_ends_the_run_whatever_the_job_has_become(change: Object) -> None:
    cluster = running(DEPLOY + ROOT, job=AS_ROOT_JOB)
    before = uid(cluster)
    cluster.change(**change)
    cluster.settle()
    assert uid(cluster) == before
    cluster.set_policy(DEPLOY)
    cluster.settle()
    if change is PLAIN:
        assert uid(cluster) != before, "the changed job needs no such permit, and runs"
        assert cluster.status.findings == []
    else:
        assert cluster.kinds() == set()
        assert cluster.status.findings


AS_ROOT_JOB: Final = small({"security": {"runAsUser": 0, "runAsNonRoot": False}})


def test_a_run_that_waits_is_replaced_or_withdrawn_by_a_change() -> None:
    cluster = Cluster(DEPLOY)
    cluster.settle()
    cluster.change(**AS_ROOT)
    cluster.settle()
    assert cluster.kinds() == set()
    assert cluster.status.phase == "Pending"


def test_a_job_that_changes_before_its_first_run_is_released_is_compiled_again() -> None:
    """After a crash, the objects of the changed job must not be given to the run of the job before."""
    cluster = Cluster(DEPLOY)
    cluster.memory.apply(cluster.decide())
    first = uid(cluster)
    cluster.change(tasks={"work": {"replicas": 7}})
    cluster.settle()
    assert uid(cluster) != first
    [replicated] = cluster.jobset()["spec"]["replicatedJobs"]
    assert replicated["template"]["spec"]["completions"] == 7


def test_a_schedule_given_to_a_job_that_runs_does_not_keep_its_run_from_being_withdrawn() -> None:
    cluster = running()
    cluster.change(schedule="0 0 * * *")
    assert cluster.decide() == []
    cluster.set_policy("forbid (principal, action, resource);")
    cluster.settle()
    assert cluster.kinds() == set()
    assert cluster.decide() == []


def test_a_schedule_given_to_a_job_that_waits_takes_its_run_away() -> None:
    cluster = Cluster(DEPLOY)
    cluster.settle()
    cluster.change(schedule="0 0 * * *")
    cluster.settle()
    assert cluster.kinds() == set()


def test_the_images_of_a_run_stay_at_their_digests_when_the_job_changes() -> None:
    registry = Registry(known(FIRST))
    cluster = running("permit (principal, action, resource);", images=registry, job=small({"image": IMAGE}))
    cluster.change(priorityClassName="high")
    job = cluster.memory.read(BATCH_JOB, "ml/job")
    granted = batch_grant.read(job, cluster.memory.read(JOBSET, "ml/job")).job
    assert granted is not None
    assert granted.status.observed_generation == job.metadata.generation != job.status.observed_generation
    assert [(each.image, each.digest) for each in granted.status.images] == [(IMAGE, FIRST)]


def test_the_images_of_a_run_are_those_that_it_was_compiled_with() -> None:
    """Whatever the BatchJob's status says of its images by now."""
    cluster = running()
    (job,) = cluster.memory.caches([BATCH_JOB])[BATCH_JOB].items.values()
    run = msgspec.convert(cluster.jobset(), JobSet)
    noted = batch_grant.note(job, "hash", [("app:v1", "sha256:1")], cluster.jobset())
    metadata = msgspec.structs.replace(run.metadata, annotations={names.GRANTED: noted})
    found = batch_grant.read(job, msgspec.structs.replace(run, metadata=metadata))
    assert found.job is not None
    assert [(each.image, each.digest) for each in found.job.status.images] == [("app:v1", "sha256:1")]


def test_on_volcano_a_run_keeps_what_it_was_granted() -> None:
    cluster = Cluster(DEPLOY, target="volcano")
    cluster.settle()
    cluster.memory.patch(VOLCANO_JOB, "ml", "job", {"status": {"state": {"phase": "Running"}}}, "status")
    cluster.change(**AS_ROOT)
    cluster.settle()
    assert cluster.status.phase == "Running"
    assert cluster.kinds() == {"Job", "ConfigMap", "ServiceAccount"}


BOMB: Final = base64.b64encode(zlib.compress(b'{"hash": "' + b"x" * 2**26, 9)).decode()
DEEP: Final = base64.b64encode(zlib.compress(b'{"hash":"","job":' + b'{"a":' * 100_000, 9)).decode()
UNREADABLE: Final = ["", "ü", "e30=", base64.b64encode(b"junk").decode(), BOMB, DEEP]


@pytest.mark.parametrize("text", UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_a_run_was_granted_cannot_be_read_so_the_job_as_it_is_decides(text: str) -> None:
    cluster = running()
    cluster.memory.patch(JOBSET, "ml", "job", {"metadata": {"annotations": {names.GRANTED: text}}})
    cluster.settle()
    assert cluster.status.phase == "Running"
    cluster.change(**AS_ROOT)
    cluster.settle()
    assert cluster.kinds() == set()


def test_a_job_that_is_too_large_to_keep_is_not_kept() -> None:
    values = {str(number): hashlib.sha256(b"%d" % number).hexdigest() for number in range(4_000)}
    job = BatchJob(spec={"tasks": values})
    text = batch_grant.note(job, "h", (), {})
    assert len(text) < 100
    small_one = BatchJob(spec={"a": 1})
    assert len(batch_grant.note(small_one, "h", (), {"spec": "x" * batch_grant.MOST_RUN})) < 100
    assert len(batch_grant.note(small_one, "h", (), {})) > 100


def test_a_users_annotations_do_not_release_a_run() -> None:
    cluster = Cluster(DEPLOY)
    marks = {names.COMPILED: "x", names.GRANTED: "x"}
    cluster.memory.patch(BATCH_JOB, "ml", "job", {"metadata": {"annotations": marks, "labels": marks}})
    cluster.settle()
    assert cluster.kinds() == set()
    assert {each.message for each in cluster.status.findings} == {
        "cannot be set here; only muster writes it; remove it"
    }


POLICIES: Final = {"": "", "images": DEPLOY, "images and root": DEPLOY + ROOT}
CHANGES: Final[dict[str, Object]] = {
    "plain": {**PLAIN, "queue": None},
    "root": {**AS_ROOT, "queue": None},
    "unreadable": {"queue": 7},
}
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("policy"), st.sampled_from(sorted(POLICIES))),
        st.tuples(st.just("change"), st.sampled_from(sorted(CHANGES))),
        st.tuples(st.sampled_from(["start", "stop"]), st.just("")),
    ),
    max_size=8,
)


@settings(max_examples=examples(60), deadline=None)
@given(steps=STEPS)
def test_a_run_that_has_started_lives_as_long_as_its_own_permits(steps: list[tuple[str, str]]) -> None:
    cluster = Cluster("")
    policy, job = "", "plain"
    of_run: str | None = None  # what the run that exists was compiled from
    started = False
    for step, what in [*steps, ("start", ""), ("change", "unreadable"), ("policy", "")]:
        match step:
            case "policy":
                policy = what
                cluster.set_policy(POLICIES[what])
            case "change":
                job = what
                cluster.change(**CHANGES[what])
            case _ if of_run is not None:
                started = step == "start"
                cluster.memory.patch(JOBSET, "ml", "job", {"spec": {"suspend": not started}})
        cluster.settle()
        if not started or not permitted(of_run, policy):
            of_run, started = (job if permitted(job, policy) else None), False
        assert (of_run is not None) == ("JobSet" in cluster.kinds())
        if of_run is not None:
            assert runs_as_root(cluster.jobset()) == (of_run == "root")
            assert cluster.jobset()["spec"]["suspend"] is not started
        assert bool(cluster.status.findings) == (not permitted(job, policy))


def permitted(job: str | None, policy: str) -> bool:
    return policy in {"plain": ("images", "images and root"), "root": ("images and root",)}.get(job or "", ())


def runs_as_root(jobset: Object) -> bool:
    return '"runAsUser": 0' in json.dumps(jobset["spec"])


def test_a_run_goes_on_if_a_later_version_cannot_read_what_it_was_granted() -> None:
    cluster = running()
    before = uid(cluster)
    (job,) = cluster.memory.caches([BATCH_JOB])[BATCH_JOB].items.values()
    spec = {**job.spec, "field": "of an earlier version"}
    noted = batch_grant.note(msgspec.structs.replace(job, spec=spec), "h", (), cluster.jobset())
    cluster.memory.patch(JOBSET, "ml", "job", {"metadata": {"annotations": {names.GRANTED: noted}}})
    for change in ({}, {"field": "of an earlier version"}):  # the BatchJob itself can be read, or cannot
        cluster.change(**change)
        cluster.settle()
        assert (uid(cluster), cluster.status.phase) == (before, "Running")
        told = "runs; policies are not asked about it, since it cannot be read any more: "
        assert cluster.status.message.startswith(told)
    assert [each.field for each in cluster.status.findings] == ["spec.field"]
    cluster.run("Completed")
    cluster.settle()
    assert cluster.status.phase == "Succeeded"
