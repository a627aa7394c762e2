"""Disruption budgets on their way from the cluster to the core."""

import msgspec

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.kinds import PDB, POD
from muster.api.scheduling import PodDisruptionBudget
from muster.core.words.events import BudgetChanged, BudgetRemoved
from muster.runtime.mirror import Mirror
from tests.translate.cluster import pod

READY = {"type": "Ready", "status": "True"}


def budget(least: int, status: Object | None = None) -> PodDisruptionBudget:
    spec = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": least}
    body = {"metadata": {"name": "b", "namespace": "ns"}, "spec": spec, "status": status or {}}
    return msgspec.convert(body, PodDisruptionBudget)


def told(mirror: Mirror) -> list[int | str]:
    """What each budget's event allows; the name of one that is gone."""
    events = mirror.drain(0.0).events
    return [
        event.allowed if isinstance(event, BudgetChanged) else event.name
        for event in events
        if isinstance(event, BudgetChanged | BudgetRemoved)
    ]


def ready(name: str) -> Pod:
    return pod(name, node="n", labels={"app": "x"}, conditions=[READY])


def test_a_budget_follows_its_pods() -> None:
    mirror = Mirror()
    first = budget(1)
    mirror.change(PDB, None, first)
    assert told(mirror) == [0]
    for name in ("p1", "p2", "p3"):
        mirror.change(POD, None, ready(name))
    assert told(mirror) == [2]
    assert told(mirror) == []
    mirror.change(POD, ready("p3"), None)
    assert told(mirror) == [1]
    mirror.change(PDB, first, budget(2))
    assert told(mirror) == [0]
    mirror.change(PDB, first, None)
    assert told(mirror) == ["b"]
    mirror.change(POD, None, ready("p4"))
    assert told(mirror) == []


def test_a_budget_that_a_controller_counts_does_not_follow_pods() -> None:
    mirror = Mirror()
    mirror.change(PDB, None, budget(1, {"disruptionsAllowed": 5, "observedGeneration": 1}))
    assert told(mirror) == [5]
    mirror.change(POD, None, ready("p1"))
    assert told(mirror) == []
