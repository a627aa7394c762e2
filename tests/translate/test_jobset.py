"""JobSets as gangs: pod sets, places over several Jobs, restarts, stages."""

from dataclasses import replace
from typing import Any

import pytest

from muster import names
from muster.api import groups
from muster.api.base import Object, Resource
from muster.api.kinds import JOBSET
from muster.core.words.gang import Code, Gate, Place, PodSet, Shape
from muster.translate.group import Group, Owner
from muster.translate.identity import GroupKey
from muster.translate.jobset import keys
from tests.translate.cluster import child, job, jobset, pod, pod_spec, read, world

KEY = GroupKey(groups.JOBSET, "ns", "s")
OURS = {names.ADMISSION: "gang"}


def the_gang(*objects: Resource, stage: str = "", before: Group | None = None) -> Group:
    group = read(KEY._replace(stage=stage), world(*objects), before)
    assert group is not None
    return group


def gate(*objects: Resource, stage: str = "") -> tuple[Code, str] | None:
    found = the_gang(*objects, stage=stage).gang.gate
    return None if found is None else (found.code, found.message)


def test_a_pod_set_per_replicated_job() -> None:
    group = the_gang(
        jobset(
            jobs={
                "c": {"replicas": 1, "template": {"spec": pod_spec(2)}},
                "w": {"replicas": 3, "parallelism": 4, "completions": 2},
                "none": {"replicas": 0},
            },
            annotations=OURS,
            suspend=True,
        )
    )
    assert group.gang.id == "ns/s"
    assert [replace(s, labels=()) for s in group.gang.pod_sets] == [
        PodSet("c", Shape((("cpu", 2000),)), 1, 1),
        PodSet("w", Shape((("cpu", 1000),)), 6, 6),
    ]
    assert group.gang.min_count == 7
    assert group.gang.gate is None
    assert group.record == "jobset-s"
    assert group.owner == Owner(JOBSET, "s", "uid-s", "1", suspended=True, admission=True)
    assert group.source.kind == "JobSet"
    assert group.controlled


def test_places_of_a_job_follow_those_of_the_jobs_before_it() -> None:
    parent = jobset(jobs={"w": {"replicas": 2, "parallelism": 2, "completions": 2}})
    jobs = [child(parent, index=0), child(parent, index=1)]
    pods = [
        pod(f"{job.metadata.name}-{index}", owner=job, index=index, node="n")
        for job in jobs
        for index in (0, 1)
    ]
    group = the_gang(parent, *jobs, *pods)
    assert {member.pod.metadata.name: member.place for member in group.members.values()} == {
        "s-w-0-0": Place("w", 0),
        "s-w-0-1": Place("w", 1),
        "s-w-1-0": Place("w", 2),
        "s-w-1-1": Place("w", 3),
    }


def test_a_pod_stays_within_the_places_of_its_job() -> None:
    parent = jobset(jobs={"w": {"replicas": 2}})
    first = child(parent, index=0)
    surplus = pod("b", owner=first, created=1)
    group = the_gang(parent, first, pod("a", owner=first), surplus)
    assert [member.place for member in group.members.values()] == [Place("w", 0), None]


def test_a_complete_job_has_no_further_pod_and_a_failed_one_may() -> None:
    parent = jobset(jobs={"w": {"replicas": 3}}, annotations=OURS)
    done = child(parent, index=1, status={"conditions": [{"type": "Complete", "status": "True"}]})
    failed = child(parent, index=2, status={"conditions": [{"type": "Failed", "status": "True"}]})
    assert the_gang(parent, done, failed).retired == {Place("w", 1)}


@pytest.mark.parametrize(
    ("status", "fields"),
    [
        ({"restarts": 1}, {"attempt": 0}),
        ({}, {"deleting": True}),
        ({"replicatedJobsStatus": [{"name": "w", "jobRestarts": [1]}]}, {"job_attempt": 0}),
    ],
    ids=["earlier attempt", "being deleted", "earlier attempt of the job"],
)
def test_pods_of_a_replaced_job_keep_their_nodes_and_leave_their_places(
    status: Object, fields: dict[str, Any]
) -> None:
    parent = jobset(status=status)
    old = child(parent, status={"conditions": [{"type": "Complete", "status": "True"}]}, **fields)
    group = the_gang(
        parent,
        old,
        pod("a", owner=old, node="n", plan="1.1/w/0"),
        pod("b", owner=old),
        pod("c", owner=old, node="n", phase="Failed"),
    )
    assert list(group.leaving) == ["uid-a"]
    assert (group.members, group.retired) == ({}, frozenset())


def test_a_job_of_the_present_attempt_is_not_replaced() -> None:
    parent = jobset(status={"restarts": 2, "replicatedJobsStatus": [{"name": "w", "jobRestarts": [1]}]})
    new = child(parent, attempt=2, job_attempt=1)
    assert list(the_gang(parent, new, pod("a", owner=new)).members) == ["uid-a"]


def test_finished() -> None:
    assert the_gang(jobset(status={"terminalState": "Failed"})).finished
    assert the_gang(jobset(status={"conditions": [{"type": "Completed", "status": "True"}]})).finished
    assert not the_gang(jobset(status={"conditions": [{"type": "Suspended", "status": "True"}]})).finished


def test_the_label_decides_whether_a_jobset_is_a_gang() -> None:
    assert keys(jobset(gang="true"), world()) == [KEY]
    assert keys(jobset(gang="false"), world()) == []
    assert keys(jobset(gang=""), world()) == []


def test_gates() -> None:
    assert gate(jobset(suspend=True)) == (
        Code.GATED,
        "spec.suspend is true; set it to false to let it start",
    )
    assert gate(jobset(jobs={"w": {"template": {"spec": pod_spec(overhead={"cpu": "x"})}}})) == (
        Code.INVALID,
        "w: 'x' is not a quantity; write a number such as 500m, 2 or 1.5Gi",
    )
    assert gate(jobset(jobs={"w": {"parallelism": "x"}})) == (
        Code.INVALID,
        "w: spec.parallelism: Expected `int`, got `str`",
    )
    assert gate(jobset(jobs={"w": {"replicas": 3}})) == (Code.MEMBERS_MISSING, "0 of 3 pods exist")
    assert gate(jobset(jobs={"w": {"replicas": 3}}, annotations=OURS)) is None, "its plan makes its pods"


def test_pods_of_two_schedulers_are_refused() -> None:
    mixed = jobset(
        jobs={
            "a": {"template": {"spec": pod_spec(schedulerName="muster")}},
            "b": {"template": {"spec": pod_spec()}},
        }
    )
    group = read(KEY, world(mixed, schedulers=frozenset({"muster"})))
    assert group is not None
    assert group.gang.gate == Gate(Code.INVALID, "b: its pods are scheduled by default-scheduler")


ORDERED: Any = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
DEPENDS = {"a": {}, "b": {"dependsOn": [{"name": "a", "status": "Ready"}]}, "c": {}}


@pytest.mark.parametrize(
    "staged", [jobset(jobs={"a": {}, "b": {}}, **ORDERED), jobset(jobs=DEPENDS)], ids=["InOrder", "dependsOn"]
)
def test_where_jobs_start_in_an_order_each_is_a_stage(staged: Any) -> None:
    found = keys(staged, world())
    assert [key.stage for key in found] == [one.name for one in staged.spec.replicated_jobs]
    first = the_gang(staged, stage="a")
    assert first.gang.id == "ns/s/a"
    assert first.record == "jobset-s.a"
    assert [pod_set.name for pod_set in first.gang.pod_sets] == ["a"]
    assert read(KEY, world(staged)) is None, "there is no gang over all stages"


def test_a_suspended_jobset_is_resumed_with_its_first_stage() -> None:
    waiting = jobset(jobs=DEPENDS, annotations=OURS, suspend=True)
    assert gate(waiting, stage="a") is None
    for stage in ("b", "c"):
        assert gate(waiting, stage=stage) == (
            Code.MEMBERS_MISSING,
            "a starts first: the JobSet is resumed with its places",
        )


def test_a_jobset_that_was_suspended_later_is_resumed_with_the_first_stage_that_is_not_complete() -> None:
    depends = {"a": {}, "b": {"dependsOn": [{"name": "a", "status": "Complete"}]}, "c": {}}
    status = {"replicatedJobsStatus": [{"name": "a", "succeeded": 1}, {"name": "b"}, {"name": "c"}]}
    waiting = jobset(jobs=depends, annotations=OURS, suspend=True, status=status)
    assert gate(waiting, stage="b") is None
    assert gate(waiting, stage="c") == (
        Code.MEMBERS_MISSING,
        "b starts first: the JobSet is resumed with its places",
    )
    empty = jobset(jobs={"a": {"replicas": 0}, "b": {}}, annotations=OURS, suspend=True, **ORDERED)
    assert gate(empty, stage="b") is None, "there is nothing of a to place"


def test_a_later_stage_waits_until_its_jobs_are_started() -> None:
    running = jobset(jobs=DEPENDS, annotations=OURS)
    after = (Code.MEMBERS_MISSING, "starts once a is ready; a keeps its places")
    assert gate(running, stage="b") == after
    assert gate(running, stage="c") is None, "c depends on nothing"
    assert gate(running, child(running, "b"), stage="b") is None

    ordered = jobset(jobs={"a": {}, "b": {}}, annotations=OURS, **ORDERED)
    assert gate(ordered, child(ordered, "b", suspend=True), stage="b") == after
    assert gate(ordered, child(ordered, "b"), stage="b") is None


@pytest.mark.parametrize(
    ("statuses", "message"),
    [
        (["Complete"], "starts once a is complete"),
        (["Ready", "Ready"], "starts once a is ready and b is ready; a and b keep their places"),
        (["Complete", "Ready"], "starts once a is complete and b is ready; b keeps its places"),
    ],
)
def test_only_what_is_ready_keeps_its_places(statuses: list[str], message: str) -> None:
    depends = [{"name": name, "status": status} for name, status in zip("ab", statuses, strict=False)]
    running = jobset(jobs={"a": {}, "b": {}, "c": {"dependsOn": depends}}, annotations=OURS)
    assert gate(running, stage="c") == (Code.MEMBERS_MISSING, message)


def test_a_stage_has_only_its_own_pods() -> None:
    running = jobset(jobs=DEPENDS)
    first, second = child(running, "a"), child(running, "b")
    pods = [pod("x", owner=first, node="n"), pod("y", owner=second, node="n")]
    assert list(the_gang(running, first, second, *pods, stage="b").members) == ["uid-y"]


def test_a_job_that_is_none_of_its_replicated_jobs_is_no_part_of_it() -> None:
    parent = jobset(annotations=OURS)
    stranger = job("x", owner=parent)
    assert the_gang(parent, stranger, pod("a", owner=stranger)).members == {}
