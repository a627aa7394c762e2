"""Volcano's PodGroups as gangs: minima, tasks, queue, priority, and what is refused by name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import names
from muster.api import groups
from muster.api.base import Object, Resource
from muster.api.core_v1 import Pod
from muster.api.koordinator_v1alpha1 import GROUPS
from muster.api.volcano_v1beta1 import GROUP_NAME, MOST_TASKS, PREEMPTABLE, QUEUE_NAME, TASK, PodGroup
from muster.core.words.gang import Code, Labels, Subgroup
from muster.translate.dialects import group_of
from muster.translate.group import Group
from muster.translate.identity import GroupKey
from muster.translate.podgroup.places import Places
from tests.translate.cluster import metadata, pod, pod_spec, priority_class, read, world

KEY = GroupKey(groups.VOLCANO, "ns", "g")


def group(spec: Object | None = None, **meta: Any) -> PodGroup:  # Any: fields as JSON
    return msgspec.convert({"metadata": metadata("g") | meta, "spec": spec or {}}, PodGroup)


def member(
    name: str,
    task: str = "",
    *,
    key: str = GROUP_NAME[0],
    cpu: int = 1,
    marks: Mapping[str, str] = MappingProxyType({}),
) -> Pod:
    annotations = {key: "g", **({TASK: task} if task else {}), **marks}
    return pod(name, annotations=annotations, spec=pod_spec(cpu))


def gang(*objects: Resource) -> Group:
    found = read(KEY, world(*objects))
    assert found is not None
    return found


@pytest.mark.parametrize("key", GROUP_NAME)
def test_pods_that_name_it_by_annotation_are_one_gang(key: str) -> None:
    pods = [member(name, key=key) for name in "abc"]
    assert {group_of(each, world(*pods)) for each in pods} == {KEY}
    alone = gang(*pods)
    assert alone.gang.gate is not None
    assert alone.gang.gate.code is Code.MEMBERS_MISSING, "the object may come after its pods"
    assert "scheduling.volcano.sh" in alone.gang.gate.message
    whole = gang(*pods, group({"minMember": 3, "queue": "ml"}))
    assert whole.gang.gate is None
    assert (whole.gang.min_count, whole.gang.queue, whole.record) == (3, "ml", "volcano-g")
    assert len(whole.members) == 3


@pytest.mark.parametrize(
    ("minimum", "tasks", "least", "held"),
    [
        (4, {"ps": 1, "w": 3}, 4, {"ps": 1, "w": 3}),
        (5, {"ps": 1, "w": 3}, 5, {"ps": 1, "w": 3}),
        (3, {"ps": 1, "w": 3}, 3, {}),  # its tasks count only if the minimum is as large as theirs
        (0, {"ps": 1, "w": 3}, 4, {"ps": 1, "w": 3}),  # Volcano's webhook would write the sum
        (0, {}, 1, {}),  # no minimum: each pod may start
        (2, {"ps": 0, "w": 2}, 2, {"w": 2}),
    ],
)
def test_minima(minimum: int, tasks: dict[str, int], least: int, held: dict[str, int]) -> None:
    pods = [member("p0", "ps"), member("p1", "ps"), *(member(f"w{n}", "w") for n in range(4))]
    found = gang(*pods, group({"minMember": minimum, "minTaskMember": tasks})).gang
    assert found.gate is None
    assert found.min_count == least
    assert {each.name: each.min_count for each in found.subgroups} == held
    assert {each.subgroup for each in found.pod_sets} - {""} == held.keys()


def test_a_task_with_too_few_pods_is_waited_for() -> None:
    pods = [member(f"w{n}", "w") for n in range(4)]
    gate = gang(*pods, group({"minMember": 4, "minTaskMember": {"ps": 1, "w": 3}})).gang.gate
    assert gate is not None
    assert (gate.code, gate.message) == (Code.MEMBERS_MISSING, "0 of 1 pods of its task ps exist")


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)),
    st.integers(0, 9),
    st.lists(st.sampled_from("abc"), max_size=9),
)
def test_minima_of_tasks_never_lower_that_of_the_gang(
    tasks: dict[str, int], minimum: int, pods: list[str]
) -> None:
    members = [member(f"p{number}", task, cpu=1 + number % 2) for number, task in enumerate(pods)]
    found = gang(*members, group({"minMember": minimum, "minTaskMember": tasks}))
    together = sum(tasks.values())
    assert found.gang.min_count == max(minimum or together, 1)
    needed = {task: least for task, least in tasks.items() if least and together <= (minimum or together)}
    assert found.gang.subgroups == tuple(
        Subgroup(task, min(least, pods.count(task)))
        for task, least in sorted(needed.items())
        if pods.count(task)
    )
    if found.gang.gate is None:
        assert len(pods) >= found.gang.min_count
        assert all(pods.count(task) >= least for task, least in needed.items())


def test_to_read_a_gang_costs_no_look_at_each_shape_for_each_task(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def look(places: Places) -> Labels:
        nonlocal looks
        looks += 1
        return places.__dict__["looked_at"]  # type: ignore[no-any-return]

    counted = property(look, lambda one, new: vars(one).update(looked_at=new))
    monkeypatch.setattr(Places, "looked_at", counted, raising=False)
    pods = [member(f"p{number}", f"t{number}") for number in range(8)]
    costs = []
    for tasks in (1, MOST_TASKS, MOST_TASKS + 1):
        looks = 0
        gang(*pods, group({"minMember": MOST_TASKS, "minTaskMember": {f"t{n}": 1 for n in range(tasks)}}))
        costs.append(looks)
    assert len(set(costs)) == 1


def test_tasks_that_are_too_many_are_refused_unread() -> None:
    asked = groups.VOLCANO.asked
    assert asked is not None
    most = asked(group({"minTaskMember": {f"t{n}": 1 for n in range(MOST_TASKS)}}))
    assert (len(most.tasks), most.minimum, most.refusal) == (MOST_TASKS, MOST_TASKS, "")
    above = asked(group({"minTaskMember": {f"t{n}": n - 1 for n in range(MOST_TASKS + 1)}}))
    assert (above.tasks, above.minimum) == ((), 0)
    assert "at most 256" in above.refusal


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"networkTopology": {"highestTierAllowed": 1}}, "spec.networkTopology needs HyperNodes"),
        ({"networkTopology": {"mode": "hard"}}, "network-topology-spec"),
        ({"subGroupPolicy": [{"name": "p", "subGroupSize": 2}]}, "spec.subGroupPolicy is not supported"),
        ({"minMember": -1}, "spec.minMember is -1"),
        ({"minTaskMember": {"w": -1}}, "spec.minTaskMember.w is -1"),
        ({"minMember": 2**31 - 1}, "spec.minMember is 2147483647; write how many pods must run together, at"),
        (
            {"minMember": 0, "minTaskMember": {"a": 2**31 - 1, "b": 5}},
            "spec.minTaskMember is 2147483652; write how many",
        ),
        ({"minTaskMember": {f"t{n}": 1 for n in range(300)}}, "has 300 tasks"),
        ({"priorityClassName": "none"}, "PriorityClass none does not exist"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(spec: Object, words: str) -> None:
    gate = gang(member("a"), group({"minMember": 1, **spec})).gang.gate
    assert gate is not None
    assert gate.code is Code.INVALID
    assert words in gate.message


def test_minima_of_tasks_are_refused_in_a_gang_group() -> None:
    """There the minimum of each PodGroup is all that counts: a driver that is missing would go unseen."""
    both = {GROUPS: '["ns/g", "ns/h"]'}
    pods = [
        pod(f"{of}{number}", annotations={GROUP_NAME[0]: of, TASK: "w"}) for of in "gh" for number in range(2)
    ]
    minima = {"minMember": 2, "minTaskMember": {"driver": 1, "w": 1}}
    first, second = (group(minima, name=name, annotations=both) for name in "gh")
    gate = gang(*pods, first, second).gang.gate
    assert gate is not None
    assert gate.code is Code.INVALID
    assert "PodGroup ns/g: spec.minTaskMember is not supported in a GangGroup" in gate.message
    first, second = (group({"minMember": 2}, name=name, annotations=both) for name in "gh")
    assert gang(*pods, first, second).gang.gate is None


def test_a_soft_topology_is_a_warning() -> None:
    found = gang(member("a"), group({"minMember": 1, "networkTopology": {"mode": "soft"}}))
    assert found.gang.gate is None
    assert "HyperNodes are not read" in found.warnings[0]


def test_its_priority_class_counts_like_a_mark() -> None:
    classes = [priority_class("high", 100), priority_class("low", 10)]
    spec = {"minMember": 1, "priorityClassName": "high"}
    assert gang(member("a"), group(spec), *classes).gang.priority == 100
    marked = group(spec, labels={names.PRIORITY: "low"})
    assert gang(member("a"), marked, *classes).gang.priority == 10


def test_it_preempts_only_if_the_class_that_ranks_it_allows_it() -> None:
    classes = [priority_class("high", 100), priority_class("patient", 100, preemption="Never")]
    for name, mark, expected in (
        ("high", {}, True),
        ("patient", {}, False),
        ("high", {names.PRIORITY: "patient"}, False),
        ("patient", {names.PRIORITY: "high"}, True),
    ):
        stated = group({"minMember": 1, "priorityClassName": name}, labels=mark)
        assert gang(member("a"), stated, *classes).gang.preempts is expected


@pytest.mark.parametrize("where", ["the pod", "the group", "the group's label"])
def test_preemptable_false_is_obeyed(where: str) -> None:
    marks = {PREEMPTABLE: "false"}
    pods = [member("a", marks=marks) if where == "the pod" else member("a"), member("b")]
    said = {"annotations": marks} if where == "the group" else {"labels": marks} if "label" in where else {}
    assert not gang(*pods, group({"minMember": 2}, **said)).gang.preemptible
    assert gang(member("a"), group({"minMember": 1}, annotations={PREEMPTABLE: "true"})).gang.preemptible


def test_the_queue_of_a_pod_without_a_group_is_that_of_its_annotation() -> None:
    alone = pod("a", annotations={QUEUE_NAME: "ml"})
    found = read(GroupKey(groups.POD, "ns", "a"), world(alone))
    assert found is not None
    assert found.gang.queue == "ml"
    own = gang(member("a", marks={QUEUE_NAME: "ml"}), group({"minMember": 1, "queue": "other"}))
    assert own.gang.queue == "other", "the group's own counts"


def test_minimal_resources_change_nothing() -> None:
    """Volcano's controller computes them of limits, too, and then without GPUs."""
    pods = [member("a"), member("b")]
    plain = gang(*pods, group({"minMember": 2})).gang
    for least in ({"cpu": "1m"}, {"cpu": "1000", "count/pods": "9", "limits.cpu": 4}, {"cpu": "nonsense"}):
        assert gang(*pods, group({"minMember": 2, "minResources": least})).gang == plain


@pytest.mark.parametrize(
    ("scheduler", "bound", "waits"),
    [("volcano", False, True), ("muster", False, False), ("", False, False), ("volcano", True, False)],
)
def test_a_pod_that_a_controller_groups_waits_for_its_group(scheduler: str, bound: bool, waits: bool) -> None:
    """Volcano's controller annotates a pod after its creation; its group may have a minimum or a queue."""
    plain = pod("a", node="n" if bound else "", spec={**pod_spec(), "schedulerName": scheduler})
    found = read(GroupKey(groups.POD, "ns", "a"), world(plain, awaiting=frozenset({"volcano"})))
    assert found is not None
    gate = found.gang.gate
    assert (gate is not None) == waits
    assert gate is None or (gate.code is Code.GATED and "schedulerName volcano" in gate.message)
    now = world(plain)
    free = read(GroupKey(groups.POD, "ns", "a"), now)
    assert free is not None
    assert free.gang.gate is None, "by default it starts at once"
