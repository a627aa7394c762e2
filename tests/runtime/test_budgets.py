"""Disruption budgets on their way from the cluster to the core."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from muster.api import groups
from muster.api.base import Kind, Object, Resource
from muster.api.core_v1 import Pod, ResourceQuota
from muster.api.kinds import PDB, POD, RESOURCE_QUOTA
from muster.api.scheduling import PodDisruptionBudget
from muster.core.words.events import BudgetChanged, BudgetRemoved, QuotaChanged
from muster.runtime.mirror import Mirror
from muster.translate.world import World
from tests.translate.cluster import pod
from tests.unwalked import Unwalked

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


def test_the_status_of_a_quota_or_a_budget_costs_no_visit_to_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror, asked = Mirror(), list[str]()
    for name in "ab":
        mirror.change(POD, None, ready(name))
    mirror.drain(0.0)
    of_namespace = World.in_namespace

    def pods(self: World) -> Unwalked:
        return Unwalked(self._objects[POD])

    def counted(self: World, kind: Kind[Any], namespace: str) -> Iterable[Resource]:
        asked.append(f"{kind.plural} of {namespace}")
        return of_namespace(self, kind, namespace)

    monkeypatch.setattr(World, "pods", property(pods))
    monkeypatch.setattr(World, "in_namespace", counted)
    old = None
    for used in ("0", "1"):
        body = {"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": {"pods": "4"}}}
        quota = msgspec.convert({**body, "status": {"used": {"pods": used}}}, ResourceQuota)
        mirror.change(RESOURCE_QUOTA, old, quota)
        assert isinstance(mirror.drain(0.0).events[-1], QuotaChanged)
        old = quota
    assert asked == [f"{kind.plural} of ns" for kind in groups.BY_KIND], "once, for what came first"
    mirror.change(PDB, None, budget(1))
    assert told(mirror) == [1]
    assert asked[len(groups.BY_KIND) :] == ["pods of ns"], "pods are counted where no controller counts them"


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
