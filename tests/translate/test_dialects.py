"""To which group a pod belongs, what is a gang of one, and which groups a change touches."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from muster import names
from muster.api import groups
from muster.api.base import Kind, Resource
from muster.api.groups import Dialect
from muster.api.kinds import JOB, JOBSET, NAMESPACE, POD, POD_GROUP_X, PRIORITY_CLASS
from muster.core.words.gang import Code, Gate, Place, PodSet, Shape
from muster.translate.dialects import group_of
from muster.translate.group import Group
from muster.translate.identity import GroupKey
from muster.translate.touched import keys_touched
from muster.translate.world import World
from tests.tiers import sample
from tests.translate.cluster import (
    child,
    grouped,
    job,
    jobset,
    kind_of,
    namespace,
    pod,
    pod_group,
    pod_spec,
    priority_class,
    read,
    world,
)

OURS = frozenset({"muster"})


def key(dialect: Dialect, name: str, stage: str = "") -> GroupKey:
    return GroupKey(dialect, "ns", name, stage)


def elsewhere(obj: Resource) -> Resource:
    """The object as one of its name in an API group that muster does not read, such as Volcano's Job."""
    return replace(obj, api_version="batch.volcano.sh/v1alpha1")


ALONE = key(groups.POD, "a")
GANG, INDEPENDENT = jobset(), jobset(gang="")
#: a Job that a JobSet of another API group controls
STRAY = job(owner=elsewhere(GANG), gang="true")
STAGED = jobset(jobs={"a": {}, "b": {}}, startupPolicy={"startupPolicyOrder": "InOrder"})


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        ([pod()], ALONE),
        ([pod(owner=job()), job()], ALONE),
        ([pod(owner=job()), job(gang="true")], key(groups.JOB, "j")),
        ([pod(owner=job()), job(), namespace("true")], key(groups.JOB, "j")),
        ([pod(owner=child(GANG)), child(GANG), GANG], key(groups.JOBSET, "s")),
        ([pod(owner=child(GANG)), child(GANG), INDEPENDENT], ALONE),
        ([pod(owner=child(STAGED, "b")), child(STAGED, "b"), STAGED], key(groups.JOBSET, "s", "b")),
        ([grouped("a"), pod_group()], key(groups.POD_GROUP, "g")),
        ([grouped("a")], key(groups.POD_GROUP, "g")),
        ([grouped("a", owner=job()), job(gang="true")], key(groups.POD_GROUP, "g")),
        # owners that have not been seen yet
        ([pod(owner=job())], None),
        ([pod(owner=child(GANG)), child(GANG)], None),
        # owned by something that makes no gangs
        ([pod(owner=pod("replicaset"))], ALONE),
        # owned by namesakes of another API group, whether or not the Job and the JobSet exist
        ([pod(owner=elsewhere(job()))], ALONE),
        ([pod(owner=elsewhere(job())), job(gang="true")], ALONE),
        ([pod(owner=STRAY), STRAY, GANG], key(groups.JOB, "j")),
    ],
)
def test_the_group_of_a_pod(objects: list[Resource], expected: GroupKey | None) -> None:
    one = objects[0]
    assert group_of(one, world(*objects)) == expected  # type: ignore[arg-type]  # a pod


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (job(), job(gang="true")),
        (namespace("false"), namespace("true")),
        (jobset(gang=""), GANG),
    ],
)
def test_a_pod_joins_the_gang_that_its_owner_becomes(before: Resource, after: Resource) -> None:
    owner = child(GANG) if kind_of(after) is JOBSET else job()
    one, now = pod(owner=owner), world(owner, before)
    alone = group_of(one, now)
    now.put(kind_of(after), after)
    assert alone == ALONE
    assert group_of(one, now) == group_of(one, world(owner, after)) != ALONE


def test_a_pod_of_another_scheduler_belongs_to_no_gang() -> None:
    theirs = pod(spec=pod_spec(schedulerName="default-scheduler"))
    assert group_of(theirs, world(theirs, schedulers=OURS)) is None
    mine = pod(spec=pod_spec(schedulerName="muster"))
    assert group_of(mine, world(mine, schedulers=OURS)) == ALONE


def test_a_namesake_of_the_owner_is_not_the_owner() -> None:
    of_old_job = pod(owner=job())
    new = world(of_old_job)
    successor = job(gang="true")
    new.put(JOB, replace(successor, metadata=replace(successor.metadata, uid="uid-other")))
    assert group_of(of_old_job, new) is None


def the_gang(found: GroupKey, *objects: Resource) -> Group:
    group = read(found, world(*objects))
    assert group is not None
    return group


def test_a_pod_without_a_group_is_a_gang_of_one() -> None:
    group = the_gang(ALONE, pod())
    assert group.gang.id == "ns/a"
    assert group.gang.pod_sets == (PodSet("main", Shape((("cpu", 1000),)), 1, 1),)
    assert group.gang.min_count == 1
    assert group.record == "pod-a"
    assert group.source.uid == ""
    assert [member.place for member in group.members.values()] == [Place("main", 0)]
    assert not group.controlled
    assert the_gang(ALONE, pod(owner=job()), job()).controlled


def test_a_single_pod_that_ends_or_leaves() -> None:
    assert the_gang(ALONE, pod(node="n", phase="Succeeded")).finished
    leaving = the_gang(ALONE, pod(node="n", phase="Running", deleting=True))
    assert (leaving.members, list(leaving.leaving), leaving.finished) == ({}, ["uid-a"], False)
    assert leaving.retired == {Place("main", 0)}
    assert the_gang(ALONE, pod(deleting=True)).finished


@pytest.mark.parametrize(
    ("one", "code"),
    [
        (pod(spec=pod_spec(schedulingGates=[{"name": "x/y"}])), Code.GATED),
        (pod(annotations={names.HOLD: "true"}), Code.GATED),
        (pod(labels={names.GPU_SHARE: "0.25"}), Code.INVALID),
        (pod(spec=pod_spec(priorityClassName="x")), Code.INVALID),
        (pod(spec=pod_spec(resourceClaims=[{"name": "x"}])), Code.INVALID),
        (pod(annotations={"gang.scheduling.koordinator.sh/name": "g!"}), Code.INVALID),
        (pod(labels={"pod-group.scheduling.sigs.k8s.io/name": "G"}), Code.INVALID),
    ],
)
def test_gates_of_a_single_pod(one: Resource, code: Code) -> None:
    gate = the_gang(ALONE, one).gang.gate
    assert gate is not None
    assert gate.code is code


def test_the_queue_of_a_single_pod() -> None:
    """Its own, else that of its Job, else that of the Job's JobSet."""
    a, b = {names.QUEUE: "a"}, {names.QUEUE: "b"}
    assert the_gang(ALONE, pod()).gang.queue == "default"
    assert the_gang(ALONE, pod(labels=a)).gang.queue == "a"
    assert the_gang(ALONE, pod(labels=a, annotations=b)).gang.queue == "a"
    owner = job(labels=b)
    assert the_gang(ALONE, pod(owner=owner), owner).gang.queue == "b"
    assert the_gang(ALONE, pod(owner=owner, labels=a), owner).gang.queue == "a"
    above = jobset(gang="", labels=a)
    below = child(above)
    assert the_gang(ALONE, pod(owner=below), below, above).gang.queue == "a"


def test_pods_are_read_again_when_their_job_changes_its_queue() -> None:
    before, after = job(), job(labels={names.QUEUE: "a"})
    seen = world(after, pod(owner=after))
    assert ALONE in keys_touched(JOB, before, after, seen)


def test_a_bound_pod_is_past_all_gates() -> None:
    assert the_gang(ALONE, pod(node="n", labels={names.QUEUE: "ml"})).gang.gate is None


def test_a_pod_of_a_group_is_no_gang_of_one() -> None:
    assert read(key(groups.POD, "a"), world(grouped("a"))) is None


def test_namesakes_of_several_dialects_have_ids_of_their_own() -> None:
    gangs = [
        (jobset("x"), key(groups.JOBSET, "x")),
        (job("x", gang="true"), key(groups.JOB, "x")),
        (pod_group("x"), key(groups.POD_GROUP, "x")),
        (pod("x"), key(groups.POD, "x")),
    ]
    objects = [obj for obj, _ in gangs]
    assert [the_gang(found, *objects).gang.id for _, found in gangs] == [
        "ns/x",
        "ns/job-x",
        "ns/podgroup-x",
        "ns/pod-x",
    ]
    assert the_gang(gangs[2][1], jobset("x", gang=""), job("x"), pod_group("x")).gang.id == "ns/x", (
        "a Job that is no gang claims no id"
    )


def test_a_stage_is_not_taken_for_a_jobset() -> None:
    keys = [
        GroupKey(groups.JOBSET, "ns", *path) for path in (("a", "b"), ("a-b",), ("a-b", "c"), ("a", "b-c"))
    ]
    assert len({each.record for each in keys}) == 4


def test_a_name_too_long_for_a_record_is_cut_and_stays_unique() -> None:
    one, other = (key(groups.POD_GROUP, "a" * 252 + last).record for last in "xy")
    assert len(one) <= 230
    assert one != other


def touched(kind: Kind[Any], old: Resource | None, new: Resource | None, *around: Resource) -> set[GroupKey]:
    after = world(*around, *([new] if new is not None else []))
    return keys_touched(kind, old, new, after)


def test_a_change_of_a_pod_touches_its_group() -> None:
    member = pod(owner=job())
    parent = job(gang="true")
    assert touched(POD, None, member, parent) == {key(groups.JOB, "j")}
    assert touched(POD, grouped("a"), pod()) == {key(groups.POD_GROUP, "g"), ALONE}


def test_a_job_that_comes_or_becomes_a_gang_touches_its_pods() -> None:
    member = pod(owner=job())
    both = {key(groups.JOB, "j"), ALONE}
    assert touched(JOB, None, job(), member) == both
    assert touched(JOB, job(), job(gang="true"), member) == both
    assert touched(JOB, job(gang="true"), None, member) == both
    assert touched(JOB, job(gang="true"), job(gang="true"), member) == {key(groups.JOB, "j")}


def test_a_jobset_that_comes_touches_the_pods_of_its_jobs() -> None:
    inner = child(GANG)
    member = pod(owner=inner)
    assert touched(JOBSET, None, GANG, inner, member) == {key(groups.JOBSET, "s"), ALONE}
    assert touched(JOBSET, GANG, GANG, inner, member) == {key(groups.JOBSET, "s")}
    assert touched(JOB, inner, inner, GANG, member) == {key(groups.JOBSET, "s"), key(groups.JOB, "s-w-0")}


def test_a_namespace_touches_what_is_in_it_once_its_mark_changes() -> None:
    member = pod(owner=job())
    found = touched(NAMESPACE, namespace("false"), namespace("true"), job(), member)
    assert found == {key(groups.JOB, "j"), ALONE}
    assert touched(NAMESPACE, namespace("true"), namespace("true"), job(), member) == set()


def test_a_priority_class_touches_everything() -> None:
    found = touched(PRIORITY_CLASS, None, priority_class("x", 1), grouped("b"), pod(), GANG)
    assert found >= {key(groups.POD_GROUP, "g"), ALONE, key(groups.JOBSET, "s")}


def test_a_group_that_comes_touches_its_namesakes() -> None:
    found = touched(POD_GROUP_X, None, pod_group("a"), pod())
    assert found == {key(groups.POD_GROUP, "a"), ALONE}


def all_groups(found: World) -> dict[GroupKey, Group]:
    """Every gang, by looking at every object."""
    keys = {key(dialect, name[1]) for dialect in groups.OF_GANGS for name in found.pods}
    keys |= {key(dialect, name) for dialect in groups.OF_GANGS for name in ("s", "j", "g", "s-a-0", "s-b-0")}
    keys |= {key(groups.JOBSET, "s", stage) for stage in ("a", "b")}
    gangs = ((one, read(one, found)) for one in keys)
    return {one: group for one, group in gangs if group is not None}


@pytest.mark.parametrize("seed", sample(range(12), 4))
def test_reading_what_is_touched_is_as_good_as_reading_everything(seed: int) -> None:
    """The property that the mirror lives on, over random histories."""
    random_ = random.Random(seed)
    variants: list[Resource] = []
    for gang in ("true", "false", ""):
        variants += [job(gang=gang), jobset(jobs={"a": {}, "b": {}}, gang=gang)]
        variants.append(
            jobset(jobs={"a": {}, "b": {}}, gang=gang, startupPolicy={"startupPolicyOrder": "InOrder"})
        )
    parent = jobset(jobs={"a": {}, "b": {}})
    inner = [child(parent, "a"), child(parent, "b")]
    owners = [None, job(), *inner]
    variants += [*inner, pod_group("g", 1), pod_group("j", 1), namespace("true"), namespace("false")]
    variants += [priority_class("x", 1), priority_class("x", 2, default=True), job(status={"succeeded": 1})]
    for number in range(4):
        for owner in owners:
            variants.append(pod(f"p{number}", owner=owner, node=random_.choice(["", "n"])))
        variants += [grouped(f"p{number}"), grouped(f"p{number}", owner=job(), phase="Failed"), pod("j")]

    found, groups = World(), dict[GroupKey, Group]()
    for _ in range(80):
        new = random_.choice(variants)
        kind = kind_of(new)
        if random_.random() < 0.3:
            old = found.drop(kind, new.metadata.namespace, new.metadata.name)
            keys = keys_touched(kind, old, None, found) if old is not None else set()
        else:
            keys = keys_touched(kind, found.put(kind, new), new, found)
        for one in keys:
            group = read(one, found)
            if group is None:
                groups.pop(one, None)
            else:
                groups[one] = group
        assert groups == all_groups(found)
        ids = [group.gang.id for group in groups.values()]
        assert len(set(ids)) == len(ids)


def test_the_expected_gate_of_a_missing_podgroup_goes_when_it_comes() -> None:
    group = the_gang(key(groups.POD_GROUP, "g"), pod_group(minimum=1), grouped("a"))
    assert group.gang.gate is None
    missing = the_gang(key(groups.POD_GROUP, "g"), grouped("a")).gang.gate
    assert isinstance(missing, Gate)
