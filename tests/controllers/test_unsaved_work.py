"""A gang that runs for long, may be evicted and saves nothing is warned of once."""

from datetime import timedelta
from typing import Any

import pytest

from muster import names
from muster.api.base import condition
from muster.api.kinds import GANG, POD, PRIORITY_CLASS, QUEUE
from muster.controllers.gang import controller
from muster.controllers.unsaved_work import SAVED
from muster.effects import Requeue
from tests.controllers.memory import START, Memory

CONTROLLER = controller()
URGENT = {"metadata": {"name": "urgent"}, "value": 1000}
TOLD = (
    "it has run for more than 1h without a checkpoint, and {}; let it save its work, and annotate it "
    "muster.dev/checkpoint: 30m"
)
PREEMPTED = TOLD.format("1 higher class can preempt it (urgent)")
RECLAIMED = TOLD.format("its queue default borrows, which other queues can reclaim")


class Cluster:
    """A gang of one running pod, whose group object nobody has."""

    def __init__(self, annotations: dict[str, str] | None = None, resource: str = names.GPU) -> None:
        self.now = START
        self.memory = Memory(lambda: self.now)
        source = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u"}
        self.memory.create(GANG, "ns", {"metadata": {"name": "g"}, "spec": {"minCount": 1, "source": source}})
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
        meta = {"name": "p", "ownerReferences": [owner], "annotations": annotations or {}}
        limits = [{"name": "main", "resources": {"limits": {resource: "1"}}}]
        self.memory.create(POD, "ns", {"metadata": meta, "spec": {"nodeName": "n", "containers": limits}})
        self.phase("Running")

    def phase(self, phase: str) -> None:
        self.memory.patch(POD, "ns", "p", {"status": {"phase": phase}}, "status")

    def classes(self, **fields: Any) -> None:
        self.memory.create(PRIORITY_CLASS, "", {**URGENT, **fields})

    def settle(self) -> list[Requeue]:
        kinds = [watch.kind for watch in CONTROLLER.watches]
        for _ in range(5):
            caches = self.memory.caches(kinds, CONTROLLER.indexes)
            observed = CONTROLLER.observe(caches, "ns/g")
            assert observed is not None
            effects = CONTROLLER.reconcile(observed, self.now)
            writes = [each for each in effects if not isinstance(each, Requeue)]
            if not writes:
                return [each for each in effects if isinstance(each, Requeue)]
            self.memory.apply(writes)
        raise AssertionError("the controller does not come to rest")

    def told(self) -> str | None:
        found = condition(self.memory.read(GANG, "ns/g").status.conditions, SAVED)
        return None if found is None else found.message


def test_the_warning_comes_after_an_hour_and_stays() -> None:
    cluster = Cluster()
    cluster.classes()
    due = cluster.settle()
    assert cluster.told() is None
    assert due == [Requeue(START + timedelta(hours=1))]
    cluster.now += timedelta(hours=1)
    cluster.settle()
    assert cluster.told() == PREEMPTED
    written = cluster.memory.revision
    cluster.memory.create(PRIORITY_CLASS, "", {"metadata": {"name": "more"}, "value": 5})
    cluster.now += timedelta(hours=9)
    cluster.settle()
    assert cluster.memory.revision == written + 1, "one warning is enough"
    saved = {"metadata": {"annotations": {names.CHECKPOINT: "30m"}}}
    cluster.memory.patch(POD, "ns", "p", saved)
    cluster.settle()
    assert cluster.told() == ""


def test_another_run_has_its_own_hour() -> None:
    cluster = Cluster()
    cluster.classes()
    cluster.settle()
    cluster.now += timedelta(hours=2)
    cluster.phase("Pending")
    cluster.settle()
    cluster.phase("Running")
    assert cluster.settle() == [Requeue(cluster.now + timedelta(hours=1))]
    assert cluster.told() is None


def test_a_queue_that_borrows_is_a_risk() -> None:
    cluster = Cluster()
    status = {"borrowed": {names.GPU: "1"}}
    cluster.memory.create(QUEUE, "", {"metadata": {"name": "default"}, "spec": {}})
    cluster.memory.patch(QUEUE, "", "default", {"status": status}, "status")
    cluster.settle()
    cluster.now += timedelta(hours=1)
    cluster.settle()
    assert cluster.told() == RECLAIMED


SAFE: dict[str, tuple[dict[str, str], str, dict[str, Any] | None]] = {
    "a checkpoint": ({names.CHECKPOINT: "30m"}, names.GPU, {}),
    "it opts out": ({names.PREEMPTIBLE: "false"}, names.GPU, {}),
    "no GPUs": ({}, "cpu", {}),
    "no class above": ({}, names.GPU, {"value": -5}),
    "a class that does not preempt": ({}, names.GPU, {"preemptionPolicy": "Never"}),
    "Kubernetes' own class": ({}, names.GPU, {"metadata": {"name": "system-node-critical"}}),
    "no class": ({}, names.GPU, None),
}


@pytest.mark.parametrize(("annotations", "resource", "fields"), SAFE.values(), ids=SAFE)
def test_other_gangs_get_no_warning(
    annotations: dict[str, str], resource: str, fields: dict[str, Any] | None
) -> None:
    cluster = Cluster(annotations, resource)
    if fields is not None:
        cluster.classes(**fields)
    cluster.settle()
    cluster.now += timedelta(days=1)
    assert cluster.settle() == []
    assert cluster.told() is None
