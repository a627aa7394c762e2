"""Counts and conditions of Gang records, and when a record goes."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster import names
from muster.api import groups
from muster.api.base import AnyKind, Object, condition, is_true
from muster.api.jobset_v1alpha2 import JOBSET_NAME, REPLICATED_JOB_NAME
from muster.api.kinds import GANG, GANG_PLAN, JOB, JOBSET, POD, POD_GROUP_SIGS, POD_GROUP_X, PREEMPTION
from muster.api.muster_v1alpha1 import GangStatus
from muster.controllers.caches import Caches
from muster.controllers.driver import Change
from muster.controllers.gang import LINGER, REFRESH, controller
from muster.effects import Absent, Delete, Effect, Patch, Requeue
from muster.kube.errors import Conflict
from tests.controllers.memory import START, Memory

CONTROLLER = controller()
KINDS = [watch.kind for watch in CONTROLLER.watches]
KEY = "ns/gang"
#: Some time after each Gang was created.
NOW = START + REFRESH


class Cluster:
    """A server in memory, and the controller run on what it holds."""

    def __init__(self) -> None:
        self.memory = Memory(lambda: START)

    def gang(
        self, kind: AnyKind = JOB, name: str = "j", uid: str = "", minimum: int = 2, **spec: Any
    ) -> None:
        source = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid}
        self.memory.create(
            GANG,
            "ns",
            {
                "metadata": {
                    "name": "gang",
                    "finalizers": [names.GANG_FINALIZER],
                    "ownerReferences": [source] if uid else [],
                },
                "spec": {"minCount": minimum, "source": source, **spec},
            },
        )

    def group(self, kind: AnyKind = JOB, name: str = "j") -> str:
        created = self.memory.create(kind, "ns", {"metadata": {"name": name}, "spec": {}})
        return str(created["metadata"]["uid"])

    def pod(
        self,
        name: str,
        phase: str = "Pending",
        node: str = "",
        owner: str = "",
        labels: dict[str, str] | None = None,
    ) -> None:
        job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": owner, "controller": True}
        metadata: Object = {"name": name, "labels": labels or {}, "ownerReferences": [job] if owner else []}
        self.memory.create(
            POD, "ns", {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase}}
        )
        self.memory.patch(POD, "ns", name, {"status": {"phase": phase}}, "status")

    def caches(self) -> Caches:
        return self.memory.caches(KINDS, CONTROLLER.indexes)

    def reconcile(self, now: datetime = NOW) -> Sequence[Effect]:
        observed = CONTROLLER.observe(self.caches(), KEY)
        assert observed is not None
        effects = CONTROLLER.reconcile(observed, now)
        self.memory.apply(effects)
        return effects

    @property
    def status(self) -> GangStatus:
        return self.memory.read(GANG, KEY).status


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_counts_and_answers(cluster: Cluster) -> None:
    uid = cluster.group()
    cluster.gang(uid=uid, minimum=3)
    cluster.pod("a", "Running", "n", uid)
    cluster.pod("b", "Pending", "n", uid)
    cluster.pod("c", "Succeeded", "n", uid)
    cluster.pod("d", "Failed", "n", uid)
    cluster.pod("e", "Pending", "", uid)
    cluster.reconcile()
    status = cluster.status
    assert (status.running, status.succeeded, status.failed) == (1, 1, 1)
    assert is_true(status.conditions, "Bound")
    assert not is_true(status.conditions, "Running")
    assert is_true(status.conditions, "Members")
    running = condition(status.conditions, "Running")
    assert running is not None
    assert running.message == "2 running or succeeded, 3 needed"


def test_a_second_run_changes_nothing(cluster: Cluster) -> None:
    uid = cluster.group()
    cluster.gang(uid=uid)
    cluster.pod("a", "Running", "n", uid)
    cluster.reconcile()
    assert cluster.reconcile(START + timedelta(hours=1)) == []


def test_a_condition_tells_since_when(cluster: Cluster) -> None:
    uid = cluster.group()
    cluster.gang(uid=uid, minimum=1)
    cluster.pod("a", "Pending", "n", uid)
    cluster.reconcile()
    cluster.memory.patch(POD, "ns", "a", {"status": {"phase": "Running"}}, "status")
    later = NOW + timedelta(seconds=1)
    cluster.reconcile(later)
    times = {one.type: one.last_transition_time for one in cluster.status.conditions}
    assert times == {"Bound": NOW, "Running": later, "Members": NOW}


def test_a_gang_that_starts_at_once_is_counted_once(cluster: Cluster) -> None:
    uid = cluster.group()
    cluster.gang(uid=uid, minimum=3)
    soon = START + timedelta(seconds=1)
    for name in "abc":
        assert cluster.reconcile(soon) == [Requeue(START + REFRESH)], "for people, nothing has changed yet"
        cluster.pod(name, "Running", "n", uid)
    assert [type(effect) for effect in cluster.reconcile(soon)] == [Patch]
    assert (cluster.status.running, cluster.status.counted) == (3, soon)
    cluster.memory.patch(POD, "ns", "a", {"status": {"phase": "Succeeded"}}, "status")
    assert cluster.reconcile(soon + REFRESH / 2) == [Requeue(soon + REFRESH)]
    cluster.reconcile(soon + REFRESH)
    assert (cluster.status.running, cluster.status.succeeded) == (2, 1)


def test_a_replica_whose_clock_was_ahead_delays_no_count(cluster: Cluster) -> None:
    uid = cluster.group()
    cluster.gang(uid=uid, minimum=3)
    ahead = msgspec.to_builtins(NOW + timedelta(hours=1))
    cluster.memory.patch(GANG, "ns", "gang", {"status": {"counted": ahead}})
    cluster.pod("a", "Running", "n", uid)
    cluster.reconcile()
    assert (cluster.status.running, cluster.status.counted) == (1, NOW)


def test_a_gang_that_no_longer_runs_is_reported_at_once(cluster: Cluster) -> None:
    uid = cluster.group()
    cluster.gang(uid=uid, minimum=1)
    cluster.pod("a", "Running", "n", uid)
    cluster.reconcile()
    cluster.memory.patch(POD, "ns", "a", {"status": {"phase": "Failed"}}, "status")
    cluster.reconcile(NOW + timedelta(seconds=1))
    assert (cluster.status.running, cluster.status.failed) == (0, 1)


def test_the_gang_controller_leaves_the_committers_fields_alone(cluster: Cluster) -> None:
    uid = cluster.group()
    cluster.gang(uid=uid)
    cluster.memory.patch(GANG, "ns", "gang", {"status": {"phase": "Starting", "epoch": 3}})
    cluster.pod("a", "Running", "n", uid)
    cluster.reconcile()
    assert (cluster.status.phase, cluster.status.epoch, cluster.status.running) == ("Starting", 3, 1)


def test_pods_of_a_job_that_had_the_name_before_are_not_members(cluster: Cluster) -> None:
    uid = cluster.group()
    cluster.gang(uid=uid)
    cluster.pod("old", "Running", "n", "uid-of-another")
    cluster.reconcile()
    assert cluster.status.running == 0


def test_pods_of_a_stage(cluster: Cluster) -> None:
    uid = cluster.group(JOBSET, "s")
    cluster.gang(JOBSET, "s", uid, podSets=[{"name": "b", "count": 1}])
    for name in ("a", "b"):
        cluster.pod(name, "Running", "n", labels={JOBSET_NAME: "s", REPLICATED_JOB_NAME: name})
    cluster.reconcile()
    assert cluster.status.running == 1


@pytest.mark.parametrize("kind", [POD_GROUP_X, POD_GROUP_SIGS])
def test_pods_of_a_podgroup(cluster: Cluster, kind: AnyKind) -> None:
    uid = cluster.group(kind, "g")
    cluster.gang(kind, "g", uid)
    for row in groups.NAMED:
        cluster.pod(row.name, "Running", "n", labels={row.label: "g"})
    cluster.reconcile()
    assert cluster.status.running == 1


def test_a_group_object_that_comes_after_its_pods_owns_the_record(cluster: Cluster) -> None:
    cluster.gang(kind=POD_GROUP_X, name="g")
    cluster.reconcile()
    assert cluster.memory.read(GANG, KEY).metadata.owner_references == []
    uid = cluster.group(POD_GROUP_X, "g")
    cluster.memory.patch(GANG, "ns", "gang", {"spec": {"source": {"uid": uid}}})  # as the scheduler does
    cluster.reconcile()
    (owner,) = cluster.memory.read(GANG, KEY).metadata.owner_references
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("PodGroup", "g", uid, False)
    assert cluster.reconcile() == []


def test_a_record_with_an_owner_stays_without_pods(cluster: Cluster) -> None:
    cluster.gang(uid=cluster.group())
    cluster.reconcile()
    assert cluster.reconcile(START + 10 * LINGER) == []


def test_a_record_without_an_owner_goes_some_time_after_its_last_member(cluster: Cluster) -> None:
    cluster.gang(POD_GROUP_X, "g")
    cluster.pod("a", "Running", "n", labels={groups.POD_GROUP.label: "g"})
    assert all(isinstance(effect, Patch) for effect in cluster.reconcile())
    cluster.memory.delete(POD, "ns", "a")
    emptied = START + timedelta(hours=1)
    cluster.reconcile(emptied)
    assert cluster.reconcile(emptied + LINGER / 2) == [Requeue(emptied + LINGER)]
    last = cluster.reconcile(emptied + LINGER)
    assert isinstance(last[-1], Delete)
    assert cluster.memory.read(GANG, KEY).metadata.deletion_timestamp is not None


@pytest.mark.parametrize("held", [False, True], ids=["apart", "in the Gang"])
def test_a_record_is_not_expired_while_a_plan_is_open(cluster: Cluster, held: bool) -> None:
    cluster.gang(POD_GROUP_X, "g")
    cluster.memory.patch(GANG, "ns", "gang", {"plan": {"epoch": 1, "attempt": 1} if held else None})
    if not held:
        cluster.memory.create(GANG_PLAN, "ns", {"metadata": {"name": "gang-1"}, "spec": {"gang": "gang"}})
    cluster.reconcile()
    assert cluster.reconcile(START + 10 * LINGER) == []


def deleting(cluster: Cluster, uid: str) -> None:
    cluster.gang(uid=uid)
    cluster.memory.delete(GANG, "ns", "gang")


def test_the_finalizer_goes_once_the_owner_is_gone_and_no_plan_is_open(cluster: Cluster) -> None:
    uid = cluster.group()
    deleting(cluster, uid)
    cluster.memory.create(GANG_PLAN, "ns", {"metadata": {"name": "gang-1"}, "spec": {"gang": "gang"}})
    assert cluster.reconcile() == [], "its owner is there"
    cluster.memory.delete(JOB, "ns", "j")
    assert cluster.reconcile() == [], "a plan is open"
    cluster.memory.delete(GANG_PLAN, "ns", "gang-1")
    cluster.reconcile()
    assert cluster.memory.all(GANG) == []


def test_a_stale_cache_does_not_take_the_finalizer_away(cluster: Cluster) -> None:
    """The Job is there, but the cache that the controller looked at did not show it yet."""
    deleting(cluster, "uid-9")
    effects = CONTROLLER.reconcile(CONTROLLER.observe(cluster.caches(), KEY), START)  # type: ignore[arg-type]
    assert effects[0] == Absent(JOB, "ns", "j", "uid-9")
    cluster.memory.objects[JOB, "ns/j"] = {"metadata": {"name": "j", "uid": "uid-9"}}
    with pytest.raises(Conflict):
        cluster.memory.apply(effects)
    assert cluster.memory.read(GANG, KEY).metadata.finalizers == [names.GANG_FINALIZER]


def test_other_finalizers_stay(cluster: Cluster) -> None:
    deleting(cluster, "uid-gone")
    cluster.memory.patch(
        GANG, "ns", "gang", {"metadata": {"finalizers": [names.GANG_FINALIZER, "example.com/keep"]}}
    )
    cluster.reconcile()
    assert cluster.memory.read(GANG, KEY).metadata.finalizers == ["example.com/keep"]
    assert cluster.reconcile() == []


def concerned(cluster: Cluster, kind: AnyKind, name: str, *, new: bool = True) -> set[str]:
    caches = cluster.caches()
    obj = caches[kind].get(f"ns/{name}")
    change = Change(caches, None if new else obj, obj)
    return {key for watch in CONTROLLER.watches if watch.kind is kind for key in watch.keys(change)}


def test_which_changes_concern_a_record(cluster: Cluster) -> None:
    uid = cluster.group()
    cluster.gang(uid=uid)
    cluster.pod("a", owner=uid)
    cluster.pod("other")
    cluster.memory.create(GANG_PLAN, "ns", {"metadata": {"name": "gang-1"}, "spec": {"gang": "gang"}})
    assert concerned(cluster, GANG, "gang") == {KEY}
    assert concerned(cluster, GANG_PLAN, "gang-1") == {KEY}
    assert concerned(cluster, POD, "a") == {KEY}
    assert concerned(cluster, POD, "other") == set()
    assert concerned(cluster, JOB, "j") == {KEY}
    assert concerned(cluster, JOB, "j", new=False) == set(), "a Job's own changes do not"


EVICTION = {"by": "ns/urgent", "at": "2025-12-31T00:00:00Z", "gpuHoursLost": "20", "costLost": "70.00"}


@pytest.mark.parametrize("done", range(4))
def test_a_gang_that_was_deleted_while_no_controller_ran_leaves_its_records(
    cluster: Cluster, done: int
) -> None:
    """Whatever controllers see first, and after each write that a crash may follow."""
    deleting(cluster, "uid-gone")
    cluster.memory.patch(GANG, "ns", "gang", {"status": {"preemptions": [EVICTION]}})
    observed = CONTROLLER.observe(cluster.caches(), KEY)
    assert observed is not None
    cluster.memory.apply(CONTROLLER.reconcile(observed, NOW)[:done])
    if cluster.memory.all(GANG):
        cluster.reconcile()
    assert cluster.memory.all(GANG) == []
    [record] = cluster.memory.all(PREEMPTION)
    assert (record.spec.by, record.spec.cost_lost) == ("ns/urgent", "70.00")


def test_a_record_whose_time_is_over_is_not_made_again(cluster: Cluster) -> None:
    deleting(cluster, "uid-gone")
    cluster.memory.patch(GANG, "ns", "gang", {"status": {"preemptions": [EVICTION]}})
    cluster.reconcile(NOW + timedelta(weeks=26))
    assert cluster.memory.all(PREEMPTION) == []
