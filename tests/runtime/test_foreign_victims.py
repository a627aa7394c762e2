"""Pods of other schedulers make room for gangs of higher priority, in namespaces that are listed for that."""

from typing import Any

import msgspec
import pytest

from muster.api.base import AnyKind, Object
from muster.api.core_v1 import Node, Pod
from muster.api.kinds import NODE, PDB, POD
from muster.api.scheduling import PodDisruptionBudget
from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign, Decision, Evict
from muster.core.words.gang import FOREIGN, GangId
from muster.runtime.committer import Committer
from muster.runtime.mirror import Mirror


def node(name: str = "n", cpu: int = 4) -> Node:
    status = {"allocatable": {"cpu": str(cpu)}, "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Node)


def pod(name: str, namespace: str = "checks", *, cpu: int = 4, on: str = "", **fields: Any) -> Pod:
    scheduler = "default-scheduler" if namespace != "team" else "muster"
    spec: Object = {
        "schedulerName": scheduler,
        "nodeName": on,
        "priority": 0,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}],
    }
    meta: Object = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
    meta |= fields.pop("metadata", {})
    body = {"metadata": meta, "spec": spec | fields, "status": {"phase": "Running" if on else "Pending"}}
    return msgspec.convert(body, Pod)


class Seen(Mirror):
    """A mirror that the committer can ask."""

    def find(self, kind: AnyKind, key: str) -> None:
        """It has no records."""


class Cluster:
    def __init__(self, *pods: Pod, victims: frozenset[str] = frozenset({"checks"})) -> None:
        self.mirror, self.core, self.now = Seen(frozenset({"muster"}), victims=victims), Scheduler(), 0.0
        self.mirror.change(NODE, None, node())
        for each in pods:
            self.mirror.change(POD, None, each)

    def decide(self) -> list[Decision]:
        self.now += 1
        for event in self.mirror.drain(self.now).events:
            self.core.apply(event)
        return [each for each in self.core.decide(self.now) if isinstance(each, Assign | Evict)]


DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
HIGH = pod("high", "team", priority=10)


def test_a_foreign_pod_of_a_listed_namespace_and_of_lower_priority_makes_room() -> None:
    cluster = Cluster(pod("check", on="n"), HIGH)
    evict, assign = cluster.decide()
    assert isinstance(evict, Evict)
    assert isinstance(assign, Assign)
    assert [victim.gang for victim in evict.victims] == ["checks/check"]
    assert not evict.victims[0].reclaimed
    assert (evict.beneficiary, assign.gang) == ("team/high", "team/high")


@pytest.mark.parametrize(
    "check",
    [
        pod("check", on="n", priority=10),
        pod("check", on="n", priority=11),
        pod("check", "elsewhere", on="n"),
        pod("check", on="n", metadata={"annotations": {"muster.dev/preemptible": "false"}}),
        pod(
            "check",
            on="n",
            metadata={
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "DaemonSet",
                        "name": "d",
                        "uid": "d",
                        "controller": True,
                    }
                ]
            },
        ),
    ],
    ids=["equal", "higher", "another namespace", "not preemptible", "of its node"],
)
def test_others_never_do(check: Pod) -> None:
    assert Cluster(check, HIGH).decide() == []
    assert Cluster(pod("check", on="n"), HIGH, victims=frozenset()).decide() == []


def test_its_disruption_budget_holds() -> None:
    check = pod("check", on="n", metadata={"labels": {"app": "check"}})
    cluster = Cluster(check, HIGH)
    meta = {"name": "b", "namespace": "checks", "generation": 1}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "check"}}}
    budget = {"metadata": meta, "spec": spec, "status": {"observedGeneration": 1, "disruptionsAllowed": 0}}
    cluster.mirror.change(PDB, None, msgspec.convert(budget, PodDisruptionBudget))
    assert cluster.decide() == []


def test_it_is_no_gang_of_any_queue_and_is_never_placed() -> None:
    waiting, bound = pod("check", cpu=1), pod("check", cpu=1, on="n")
    cluster = Cluster(waiting)
    assert cluster.decide() == []
    assert "checks/check" not in cluster.core.world.gangs
    cluster.mirror.change(POD, waiting, bound)
    assert cluster.decide() == []
    state = cluster.core.world.gangs[GangId("checks/check")]
    assert state.gang is not None
    assert state.gang.queue == FOREIGN
    cluster.core.settle()
    queues = cluster.core.world.queues
    assert not queues.root.used
    assert not queues.accounts["default"].used
    committer = Committer(cluster.mirror, 1)
    committer.changed(state.id)
    assert committer.due(1.0) == [state.id]
    assert committer.work(state.id, 1.0) == ((), ()), "nothing of it is written"
    cluster.mirror.change(POD, bound, None)
    assert cluster.decide() == []
    assert "checks/check" not in cluster.core.world.gangs


def test_it_goes_before_a_gang_of_the_own_queue() -> None:
    own = pod("own", "team", cpu=2, on="n", priority=0)
    cluster = Cluster(pod("check", cpu=2, on="n", priority=5), own, pod("high", "team", cpu=2, priority=10))
    (evict, _) = cluster.decide()
    assert isinstance(evict, Evict)
    assert [victim.gang for victim in evict.victims] == ["checks/check"]
