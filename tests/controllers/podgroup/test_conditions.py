"""Conditions of Kubernetes' own PodGroups: when a group has had its nodes, and when it loses them."""

from datetime import timedelta

import pytest

from muster.api import groups
from muster.api.base import Condition, Object, condition
from muster.api.kinds import GANG, POD, POD_GROUP_K8S
from muster.api.scheduling_v1beta1 import DISRUPTION_TARGET, INITIALLY_SCHEDULED
from muster.controllers.podgroup import controller
from muster.names import PREEMPTION
from tests.controllers.memory import START, Memory


class Cluster:
    """A server in memory with the group `g` of three pods, two of which must run together."""

    def __init__(self, least: int = 2) -> None:
        self.controller, self.memory = controller(groups.NATIVE), Memory(lambda: START)
        policy: Object = {"gang": {"minCount": least}} if least else {"basic": {}}
        group = {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}
        uid = self.memory.create(POD_GROUP_K8S, "ns", group)["metadata"]["uid"]
        source = {"apiVersion": POD_GROUP_K8S.api_version, "kind": "PodGroup", "name": "g", "uid": uid}
        self.memory.create(GANG, "ns", {"metadata": {"name": "native-g"}, "spec": {"source": source}})
        for name in ("a", "b", "c"):
            spec = {"schedulingGroup": {"podGroupName": "g"}}
            self.memory.create(POD, "ns", {"metadata": {"name": name}, "spec": spec})

    def bind(self, *names: str) -> None:
        for name in names:
            self.memory.patch(POD, "ns", name, {"spec": {"nodeName": "n"}})

    def evict(self, name: str) -> None:
        told = {"type": DISRUPTION_TARGET, "status": "True", "reason": PREEMPTION, "message": "for x"}
        status = {"phase": "Failed", "conditions": [told]}
        self.memory.patch(POD, "ns", name, {"status": status}, "status")

    def waits(self, code: str, message: str = "") -> None:
        reason = {"code": code, "message": message}
        self.memory.patch(GANG, "ns", "native-g", {"status": {"reason": reason}})

    def settle(self, seconds: float = 0) -> int:
        """Reconciles until nothing changes, and returns the number of writes."""
        writes = 0
        while True:
            caches = self.memory.caches(
                [watch.kind for watch in self.controller.watches], self.controller.indexes
            )
            observed = self.controller.observe(caches, "ns/g")
            if observed is None:
                return writes
            effects = self.controller.reconcile(observed, START + timedelta(seconds=seconds))
            if not effects:
                return writes
            self.memory.apply(effects)
            writes += 1
            assert writes < 3

    def found(self, type_: str) -> Condition | None:
        return condition(self.memory.read(POD_GROUP_K8S, "ns/g").status.conditions, type_)

    def scheduled(self) -> tuple[str, str, str] | None:
        found = self.found(INITIALLY_SCHEDULED)
        return None if found is None else (found.status, found.reason, found.message)


@pytest.mark.parametrize("least", [0, 1, 2, 3])
def test_a_group_is_scheduled_once_its_minimum_has_nodes_and_for_ever(least: int) -> None:
    cluster = Cluster(least)
    for number, name in enumerate(("a", "b", "c"), 1):
        assert (cluster.scheduled() is not None) == (number > max(least, 1))
        cluster.bind(name)
        cluster.settle(number)
    assert cluster.scheduled() == ("True", "Scheduled", "")
    found = cluster.found(INITIALLY_SCHEDULED)
    assert found is not None
    assert found.last_transition_time == START + timedelta(seconds=max(least, 1))
    for name in ("a", "b", "c"):
        cluster.memory.patch(POD, "ns", name, {"status": {"phase": "Failed"}}, "status")
    cluster.waits("InsufficientCapacity", "no room")
    cluster.settle(9)
    assert cluster.found(INITIALLY_SCHEDULED) == found


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("InsufficientCapacity", "Unschedulable"),
        ("QuotaExceeded", "Unschedulable"),
        ("WaitingForVictims", "Unschedulable"),
        ("Invalid", "SchedulerError"),
        ("CommitFailed", "SchedulerError"),
        ("MembersMissing", None),
        ("Gated", None),
    ],
)
def test_a_group_that_waits_says_why(code: str, reason: str | None) -> None:
    cluster = Cluster()
    cluster.waits(code, "why")
    assert cluster.settle() == (reason is not None)
    assert cluster.scheduled() == (None if reason is None else ("False", reason, f"{code}: why"))
    cluster.waits(code, "why with other figures")
    assert cluster.settle(5) == 0
    if reason is not None:
        cluster.waits("TopologyUnsatisfied", "why else")
        assert cluster.settle(5) == 1
        found = cluster.found(INITIALLY_SCHEDULED)
        assert found is not None
        assert (found.message, found.last_transition_time) == ("TopologyUnsatisfied: why else", START)


def test_a_group_that_loses_its_minimum_to_others_is_disrupted_until_it_runs_again() -> None:
    cluster = Cluster()
    cluster.bind("a", "b", "c")
    cluster.settle()
    cluster.evict("a")
    cluster.settle()
    assert cluster.found(DISRUPTION_TARGET) is None, "two are left"
    cluster.evict("b")
    cluster.settle(1)
    found = cluster.found(DISRUPTION_TARGET)
    assert found is not None
    assert (found.status, found.reason, found.message) == ("True", PREEMPTION, "for x")
    for name in ("a", "b", "c"):
        cluster.memory.delete(POD, "ns", name)
    assert cluster.settle(2) == 0
    for name in ("d", "e"):
        spec = {"schedulingGroup": {"podGroupName": "g"}, "nodeName": "n"}
        cluster.memory.create(POD, "ns", {"metadata": {"name": name}, "spec": spec})
    cluster.settle(3)
    assert cluster.found(DISRUPTION_TARGET) is None


def test_what_others_write_is_kept_and_every_condition_is_complete() -> None:
    """The API server refuses a condition without a reason, a message or a time."""
    cluster = Cluster()
    stamp = START.isoformat()
    other = {"type": "Other", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": stamp}
    cluster.memory.patch(POD_GROUP_K8S, "ns", "g", {"status": {"conditions": [other]}}, "status")
    cluster.bind("a", "b")
    cluster.settle()
    cluster.evict("b")
    cluster.settle()
    written = cluster.memory.json(POD_GROUP_K8S, "ns/g")["status"]["conditions"]
    assert [each["type"] for each in written] == ["Other", INITIALLY_SCHEDULED, DISRUPTION_TARGET]
    for each in written:
        assert {"type", "status", "reason", "message", "lastTransitionTime"} <= each.keys()
        assert each["reason"]


@pytest.mark.parametrize(("scheduler", "writes"), [("default-scheduler", 0), ("muster", 1)])
def test_a_group_whose_pods_are_anothers_keeps_its_conditions(scheduler: str, writes: int) -> None:
    cluster = Cluster()
    cluster.controller = controller(groups.NATIVE, frozenset({"muster"}))
    for name in ("a", "b", "c"):
        cluster.memory.patch(POD, "ns", name, {"spec": {"schedulerName": scheduler}})
    cluster.bind("a", "b", "c")
    assert cluster.settle() == writes
