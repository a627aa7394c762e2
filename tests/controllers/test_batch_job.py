"""BatchJobs: all of what they are compiled to, or nothing, whatever happens in between."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from muster import names
from muster.api.base import AnyKind, Object, ObjectMeta
from muster.api.core_v1 import Service, ServiceSpec
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import (
    BATCH_JOB,
    CEDAR_POLICY,
    CONFIG_MAP,
    EMITTED,
    EVENT,
    GANG,
    JOBSET,
    LATTICE_JOB,
    NAMESPACE,
    POD_GROUP_X,
    PRIORITY_CLASS,
    SERVICE,
    SERVICE_ACCOUNT,
    VOLCANO_JOB,
)
from muster.api.muster_v1alpha1 import (
    BatchJob,
    BatchJobStatus,
    Gang,
    GangSpec,
    GangStatus,
    Reason,
    Source,
    TrustPolicy,
)
from muster.app.wiring.batch_jobs import Found, Site, controllers
from muster.app.wiring.compile_queue import AtOnce, Compiler
from muster.app.wiring.compiling import Answer, Context, Job
from muster.compiler import Facts
from muster.compiler.facts import Image
from muster.controllers import batch_job
from muster.controllers.driver import Change, run
from muster.controllers.policy import Judged
from muster.effects import Absent, Create, Effect, Requeue
from muster.effects.execute import execute
from muster.kube.errors import Conflict, Forbidden
from muster.workloads.platform import TargetName
from tests.controllers.memory import START, Memory, MemoryClient
from tests.informed import informed
from tests.loop_clock import LoopClock
from tests.workloads.batch.jobs import small

FACTS = Facts(network="none", tetragon=False)
ALL = "permit (principal, action, resource);"


class Cluster:
    """A server in memory with one BatchJob, and the controllers run on what it holds."""

    def __init__(
        self,
        policies: str | None = ALL,
        job: str | None = None,
        images: "Registry | None" = None,
        target: TargetName = "muster",
        facts: Facts = FACTS,
        compiler: Compiler | None = None,
    ) -> None:
        self.now = START
        self.memory = Memory(lambda: self.now)
        site = Site(
            lambda: facts,
            lambda: self.now,
            strict=True,
            compiler=compiler or AtOnce(),
            trust=images,
            target=target,
        )
        self.job, _, self.policy, *_ = controllers(site)
        body = yaml.safe_load(job or small({"variables": {"A": "b"}}))
        self.memory.create(BATCH_JOB, "ml", {"metadata": {"name": "job"}, "spec": body["spec"]})
        if policies is not None:
            self.set_policy(policies)

    def change(self, **spec: Any) -> None:
        """Changes the BatchJob; the server counts that."""
        generation = self.memory.read(BATCH_JOB, "ml/job").metadata.generation + 1
        body = {"metadata": {"generation": generation}, "spec": spec}
        self.memory.patch(BATCH_JOB, "ml", "job", body)

    def set_policy(self, text: str, name: str = "base") -> None:
        if (CEDAR_POLICY, name) in self.memory.objects:
            self.memory.delete(CEDAR_POLICY, "", name)
        self.memory.create(CEDAR_POLICY, "", {"metadata": {"name": name}, "spec": {"policies": text}})

    def decide(self) -> Sequence[Effect]:
        caches = self.memory.caches([watch.kind for watch in self.job.watches], self.job.indexes)
        observed = self.job.observe(caches, "ml/job")
        return [] if observed is None else self.job.reconcile(observed, self.now)

    def settle(self) -> None:
        """Reconciles until nothing changes, as the driver does, and collects garbage."""
        for _ in range(10):
            effects = self.decide()
            self.memory.apply(effects)
            self.collect()
            if not [each for each in effects if not isinstance(each, Requeue)]:
                return
        raise AssertionError("the controller does not come to rest")

    def collect(self) -> None:
        """Deletes what belongs to owners that are gone."""
        uids = {each["metadata"]["uid"] for each in self.memory.objects.values()}
        for (kind, _), each in list(self.memory.objects.items()):
            owners = each["metadata"].get("ownerReferences", [])
            if owners and not any(owner["uid"] in uids for owner in owners):
                meta = each["metadata"]
                self.memory.delete(kind, meta.get("namespace", ""), meta["name"])

    @property
    def status(self) -> BatchJobStatus:
        return self.memory.read(BATCH_JOB, "ml/job").status

    def kinds(self) -> set[str]:
        """The kinds of everything but the BatchJob and the policies."""
        return {kind.kind for kind, _ in self.memory.objects} - {"BatchJob", "CedarPolicy"}

    def jobset(self) -> Object:
        return self.memory.json(JOBSET, "ml/job")

    def run(self, condition: str = "") -> None:
        """The scheduler starts the JobSet, or its controller ends it."""
        self.memory.patch(JOBSET, "ml", "job", {"spec": {"suspend": False}})
        if condition:
            ended = [{"type": condition, "status": "True", "message": "over"}]
            self.memory.patch(JOBSET, "ml", "job", {"status": {"conditions": ended}}, "status")


class Registry:
    """Answers for images as it is told."""

    def __init__(self, found: Found) -> None:
        self.found = found

    def find(self, job: BatchJob, policies: Sequence[TrustPolicy], images: Sequence[str]) -> Found:
        return self.found

    def judge(self, policy: TrustPolicy) -> Judged | None:
        return Judged()


def test_a_job_that_is_permitted_is_created_whole_and_left_to_the_scheduler() -> None:
    cluster = Cluster()
    cluster.settle()
    assert cluster.kinds() == {"JobSet", "ConfigMap", "ServiceAccount"}
    jobset = cluster.jobset()
    assert jobset["spec"]["suspend"] is True
    assert jobset["metadata"]["labels"][names.ADMISSION] == "gang"
    assert (cluster.status.phase, cluster.status.message) == ("Pending", "waits to be started")


def test_no_scheduler_may_start_the_job_before_all_that_its_pods_need_exists() -> None:
    cluster = Cluster()
    cluster.memory.apply(cluster.decide())
    assert cluster.kinds() == {"JobSet"}
    assert names.ADMISSION not in cluster.jobset()["metadata"].get("labels", {})
    assert cluster.jobset()["spec"]["suspend"] is True


def test_a_crash_after_any_write_is_made_up_for() -> None:
    whole = Cluster()
    whole.settle()
    wanted = sorted((kind.kind, key) for kind, key in whole.memory.objects)
    for written in range(8):
        cluster = Cluster()
        left = written
        while (effects := cluster.decide()) and left:
            cluster.memory.apply(effects[:left])
            left -= min(left, len(effects))
        cluster.settle()
        assert sorted((kind.kind, key) for kind, key in cluster.memory.objects) == wanted
        assert cluster.jobset()["metadata"]["labels"][names.ADMISSION] == "gang"


def test_without_a_policy_nothing_is_created_and_the_status_says_what_to_add() -> None:
    cluster = Cluster(policies=None)
    cluster.settle()
    assert cluster.kinds() == set()
    assert cluster.status.phase == "Pending"
    [finding] = cluster.status.findings
    assert finding.field == "spec.tasks.work.workload.containers.app.image"
    assert "DeployImage" in finding.fix
    cluster.set_policy(finding.fix)
    cluster.settle()
    assert "JobSet" in cluster.kinds()
    assert cluster.status.findings == []


def test_a_permit_that_is_withdrawn_takes_everything_with_it() -> None:
    cluster = Cluster()
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert cluster.status.phase == "Running"
    cluster.set_policy(f"{ALL} forbid (principal, action, resource);")
    cluster.settle()
    assert cluster.kinds() == set()
    assert "forbidden by base.2" in cluster.status.message


def test_a_policy_that_is_not_enabled_says_nothing_whatever_it_holds() -> None:
    cluster = Cluster()
    for name, text in (("no", "forbid (principal, action, resource);"), ("broken", "permit (")):
        spec = {"policies": text, "enabled": False, "description": "for later"}
        cluster.memory.create(CEDAR_POLICY, "", {"metadata": {"name": name}, "spec": spec})
    cluster.settle()
    assert "JobSet" in cluster.kinds()


def test_a_policy_that_cannot_be_read_permits_nothing() -> None:
    cluster = Cluster()
    cluster.set_policy("permit (principal, action resource);", name="broken")
    cluster.settle()
    assert cluster.kinds() == set()
    assert "CedarPolicy broken: line 1: is not Cedar" in cluster.status.message


IMAGE = "registry.example.com/app:1"
FIRST, SECOND = (f"sha256:{digit * 64}" for digit in "12")


def known(digest: str, reason: str = "") -> Found:
    return Found({IMAGE: Image(digest, trusted=not reason, reason=reason)}, ((IMAGE, digest),))


def image_of(jobset: Object) -> str:
    [replicated] = jobset["spec"]["replicatedJobs"]
    [container] = replicated["template"]["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def test_a_job_waits_for_its_images_and_has_the_digests_that_were_found() -> None:
    registry = Registry(Found(undecided="image x: it is being looked up"))
    cluster = Cluster(images=registry, job=small({"image": IMAGE}))
    cluster.settle()
    assert cluster.kinds() == set()
    assert (cluster.status.phase, cluster.status.message) == ("Pending", "image x: it is being looked up")
    registry.found = known(FIRST)
    cluster.settle()
    assert image_of(cluster.jobset()) == f"registry.example.com/app@{FIRST}"
    assert [(each.image, each.digest) for each in cluster.status.images] == [(IMAGE, FIRST)]


def test_while_a_registry_is_away_the_last_decision_stands() -> None:
    registry = Registry(known(FIRST))
    cluster = Cluster(images=registry, job=small({"image": IMAGE}))
    cluster.settle()
    before = cluster.jobset()
    registry.found = Found(undecided="the registry is away")
    cluster.settle()
    assert cluster.jobset() == before
    assert cluster.status.message == "waits to be started; the registry is away"
    assert [each.digest for each in cluster.status.images] == [FIRST]
    cluster.change(priorityClassName="high")
    cluster.settle()
    assert cluster.status.images == [], "they were those of the job before the change"
    registry.found = known(SECOND)
    cluster.settle()
    assert image_of(cluster.jobset()) == f"registry.example.com/app@{SECOND}"


def test_an_image_that_is_no_longer_trusted_takes_everything_with_it() -> None:
    registry = Registry(known(FIRST))
    cluster = Cluster(images=registry, job=small({"image": IMAGE}))
    cluster.settle()
    cluster.run()
    cluster.settle()
    registry.found = known(FIRST, "team: not signed by release")
    cluster.settle()
    assert cluster.kinds() == set()
    [finding] = cluster.status.findings
    assert finding.message == "image verification denied: team: not signed by release"
    assert finding.field == "spec.tasks.work.workload.containers.app.image"


def test_while_a_policy_cannot_be_read_the_last_decision_stands() -> None:
    cluster = Cluster()
    cluster.settle()
    before = cluster.jobset()
    cluster.set_policy("permit (principal, action resource);", name="broken")
    cluster.settle()
    assert cluster.jobset() == before
    assert cluster.status.message.startswith("waits to be started; CedarPolicy broken: line 1: is not Cedar")
    cluster.run()
    cluster.settle()
    assert (cluster.status.phase, cluster.status.message) == ("Running", "runs")
    cluster.set_policy("forbid (principal, action, resource);", name="broken")
    cluster.settle()
    assert cluster.kinds() == set()


class Later(AtOnce):
    """Answers from the second time on that it is asked the same."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[str] = set()

    def compile(self, key: str, context: Context, job: Job) -> Answer | None:  # type: ignore[override]
        text = repr((context, job.job, job.images))
        known = text in self.asked
        self.asked.add(text)
        return super().compile(key, context, job) if known else None


def test_while_a_job_is_being_compiled_nothing_is_written() -> None:
    cluster = Cluster(compiler=Later())
    assert not cluster.decide()
    cluster.settle()
    cluster.run()
    cluster.settle()
    assert cluster.status.phase == "Running"
    before = dict(cluster.memory.objects)
    cluster.set_policy(f"{ALL} forbid (principal, action, resource);")
    assert not cluster.decide()
    cluster.change(queue=7)
    assert not cluster.decide()
    assert cluster.memory.objects.keys() == before.keys(), "the last decision stands"
    cluster.settle()
    assert cluster.kinds() == set()


def test_a_job_that_took_too_long_to_compile_waits_and_its_run_goes_on() -> None:
    class Slow(AtOnce):
        slow = False

        def compile(self, key: str, context: Context, job: Job) -> Answer:
            told = Answer(undecided="compiling it took longer than 10 s", until=START + timedelta(minutes=10))
            return told if self.slow else super().compile(key, context, job)

    compiler = Slow()
    cluster = Cluster(compiler=compiler)
    cluster.settle()
    cluster.run()
    cluster.settle()
    compiler.slow = True
    assert [each for each in cluster.decide() if isinstance(each, Requeue)], "it is tried again"
    cluster.settle()
    assert "JobSet" in cluster.kinds()
    other = Cluster(compiler=compiler)
    other.settle()
    assert other.kinds() == set()
    assert (other.status.phase, other.status.message) == ("Pending", "compiling it took longer than 10 s")


def test_a_job_that_cannot_be_read_says_all_that_is_wrong() -> None:
    text = yaml.safe_load(small())
    text["spec"]["tasks"]["work"]["replikas"] = 2
    del text["spec"]["tasks"]["work"]["workload"]["containers"]["app"]["image"]
    cluster = Cluster(job=yaml.safe_dump(text))
    cluster.settle()
    assert {each.field for each in cluster.status.findings} == {
        "spec.tasks.work.replikas",
        "spec.tasks.work.workload.containers.app.image",
    }


def test_a_status_has_room_for_any_number_of_findings() -> None:
    text = yaml.safe_load(small())
    [task] = text["spec"]["tasks"].values()
    text["spec"]["tasks"] = {f"task-{number}": {**task, "x" * 5_000: 1} for number in range(300)}
    cluster = Cluster(job=yaml.safe_dump(text))
    cluster.settle()
    found = cluster.status.findings
    assert len(found) == 101
    assert found[-1].message == "and 200 more"
    assert "(and 299 more: see status.findings)" in cluster.status.message
    assert len(json.dumps(cluster.memory.json(BATCH_JOB, "ml/job")["status"])) < 2**19


def test_the_end_of_the_job_set_is_the_end_of_the_job() -> None:
    for condition, phase in (("Completed", "Succeeded"), ("Failed", "Failed")):
        cluster = Cluster()
        cluster.settle()
        cluster.run(condition)
        cluster.settle()
        assert (cluster.status.phase, cluster.status.message) == (phase, "over")
        cluster.set_policy("forbid (principal, action, resource);")
        cluster.settle()
        assert cluster.status.phase == phase


def test_a_job_set_of_another_owner_is_left_alone() -> None:
    cluster = Cluster()
    foreign = {"metadata": {"name": "job"}, "spec": {"suspend": True, "replicatedJobs": []}}
    cluster.memory.create(JOBSET, "ml", foreign)
    before = cluster.jobset()
    cluster.settle()
    cluster.set_policy("forbid (principal, action, resource);")
    cluster.settle()
    assert cluster.jobset() == before
    assert "this BatchJob does not own it; delete or rename one of the two" in cluster.status.message


def test_a_change_before_the_start_replaces_the_job_and_a_later_one_does_not() -> None:
    cluster = Cluster()
    cluster.settle()
    first = cluster.jobset()["metadata"]["uid"]
    task = {"tasks": {"work": {"replicas": 3}}}
    cluster.memory.patch(BATCH_JOB, "ml", "job", {"spec": task})
    cluster.settle()
    second = cluster.jobset()
    assert second["metadata"]["uid"] != first
    assert second["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] == 3
    cluster.run()
    cluster.memory.patch(BATCH_JOB, "ml", "job", {"spec": {"tasks": {"work": {"replicas": 4}}}})
    cluster.settle()
    assert cluster.jobset()["metadata"]["uid"] == second["metadata"]["uid"]


def test_a_pod_group_goes_with_its_run() -> None:
    cluster = Cluster()
    cluster.change(minAvailable=1, tasks={"work": {"replicas": 2}})
    cluster.settle()
    assert cluster.kinds() == {"JobSet", "PodGroup", "ConfigMap", "ServiceAccount"}
    assert cluster.memory.json(POD_GROUP_X, "ml/job")["spec"]["minMember"] == 1
    cluster.set_policy("forbid (principal, action, resource);")
    cluster.settle()
    assert cluster.kinds() == set()


def test_on_volcano_service_accounts_come_last_and_everything_goes_with_its_job() -> None:
    cluster = Cluster(target="volcano")
    created: list[str] = []
    for _ in range(3):
        effects = cluster.decide()
        created += [each.kind.kind for each in effects if isinstance(each, Create)]
        cluster.memory.apply(effects)
    assert created == ["Job", "ConfigMap", "ServiceAccount"]
    assert cluster.status.message == "waits to be started"
    counted = {"work": {"phase": {"Running": 1}}}
    running = {"state": {"phase": "Running"}, "taskStatusCount": counted}
    cluster.memory.patch(VOLCANO_JOB, "ml", "job", {"status": running}, "status")
    cluster.settle()
    assert (cluster.status.phase, cluster.status.tasks[0].active) == ("Running", 1)
    cluster.set_policy("forbid (principal, action, resource);")
    cluster.settle()
    assert cluster.kinds() == set()


def test_on_volcano_no_job_is_made_beside_a_service_account_that_would_let_its_pods_start() -> None:
    cluster = Cluster(target="volcano")
    [name] = [
        each.name for each in cluster.decide() if isinstance(each, Absent) and each.kind is SERVICE_ACCOUNT
    ]
    cluster.memory.create(SERVICE_ACCOUNT, "ml", {"metadata": {"name": name}})
    with pytest.raises(Conflict):
        cluster.settle()
    assert cluster.kinds() == {"ServiceAccount"}, "no pod may start before its policies exist"
    cluster.memory.delete(SERVICE_ACCOUNT, "ml", name)
    cluster.settle()
    assert cluster.kinds() == {"Job", "ConfigMap", "ServiceAccount"}


def test_on_kubernetes_own_gangs_a_job_has_a_pod_group() -> None:
    cluster = Cluster(target="native")
    cluster.settle()
    assert cluster.kinds() == {"JobSet", "PodGroup", "ConfigMap", "ServiceAccount"}
    assert cluster.jobset()["spec"]["suspend"] is False


def test_a_volume_outlives_its_run() -> None:
    data = {"type": "volume", "id": "data", "params": {"size": "1Gi"}}
    cluster = Cluster(job=small({"volumes": {"/data": {"source": "data"}}}, data=data))
    cluster.settle()
    cluster.memory.delete(JOBSET, "ml", "job")
    cluster.collect()
    assert cluster.kinds() == {"PersistentVolumeClaim"}


def test_the_status_says_which_job_it_is_about_and_when_it_ran() -> None:
    cluster = Cluster()
    cluster.settle()
    assert (cluster.status.observed_generation, cluster.status.start_time) == (0, None)
    cluster.change(priorityClassName="high")
    cluster.settle()
    assert cluster.status.observed_generation == 1
    cluster.now = began = START + timedelta(minutes=5)
    cluster.run()
    cluster.settle()
    cluster.now = START + timedelta(minutes=6)
    cluster.change(priorityClassName="low")
    cluster.settle()
    assert (cluster.status.start_time, cluster.status.completion_time) == (began, None)
    cluster.now = ended = START + timedelta(hours=1)
    cluster.run("Completed")
    cluster.settle()
    assert (cluster.status.start_time, cluster.status.completion_time) == (began, ended)


@pytest.mark.parametrize("target", ["muster", "volcano"])
def test_a_job_that_waits_for_long_still_waits(target: TargetName) -> None:
    """Waiting is what queues are for, and not a failure."""
    cluster = Cluster(target=target)
    cluster.settle()
    before = dict(cluster.memory.objects)
    cluster.now += timedelta(days=30)
    cluster.settle()
    assert (cluster.status.phase, cluster.status.message) == ("Pending", "waits to be started")
    assert cluster.memory.objects == before


COSTS: list[tuple[dict[str, str], dict[str, str] | None]] = [
    ({}, None),
    ({"gpu": "3.50"}, {"gpu": "14.0000"}),
    (
        {"gpu": "3.50", "cpu": "0.031", "memory": "0.004"},
        {"cpu": "0.2480", "memory": "0.0640", "gpu": "14.0000"},
    ),
    ({"cpu": "0.031"}, None),  # the GPUs have no price, so the sum is not known
]


@pytest.mark.parametrize("target", ["muster", "native", "volcano"])
@pytest.mark.parametrize(("prices", "parts"), COSTS)
def test_the_status_says_what_an_hour_costs(
    prices: dict[str, str], parts: dict[str, str] | None, target: TargetName
) -> None:
    """4 pods with 2 CPUs, 4 GiB and a GPU each."""
    text = GPUS.replace('cpu: "1", memory: 1Gi', 'cpu: "2", memory: 4Gi')
    cluster = Cluster(job=text, target=target)
    cluster.memory.create(CONFIG_MAP, "muster-system", {"metadata": {"name": "muster-rates"}, "data": prices})
    cluster.settle()
    cost = cluster.status.cost
    if parts is None:
        assert cost is None
        return
    assert cost is not None
    told = {"cpu": cost.breakdown.cpu, "memory": cost.breakdown.memory, "gpu": cost.breakdown.gpu}
    assert {part: amount for part, amount in told.items() if amount} == parts
    assert Decimal(cost.hourly_cost) == sum(map(Decimal, parts.values()))


def test_an_event_for_each_change_and_none_without() -> None:
    cluster = Cluster()
    told: list[str] = []
    for _ in itertools.takewhile(bool, (cluster.decide() for _ in range(10))):
        told += [each.message for each in cluster.memory.apply(cluster.decide())]
    assert told == list(dict.fromkeys(told))


def test_a_policys_status_says_what_it_holds_or_what_is_wrong() -> None:
    policy = Cluster(None).policy
    memory = Memory(lambda: START)
    both = f"{ALL} {ALL} forbid (principal, action, resource);"
    for text, phase, permits, forbids in (
        (ALL, "Valid", 1, 0),
        (both, "Valid", 2, 1),
        ("permit (", "Invalid", 0, 0),
    ):
        memory.objects.clear()
        memory.create(CEDAR_POLICY, "", {"metadata": {"name": "p"}, "spec": {"policies": text}})
        observed = policy.observe(memory.caches([CEDAR_POLICY]), "p")
        assert observed is not None
        memory.apply(policy.reconcile(observed, START))
        status = memory.read(CEDAR_POLICY, "p").status
        counts = (status.permit_count, status.forbid_count)
        assert (status.phase, counts) == (phase, (permits, forbids))
        assert bool(status.validation_errors) == (phase == "Invalid")
        again = policy.observe(memory.caches([CEDAR_POLICY]), "p")
        assert again is not None
        assert policy.reconcile(again, START) == []


def test_a_namespace_under_audit_runs_the_job_with_warnings_and_denies_it_afterwards() -> None:
    audit = 'permit (principal, action == Muster::Action::"AuditOnly", resource);'
    cluster = Cluster(audit)
    until = START + timedelta(days=7)
    notes = {names.AUDIT_UNTIL: until.isoformat()}
    cluster.memory.create(NAMESPACE, "", {"metadata": {"name": "ml", "annotations": notes}})
    again = {each.at for each in cluster.decide() if isinstance(each, Requeue)}
    assert again == {until}, "the job is looked at again when the audit ends"
    cluster.settle()
    assert "JobSet" in cluster.kinds()
    assert not cluster.status.findings
    [warning] = cluster.status.warnings
    assert "only reported" in warning.message
    assert "DeployImage" in warning.fix
    cluster.run()
    cluster.settle()
    cluster.now = until
    cluster.settle()
    assert cluster.kinds() == {"Namespace"}
    assert "DeployImage" in cluster.status.findings[0].fix
    assert "which has passed" in cluster.status.warnings[0].message


def test_only_objects_that_declare_something_concern_jobs() -> None:
    cluster = Cluster()
    [watch] = [each for each in cluster.job.watches if each.kind is SERVICE]
    caches = cluster.memory.caches([each.kind for each in cluster.job.watches], cluster.job.indexes)
    plain = Service(metadata=ObjectMeta(name="a", namespace="ml"))
    shared = Service(
        metadata=ObjectMeta(name="a", namespace="ml", annotations={names.ALLOWED_CALLERS: "ml/job"})
    )
    moved = replace(shared, spec=ServiceSpec(selector={"app": "b"}))
    assert watch.keys(Change(caches, None, plain)) == []
    assert watch.keys(Change(caches, plain, shared)) == ["ml/job"]
    assert watch.keys(Change(caches, shared, shared)) == []
    assert watch.keys(Change(caches, shared, moved)) == ["ml/job"]


GPUS = """
spec:
  tasks:
    workers:
      replicas: 4
      workload:
        containers:
          main:
            image: r.example/a@sha256:0000000000000000000000000000000000000000000000000000000000000000
            command: [/bin/true]
            resources: {limits: {cpu: "1", memory: 1Gi, nvidia.com/gpu: "1"}}
"""


def test_the_status_says_what_preemption_may_cost_and_what_it_has_cost() -> None:
    cluster = Cluster(job=GPUS)
    cluster.settle()
    assert cluster.status.risk == ""
    cluster.memory.create(PRIORITY_CLASS, "", {"metadata": {"name": "urgent"}, "value": 1000})
    rates = {"metadata": {"name": "muster-rates"}, "data": {"gpu": "3.50"}}
    cluster.memory.create(CONFIG_MAP, "muster-system", rates)
    cluster.settle()
    assert "up to $14.00 of work is at risk each hour (4 GPUs, no checkpoint)" in cluster.status.risk
    cluster.run()
    cluster.settle()
    source = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "job"}
    entry = {"by": "ml/team-b-urgent", "at": "2026-01-01T05:00:00Z", "kind": "preemption"}
    lost = {"lostResourceSeconds": 72000.0, "gpuHoursLost": "20", "costLost": "70.00"}
    gang = {
        "metadata": {"name": "jobset-job"},
        "spec": {"source": source},
        "status": {"preemptions": [{**entry, **lost}]},
    }
    cluster.memory.create(GANG, "ml", gang)
    cluster.memory.patch(JOBSET, "ml", "job", {"spec": {"suspend": True}})
    cluster.settle()
    told = cluster.status.preemption
    assert told is not None
    assert (told.by, told.gpu_hours_lost, told.cost_lost) == ("ml/team-b-urgent", "20", "70.00")
    expected = "task workers preempted by higher-priority job ml/team-b-urgent; waits to start again"
    assert (cluster.status.phase, cluster.status.message) == ("Pending", expected)


def test_the_status_says_why_a_job_can_never_start_as_things_are() -> None:
    cluster = Cluster()
    cluster.settle()
    source = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "job"}
    for code, message, said in (
        ("Invalid", "there is no queue ml", "waits to be started: there is no queue ml"),
        ("InsufficientCapacity", "4 are free", "waits to be started"),
    ):
        reason = {"code": code, "message": message}
        gang = {"metadata": {"name": "jobset-job"}, "spec": {"source": source}, "status": {"reason": reason}}
        cluster.memory.create(GANG, "ml", gang)
        cluster.settle()
        assert cluster.status.message == said
        cluster.memory.delete(GANG, "ml", "jobset-job")


def test_prices_in_the_namespace_of_a_job_do_not_count() -> None:
    cluster = Cluster(job=GPUS)
    theirs = {"metadata": {"name": "muster-rates"}, "data": {"gpu": "0.01"}}
    cluster.memory.create(CONFIG_MAP, "ml", theirs)
    cluster.settle()
    before = cluster.status.cost
    cluster.memory.create(CONFIG_MAP, "muster-system", {**theirs, "data": {"gpu": "3.50"}})
    cluster.settle()
    after = cluster.status.cost
    assert before is None
    assert after is not None
    assert Decimal(after.breakdown.gpu) == 14


def test_only_preemptions_of_jobsets_concern_batch_jobs() -> None:
    cluster = Cluster()
    [keys] = [watch.keys for watch in cluster.job.watches if watch.kind is GANG]
    source = Source(api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", name="job")
    quiet = Gang(metadata=ObjectMeta(name="g", namespace="ml"), spec=GangSpec(source=source))
    hit = replace(quiet, status=GangStatus(preemptions=[{"by": "x"}]))
    caches = cluster.memory.caches([GANG], ())
    never = replace(quiet, status=GangStatus(reason=Reason("Invalid", "no queue")))
    busy = replace(quiet, status=GangStatus(reason=Reason("InsufficientCapacity", "4 are free")))
    assert list(keys(Change(caches, quiet, never))) == ["ml/job"]
    assert list(keys(Change(caches, never, busy))) == ["ml/job"]
    assert list(keys(Change(caches, quiet, busy))) == []
    assert list(keys(Change(caches, quiet, hit))) == ["ml/job"]
    assert list(keys(Change(caches, None, hit))) == ["ml/job"]
    assert list(keys(Change(caches, hit, hit))) == []
    assert list(keys(Change(caches, None, quiet))) == []


async def test_jobs_that_reach_a_host_at_different_ports_share_an_entry_with_both() -> None:
    [entry] = [kind for kind in EMITTED if kind.kind == "ServiceEntry"]
    memory = Memory()
    for port in (443, 8443):
        host = {"type": "external-service", "params": {"endpoints": {"s3": f"https://s3.example.com:{port}"}}}
        cluster = Cluster(job=small(None, s3=host), facts=Facts(network="none", tetragon=False, istio=True))
        cluster.memory.apply(cluster.decide())
        for effect in cluster.decide():
            if isinstance(effect, Create) and effect.kind is entry:
                await execute(MemoryClient(memory), effect, START)
    [shared] = [each for (kind, _), each in memory.objects.items() if kind is entry]
    assert [port["number"] for port in shared["spec"]["ports"]] == [443, 8443]


def test_what_the_jobs_of_a_namespace_share_belongs_to_their_runs_and_has_no_controller() -> None:
    job = BatchJob(metadata=ObjectMeta(name="job", namespace="ml", uid="uid-job"))
    run = JobSet(metadata=ObjectMeta(name="job", namespace="ml", uid="uid-run"))
    entry = {"kind": "ServiceEntry", "metadata": {"name": "ext-1", "labels": {}}, "spec": {}}
    [owner] = batch_job._owned(job, run, entry)["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("JobSet", "uid-run", False)
    own = {"kind": "ServiceEntry", "metadata": {"name": "x", "labels": {"app.kubernetes.io/name": "job-w"}}}
    [owner] = batch_job._owned(job, run, own)["metadata"]["ownerReferences"]
    assert owner["controller"] is True


class Refusing:
    """The controllers of BatchJobs on a server that refuses some creations, with other words each time."""

    def __init__(self) -> None:
        self.memory = Memory(LoopClock().now)
        self.client = MemoryClient(self.memory)
        self.words = itertools.count(1)

    def job(self) -> None:
        body = yaml.safe_load(small({"variables": {"A": "b"}}))
        meta = {"name": "job", "generation": 1}
        self.memory.create(BATCH_JOB, "ml", {"metadata": meta, "spec": body["spec"]})

    def refuse(self, refused: AnyKind) -> None:
        self.client.fault = lambda operation, kind, name: (
            Forbidden(f"exceeded quota, try {next(self.words)}")
            if (operation, kind) == ("create", refused)
            else None
        )

    def allow(self) -> None:
        self.client.fault = lambda operation, kind, name: None

    @property
    def status(self) -> BatchJobStatus:
        return self.memory.read(BATCH_JOB, "ml/job").status

    @asynccontextmanager
    async def running(self, target: TargetName = "muster", *, lattice: bool = False) -> AsyncIterator[None]:
        clock = LoopClock()
        site = Site(
            lambda: FACTS, clock.now, strict=False, compiler=AtOnce(), lattice_jobs=lattice, target=target
        )
        synced = asyncio.Event()
        task = asyncio.create_task(informed(run, self.client, controllers(site), clock, synced=synced))
        await synced.wait()
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("kind", "about"),
    [(JOBSET, "JobSet job"), (CONFIG_MAP, "ConfigMap job-work-app-env")],
    ids=["run", "object"],
)
async def test_the_status_has_the_words_of_a_refusal_until_it_has_passed(kind: AnyKind, about: str) -> None:
    cluster = Refusing()
    cluster.refuse(kind)
    async with cluster.running():
        cluster.job()
        await asyncio.sleep(60)
        assert cluster.status.phase == "Pending"
        assert cluster.status.message.startswith(f"{about}: exceeded quota, try ")
        tries = next(cluster.words)
        assert tries < 20, "what the status says is no reason to try again at once"
        events = [each for each in cluster.memory.all(EVENT) if each.reason == "Refused"]
        assert {each.type for each in events} == {"Warning"}
        assert cluster.status.message in [each.message for each in events]
        cluster.allow()
        await asyncio.sleep(60)
        assert (cluster.status.phase, cluster.status.message) == ("Pending", "waits to be started")


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("target", "kind", "name", "said"),
    [
        (
            "muster",
            CONFIG_MAP,
            "job-work-app-env",
            ", and Deployment web owns it; delete or rename one of the two",
        ),
        ("volcano", SERVICE_ACCOUNT, "job-work", ""),
    ],
    ids=["muster", "volcano"],
)
async def test_the_status_names_an_object_that_is_in_the_way(
    target: TargetName, kind: AnyKind, name: str, said: str
) -> None:
    cluster = Refusing()
    theirs = {"kind": "Deployment", "name": "web", "uid": "u", "apiVersion": "apps/v1", "controller": True}
    cluster.memory.create(kind, "ml", {"metadata": {"name": name, "ownerReferences": [theirs]}})
    async with cluster.running(target):
        cluster.job()
        await asyncio.sleep(10)
        assert cluster.status.message == f"{kind.kind} {name} exists{said}"
        cluster.memory.delete(kind, "ml", name)
        await asyncio.sleep(60)
        assert cluster.status.message == "waits to be started"


@pytest.mark.looptime
async def test_the_status_of_a_lattice_job_has_the_words_of_a_refusal_too() -> None:
    cluster = Refusing()
    cluster.refuse(BATCH_JOB)
    body = yaml.safe_load(small({"variables": {"A": "b"}}))
    async with cluster.running(lattice=True):
        cluster.memory.create(LATTICE_JOB, "ml", {"metadata": {"name": "job"}, "spec": body["spec"]})
        await asyncio.sleep(60)
        said = cluster.memory.read(LATTICE_JOB, "ml/job").status
        assert (said.phase, said.message.split(",")[0]) == ("Pending", "BatchJob job: exceeded quota")
        assert next(cluster.words) < 20, "what the status says is no reason to try again at once"
        cluster.allow()
        await asyncio.sleep(60)
        assert cluster.memory.read(LATTICE_JOB, "ml/job").status.message == "waits to be started"


def test_only_a_change_of_what_the_job_asks_for_concerns_it() -> None:
    cluster = Cluster()
    old = cluster.memory.read(BATCH_JOB, "ml/job")
    cluster.settle()
    caches = cluster.memory.caches([BATCH_JOB])
    [asked] = [watch.keys for watch in cluster.job.watches if watch.kind is BATCH_JOB]
    new = cluster.memory.read(BATCH_JOB, "ml/job")
    assert new.status != old.status
    assert asked(Change(caches, old, new)) == []
    for now in (
        replace(new, spec={}),
        replace(new, metadata=replace(new.metadata, annotations={"a": "b"})),
        None,
    ):
        assert asked(Change(caches, old, now)) == ["ml/job"]
