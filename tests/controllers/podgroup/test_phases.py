"""PodGroup status: the phases, and the defects that are not repeated."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from muster.api import groups
from muster.api.base import AnyKind, Object
from muster.api.kinds import POD, POD_GROUP_SIGS, POD_GROUP_X
from muster.api.scheduling import PodGroupStatus
from muster.controllers.driver import Change
from muster.controllers.podgroup import controller
from muster.controllers.podgroup.observed import Counts
from muster.controllers.podgroup.phases import next_phase
from muster.effects import Effect
from tests.controllers.memory import START, Memory

PHASES: list[tuple[str, Counts, str]] = [
    # before, (pods, scheduled, running, succeeded, failed), after; the minimum is 3
    ("", Counts(0, 0, 0, 0, 0), "Pending"),
    ("", Counts(5, 0, 0, 0, 0), "Pending"),
    ("Pending", Counts(2, 0, 0, 0, 0), "Pending"),
    ("Pending", Counts(3, 0, 0, 0, 0), "PreScheduling"),
    ("PreScheduling", Counts(3, 0, 0, 0, 0), "Scheduling"),
    ("PreScheduling", Counts(0, 0, 0, 0, 0), "Pending"),
    ("Scheduling", Counts(3, 2, 1, 0, 0), "Scheduling"),
    ("Scheduling", Counts(3, 3, 1, 0, 0), "Scheduled"),
    ("Scheduled", Counts(4, 4, 3, 0, 0), "Running"),
    ("Running", Counts(3, 3, 2, 1, 0), "Running"),
    ("Running", Counts(3, 3, 0, 3, 0), "Finished"),
    ("Running", Counts(3, 2, 2, 0, 1), "Failed"),
    ("Running", Counts(4, 3, 3, 0, 1), "Running"),  # upstream: Failed
    ("Running", Counts(4, 2, 2, 0, 1), "Scheduling"),  # the fourth can still make up for it
    ("Running", Counts(3, 2, 2, 0, 0), "Scheduling"),
    ("Failed", Counts(4, 3, 3, 0, 1), "Running"),  # upstream: Failed for ever
    ("Finished", Counts(0, 0, 0, 0, 0), "Pending"),  # upstream: Finished for ever
]


@pytest.mark.parametrize(("before", "counts", "after"), PHASES)
def test_phases(before: str, counts: Counts, after: str) -> None:
    phases = groups.KOORDINATOR.phases
    assert phases is not None
    assert next_phase(before, counts, 3, phases) == after


@pytest.mark.parametrize(("before", "counts", "after"), PHASES)
def test_phases_of_scheduler_plugins_are_the_same_with_fewer_words(
    before: str, counts: Counts, after: str
) -> None:
    phases = groups.POD_GROUP.phases
    assert phases is not None
    fewer = {"PreScheduling": "Scheduling", "Scheduled": "Scheduling"}
    assert next_phase(fewer.get(before, before), counts, 3, phases) == fewer.get(after, after)


class Cluster:
    """A server in memory, and the controller run on what it holds."""

    def __init__(self, kind: AnyKind, minimum: int = 2) -> None:
        self.kind, self.controller, self.memory = (
            kind,
            controller(groups.BY_KIND[kind]),
            Memory(lambda: START),
        )
        self.memory.create(kind, "ns", {"metadata": {"name": "g"}, "spec": {"minMember": minimum}})

    def pod(self, name: str, phase: str = "Pending", node: str = "", owners: Sequence[str] = ()) -> None:
        references: list[Object] = [
            {"apiVersion": "v1", "kind": "X", "name": owner, "uid": f"uid-{owner}"} for owner in owners
        ]
        metadata = {
            "name": name,
            "labels": {groups.BY_KIND[self.kind].label: "g"},
            "ownerReferences": references,
        }
        self.memory.create(POD, "ns", {"metadata": metadata, "spec": {"nodeName": node}})
        self.phase(name, phase)

    def phase(self, name: str, phase: str) -> None:
        self.memory.patch(POD, "ns", name, {"status": {"phase": phase}}, "status")

    def step(self, now: datetime = START) -> Sequence[Effect]:
        caches = self.memory.caches(
            [watch.kind for watch in self.controller.watches], self.controller.indexes
        )
        observed = self.controller.observe(caches, "ns/g")
        assert observed is not None
        effects = self.controller.reconcile(observed, now)
        self.memory.apply(effects)
        return effects

    def settle(self, now: datetime = START) -> list[str]:
        """Runs until nothing changes, as the driver does; the phases on the way."""
        phases = []
        while self.step(now):
            phases.append(self.status.phase)
            assert len(phases) < 10
        return phases

    @property
    def status(self) -> PodGroupStatus:
        status: PodGroupStatus = self.memory.read(self.kind, "ns/g").status
        return status


@pytest.fixture(params=[POD_GROUP_X, POD_GROUP_SIGS], ids=["scheduler-plugins", "koordinator"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return Cluster(request.param)


def test_the_way_of_a_group(cluster: Cluster) -> None:
    assert cluster.settle() == ["Pending"]
    for name in ("a", "b"):
        cluster.pod(name)
    assert cluster.settle(START + timedelta(seconds=1)) == ["Scheduling"]
    assert cluster.status.schedule_start_time == START + timedelta(seconds=1)
    for name in ("a", "b"):
        cluster.memory.patch(POD, "ns", name, {"spec": {"nodeName": "n"}})
    koordinators = cluster.kind is POD_GROUP_SIGS
    assert cluster.settle(START + timedelta(seconds=2)) == (["Scheduled"] if koordinators else [])
    for name in ("a", "b"):
        cluster.phase(name, "Running")
    assert cluster.settle() == ["Running"]
    for name in ("a", "b"):
        cluster.phase(name, "Succeeded")
    assert cluster.settle() == ["Finished"]
    status = cluster.status
    assert status.scheduled == (2 if koordinators else 0), "it is no field of scheduler-plugins"
    assert (status.running, status.succeeded, status.failed) == (0, 2, 0)
    assert status.schedule_start_time == START + timedelta(seconds=1), "set once"


def test_a_gang_that_has_started_at_once_costs_one_write(cluster: Cluster) -> None:
    for name in ("a", "b"):
        cluster.pod(name, "Running", "n")
    assert cluster.settle() == ["Running"]
    assert cluster.status.schedule_start_time == START


def test_a_group_without_a_minimum_goes_by_its_first_pod() -> None:
    cluster = Cluster(POD_GROUP_SIGS, minimum=0)
    assert cluster.settle() == ["Pending"]
    cluster.pod("a")
    assert cluster.settle() == ["Scheduling"]
    cluster.phase("a", "Running")
    cluster.memory.patch(POD, "ns", "a", {"spec": {"nodeName": "n"}})
    assert cluster.settle() == ["Running"]


def test_a_pod_that_failed_and_was_retried_leaves_the_group_running(cluster: Cluster) -> None:
    cluster.pod("a", "Running", "n")
    cluster.pod("b", "Failed", "n")
    cluster.settle()
    assert cluster.status.phase == "Failed"
    cluster.pod("c", "Running", "n")
    cluster.settle()
    assert (cluster.status.phase, cluster.status.failed) == ("Running", 1)


def test_occupied_by_lists_the_owners_of_its_pods(cluster: Cluster) -> None:
    cluster.pod("b", owners=["other"])
    cluster.pod("a", owners=["z", "y"])
    cluster.settle()
    assert cluster.status.occupied_by == "ns/y,ns/z"


def test_pods_of_the_other_api_group_are_not_counted() -> None:
    cluster = Cluster(POD_GROUP_X)
    cluster.pod("a", "Running", "n")
    cluster.kind = POD_GROUP_SIGS
    cluster.pod("b", "Running", "n")
    cluster.kind = POD_GROUP_X
    cluster.settle()
    assert cluster.status.running == 1


def test_a_change_of_a_pod_concerns_its_group(cluster: Cluster) -> None:
    cluster.pod("a")
    caches = cluster.memory.caches([watch.kind for watch in cluster.controller.watches])
    change = Change(caches, None, caches[POD].get("ns/a"))
    watch = next(watch for watch in cluster.controller.watches if watch.kind is POD)
    assert set(watch.keys(change)) == {"ns/g"}
