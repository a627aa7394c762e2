"""The status of kube-batch's PodGroups, and the Events that tell its controllers."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from muster.api import groups
from muster.api.base import Object, condition
from muster.api.groups import INCUBATOR, SIGS_DEV, VOLCANO, Dialect
from muster.api.kinds import GANG, POD
from muster.api.kube_batch import QUOTA_RELEASED
from muster.controllers.podgroup import controller
from muster.controllers.podgroup.kubebatch import HELD
from muster.effects import Effect, Patch, RecordEvent, Requeue
from tests.controllers.memory import START, Memory

LATER = START + timedelta(seconds=60)


class Cluster:
    def __init__(self, row: Dialect = INCUBATOR, minimum: int = 2) -> None:
        self.row, self.controller, self.memory = row, controller(row), Memory()
        self.events: list[tuple[str, str]] = []
        self.group(row, minimum)

    def group(self, row: Dialect, minimum: int = 2) -> None:
        self.memory.create(row.kind, "ns", {"metadata": {"name": "g"}, "spec": {"minMember": minimum}})

    def record(self, code: str = "", message: str = "") -> None:
        """What muster says of the gang."""
        source = {"apiVersion": self.row.kind.api_version, "kind": "PodGroup", "name": "g"}
        status: Object = {"reason": {"code": code, "message": message} if code else None}
        if (GANG, "ns/volcano-g") not in self.memory.objects:
            self.memory.create(GANG, "ns", {"metadata": {"name": "volcano-g"}, "spec": {"source": source}})
        self.memory.patch(GANG, "ns", "volcano-g", {"status": status})

    def pods(self, *phases: str) -> None:
        """Pods in these phases; "": Pending without a node."""
        for name in [name for kind, name in self.memory.objects if kind is POD]:
            del self.memory.objects[POD, name]
        for number, phase in enumerate(phases):
            metadata = {"name": f"p{number}", "annotations": {"scheduling.k8s.io/group-name": "g"}}
            self.memory.create(POD, "ns", {"metadata": metadata, "spec": {"nodeName": "n" if phase else ""}})
            self.memory.patch(POD, "ns", f"p{number}", {"status": {"phase": phase or "Pending"}}, "status")

    def step(self, now: datetime = START) -> Sequence[Effect]:
        kinds = [watch.kind for watch in self.controller.watches]
        observed = self.controller.observe(self.memory.caches(kinds, self.controller.indexes), "ns/g")
        assert observed is not None
        effects = self.controller.reconcile(observed, now)
        self.memory.apply([each for each in effects if isinstance(each, Patch)])
        self.events += [(each.reason, each.message) for each in effects if isinstance(each, RecordEvent)]
        return effects

    @property
    def status(self) -> Object:
        status = self.memory.read(self.row.kind, "ns/g").status
        return {
            name: getattr(status, name) for name in ("phase", "admitted", "running", "succeeded", "failed")
        }

    @property
    def released(self) -> str:
        """Why quota is no longer held; "": it is, or never was."""
        found = condition(self.memory.read(self.row.kind, "ns/g").status.conditions, QUOTA_RELEASED)
        return found.reason if found is not None and found.status == "True" else ""

    @property
    def condition(self) -> tuple[str, str]:
        (found,) = self.memory.read(self.row.kind, "ns/g").status.conditions
        assert found.type == "Unschedulable", "kube-batch has no other"
        return found.status, found.reason


@pytest.mark.parametrize("row", [INCUBATOR, SIGS_DEV])
@pytest.mark.parametrize(
    ("pods", "phase", "admitted"),
    [
        ((), "Pending", 0),
        (("", ""), "Pending", 0),
        (("Pending", ""), "Pending", 1),
        (("Pending", "Running"), "Running", 2),
        (("Running", "Running", ""), "Running", 2),
        (("Running", "Succeeded"), "Running", 2),
        (("Succeeded", "Succeeded"), "Running", 2),
        (("Running", ""), "Unknown", 1),
        (("Running", "Failed"), "Unknown", 1),
        (("Failed", "Failed"), "Pending", 0),
    ],
)
def test_phases_and_counts(row: Dialect, pods: tuple[str, ...], phase: str, admitted: int) -> None:
    cluster = Cluster(row)
    cluster.pods(*pods)
    cluster.step()
    counts = {name.lower(): pods.count(name) for name in ("Running", "Succeeded", "Failed")}
    assert cluster.status == {"phase": phase, "admitted": admitted, **counts}
    assert not cluster.step(LATER), "it says so once"


@pytest.mark.parametrize(("row", "subresource"), [(INCUBATOR, ""), (SIGS_DEV, "status")])
def test_the_status_is_written_where_its_definition_has_it(row: Dialect, subresource: str) -> None:
    cluster = Cluster(row)
    cluster.pods("", "")
    (patch,) = cluster.step()
    assert isinstance(patch, Patch)
    assert patch.subresource == subresource


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("MembersMissing", "NotEnoughTasks"),
        ("InsufficientCapacity", "NotEnoughResources"),
        ("Invalid", "Invalid"),
    ],
)
def test_an_event_tells_why_it_waits_once(code: str, reason: str) -> None:
    cluster = Cluster()
    cluster.pods("")
    cluster.record(code, "1 of 2 pods exist")
    cluster.step()
    assert cluster.condition == ("True", reason)
    assert cluster.events == [("Unschedulable", f"{code}: 1 of 2 pods exist")]
    cluster.record(code, "1 of 3 pods exist")
    cluster.step(LATER)
    cluster.pods("", "")
    cluster.step(LATER)
    assert len(cluster.events) == 1, "figures make no Event"
    cluster.record()
    cluster.pods("Running", "Running")
    cluster.step(LATER)
    assert cluster.condition == ("False", reason)
    assert len(cluster.events) == 1


@pytest.mark.parametrize("left", [("Running", "Failed"), ("Running",)])
def test_a_running_group_that_falls_below_its_minimum_is_unschedulable(left: tuple[str, ...]) -> None:
    cluster = Cluster()
    cluster.pods("Running", "Running")
    cluster.step()
    assert cluster.events == []
    cluster.pods(*left)
    cluster.step(LATER)
    assert cluster.condition == ("True", "NotEnoughTasks")
    assert cluster.events == [("Unschedulable", "MembersMissing: 1 of 2 pods are left, of which 1 run")]
    cluster.pods("Running", "Running", *left[1:])
    cluster.step(LATER)
    assert cluster.condition == ("False", "NotEnoughTasks")


def test_succeeded_pods_are_left() -> None:
    cluster = Cluster()
    cluster.pods("Running", "Succeeded", "Failed")
    cluster.step()
    assert cluster.events == []


@pytest.mark.parametrize("row", [INCUBATOR, SIGS_DEV])
@pytest.mark.parametrize("first", [VOLCANO, INCUBATOR])
def test_a_group_whose_name_an_earlier_one_has_says_so(row: Dialect, first: Dialect) -> None:
    if first is row:
        return
    cluster = Cluster(row)
    cluster.pods("Running", "Running")
    cluster.step()
    cluster.group(first)
    assert first.kind in [watch.kind for watch in cluster.controller.watches]
    cluster.step(LATER)
    assert cluster.condition == ("True", "NameTaken")
    assert cluster.status["running"] == 0
    ((_, message),) = cluster.events
    assert message == f"PodGroup g of {first.kind.group} has its name and its pods; delete one of the two"
    del cluster.memory.objects[first.kind, "ns/g"]
    cluster.step(LATER)
    assert cluster.condition == ("False", "NameTaken")
    assert cluster.status["running"] == 2


def test_only_rows_that_share_keys_look_at_each_other() -> None:
    for row in groups.NAMED:
        watched = {watch.kind for watch in controller(row).watches} & {each.kind for each in groups.NAMED}
        sharing = groups.SHARING[row.naming]
        assert watched == {each.kind for each in sharing[: sharing.index(row) + 1]}


@pytest.mark.parametrize("row", [INCUBATOR, SIGS_DEV])
def test_held_quota_is_given_back_after_a_time_without_pods(row: Dialect) -> None:
    cluster = Cluster(row)
    cluster.memory.patch(row.kind, "ns", "g", {"spec": {"totalResources": {"cpu": 4}}})
    cluster.pods("")
    again = [each for each in cluster.step() if isinstance(each, Requeue)]
    assert [each.at for each in again] == [START + HELD], "so the caller asks again"
    assert cluster.released == ""
    cluster.step(START + HELD)
    assert cluster.released == "MembersMissing"
    cluster.pods("", "")
    assert not [each for each in cluster.step(LATER + HELD) if isinstance(each, Requeue)]
    assert cluster.released == "MembersMissing", "it stays so"


def test_held_quota_is_kept_for_a_group_with_its_minimum_and_given_back_at_its_end() -> None:
    cluster = Cluster()
    cluster.memory.patch(INCUBATOR.kind, "ns", "g", {"spec": {"totalResources": {"cpu": 4}}})
    cluster.pods("Running", "")
    cluster.step(LATER + HELD)
    assert cluster.released == ""
    cluster.pods("Succeeded", "Running")
    cluster.step(LATER + HELD)
    assert cluster.released == ""
    cluster.pods("Succeeded", "Succeeded", "Failed")
    cluster.step(LATER + HELD)
    assert cluster.released == "Finished"


def test_a_group_without_a_total_holds_nothing() -> None:
    cluster = Cluster()
    assert not [each for each in cluster.step() if isinstance(each, Requeue)]
    cluster.step(LATER + HELD)
    assert cluster.released == ""
