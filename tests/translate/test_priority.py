from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from muster import names
from muster.api import groups
from muster.api.base import Object, ObjectMeta, Resource
from muster.api.core_v1 import ResourceQuota
from muster.api.fields import convert
from muster.api.groups import Asked
from muster.api.kinds import JOB
from muster.api.muster_v1alpha1 import Queue
from muster.core.words.gang import Code, Gate
from muster.translate.identity import GroupKey
from muster.translate.priority import Chosen, chosen, may_preempt, priority, ranked
from muster.translate.queue_rules import QueueRules
from muster.translate.touched import keys_touched
from tests.translate.cluster import job, jobset, pod, pod_group, pod_spec, priority_class, read, spec, world

CLASSES = [priority_class("high", 1000), priority_class("usual", 10, default=True)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"priority": 7, "priorityClassName": "high"}, 7),
        ({"priorityClassName": "high"}, 1000),
        ({}, 10),
        ({"priorityClassName": "system-node-critical"}, 2_000_001_000),
    ],
)
def test_priority(fields: Object, expected: int) -> None:
    assert priority(spec(pod_spec(**fields)), world(*CLASSES)) == expected


def test_no_class_and_no_default_is_zero() -> None:
    assert priority(spec(pod_spec()), world()) == 0


def test_of_two_defaults_the_lowest() -> None:
    two = world(*CLASSES, priority_class("other", 5, default=True))
    assert priority(spec(pod_spec()), two) == 5


def test_an_unknown_class_is_invalid() -> None:
    expected = Gate(Code.INVALID, "PriorityClass urgent does not exist")
    assert priority(spec(pod_spec(priorityClassName="urgent")), world()) == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"preemptionPolicy": "Never"}, False),
        ({"preemptionPolicy": "PreemptLowerPriority", "priorityClassName": "patient"}, True),
        ({"priorityClassName": "patient"}, False),
        ({"priorityClassName": "high"}, True),
    ],
)
def test_which_pods_may_preempt(fields: Object, expected: bool) -> None:
    classes = [*CLASSES, priority_class("patient", 1000, preemption="Never")]
    assert may_preempt(spec(pod_spec(**fields)), world(*classes)) == expected


def test_the_policy_of_the_default_class() -> None:
    assert not may_preempt(
        spec(pod_spec()), world(priority_class("usual", 10, default=True, preemption="Never"))
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", 12),
        ("-5", -5),
        ("high", 1000),
        ("system-node-critical", 2_000_001_000),
        ("nosuch", Gate(Code.INVALID, "PriorityClass nosuch does not exist")),
        ("1e9", Gate(Code.INVALID, "PriorityClass 1e9 does not exist")),
        ("9999999999", Gate(Code.INVALID, "PriorityClass 9999999999 does not exist")),
    ],
)
def test_a_priority_that_is_stated_beside_the_pods(text: str, expected: int | Gate) -> None:
    said = ObjectMeta(labels={names.PRIORITY: text})
    found = chosen([ObjectMeta(), said, ObjectMeta(labels={names.PRIORITY: "1"})], world(*CLASSES))
    assert (found.number if isinstance(found, Chosen) else found) == expected
    assert chosen([ObjectMeta()], world(*CLASSES)) is None


HIGH = pod_spec(priority=50)
SAID = {names.PRIORITY: "7"}
OWNER = job("j", labels=SAID)


@pytest.mark.parametrize(
    ("key", "objects"),
    [
        (
            GroupKey(groups.JOB, "ns", "j"),
            [job("j", gang="true", labels=SAID, template={"spec": HIGH})],
        ),
        (GroupKey(groups.JOBSET, "ns", "s"), [jobset("s", annotations=SAID)]),
        (
            GroupKey(groups.POD_GROUP, "ns", "g"),
            [pod_group("g", labels=SAID), pod("a", labels={"scheduling.x-k8s.io/pod-group": "g"}, spec=HIGH)],
        ),
        (GroupKey(groups.POD, "ns", "a"), [pod("a", labels=SAID, spec=HIGH)]),
        (GroupKey(groups.POD, "ns", "a"), [OWNER, pod("a", owner=OWNER, spec=HIGH)]),
    ],
)
def test_the_priority_annotation_overrides_the_pods_priority_in_every_dialect(
    key: GroupKey, objects: list[Resource]
) -> None:
    group = read(key, world(*objects))
    assert group is not None
    assert group.gang.priority == 7


def test_a_job_that_is_held_or_moved_speaks_for_its_independent_pods() -> None:
    before, held = job("j"), job("j", labels={names.HOLD: "true"})
    there = world(before, pod("a", owner=before))
    key = GroupKey(groups.POD, "ns", "a")
    group = read(key, there)
    assert group is not None
    assert group.gang.gate is None
    there.put(JOB, held)
    assert key in keys_touched(JOB, before, held, there)
    group = read(key, there)
    assert group is not None
    assert group.gang.gate is not None
    assert (group.gang.gate.code, names.HOLD in group.gang.gate.message) == (Code.GATED, True)


def quota(*classes: str, namespace: str = "ns") -> ResourceQuota:
    """It forbids pods of these classes; none: of any class."""
    operator = {"operator": "In", "values": [*classes]} if classes else {"operator": "Exists"}
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", **operator}]}
    body = {"metadata": {"name": "q", "namespace": namespace}}
    return convert({**body, "spec": {"hard": {"pods": "0"}, "scopeSelector": scope}}, ResourceQuota)


def rule(name: str, most: int | None, parent: str = "root") -> tuple[str, Queue]:
    spec = {"parent": parent, **({} if most is None else {"maxPriority": most})}
    return name, convert({"metadata": {"name": name}, "spec": spec}, Queue)


SYSTEM_CLASS = priority_class("system-node-critical", 2_000_001_000)
#: objects in the cluster, and what namespace ns may have at most by a mark
BOUNDS: dict[str, tuple[list[Resource], int]] = {
    "the highest class": ([*CLASSES, SYSTEM_CLASS], 1000),
    "a quota forbids it": ([*CLASSES, quota("high")], 10),
    "a quota forbids all but the default": ([*CLASSES, quota()], 10),
    "a quota forbids all": ([CLASSES[0], quota()], 0),
    "the quota of another namespace": ([*CLASSES, quota("high", namespace="other")], 1000),
    "a quota of classes that do not exist": ([quota("high")], 0),
    "no class of users": ([SYSTEM_CLASS], 1_000_000_000),
}


@pytest.mark.parametrize("text", ["999999999", "high", "system-node-critical"])
@pytest.mark.parametrize(("objects", "bound"), BOUNDS.values(), ids=BOUNDS)
def test_a_mark_reaches_what_the_namespace_could_have_by_a_class(
    objects: list[Resource], bound: int, text: str
) -> None:
    written = chosen([ObjectMeta(labels={names.PRIORITY: text})], there := world(*objects))
    for key, mine in MARKED.items():
        group = read(key, world(*objects, *mine(text)))
        assert group is not None
        if not isinstance(written, Chosen):
            assert group.gang.priority <= bound
            continue
        assert group.gang.priority == min(written.number, bound)
        lowered = [f"lowered to {bound}, the most that" in warning for warning in group.warnings]
        assert lowered == [True] * (written.number > bound)
    assert there.unranked == 1_000_000_000


def _of_group(text: str) -> list[Resource]:
    return [
        pod_group("g", labels={names.PRIORITY: text}),
        pod("a", labels={"scheduling.x-k8s.io/pod-group": "g"}),
    ]


MARKED: dict[GroupKey, Callable[[str], list[Resource]]] = {
    GroupKey(groups.JOB, "ns", "j"): lambda text: [job("j", gang="true", labels={names.PRIORITY: text})],
    GroupKey(groups.JOBSET, "ns", "s"): lambda text: [jobset("s", annotations={names.PRIORITY: text})],
    GroupKey(groups.POD_GROUP, "ns", "g"): _of_group,
    GroupKey(groups.POD, "ns", "p"): lambda text: [pod("p", labels={names.PRIORITY: text})],
}


PATIENT = priority_class("patient", 1000, preemption="Never")


@pytest.mark.parametrize(("text", "expected"), [("patient", False), ("high", True), ("1000", True)])
def test_a_mark_may_not_preempt_if_its_class_may_not(text: str, expected: bool) -> None:
    for key, mine in MARKED.items():
        group = read(key, world(*CLASSES, PATIENT, *mine(text)))
        assert group is not None
        assert (group.gang.priority, group.gang.preempts) == (1000, expected)


@pytest.mark.parametrize("fields", [{"priority_class": "high"}, {"priority_class": "high", "priority": 1000}])
def test_a_field_is_never_bounded_below_the_pods_but_a_mark_is(fields: dict[str, Any]) -> None:
    there, asked = world(*CLASSES, SYSTEM_CLASS, quota("high")), Asked(minimum=1, field="", **fields)
    field = "spec.priority" if "priority" in fields else "spec.priorityClassName"
    for of_pods, expected in ((1000, 1000), (500, 500), (10, 10), (0, 10), (2_000_001_000, 10)):
        rank = ranked([ObjectMeta()], of_pods, "ns", "q", there, asked)
        assert rank.number == expected
        why = "the priority of its pods" if of_pods == 500 else "the most that"
        told = f"{field}: its priority 1000 is lowered to {expected}, {why}"
        assert [warning.startswith(told) for warning in rank.warnings] == [True] * (expected < 1000)
        mark = ObjectMeta(labels={names.PRIORITY: "high"})
        assert ranked([mark], of_pods, "ns", "q", there, asked).number == 10


def test_queues_bound_marks_and_pods_and_replace_what_classes_allow() -> None:
    key = GroupKey(groups.JOB, "ns", "j")
    labels = {names.PRIORITY: "900", names.QUEUE: "leaf"}
    for marked in (labels, {names.QUEUE: "leaf"}):
        there = world(
            priority_class("mine", 900),
            quota(),
            job("j", gang="true", labels=marked, template={"spec": MINE}),
        )
        for queues, expected in (
            ((None, None), 0 if names.PRIORITY in marked else 900),
            ((500, None), 500),
            ((500, 5), 5),
            ((1000, None), 900),
        ):
            for name, most, above in zip(("leaf", "top"), queues, ("top", "root"), strict=True):
                there.queue_rules.change(*rule(name, most, above))
            group = read(key, there)
            assert group is not None
            assert group.gang.priority == expected


MINE = pod_spec(priorityClassName="mine")


def test_only_a_bound_that_may_count_is_a_change() -> None:
    bounds = QueueRules()
    assert not bounds.change(*rule("a", None))
    assert bounds.change(*rule("a", 5))
    assert not bounds.change(*rule("a", 5))
    assert bounds.change(*rule("b", None, "a"))
    assert bounds.bound("b") == (5, "a")
    assert bounds.change("a", None)
    assert (bounds.bound("b"), bounds.change("b", None)) == (None, False)


@pytest.mark.parametrize("mark", [{}, {names.PRIORITY: "system-node-critical"}])
def test_priorities_of_the_system_are_those_of_its_namespace(mark: dict[str, str]) -> None:
    critical = pod_spec(priorityClassName="system-node-critical", priority=2_000_001_000)
    for namespace, expected in (("ns", 1000), ("kube-system", 2_000_001_000)):
        one = pod("p", labels=mark, spec=critical)
        one = replace(one, metadata=replace(one.metadata, namespace=namespace))
        group = read(GroupKey(groups.POD, namespace, "p"), world(*CLASSES, one))
        assert group is not None
        assert group.gang.priority == expected


def test_a_template_cannot_claim_a_priority_that_its_pods_will_not_have() -> None:
    group = read(
        GroupKey(groups.JOB, "ns", "j"),
        world(*CLASSES, job("j", gang="true", template={"spec": pod_spec(priority=999)})),
    )
    assert group is not None
    assert group.gang.gate == Gate(
        Code.INVALID,
        "spec.priority of its pods is 999, and their PriorityClass says 10; leave it out",
    )
