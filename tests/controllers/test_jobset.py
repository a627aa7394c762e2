"""The JobSet controller on a model store: the test plays the Job controller and the clock."""

import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster import names
from muster.api import jobset_v1alpha2 as keys
from muster.api.base import Condition, Object, condition, owner
from muster.api.batch_v1 import Job
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import JOB, JOBSET, POD, SERVICE
from muster.api.rules import jobset as rules
from muster.controllers import garbage
from muster.controllers import jobset as controller
from muster.controllers.driver import Change
from muster.effects import Create, Effect, Patch, RecordEvent, Requeue
from tests.controllers.memory import START, Memory
from tests.tiers import examples

#: What an admission may write into a pod template, and take out again.
_PAIRS: st.SearchStrategy[Object] = st.dictionaries(
    st.sampled_from(["flavor-a", "flavor-b"]), st.sampled_from(["x", "y"]), max_size=2
)
_DIRECTIVES: st.SearchStrategy[Object] = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({}, optional={"labels": _PAIRS, "annotations": _PAIRS}),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "nodeSelector": _PAIRS,
                "tolerations": st.lists(st.sampled_from([{"key": "spot"}, {"key": "old"}]), max_size=2),
                "schedulingGates": st.lists(st.just({"name": "flavor"}), max_size=1),
            },
        ),
    }
)
KINDS = (JOBSET, JOB, POD, SERVICE)


@dataclass
class World:
    now: datetime = START
    events: list[RecordEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.memory = Memory(lambda: self.now)

    def submit(
        self,
        *replicated: Object,
        annotations: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        obj = {
            "metadata": {"name": "js", "annotations": annotations or {}, "labels": labels or {}},
            "spec": {"replicatedJobs": list(replicated) or [group("w", replicas=2)], **spec},
        }
        self.memory.create(JOBSET, "ns", rules.default(obj))

    @property
    def jobset(self) -> JobSet:
        return self.memory.read(JOBSET, "ns/js")

    @property
    def jobs(self) -> list[str]:
        return [job.metadata.name for job in self.memory.all(JOB)]

    def job(self, name: str) -> Job:
        return self.memory.read(JOB, f"ns/{name}")

    def effects(self) -> list[Effect]:
        caches = self.memory.caches(KINDS, controller.INDEXES)
        observed = controller.observe(caches, "ns/js")
        return [] if observed is None else controller.reconcile(observed, self.now)

    def step(self) -> list[Effect]:
        effects = self.effects()
        self.events += self.memory.apply(effects)
        return [effect for effect in effects if not isinstance(effect, Requeue)]

    def settle(self) -> None:
        """Reconciles until nothing is left to do."""
        for _ in range(20):
            if not self.step():
                return
        raise AssertionError("no end")

    def passes(self, **time: float) -> None:
        self.now += timedelta(**time)

    def suspend(self, value: bool) -> None:
        self.memory.patch(JOBSET, "ns", "js", {"spec": {"suspend": value}})

    def status(self, job: str, **status: Any) -> None:
        self.memory.patch(JOB, "ns", job, {"status": status}, "status")

    def ready(self, *jobs: str) -> None:
        for name in jobs or self.jobs:
            self.status(name, active=1, ready=1)

    def condition(self, job: str, type_: str, reason: str = "", message: str = "") -> None:
        at = self.now.isoformat()
        new = {"type": type_, "status": "True", "reason": reason, "message": message}
        self.status(job, conditions=[{**new, "lastTransitionTime": at}])

    def fail(self, job: str, reason: str = "BackoffLimitExceeded", message: str = "too often") -> None:
        self.condition(job, "FailureTarget", reason, message)

    def succeed(self, *jobs: str) -> None:
        for name in jobs:
            self.status(name, succeeded=1, active=0, ready=0)
            self.condition(name, "Complete")

    def pod(self, job: str, name: str, phase: str, **container: Any) -> None:
        pod = self.memory.create(
            POD,
            "ns",
            {
                "metadata": {
                    "name": name,
                    "labels": self.job(job).spec.template["metadata"]["labels"],
                    "ownerReferences": [owner(self.job(job), JOB)],
                },
                "spec": {"nodeName": "node-1"},
            },
        )
        statuses = [{"name": "main", "state": container}]
        body = {"status": {"phase": phase, "containerStatuses": statuses}}
        self.memory.patch(POD, "ns", pod["metadata"]["name"], body, "status")

    def found(self, type_: str) -> Condition:
        result = condition(self.jobset.status.conditions, type_)
        assert result is not None, f"no condition {type_}"
        return result

    def has(self, type_: str) -> bool:
        result = condition(self.jobset.status.conditions, type_)
        return result is not None and result.status == "True"


def group(name: str, *, job: Object | None = None, **fields: Any) -> Object:
    spec: Object = {"template": {"spec": {"containers": [{"name": "main"}]}}, **(job or {})}
    return {"name": name, "template": {"spec": spec}, **fields}


@pytest.fixture
def world() -> World:
    return World()


RESTARTS: Object = {"maxRestarts": 1}


class TestConstruction:
    def test_makes_jobs_and_one_headless_service(self, world: World) -> None:
        world.submit(group("a"), group("b", replicas=2))
        world.settle()
        assert world.jobs == ["js-a-0", "js-b-0", "js-b-1"]
        (service,) = world.memory.all(SERVICE)
        assert service.key == "ns/js"
        assert service.spec.cluster_ip == "None"
        assert service.spec.selector == {keys.JOBSET_NAME: "js"}
        assert service.spec.publish_not_ready_addresses

    def test_labels_and_annotations_on_jobs_and_pods(self, world: World) -> None:
        world.submit(
            group("a", replicas=2, groupName="g"),
            group("b", replicas=3, job={"completions": 2}),
            group("c", replicas=1, groupName="g"),
            coordinator={"replicatedJob": "b", "jobIndex": 1, "podIndex": 1},
        )
        world.settle()
        job = world.job("js-c-0")
        expected = {
            "jobset-name": "js",
            "jobset-uid": world.jobset.metadata.uid,
            "replicatedjob-name": "c",
            "replicatedjob-replicas": "1",
            "global-replicas": "6",
            "job-index": "0",
            "job-global-index": "5",
            "job-key": "91570b15e611b10fee40fdc1fd143babf3b5cd0a",  # sha1 of ns/js-c-0
            "restart-attempt": "0",
            "job-restart-attempt": "0",
            "group-name": "g",
            "group-replicas": "3",
            "job-group-index": "2",
            "coordinator": "js-b-1-1.js",
        }
        expected = {f"jobset.sigs.k8s.io/{key}": value for key, value in expected.items()}
        pod = job.spec.template["metadata"]
        assert (
            job.metadata.labels == job.metadata.annotations == pod["labels"] == pod["annotations"] == expected
        )

    def test_templates_keep_their_own_and_learn_the_subdomain(self, world: World) -> None:
        mine = group("a", job={"completionMode": "NonIndexed", "suspend": True})
        mine["template"]["metadata"] = {"labels": {"x": "y"}, "annotations": {"x": "z"}}
        world.submit(mine, network={"subdomain": "sub"})
        world.settle()
        job = world.job("js-a-0")
        assert (job.metadata.labels["x"], job.metadata.annotations["x"]) == ("y", "z")
        assert job.spec.completion_mode == "NonIndexed"
        assert not job.spec.suspend
        assert job.spec.template["spec"]["subdomain"] == "sub"
        assert job.spec.template["spec"]["restartPolicy"] == "OnFailure"
        assert [service.key for service in world.memory.all(SERVICE)] == ["ns/sub"]

    def test_without_dns_there_is_no_service(self, world: World) -> None:
        world.submit(network={"enableDNSHostnames": False})
        world.settle()
        assert world.memory.all(SERVICE) == []
        assert "subdomain" not in world.job("js-w-0").spec.template["spec"]

    def test_a_service_of_the_name_is_taken_as_it_is(self, world: World) -> None:
        world.memory.create(SERVICE, "ns", {"metadata": {"name": "js"}, "spec": {"clusterIP": "10.0.0.1"}})
        world.submit()
        world.settle()
        assert world.memory.read(SERVICE, "ns/js").spec.cluster_ip == "10.0.0.1"

    def test_a_deleted_job_or_service_of_a_jobset_is_created_again(self, world: World) -> None:
        world.submit()
        world.settle()
        world.memory.delete(SERVICE, "ns", "js")
        world.memory.delete(JOB, "ns", "js-w-1")
        world.settle()
        assert world.jobs == ["js-w-0", "js-w-1"]
        assert len(world.memory.all(SERVICE)) == 1

    def test_a_jobset_of_another_controller_is_left_alone(self, world: World) -> None:
        world.submit(managedBy="kueue.x-k8s.io/multikueue")
        assert world.effects() == []

    def test_unsupported_fields_are_refused_without_admission_too(self, world: World) -> None:
        world.submit(volumeClaimPolicies=[{}])
        world.settle()
        assert world.jobs == []
        assert world.found("Failed").reason == "Unsupported"
        assert "spec.volumeClaimPolicies" in world.found("Failed").message

    def test_a_refused_job_is_reported(self, world: World) -> None:
        world.submit()
        created = [effect for effect in world.effects() if isinstance(effect, Create)]
        events = [each for effect in created if effect.refused for each in effect.refused("no quota")]
        assert {(each.reason, each.message) for each in events if isinstance(each, RecordEvent)} == {
            ("JobCreationFailed", "job js-w-0 was refused: no quota"),
            ("JobCreationFailed", "job js-w-1 was refused: no quota"),
            ("HeadlessServiceCreationFailed", "the service was refused: no quota"),
        }


class TestStatus:
    def test_counts_per_replicated_job(self, world: World) -> None:
        world.submit(group("a", replicas=4, job={"parallelism": 2}), group("b"))
        world.settle()
        world.status("js-a-0", active=2, ready=2)
        world.status("js-a-1", active=1, ready=1)
        world.status("js-a-2", active=0, ready=0, succeeded=1)
        world.condition("js-a-2", "Complete")
        world.settle()
        a, b = world.jobset.status.replicated_jobs_status
        assert (a.name, a.ready, a.succeeded, a.failed, a.active, a.suspended) == ("a", 1, 1, 0, 2, 0)
        assert (b.name, b.ready, b.active) == ("b", 0, 0)
        raw = world.memory.json(JOBSET, "ns/js")["status"]["replicatedJobsStatus"][1]
        assert raw == {"name": "b", "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}

    def test_conditions_come_with_events_after_the_write(self, world: World) -> None:
        world.submit(group("a"))
        world.settle()
        world.succeed("js-a-0")
        effects = world.effects()
        assert [type(effect).__name__ for effect in effects] == ["Patch", "RecordEvent"]
        record = effects[-1]
        assert isinstance(record, RecordEvent)
        assert (record.type, record.reason, record.about["name"]) == ("Normal", "AllJobsCompleted", "js")


class TestSuccess:
    @pytest.mark.parametrize(
        ("policy", "done", "complete"),
        [
            ({}, ["js-a-0", "js-b-0"], False),
            ({}, ["js-a-0", "js-b-0", "js-b-1"], True),
            ({"operator": "Any"}, ["js-b-1"], True),
            ({"operator": "Any", "targetReplicatedJobs": ["a"]}, ["js-b-0", "js-b-1"], False),
            ({"operator": "All", "targetReplicatedJobs": ["a"]}, ["js-a-0"], True),
            ({"operator": "All", "targetReplicatedJobs": ["b"]}, ["js-a-0", "js-b-0"], False),
        ],
    )
    def test_policy(self, world: World, policy: Object, done: list[str], complete: bool) -> None:
        world.submit(group("a"), group("b", replicas=2), successPolicy=policy)
        world.settle()
        world.succeed(*done)
        world.settle()
        assert world.has("Completed") is complete
        assert world.jobset.status.terminal_state == ("Completed" if complete else "")

    def test_no_jobs_at_all_are_done_at_once(self, world: World) -> None:
        world.submit(group("a", replicas=0))
        world.settle()
        assert world.has("Completed")

    def test_the_decision_to_succeed_is_enough(self, world: World) -> None:
        world.submit(group("a"))
        world.settle()
        world.condition("js-a-0", "SuccessCriteriaMet")
        world.settle()
        assert world.has("Completed")

    def test_active_jobs_go_when_the_set_is_done(self, world: World) -> None:
        world.submit(group("a"), group("b"), successPolicy={"operator": "Any"})
        world.settle()
        world.succeed("js-a-0")
        world.settle()
        assert world.jobs == ["js-a-0"]
        assert len(world.memory.all(SERVICE)) == 1

    def test_a_failure_comes_before_a_success(self, world: World) -> None:
        world.submit(group("a"), group("b"), successPolicy={"operator": "All", "targetReplicatedJobs": ["a"]})
        world.settle()
        world.succeed("js-a-0")
        world.fail("js-b-0")
        world.settle()
        assert (world.has("Failed"), world.has("Completed")) == (True, False)

    def test_time_to_live(self, world: World) -> None:
        world.submit(group("a"), ttlSecondsAfterFinished=60)
        world.settle()
        world.succeed("js-a-0")
        world.settle()
        assert [e.at for e in world.effects() if isinstance(e, Requeue)] == [START + timedelta(seconds=60)]
        world.passes(seconds=60)
        world.step()
        meta = world.jobset.metadata
        assert (meta.finalizers, meta.deletion_timestamp) == (["foregroundDeletion"], world.now)
        assert world.effects() == []


class TestFailure:
    def test_without_a_policy_one_failed_job_fails_the_set(self, world: World) -> None:
        world.submit()
        world.settle()
        world.fail("js-w-1")
        world.settle()
        failed = world.found("Failed")
        assert failed.reason == "FailedJobs"
        assert failed.message.endswith("(first failed job: js-w-1)")
        assert world.jobset.status.terminal_state == "Failed"
        assert world.jobs == ["js-w-1"]

    @pytest.mark.parametrize("type_", ["FailureTarget", "Failed"])
    def test_the_decision_to_fail_is_enough(self, world: World, type_: str) -> None:
        world.submit(failurePolicy=RESTARTS)
        world.settle()
        world.condition("js-w-0", type_, "BackoffLimitExceeded")
        world.step()
        assert world.jobset.status.restarts == 1

    def test_a_restart_replaces_all_jobs_within_two_reconciles(self, world: World) -> None:
        world.submit(failurePolicy=RESTARTS)
        world.settle()
        world.succeed("js-w-1")
        old = {job.metadata.uid for job in world.memory.all(JOB)}
        world.fail("js-w-0")
        world.step()
        assert {job.metadata.uid for job in world.memory.all(JOB)} == old
        world.step()
        assert world.jobs == ["js-w-0", "js-w-1"]
        assert old.isdisjoint(job.metadata.uid for job in world.memory.all(JOB))
        assert {job.metadata.labels[keys.RESTART_ATTEMPT] for job in world.memory.all(JOB)} == {"1"}

    def test_the_condition_names_the_pod_that_failed_first_even_if_its_status_comes_later(
        self, world: World
    ) -> None:
        world.submit()
        world.settle()
        begin, later = world.now.isoformat(), (world.now + timedelta(milliseconds=140)).isoformat()
        world.pod("js-w-0", "js-w-0-0-x", "Failed", terminated={"exitCode": 1, "finishedAt": later})
        world.pod("js-w-1", "js-w-1-0-y", "Running", running={"startedAt": begin})
        world.fail("js-w-0")
        world.settle()
        since = world.found("Failed").last_transition_time
        assert world.found("Failed").message == (
            "one or more jobs failed: pod js-w-0-0-x, container main, exited with code 1 on node-1 "
            "(first failed job: js-w-0)"
        )
        told = len(world.events)
        state = {"terminated": {"exitCode": 17, "finishedAt": begin}}
        body = {"status": {"phase": "Failed", "containerStatuses": [{"name": "main", "state": state}]}}
        world.memory.patch(POD, "ns", "js-w-1-0-y", body, "status")
        (watch,) = [watch for watch in controller.WATCHES if watch.kind is POD]
        pod = world.memory.read(POD, "ns/js-w-1-0-y")
        assert list(watch.keys(Change(world.memory.caches(KINDS, controller.INDEXES), None, pod))) == [
            "ns/js"
        ]
        world.settle()
        assert world.found("Failed").message == (
            "one or more jobs failed: pod js-w-1-0-y, container main, exited with code 17 on node-1; "
            "1 other with code 1, 140 ms later (first failed job: js-w-1)"
        )
        assert world.found("Failed").last_transition_time == since
        assert len(world.events) == told, "a correction is no event"

    def test_the_status_tells_cause_and_count_while_and_after(self, world: World) -> None:
        world.submit(failurePolicy=RESTARTS)
        world.settle()
        at = world.now.isoformat()
        later = (world.now + timedelta(seconds=1)).isoformat()
        world.pod("js-w-0", "js-w-0-1-x", "Failed", terminated={"exitCode": 1, "finishedAt": later})
        world.pod("js-w-0", "js-w-0-0-y", "Failed", terminated={"exitCode": 137, "finishedAt": at})
        world.fail("js-w-0")
        world.settle()
        cause = (
            "restart 1: pod js-w-0-0-y, container main, exited with code 137 on node-1; 1 other with code 1, "
            "1 s later (first failed job: js-w-0)"
        )
        restarting = world.found("RestartingJobSet")
        assert (restarting.status, restarting.reason) == ("True", "DefaultFailurePolicy")
        assert restarting.message == cause
        assert (world.jobset.status.restarts, world.jobset.status.restarts_count_towards_max) == (1, 1)
        told = [event for event in world.events if event.reason == "RestartJobSetFailurePolicyAction"]
        assert [(event.type, event.message) for event in told] == [("Warning", cause)]
        world.ready()
        world.settle()
        restarting = world.found("RestartingJobSet")
        assert (restarting.status, restarting.reason) == ("False", "JobsReady")
        assert restarting.message.endswith(cause)

    def test_a_preempted_pod_is_not_the_cause_of_a_failure(self, world: World) -> None:
        world.submit()
        world.settle()
        at = world.now.isoformat()
        world.pod("js-w-0", "js-w-0-0-y", "Failed", terminated={"exitCode": 143, "finishedAt": at})
        preempted = [{"type": names.PREEMPTED, "status": "True"}]
        world.memory.patch(POD, "ns", "js-w-0-0-y", {"status": {"conditions": preempted}}, "status")
        world.fail("js-w-0", "BackoffLimitExceeded", "one too many")
        world.settle()
        assert "BackoffLimitExceeded: one too many" in world.found("Failed").message

    def test_the_restarts_end(self, world: World) -> None:
        world.submit(failurePolicy=RESTARTS)
        for _ in range(2):
            world.settle()
            world.fail("js-w-0")
        world.settle()
        assert world.found("Failed").reason == "ReachedMaxRestarts"
        assert world.found("RestartingJobSet").reason == "JobSetFailed"
        assert world.jobset.status.restarts == 1

    def test_a_pod_that_does_not_end_blocks_nothing(self, world: World) -> None:
        world.submit(group("w"), failurePolicy=RESTARTS)
        world.settle()
        world.pod("js-w-0", "stuck", "Running")
        world.memory.patch(POD, "ns", "stuck", {"metadata": {"finalizers": ["test/stuck"]}})
        world.fail("js-w-0")
        world.settle()
        collect(world.memory)
        assert world.memory.read(POD, "ns/stuck").metadata.deletion_timestamp is not None
        assert world.job("js-w-0").metadata.labels[keys.RESTART_ATTEMPT] == "1"

    def test_a_job_that_something_holds_back_is_replaced_when_it_is_gone(self, world: World) -> None:
        world.submit(failurePolicy=RESTARTS)
        world.settle()
        world.memory.patch(JOB, "ns", "js-w-1", {"metadata": {"finalizers": ["test/hold"]}})
        world.fail("js-w-0")
        world.settle()
        attempts = [job.metadata.labels[keys.RESTART_ATTEMPT] for job in world.memory.all(JOB)]
        assert attempts == ["1", "0"]
        world.memory.patch(JOB, "ns", "js-w-1", {"metadata": {"finalizers": None}})
        world.settle()
        attempts = [job.metadata.labels[keys.RESTART_ATTEMPT] for job in world.memory.all(JOB)]
        assert attempts == ["1", "1"]

    def test_blocking_recreate_waits_for_all_of_them(self, world: World) -> None:
        world.submit(failurePolicy={"maxRestarts": 1, "restartStrategy": "BlockingRecreate"})
        world.settle()
        world.memory.patch(JOB, "ns", "js-w-1", {"metadata": {"finalizers": ["test/hold"]}})
        world.fail("js-w-0")
        world.settle()
        assert world.jobs == ["js-w-1"]
        world.memory.patch(JOB, "ns", "js-w-1", {"metadata": {"finalizers": None}})
        world.settle()
        assert world.jobs == ["js-w-0", "js-w-1"]

    @pytest.mark.parametrize(
        ("rules_", "outcome"),
        [
            ([], "restarted"),
            ([{"action": "FailJobSet"}], "failed"),
            ([{"action": "FailJobSet", "targetReplicatedJobs": ["b"]}], "restarted"),
            ([{"action": "FailJobSet", "targetReplicatedJobs": ["a"]}], "failed"),
            ([{"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}], "failed"),
            ([{"action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}], "restarted"),
            ([{"action": "FailJobSet", "onJobFailureMessagePatterns": ["code 4[12]"]}], "failed"),
            ([{"action": "FailJobSet", "onJobFailureMessagePatterns": ["^code"]}], "restarted"),
            ([{"action": "FailJobSet", "onJobFailureMessagePatterns": ["(", "exit"]}], "failed"),
            (
                [
                    {
                        "action": "FailJobSet",
                        "onJobFailureReasons": ["PodFailurePolicy"],
                        "onJobFailureMessagePatterns": ["nothing of it"],
                    }
                ],
                "restarted",
            ),
            ([{"action": "RestartJobSetAndIgnoreMaxRestarts"}, {"action": "FailJobSet"}], "free restart"),
            ([{"action": "RestartJob"}], "alone"),
            ([{"action": "RestartJobAndIgnoreMaxRestarts"}], "alone, free"),
        ],
    )
    def test_rules(self, world: World, rules_: list[Object], outcome: str) -> None:
        world.submit(
            group("a", replicas=2),
            group("b"),
            failurePolicy={"maxRestarts": 1, "rules": copy.deepcopy(rules_)},
        )
        world.settle()
        world.fail("js-a-1", "PodFailurePolicy", "container exit code 42")
        world.settle()
        status = world.jobset.status
        restarts = (status.restarts, status.restarts_count_towards_max)
        a = status.replicated_jobs_status[0]
        alone = (a.job_restarts, a.job_restarts_count_towards_max)
        expected = {
            "failed": (True, (0, 0), ([], [])),
            "restarted": (False, (1, 1), ([], [])),
            "free restart": (False, (1, 0), ([], [])),
            "alone": (False, (0, 0), ([0, 1], [0, 1])),
            "alone, free": (False, (0, 0), ([0, 1], [0, 0])),
        }
        assert (world.has("Failed"), restarts, alone) == expected[outcome]
        if outcome == "failed":
            assert world.found("Failed").reason == "FailJobSetFailurePolicyAction"

    def test_restarting_one_job_leaves_the_others(self, world: World) -> None:
        world.submit(failurePolicy={"maxRestarts": 1, "rules": [{"action": "RestartJob"}]})
        world.settle()
        before = world.job("js-w-0").metadata.uid
        world.fail("js-w-1")
        world.settle()
        assert world.job("js-w-0").metadata.uid == before
        assert world.job("js-w-1").metadata.labels[keys.JOB_RESTART_ATTEMPT] == "1"
        assert world.job("js-w-1").metadata.labels[keys.RESTART_ATTEMPT] == "0"
        world.fail("js-w-0")
        world.settle()
        assert world.found("Failed").reason == "ReachedMaxRestarts"

    def test_of_several_failures_the_first_counts(self, world: World) -> None:
        world.submit()
        world.settle()
        world.passes(seconds=1)
        world.fail("js-w-0")
        world.passes(seconds=-1)
        world.fail("js-w-1")
        world.settle()
        assert world.found("Failed").message.endswith("(first failed job: js-w-1)")

    def test_a_rule_is_named_as_the_reason(self, world: World) -> None:
        rule = {"name": "mine", "action": "RestartJobSet"}
        world.submit(failurePolicy={"maxRestarts": 1, "rules": [rule]})
        world.settle()
        world.fail("js-w-0")
        world.settle()
        assert world.found("RestartingJobSet").reason == "FailurePolicy_mine"


class TestOrder:
    def test_in_order(self, world: World) -> None:
        world.submit(
            group("a", replicas=2),
            group("b"),
            startupPolicy={"startupPolicyOrder": "InOrder"},
            failurePolicy=RESTARTS,
        )
        world.settle()
        assert world.jobs == ["js-a-0", "js-a-1"]
        assert world.has("StartupPolicyInProgress")
        world.ready("js-a-0")
        world.settle()
        assert len(world.jobs) == 2
        world.succeed("js-a-1")
        world.settle()
        assert world.jobs == ["js-a-0", "js-a-1", "js-b-0"]
        assert not world.has("StartupPolicyCompleted")
        world.ready("js-b-0")
        world.settle()
        assert (world.has("StartupPolicyInProgress"), world.has("StartupPolicyCompleted")) == (False, True)
        world.fail("js-b-0")
        world.settle()
        assert world.jobs == ["js-a-0", "js-a-1"]
        assert (world.has("StartupPolicyInProgress"), world.has("StartupPolicyCompleted")) == (True, False)

    def test_in_order_suspended_sets_have_all_jobs_and_resume_in_order(self, world: World) -> None:
        world.submit(group("a"), group("b"), startupPolicy={"startupPolicyOrder": "InOrder"}, suspend=True)
        world.settle()
        assert [job.spec.suspend for job in world.memory.all(JOB)] == [True, True]
        world.suspend(False)
        world.settle()
        assert [job.spec.suspend for job in world.memory.all(JOB)] == [False, True]
        world.ready("js-a-0")
        world.settle()
        assert [job.spec.suspend for job in world.memory.all(JOB)] == [False, False]

    @pytest.mark.parametrize(("status", "done"), [("Ready", "ready"), ("Complete", "succeed")])
    def test_depends_on(self, world: World, status: str, done: str) -> None:
        world.submit(group("a"), group("b", dependsOn=[{"name": "a", "status": status}]), suspend=True)
        world.settle()
        assert world.jobs == ["js-a-0"]
        world.suspend(False)
        world.settle()
        assert world.jobs == ["js-a-0"]
        if done == "succeed":
            world.ready("js-a-0")
            world.settle()
            assert world.jobs == ["js-a-0"]
        getattr(world, done)("js-a-0")
        world.settle()
        assert world.jobs == ["js-a-0", "js-b-0"]

    def test_all_dependencies_must_hold(self, world: World) -> None:
        both = [{"name": "a", "status": "Ready"}, {"name": "b", "status": "Complete"}]
        world.submit(group("a"), group("b"), group("c", dependsOn=both))
        world.settle()
        world.ready("js-a-0", "js-b-0")
        world.settle()
        assert world.jobs == ["js-a-0", "js-b-0"]
        world.succeed("js-b-0")
        world.settle()
        assert world.jobs == ["js-a-0", "js-b-0", "js-c-0"]


class TestSuspension:
    def test_there_and_back(self, world: World) -> None:
        world.submit(suspend=True)
        world.settle()
        assert [job.spec.suspend for job in world.memory.all(JOB)] == [True, True]
        assert (world.found("Suspended").status, world.found("Suspended").reason) == ("True", "SuspendedJobs")
        assert world.jobset.status.replicated_jobs_status[0].suspended == 2
        world.suspend(False)
        world.settle()
        assert [job.spec.suspend for job in world.memory.all(JOB)] == [False, False]
        assert (world.found("Suspended").status, world.found("Suspended").reason) == ("False", "ResumeJobs")

    def test_resumed_jobs_learn_where_they_may_run(self, world: World) -> None:
        world.submit(group("w"), suspend=True)
        world.settle()
        world.status("js-w-0", startTime=world.now.isoformat())
        template = world.memory.json(JOBSET, "ns/js")["spec"]["replicatedJobs"]
        pod = template[0]["template"]["spec"]["template"]
        pod["spec"]["nodeSelector"] = {"zone": "a"}
        pod["spec"]["tolerations"] = [{"key": "spot", "operator": "Exists"}]
        pod["metadata"] = {"labels": {"flavor": "spot"}}
        world.memory.patch(JOBSET, "ns", "js", {"spec": {"replicatedJobs": template, "suspend": False}})
        world.settle()
        job = world.job("js-w-0")
        assert job.spec.template["spec"]["nodeSelector"] == {"zone": "a"}
        assert job.spec.template["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
        assert job.spec.template["metadata"]["labels"]["flavor"] == "spot"
        assert job.spec.template["metadata"]["labels"][keys.JOB_INDEX] == "0"
        assert job.status.start_time is None
        assert not job.spec.suspend

    @settings(max_examples=examples(20), deadline=None)
    @given(st.lists(_DIRECTIVES, min_size=2, max_size=4))
    def test_each_admission_is_followed_in_both_directions(self, admissions: list[Object]) -> None:
        world = World()
        world.submit(group("w"), suspend=True)
        world.settle()
        own = {"batch.kubernetes.io/controller-uid": "u", "job-name": "js-w-0"}
        world.memory.patch(JOB, "ns", "js-w-0", {"spec": {"template": {"metadata": {"labels": own}}}})
        for admission in admissions:
            groups = world.memory.json(JOBSET, "ns/js")["spec"]["replicatedJobs"]
            pod = groups[0]["template"]["spec"].setdefault("template", {})
            for part, stated in admission.items():
                kept = {key: value for key, value in (pod.get(part) or {}).items() if key == "containers"}
                pod[part] = {**kept, **copy.deepcopy(stated)}
            world.memory.patch(JOBSET, "ns", "js", {"spec": {"replicatedJobs": groups, "suspend": False}})
            world.settle()
            got = world.job("js-w-0").spec.template
            for name in ("nodeSelector", "tolerations", "schedulingGates"):
                assert (got["spec"].get(name) or None) == (admission["spec"].get(name) or None)
            for name in ("labels", "annotations"):
                told = got["metadata"][name]
                stated = admission["metadata"].get(name) or {}
                assert {key: told[key] for key in told if key.startswith("flavor")} == stated
            assert got["metadata"]["labels"].items() >= own.items()
            assert got["metadata"]["labels"][keys.JOB_INDEX] == "0"
            world.suspend(True)
            world.settle()

    def test_the_condition_is_written_before_the_first_job_is_suspended(self, world: World) -> None:
        world.submit()
        world.settle()
        world.suspend(True)
        patched = [effect.kind.kind for effect in world.effects() if isinstance(effect, Patch)]
        assert patched == ["JobSet", "Job", "Job"]

    def test_failing_because_peers_were_suspended_is_no_failure(self, world: World) -> None:
        world.submit(failurePolicy={"maxRestarts": 0})
        world.settle()
        world.ready()
        world.suspend(True)
        world.settle()
        world.passes(seconds=2)
        before = world.job("js-w-1").metadata.uid
        world.fail("js-w-1")
        world.settle()
        assert not world.has("Failed")
        assert world.jobset.status.restarts == 0
        assert world.job("js-w-1").metadata.uid != before
        assert world.job("js-w-1").spec.suspend

    def test_nor_if_it_is_resumed_before_the_controller_looks(self, world: World) -> None:
        world.submit(failurePolicy={"maxRestarts": 0})
        world.settle()
        world.suspend(True)
        world.settle()
        world.passes(seconds=2)
        world.fail("js-w-1")
        world.suspend(False)
        world.settle()
        assert not world.has("Failed")
        assert [job.spec.suspend for job in world.memory.all(JOB)] == [False, False]
        world.passes(seconds=2)
        world.fail("js-w-1")
        world.settle()
        assert world.has("Failed")

    def test_a_failure_before_a_suspension_still_fails_the_jobset(self, world: World) -> None:
        world.submit()
        world.settle()
        world.fail("js-w-0")
        world.passes(seconds=2)
        world.suspend(True)
        world.settle()
        assert world.has("Failed")


class TestDeadline:
    def test_counts_from_the_first_pod_over_restarts(self, world: World) -> None:
        world.submit(group("w"), annotations={names.DEADLINE: "10m"}, failurePolicy={"maxRestarts": 9})
        world.settle()
        world.passes(hours=1)  # waiting is free
        started = world.now.isoformat()
        world.pod("js-w-0", "p", "Running", running={"startedAt": started})
        world.passes(seconds=1)
        world.settle()
        due = START + timedelta(hours=1, minutes=10)
        assert [e.at for e in world.effects() if isinstance(e, Requeue)] == [due]
        world.passes(minutes=5)
        world.fail("js-w-0")
        world.settle()
        world.passes(minutes=4)
        world.settle()
        assert not world.has("Failed")
        world.passes(minutes=1)
        world.settle()
        assert world.found("Failed").reason == "DeadlineExceeded"
        assert "10m" in world.found("Failed").message
        assert world.jobs == []

    def test_a_label_says_it_as_well(self, world: World) -> None:
        world.submit(group("w"), labels={names.DEADLINE: "10m"})
        world.settle()
        world.pod("js-w-0", "p", "Running", running={"startedAt": world.now.isoformat()})
        world.settle()
        world.passes(minutes=10)
        world.settle()
        assert world.found("Failed").reason == "DeadlineExceeded"
        assert "10m" in world.found("Failed").message

    def test_suspended_time_is_not_the_jobs(self, world: World) -> None:
        world.submit(group("w"), annotations={names.DEADLINE: "10m"})
        world.settle()
        world.pod("js-w-0", "p", "Running", running={"startedAt": world.now.isoformat()})
        world.settle()
        world.passes(minutes=6)
        world.suspend(True)
        world.settle()
        world.memory.delete(POD, "ns", "p")
        world.passes(hours=5)
        world.suspend(False)
        world.settle()
        world.passes(hours=1)
        world.settle()
        assert names.RUNNING_SINCE not in world.jobset.metadata.annotations
        assert float(world.jobset.metadata.annotations[names.TIME_USED]) == 360
        world.pod("js-w-0", "q", "Running", running={"startedAt": world.now.isoformat()})
        world.settle()
        world.passes(minutes=3)
        world.settle()
        assert not world.has("Failed")
        world.passes(minutes=1)
        world.settle()
        assert world.has("Failed")

    @pytest.mark.parametrize(("phase", "runs"), [("Running", True), ("Succeeded", False)])
    def test_of_pods_from_before_only_those_that_still_run_count(
        self, world: World, phase: str, runs: bool
    ) -> None:
        world.submit(group("w"), annotations={names.DEADLINE: "10m"})
        world.settle()
        world.pod("js-w-0", "p", phase, running={"startedAt": world.now.isoformat()})
        world.settle()
        world.suspend(True)
        world.settle()
        world.passes(minutes=30)
        world.suspend(False)
        world.settle()
        since = world.now.isoformat().replace("+00:00", "Z") if runs else None
        assert world.jobset.metadata.annotations.get(names.RUNNING_SINCE) == since

    def test_a_pod_that_is_being_ended_does_not_start_the_clock(self, world: World) -> None:
        world.submit(group("w"), annotations={names.DEADLINE: "10m"})
        world.settle()
        world.pod("js-w-0", "p", "Running", running={"startedAt": world.now.isoformat()})
        world.memory.patch(POD, "ns", "p", {"metadata": {"finalizers": ["test/slow"]}})
        world.memory.delete(POD, "ns", "p")
        world.settle()
        assert names.RUNNING_SINCE not in world.jobset.metadata.annotations

    def test_a_success_at_the_last_moment_is_one(self, world: World) -> None:
        world.submit(group("w"), annotations={names.DEADLINE: "10m"})
        world.settle()
        world.pod("js-w-0", "p", "Running", running={"startedAt": world.now.isoformat()})
        world.settle()
        world.passes(minutes=11)
        world.succeed("js-w-0")
        world.settle()
        assert world.has("Completed")

    def test_of_pods_only_the_first_start_wakes_the_controller(self, world: World) -> None:
        world.submit(group("w"), annotations={names.DEADLINE: "10m"})
        world.settle()
        (watch,) = [watch for watch in controller.WATCHES if watch.kind is POD]

        def woken(old: str, new: str) -> list[str]:
            pods = []
            for phase in (old, new):
                world.pod("js-w-0", "p", phase)
                pods.append(world.memory.read(POD, "ns/p"))
                world.memory.delete(POD, "ns", "p")
            caches = world.memory.caches(KINDS, controller.INDEXES)
            return list(watch.keys(Change(caches, *pods)))

        assert woken("Pending", "Pending") == []
        assert woken("Pending", "Running") == ["ns/js"]
        assert woken("Running", "Running") == []
        running = {names.RUNNING_SINCE: world.now.isoformat()}
        world.memory.patch(JOBSET, "ns", "js", {"metadata": {"annotations": running}})
        assert woken("Pending", "Running") == []


class TestRestartBudget:
    def test_fails_the_set_when_all_jobs_together_failed_too_often(self, world: World) -> None:
        world.submit(annotations={names.RESTART_BUDGET: "2"}, failurePolicy={"maxRestarts": 0})
        world.settle()
        world.status("js-w-0", failed=1)
        world.settle()
        world.status("js-w-1", failed=1)
        world.settle()
        assert not world.has("Failed")
        world.status("js-w-1", failed=2)
        world.pod("js-w-1", "p", "Failed", terminated={"exitCode": 3, "finishedAt": world.now.isoformat()})
        world.settle()
        failed = world.found("Failed")
        assert failed.reason == "ReachedMaxRestarts"
        assert failed.message.startswith("3 failures over all jobs, muster.dev/restart-budget allows 2")
        assert "exited with code 3" in failed.message
        assert world.jobs == []

    def test_a_label_says_it_as_well(self, world: World) -> None:
        world.submit(labels={names.RESTART_BUDGET: "0"}, failurePolicy={"maxRestarts": 9})
        world.settle()
        world.status("js-w-0", failed=1)
        world.settle()
        assert world.found("Failed").message.startswith(
            "1 failure over all jobs, muster.dev/restart-budget allows none"
        )

    @pytest.mark.parametrize(("limits", "named"), [([0, 0], "backoffLimit"), ([0, 6], names.RESTART_BUDGET)])
    def test_the_limit_has_the_name_that_a_manifest_gives_it(
        self, world: World, limits: list[int], named: str
    ) -> None:
        groups = [group(f"w{number}", job={"backoffLimit": each}) for number, each in enumerate(limits)]
        world.submit(*groups, annotations={names.RESTART_BUDGET: "0"})
        world.settle()
        world.status("js-w0-0", failed=1)
        world.settle()
        assert world.found("Failed").message.startswith(f"1 failure over all jobs, {named} allows none")

    def test_a_failure_counts_before_the_job_has_added_it_up(self, world: World) -> None:
        world.submit(annotations={names.RESTART_BUDGET: "1"}, failurePolicy={"maxRestarts": 0})
        world.settle()
        world.status("js-w-0", failed=1, uncountedTerminatedPods={"failed": ["uid-of-p"]})
        world.fail("js-w-0")
        world.settle()
        message = world.found("Failed").message
        assert message.startswith("2 failures over all jobs, muster.dev/restart-budget allows 1")

    def test_counts_survive_the_jobs(self, world: World) -> None:
        world.submit(annotations={names.RESTART_BUDGET: "2"}, failurePolicy={"maxRestarts": 9})
        world.settle()
        world.status("js-w-0", failed=2)
        world.fail("js-w-0")
        world.step()
        assert world.jobset.status.restarts == 0, "the count is written first"
        world.settle()
        assert world.jobset.status.restarts == 1
        world.memory.delete(JOB, "ns", "js-w-1")
        world.settle()
        world.status("js-w-1", failed=1)
        world.settle()
        assert world.has("Failed")

    def test_zero_allows_none(self, world: World) -> None:
        world.submit(annotations={names.RESTART_BUDGET: "0"})
        world.settle()
        assert not world.has("Failed")
        world.status("js-w-1", failed=1)
        world.settle()
        assert world.has("Failed")


def collect(memory: Memory) -> None:
    """One round of garbage collection."""
    caches = memory.caches(garbage.KINDS)
    for kind, path in list(memory.objects):
        observed = garbage.observe(caches, f"{kind.api_version} {kind.kind} {path}")
        if observed is not None:
            memory.apply(garbage.reconcile(observed, memory.now()))


ACTIONS = st.sampled_from(
    ["ready", "fail", "succeed", "suspend", "resume", "delete", "pod fails", "pod runs", "time", "look"]
)


@given(
    actions=st.lists(st.tuples(ACTIONS, st.integers(0, 3)), max_size=25),
    order=st.sampled_from(["AnyOrder", "InOrder"]),
    strategy=st.sampled_from(["Recreate", "BlockingRecreate"]),
    action=st.sampled_from(rules.ACTIONS),
    suspended=st.booleans(),
)
@settings(max_examples=examples(80), deadline=None)
def test_whatever_happens_it_settles_and_then_nothing_changes(
    actions: list[tuple[str, int]], order: str, strategy: str, action: str, suspended: bool
) -> None:
    """After any course of events: reconciling ends, doing it again changes nothing, counters only grew,
    and the set is finished or has all the Jobs it may have, all of the current attempt."""
    world = World()
    world.submit(
        group("a", replicas=2),
        group("b"),
        annotations={names.RESTART_BUDGET: "6", names.DEADLINE: "1h"},
        startupPolicy={"startupPolicyOrder": order},
        failurePolicy={
            "maxRestarts": 2,
            "restartStrategy": strategy,
            "rules": [{"action": action, "targetReplicatedJobs": ["a"]}],
        },
        suspend=suspended,
    )
    counters = (0, 0, 0)
    for what, number in actions:
        world.passes(seconds=2)
        jobs = world.jobs
        job = jobs[number % len(jobs)] if jobs else None
        if what == "look":
            world.step()
        elif what == "time":
            world.passes(minutes=5)
        elif what in ("suspend", "resume"):
            world.suspend(what == "suspend")
        elif job is not None and not world.job(job).status.conditions:
            if what == "delete":
                world.memory.delete(JOB, "ns", job)
            elif what == "pod fails":
                world.status(job, failed=world.job(job).status.failed + 1)
            elif what == "pod runs":
                world.pod(job, f"p{world.memory.revision}", "Running", running={"startedAt": str(world.now)})
            elif what in ("ready", "fail", "succeed"):
                getattr(world, what)(job)
        status = world.jobset.status
        alone = sum(sum(group.job_restarts) for group in status.replicated_jobs_status)
        assert (status.restarts, status.restarts_count_towards_max, alone) >= counters
        counters = (status.restarts, status.restarts_count_towards_max, alone)
    world.settle()
    assert [effect for effect in world.effects() if not isinstance(effect, Requeue)] == []
    finished = world.has("Failed") or world.has("Completed")
    assert finished == bool(world.jobset.status.terminal_state)
    if not finished:
        for job_ in world.memory.all(JOB):
            assert job_.metadata.labels[keys.RESTART_ATTEMPT] == str(world.jobset.status.restarts)
            assert not any(c.type == "FailureTarget" for c in job_.status.conditions)
        assert {"js-a-0", "js-a-1"} <= set(world.jobs)
        if order == "AnyOrder":
            assert "js-b-0" in world.jobs
            undecided = [job_ for job_ in world.memory.all(JOB) if not job_.status.conditions]
            assert all(job_.spec.suspend == world.jobset.spec.suspend for job_ in undecided)


@pytest.mark.parametrize("end", ["Completed", "Failed"])
def test_a_child_job_lives_until_its_jobset_ends_and_then_its_own_time(end: str) -> None:
    world = World()
    short, long = group("short"), group("long")
    short["template"]["spec"]["ttlSecondsAfterFinished"] = 0
    world.submit(short, long)
    world.settle()
    world.succeed("js-short-0")
    world.settle()
    assert world.job("js-short-0").spec.ttl_seconds_after_finished is None
    (world.succeed if end == "Completed" else world.fail)("js-long-0")
    world.settle()
    assert world.has(end)
    assert world.job("js-short-0").spec.ttl_seconds_after_finished == 0
    assert world.job("js-long-0").spec.ttl_seconds_after_finished is None
    world.memory.delete(JOB, "ns", "js-short-0")
    world.settle()
    assert world.jobs == ["js-long-0"]


class TestOnJobFailure:
    """`muster.dev/on-job-failure: continue`: a Job that fails ends no other."""

    def submit(self, world: World, action: str = "continue") -> None:
        world.submit(annotations={names.ON_JOB_FAILURE: action}, failurePolicy={"maxRestarts": 0})
        world.settle()

    def test_the_others_go_on_and_their_end_completes_the_set(self, world: World) -> None:
        self.submit(world)
        world.fail("js-w-0")
        world.settle()
        assert not world.has("Failed")
        world.succeed("js-w-1")
        world.settle()
        assert world.found("Completed").message == (
            "all jobs ended; 1 job failed, which muster.dev/on-job-failure permits"
        )

    def test_a_set_in_which_nothing_succeeds_has_failed(self, world: World) -> None:
        self.submit(world)
        world.fail("js-w-0")
        world.fail("js-w-1")
        world.settle()
        assert world.found("Failed").message.startswith("nothing succeeded: ")

    def test_an_index_that_succeeds_is_enough(self, world: World) -> None:
        self.submit(world)
        world.status("js-w-0", succeeded=1)
        world.fail("js-w-0")
        world.fail("js-w-1")
        world.settle()
        assert world.has("Completed")

    def test_stop_is_as_without_it(self, world: World) -> None:
        self.submit(world, "stop")
        world.fail("js-w-0")
        world.settle()
        assert world.found("Failed").reason == "ReachedMaxRestarts"
