import pytest

from muster.api.base import Object
from muster.core.gang import Code, Gate
from muster.translate.priority import may_preempt, priority
from tests.translate.cluster import pod_spec, priority_class, spec, world

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
def test_who_may_preempt(fields: Object, expected: bool) -> None:
    classes = [*CLASSES, priority_class("patient", 1000, preemption="Never")]
    assert may_preempt(spec(pod_spec(**fields)), world(*classes)) == expected


def test_the_policy_of_the_default_class() -> None:
    assert not may_preempt(
        spec(pod_spec()), world(priority_class("usual", 10, default=True, preemption="Never"))
    )
