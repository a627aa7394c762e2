from typing import Any

import pytest

from muster.api.rules.scheduling import (
    default_priority_class,
    validate_budget,
    validate_plan,
    validate_pod_group,
    validate_priority_class,
)


def priority_class(name: str = "high", **fields: Any) -> Any:
    return default_priority_class({"metadata": {"name": name}, **fields})


@pytest.mark.parametrize(
    ("obj", "old", "error"),
    [
        (priority_class(value=1_000_000_000), None, ""),
        (priority_class(value=-5), None, ""),
        (priority_class(value=1_000_000_001), None, "value: Forbidden: 1000000001"),
        (priority_class("system-mine"), None, "metadata.name: Forbidden"),
        (priority_class(preemptionPolicy="Always"), None, 'preemptionPolicy: Unsupported value: "Always"'),
        (priority_class(value=1), priority_class(value=2), "value: Invalid value: field is immutable"),
    ],
)
def test_priority_classes(obj: Any, old: Any, error: str) -> None:
    found = [str(e) for e in validate_priority_class(obj, old)]
    assert (error in found[0] and len(found) == 1) if error else not found, found


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}, ""),
        ({"maxUnavailable": "50%"}, ""),
        ({"minAvailable": 1, "maxUnavailable": 1}, "cannot both be set"),
        ({"minAvailable": "half"}, 'spec.minAvailable: Invalid value: "half"'),
        ({"maxUnavailable": -1}, "spec.maxUnavailable: Invalid value: -1"),
        ({"selector": {"matchLabels": {"a": 1}}}, "spec.selector.matchLabels"),
    ],
)
def test_budgets(spec: Any, error: str) -> None:
    found = [str(e) for e in validate_budget({"spec": spec}, None)]
    assert (error in found[0] and len(found) == 1) if error else not found, found


def test_pod_groups_and_plans() -> None:
    assert validate_pod_group({"spec": {"minMember": 0}}, None) == []
    assert "minMember" in str(validate_pod_group({"spec": {"minMember": -1}}, None)[0])
    plan = {"spec": {"blob": "x"}}
    assert validate_plan(plan, plan) == []
    assert "never changed" in str(validate_plan({"spec": {"blob": "y"}}, plan)[0])
