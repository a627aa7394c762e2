"""The status of Volcano's PodGroups: when its controllers may create pods, what runs, why it waits."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from muster.api import groups
from muster.api.base import Object
from muster.api.kinds import GANG, POD, POD_GROUP_VOLCANO, VOLCANO_JOB
from muster.api.volcano_v1beta1 import PodGroupStatus
from muster.controllers.driver import Change
from muster.controllers.podgroup import controller
from muster.effects import Effect, Patch
from muster.names import HOLD
from tests.controllers.memory import START, Memory

LATER = START + timedelta(seconds=60)


class Cluster:
    def __init__(self, minimum: int = 2, schedulers: frozenset[str] | None = None) -> None:
        self.controller, self.memory = controller(groups.VOLCANO, schedulers), Memory()
        spec = {"minMember": minimum}
        self.group = self.memory.create(
            POD_GROUP_VOLCANO, "ns", {"metadata": {"name": "g"}, "spec": spec, "status": {"phase": "Pending"}}
        )

    def record(self, phase: str = "Waiting", code: str = "", message: str = "") -> None:
        """What muster says of the gang."""
        source = {"apiVersion": POD_GROUP_VOLCANO.api_version, "kind": "PodGroup", "name": "g"}
        status: Object = {"phase": phase, "reason": {"code": code, "message": message} if code else None}
        if (GANG, "ns/volcano-g") not in self.memory.objects:
            self.memory.create(GANG, "ns", {"metadata": {"name": "volcano-g"}, "spec": {"source": source}})
        self.memory.patch(GANG, "ns", "volcano-g", {"status": status})

    def owned_by(self, scheduler: str) -> str:
        """A Job of Volcano with this schedulerName controls the group; returns its uid."""
        body = {"metadata": {"name": "j"}, "spec": {"schedulerName": scheduler}}
        uid = self.memory.create(VOLCANO_JOB, "ns", body)["metadata"]["uid"]
        owner = {"apiVersion": VOLCANO_JOB.api_version, "kind": "Job", "name": "j", "uid": uid}
        references = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
        self.memory.patch(POD_GROUP_VOLCANO, "ns", "g", references)
        return str(uid)

    def pods(self, *phases: str, scheduler: str = "") -> None:
        """Pods in these phases; "": Pending without a node."""
        for name in [name for kind, name in self.memory.objects if kind is POD]:
            del self.memory.objects[POD, name]
        for number, phase in enumerate(phases):
            metadata = {"name": f"p{number}", "annotations": {"scheduling.k8s.io/group-name": "g"}}
            spec = {"nodeName": "n" if phase else "", "schedulerName": scheduler}
            self.memory.create(POD, "ns", {"metadata": metadata, "spec": spec})
            self.memory.patch(POD, "ns", f"p{number}", {"status": {"phase": phase or "Pending"}}, "status")

    def step(self, now: datetime = START) -> Sequence[Effect]:
        kinds = [watch.kind for watch in self.controller.watches]
        observed = self.controller.observe(self.memory.caches(kinds, self.controller.indexes), "ns/g")
        if observed is None:
            return []
        effects = self.controller.reconcile(observed, now)
        self.memory.apply(effects)
        return effects

    @property
    def status(self) -> PodGroupStatus:
        return self.memory.read(POD_GROUP_VOLCANO, "ns/g").status

    @property
    def conditions(self) -> dict[str, tuple[str, str]]:
        return {each.type: (each.status, each.reason) for each in self.status.conditions}


@pytest.mark.parametrize(
    ("code", "pods", "phase"),
    [
        ("MembersMissing", (), "Inqueue"),
        ("Invalid", (), "Pending"),
        ("Gated", (), "Pending"),
        ("InsufficientCapacity", ("", ""), "Inqueue"),
        ("", ("Pending", "Running"), "Running"),
        ("", ("Running", "Succeeded"), "Running"),
        ("", ("Running", "Running", ""), "Running"),
        ("InsufficientCapacity", ("Running", ""), "Unknown"),
        ("", ("Running", "Failed"), "Unknown"),
        ("", ("Succeeded", "Succeeded"), "Completed"),
        ("", ("Succeeded", "Failed"), "Completed"),
        ("MembersMissing", ("Succeeded",), "Inqueue"),
    ],
)
def test_phases(code: str, pods: tuple[str, ...], phase: str) -> None:
    cluster = Cluster()
    cluster.record(code=code)
    cluster.pods(*pods)
    cluster.step()
    assert cluster.status.phase == phase
    assert cluster.status.running == pods.count("Running")
    assert (cluster.status.succeeded, cluster.status.failed) == (
        pods.count("Succeeded"),
        pods.count("Failed"),
    )
    assert not cluster.step(LATER), "it says so once"


@pytest.mark.parametrize(
    ("body", "phase"),
    [
        ({}, "Inqueue"),
        ({"metadata": {"labels": {HOLD: "true"}}}, "Pending"),
        ({"metadata": {"labels": {HOLD: "false"}}}, "Inqueue"),
        ({"spec": {"subGroupPolicy": [{"name": "p"}]}}, "Pending"),
    ],
)
def test_a_group_without_pods_is_admitted_unless_it_is_held_or_refused(body: Object, phase: str) -> None:
    cluster = Cluster()  # a gang without pods has no record
    cluster.memory.patch(POD_GROUP_VOLCANO, "ns", "g", body)
    cluster.step()
    assert cluster.status.phase == phase


def test_the_status_is_written_to_the_object_itself() -> None:
    cluster = Cluster()
    cluster.record(code="MembersMissing")
    (patch,) = cluster.step()
    assert isinstance(patch, Patch)
    assert patch.subresource == "", "Volcano's definition has no status subresource"
    assert patch.body.keys() == {"status"}  # type: ignore[union-attr]


def test_conditions_say_why_it_waits() -> None:
    cluster = Cluster()
    cluster.record(code="MembersMissing", message="0 of 2 pods exist")
    cluster.step()
    assert cluster.conditions == {}, "its controller is still to create the pods"
    cluster.pods("")
    cluster.step()
    assert cluster.conditions == {"Unschedulable": ("True", "NotEnoughTasks")}
    cluster.pods("", "")
    cluster.record(code="InsufficientCapacity", message="2 of 2 pods find no node")
    cluster.step(LATER)
    (only,) = cluster.status.conditions
    assert (only.reason, only.last_transition_time) == ("NotEnoughResources", LATER)
    assert "2 of 2 pods find no node" in only.message
    cluster.pods("Running", "Running")
    cluster.record("Standing")
    cluster.step(LATER)
    assert cluster.conditions == {
        "Unschedulable": ("False", "NotEnoughResources"),
        "Scheduled": ("True", "tasks in gang are ready to be scheduled"),
    }
    cluster.pods("Running", "")
    cluster.record(code="InsufficientCapacity")
    cluster.step(LATER)
    assert cluster.status.phase == "Unknown"
    assert cluster.conditions["Unschedulable"] == ("True", "NotEnoughResources")
    assert cluster.conditions["Scheduled"][0] == "False"


def test_a_change_of_its_record_concerns_the_group() -> None:
    cluster = Cluster()
    cluster.record(code="Invalid")
    caches = cluster.memory.caches([watch.kind for watch in cluster.controller.watches])
    watch = next(watch for watch in cluster.controller.watches if watch.kind is GANG)
    assert [*watch.keys(Change(caches, None, caches[GANG].get("ns/volcano-g")))] == ["ns/g"]


SERVED = frozenset({"muster"})


@pytest.mark.parametrize("recorded", [False, True])
def test_the_status_of_a_group_whose_pods_are_anothers_is_left_alone(recorded: bool) -> None:
    cluster = Cluster(schedulers=SERVED)
    if recorded:
        cluster.record()
    cluster.pods("", "Running", scheduler="volcano")
    assert cluster.step() == []
    cluster.pods("", "Running", scheduler="muster")
    assert cluster.step() != []


@pytest.mark.parametrize(
    ("scheduler", "phase"),
    [("muster", "Inqueue"), ("volcano", "Pending"), ("", "Pending"), (None, "Pending")],
)
def test_before_it_has_pods_a_group_is_admitted_if_its_job_names_muster(
    scheduler: str | None, phase: str
) -> None:
    cluster = Cluster(schedulers=SERVED)
    if scheduler is not None:
        cluster.owned_by(scheduler)
    cluster.step()
    assert cluster.status.phase == phase


def test_a_job_that_is_seen_after_its_group_concerns_it() -> None:
    cluster = Cluster(schedulers=SERVED)
    job = cluster.owned_by("muster")
    watch = next(each for each in cluster.controller.watches if each.kind is VOLCANO_JOB)
    caches = cluster.memory.caches([each.kind for each in cluster.controller.watches])
    change = Change(caches, None, caches[VOLCANO_JOB].get("ns/j"))
    assert [*watch.keys(change)] == [f"ns/j-{job}", "ns/j"]


def test_figures_that_change_in_a_reason_are_no_write() -> None:
    cluster = Cluster()
    cluster.pods("", "")
    cluster.record(code="InsufficientCapacity", message="3 are free")
    assert cluster.step() != []
    cluster.record(code="InsufficientCapacity", message="4 are free")
    assert cluster.step(LATER) == []
    cluster.record(code="Fragmented", message="4 are free")
    assert cluster.step(LATER) != []


def test_a_group_that_falls_below_its_minimum_is_no_longer_scheduled() -> None:
    """As in Volcano, though it waits for nothing as yet: its pods may come again."""
    cluster = Cluster()
    cluster.record(code="")
    cluster.pods("Running", "Running")
    cluster.step()
    assert cluster.conditions == {"Scheduled": ("True", "tasks in gang are ready to be scheduled")}
    cluster.pods("Running", "Failed")
    cluster.step()
    assert cluster.conditions["Unschedulable"] == ("True", "NotEnoughTasks")
    assert cluster.conditions["Scheduled"][0] == "False"
