import pytest

from muster import names
from muster.api.base import Object, ObjectMeta, Resource
from muster.api.kinds import JOB
from muster.core.words.gang import Code, Gate
from muster.translate.dialects import keys_touched
from muster.translate.identity import Dialect, GroupKey
from muster.translate.priority import chosen, may_preempt, priority
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
    assert chosen([ObjectMeta(), said, ObjectMeta(labels={names.PRIORITY: "1"})], world(*CLASSES)) == expected
    assert chosen([ObjectMeta()], world(*CLASSES)) is None


HIGH = pod_spec(priority=50)
SAID = {names.PRIORITY: "7"}
OWNER = job("j", labels=SAID)


@pytest.mark.parametrize(
    ("key", "objects"),
    [
        (
            GroupKey(Dialect.JOB, "ns", "j"),
            [job("j", gang="true", labels=SAID, template={"spec": HIGH})],
        ),
        (GroupKey(Dialect.JOBSET, "ns", "s"), [jobset("s", annotations=SAID)]),
        (
            GroupKey(Dialect.POD_GROUP, "ns", "g"),
            [pod_group("g", labels=SAID), pod("a", labels={"scheduling.x-k8s.io/pod-group": "g"}, spec=HIGH)],
        ),
        (GroupKey(Dialect.POD, "ns", "a"), [pod("a", labels=SAID, spec=HIGH)]),
        (GroupKey(Dialect.POD, "ns", "a"), [OWNER, pod("a", owner=OWNER, spec=HIGH)]),
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
    key = GroupKey(Dialect.POD, "ns", "a")
    group = read(key, there)
    assert group is not None
    assert group.gang.gate is None
    there.put(JOB, held)
    assert key in keys_touched(JOB, before, held, there)
    group = read(key, there)
    assert group is not None
    assert group.gang.gate is not None
    assert (group.gang.gate.code, names.HOLD in group.gang.gate.message) == (Code.GATED, True)
