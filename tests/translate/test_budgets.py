"""What PodDisruptionBudgets allow, counted by the cluster or by us."""

import msgspec
import pytest

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.scheduling import PodDisruptionBudget
from muster.core.words.gang import Operator, Requirement
from muster.translate.budgets import budget_changed
from tests.translate.cluster import pod

READY = {"type": "Ready", "status": "True"}
SELECTOR = {"matchLabels": {"app": "x"}}
WHERE = (Requirement("app", Operator.IN, ("x",)),)


def budget(spec: Object, status: Object | None = None) -> PodDisruptionBudget:
    body = {"metadata": {"name": "b", "namespace": "ns"}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, PodDisruptionBudget)


def pods(ready: int, unready: int = 0, ended: int = 0, deleting: int = 0) -> list[Pod]:
    """Of app=x, and one that is not."""
    labels = {"app": "x"}
    return [
        *(pod(f"r{i}", node="n", labels=labels, conditions=[READY]) for i in range(ready)),
        *(pod(f"u{i}", node="n", labels=labels) for i in range(unready)),
        *(pod(f"e{i}", node="n", labels=labels, phase="Failed") for i in range(ended)),
        *(pod(f"d{i}", node="n", labels=labels, conditions=[READY], deleting=True) for i in range(deleting)),
        pod("other", node="n", conditions=[READY]),
    ]


@pytest.mark.parametrize(
    ("spec", "there", "allowed"),
    [
        ({"minAvailable": 2}, pods(4), 2),
        ({"minAvailable": 2}, pods(2, unready=3), 0),
        ({"minAvailable": 5}, pods(4), 0),
        ({"minAvailable": "50%"}, pods(5), 2),
        ({"maxUnavailable": 1}, pods(4), 1),
        ({"maxUnavailable": 1}, pods(3, unready=1), 0),
        ({"maxUnavailable": "25%"}, pods(4), 1),
        ({"maxUnavailable": 0}, pods(4), 0),
        ({}, pods(3), 2),
        ({"minAvailable": 2}, pods(3, ended=5), 1),
        ({"minAvailable": 2}, pods(3, deleting=2), 1),
    ],
)
def test_counted_from_the_pods(spec: Object, there: list[Pod], allowed: int) -> None:
    event = budget_changed(budget({"selector": SELECTOR, **spec}), there)
    assert event is not None
    assert (event.namespace, event.name, event.labels, event.allowed) == ("ns", "b", WHERE, allowed)


def test_a_controllers_own_number_is_taken() -> None:
    status = {"disruptionsAllowed": 3, "observedGeneration": 1}
    event = budget_changed(budget({"selector": SELECTOR, "minAvailable": 9}, status), pods(1))
    assert event is not None
    assert event.allowed == 3


def test_a_budget_without_a_selector_selects_no_pod_and_an_empty_one_all() -> None:
    assert budget_changed(budget({"minAvailable": 1}), pods(3)) is None
    every = budget_changed(budget({"selector": {}, "minAvailable": 1}), pods(3))
    assert every is not None
    assert (every.labels, every.allowed) == ((), 3), "and the one that is not of app=x"


@pytest.mark.parametrize(
    "spec",
    [
        {"selector": SELECTOR, "minAvailable": "many"},
        {"selector": {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["x"]}]}},
    ],
)
def test_a_budget_that_cannot_be_read_allows_no_eviction(spec: Object) -> None:
    event = budget_changed(budget(spec), pods(3))
    assert event is not None
    assert event.allowed == 0
