"""Jobs as gangs: demand, owner, gates, which places are retired."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from muster import names
from muster.api import groups
from muster.api.base import Object
from muster.api.batch_v1 import TRACKING_FINALIZER, Job
from muster.api.core_v1 import Pod
from muster.api.kinds import JOB
from muster.core.words.gang import MOST_PLACES, Code, Gate, Place, PodId, PodSet, Shape
from muster.translate.group import Group, Owner
from muster.translate.identity import GroupKey
from tests.translate.cluster import START, job, jobset, namespace, pod, pod_spec, priority_class, read, world

KEY = GroupKey(groups.JOB, "ns", "j")
OURS = {names.ADMISSION: "gang"}


def the_gang(found: Job, *others: object) -> Group:
    group = read(KEY, world(found, *others))  # type: ignore[arg-type]  # objects of any kind
    assert group is not None
    return group


def places(*indexes: int) -> frozenset[Place]:
    return frozenset(Place("main", index) for index in indexes)


def test_a_job_is_one_pod_set_all_of_it_needed() -> None:
    group = the_gang(job(gang="true", parallelism=4, completions=3, annotations=OURS, suspend=True))
    assert group.gang.id == "ns/j"
    assert [replace(s, labels=()) for s in group.gang.pod_sets] == [
        PodSet("main", Shape((("cpu", 1000),)), 3, 3)
    ]
    assert group.gang.min_count == 3
    assert group.gang.submitted == START.timestamp()
    assert group.gang.gate is None
    assert group.record == "job-j"
    assert (group.source.api_version, group.source.kind, group.source.name, group.source.uid) == (
        "batch/v1",
        "Job",
        "j",
        "uid-j",
    )
    assert group.owner == Owner(JOB, "j", "uid-j", "1", suspended=True, admission=True)
    assert group.controlled
    assert not group.finished


def test_without_completions_there_are_as_many_places_as_pods_at_once() -> None:
    assert the_gang(job(gang="true", parallelism=5)).gang.min_count == 5


@pytest.mark.parametrize("parallelism", [0, -1])
def test_a_job_without_pods_at_once_asks_for_nothing(parallelism: int) -> None:
    group = the_gang(job(gang="true", parallelism=parallelism))
    assert (group.gang.pod_sets, group.gang.min_count, group.gang.gate) == ((), 0, None)


@pytest.mark.parametrize(
    ("own", "by_namespace", "expected"),
    [
        ("true", None, True),
        ("true", "false", True),
        ("false", "true", False),
        ("", "true", True),
        ("", None, False),
        ("", "false", False),
        ("yes", None, True),
    ],
)
def test_the_label_decides_whether_a_job_is_a_gang(
    own: str, by_namespace: str | None, expected: bool
) -> None:
    objects = [namespace(by_namespace)] if by_namespace else []
    assert (read(KEY, world(job(gang=own), *objects)) is not None) is expected


def test_the_mark_may_be_an_annotation() -> None:
    assert read(KEY, world(job(annotations={names.GANG: "true"}))) is not None


def test_a_job_of_a_jobset_follows_the_jobset() -> None:
    parent = jobset(gang="false")
    assert read(KEY, world(parent, job(gang="true", owner=parent))) is None


def test_a_job_whose_pods_others_schedule_is_not_ours() -> None:
    template = {"spec": pod_spec(schedulerName="default-scheduler")}
    theirs = job(gang="true", template=template)
    assert read(KEY, world(theirs, schedulers=frozenset({"muster"}))) is None
    assert read(KEY, world(theirs)) is not None, "where no other scheduler runs, every pod is ours"


def test_a_job_of_a_namespace_of_gangs_leaves_its_pods_to_the_podgroup_they_name() -> None:
    template = {"metadata": {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, "spec": pod_spec()}
    assert read(KEY, world(namespace("true"), job(template=template))) is None
    gate = the_gang(job(gang="true", template=template)).gang.gate
    assert gate is not None
    assert gate.code is Code.INVALID
    assert "name the PodGroup g" in gate.message


GATES: dict[str, tuple[Object, Code, str]] = {
    "unreadable mark": ({"gang": "yes"}, Code.INVALID, "muster.dev/gang is 'yes'; write"),
    "exclusive": (
        {"labels": {names.EXCLUSIVE: "rack"}},
        Code.INVALID,
        "there is no topology layer rack; there are ClusterTopologyLayer, NodeTopologyLayer",
    ),
    "shape": (
        {"template": {"spec": pod_spec(resourceClaims=[{"name": "x"}])}},
        Code.INVALID,
        "resourceClaims",
    ),
    "class": (
        {"template": {"spec": pod_spec(priorityClassName="x")}},
        Code.INVALID,
        "PriorityClass x does not exist",
    ),
    "template": ({"template": {"spec": {"containers": 3}}}, Code.INVALID, "spec.template.spec.containers"),
    "size": (
        {"parallelism": MOST_PLACES + 1},
        Code.INVALID,
        "50001 pods at once; muster plans at most",
    ),
    "hold": ({"annotations": {names.HOLD: "true"}}, Code.GATED, "held by muster.dev/hold"),
    "deleting": ({"deleting": True}, Code.GATED, "is being deleted"),
    "the user's own suspend": ({"suspend": True}, Code.GATED, "spec.suspend is true"),
    "gates of a template": (
        {
            "suspend": True,
            "annotations": OURS,
            "template": {"spec": pod_spec(schedulingGates=[{"name": "x/y"}])},
        },
        Code.GATED,
        "scheduling gate x/y; it must be removed from its template",
    ),
    "pods": ({"parallelism": 3}, Code.MEMBERS_MISSING, "0 of 3 pods exist"),
}


@pytest.mark.parametrize(("fields", "code", "message"), GATES.values(), ids=GATES.keys())
def test_gates(fields: Object, code: Code, message: str) -> None:
    gate = the_gang(job(**{"gang": "true", **fields})).gang.gate
    assert gate is not None
    assert gate.code is code
    assert message in gate.message


def test_a_gang_too_large_to_plan_costs_nothing() -> None:
    group = the_gang(job(gang="true", parallelism=2**31 - 1), pod(owner=job()))
    assert (group.gang.pod_sets, group.members, group.retired) == ((), {}, frozenset())


def test_priority_is_the_templates() -> None:
    template = {"spec": pod_spec(priorityClassName="high")}
    assert the_gang(job(gang="true", template=template), priority_class("high", 9)).gang.priority == 9


def test_a_gang_that_muster_did_not_suspend_waits_for_its_pods() -> None:
    running = job(gang="true", parallelism=2)
    one, two = pod("a", owner=running), pod("b", owner=running)
    assert the_gang(running, one).gang.gate == Gate(Code.MEMBERS_MISSING, "1 of 2 pods exist")
    assert the_gang(running, one, two).gang.gate is None


def test_once_a_member_is_bound_the_places_wait_for_their_replacements() -> None:
    running = job(gang="true", parallelism=2)
    assert the_gang(running, pod("a", owner=running, node="n")).gang.gate is None


def test_a_gated_pod_has_no_place_and_gates_its_gang() -> None:
    running = job(gang="true", parallelism=1)
    gated = pod("a", owner=running, spec=pod_spec(schedulingGates=[{"name": "x/y"}]))
    group = the_gang(running, gated)
    assert group.gang.gate == Gate(Code.GATED, "scheduling gate x/y; it must be removed")
    assert group.members[PodId("uid-a")].place is None


def test_a_pod_that_is_being_deleted_keeps_its_node_and_leaves_its_place() -> None:
    running = job(gang="true", parallelism=1)
    old = pod("a", owner=running, node="n", phase="Running", plan="1.1/main/0", deleting=True)
    group = the_gang(running, old, pod("b", owner=running))
    assert list(group.leaving) == ["uid-a"]
    assert {uid: member.place for uid, member in group.members.items()} == {"uid-b": Place("main", 0)}


RETIRED: dict[str, tuple[Object, list[Object], frozenset[Place]]] = {
    # fields of the job, fields of its live pods, retired places of 3
    "all to come": ({"completions": 9}, [], places()),
    "the last wave is smaller": ({"completions": 9, "status": {"succeeded": 7}}, [{}], places(2)),
    "nothing more to start": ({"completions": 9, "status": {"succeeded": 8}}, [{}], places(1, 2)),
    "complete": (
        {"completions": 9, "status": {"conditions": [{"type": "Complete", "status": "True"}]}},
        [],
        places(0, 1, 2),
    ),
    "enough has succeeded": (
        {"completions": 9, "status": {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}},
        [{}],
        places(1, 2),
    ),
    "a work queue that is not empty": ({}, [{}], places()),
    "a work queue that one has found empty": ({"status": {"succeeded": 1}}, [{}], places(1, 2)),
    "by index": (
        {"completions": 3, "completionMode": "Indexed", "status": {"completedIndexes": "1"}},
        [{"index": 0}],
        places(1),
    ),
    "by index, failed for good": (
        {
            "completions": 3,
            "completionMode": "Indexed",
            "status": {"completedIndexes": "0", "failedIndexes": "2"},
        },
        [],
        places(0, 2),
    ),
    "by index, a second wave": (
        {"completions": 5, "completionMode": "Indexed", "status": {"completedIndexes": "0,1"}},
        [{"index": 2}, {"index": 3}],
        places(),
    ),
    "by index, the end of the second wave": (
        {"completions": 5, "completionMode": "Indexed", "status": {"completedIndexes": "0-3"}},
        [{"index": 4}],
        places(1, 2),
    ),
    "an index below the slots whose slot is taken goes elsewhere": (
        {"completions": 4, "completionMode": "Indexed", "status": {"completedIndexes": "1,2"}},
        [{"index": 3, "plan": "1.1/main/0"}],
        places(2),
    ),
}


@pytest.mark.parametrize(("fields", "pods", "expected"), RETIRED.values(), ids=RETIRED.keys())
def test_retired_places(fields: Object, pods: list[Object], expected: frozenset[Place]) -> None:
    running = job(gang="true", parallelism=3, **fields)
    live = [pod(f"p{number}", owner=running, **one) for number, one in enumerate(pods)]
    assert the_gang(running, *live).retired == expected


def succeeded(running: Job, index: int, *, tracked: bool) -> Pod:
    """A pod of the Job that has ended well; `tracked`: the Job's controller has not counted it yet."""
    ended = pod(f"done-{index}", owner=running, index=index, node="n", phase="Succeeded")
    finalizers = [TRACKING_FINALIZER] if tracked else []
    return structs.replace(ended, metadata=structs.replace(ended.metadata, finalizers=finalizers))


#: How a Job comes to count a pod: it does not know of the end; it lists the pod (an indexed Job counts the
#: pod with that); the pod has lost its finalizer; the Job counts it.
STAGES = ("ended", "listed", "released", "counted")


@given(
    mode=st.sampled_from(["", "Indexed", "queue"]),
    parallelism=st.integers(1, 4),
    more=st.integers(0, 4),
    stages=st.lists(st.sampled_from(STAGES), max_size=8),
    running=st.integers(0, 4),
)
def test_a_pod_that_has_succeeded_retires_the_same_places_however_far_it_is_counted(
    mode: str, parallelism: int, more: int, stages: list[str], running: int
) -> None:
    """Else its place is held for a successor, which never comes."""
    completions = parallelism + more
    del stages[completions:]
    running = min(running, parallelism, completions - len(stages))

    def group(stages: Sequence[str]) -> Group:
        listed = [f"uid-done-{n}" for n, stage in enumerate(stages) if stage in ("listed", "released")]
        counted = [n for n, stage in enumerate(stages) if stage == "counted"]
        known = [n for n, stage in enumerate(stages) if stage != "ended"]
        status: Object = {"succeeded": len(counted)}
        if mode == "Indexed":
            status = {"succeeded": len(known), "completedIndexes": ",".join(map(str, known))}
        elif listed:
            status["uncountedTerminatedPods"] = {"succeeded": listed}
        spec: Object = {} if mode == "queue" else {"completions": completions}
        if mode == "Indexed":
            spec["completionMode"] = mode
        made = job(gang="true", parallelism=parallelism, status=status, **spec)
        ended = [succeeded(made, n, tracked=stage in ("ended", "listed")) for n, stage in enumerate(stages)]
        live = [
            pod(f"live-{n}", owner=made, index=len(stages) + n, node="n", phase="Running")
            for n in range(running)
        ]
        return the_gang(made, *ended, *live)

    now, then = group(stages), group(["counted"] * len(stages))
    assert now.retired == then.retired
    assert now.gang.gate == then.gang.gate
    if len(stages) == completions and mode != "queue":
        assert now.gang.gate is None, "a finished Job misses no pods"


def test_a_pod_that_has_failed_has_a_successor() -> None:
    running = job(gang="true", parallelism=2, completions=2)
    ended = pod("a", owner=running, node="n", phase="Failed")
    tracked = structs.replace(
        ended, metadata=structs.replace(ended.metadata, finalizers=[TRACKING_FINALIZER])
    )
    assert the_gang(running, tracked, pod("b", owner=running, node="n")).retired == frozenset()


def test_finished() -> None:
    for type_ in ("Complete", "Failed"):
        assert the_gang(job(gang="true", status={"conditions": [{"type": type_, "status": "True"}]})).finished


def test_a_job_that_another_object_controls_is_not_ours_to_suspend() -> None:
    controller = pod("operator")
    assert the_gang(job(gang="true", owner=controller)).owner is None
