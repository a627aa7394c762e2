"""A GangPlan ends pods of another namespace only where the victim's own Gang says so."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from muster.api import kinds
from muster.api.base import AnyKind, Object, Resource
from muster.api.batch_v1 import COMPLETION_INDEX
from muster.core.words.gang import GangId, PodId
from muster.runtime.consent import agreed, entry
from muster.runtime.mirror import Mirror
from muster.runtime.plan_record import OwnerRef, PlacementPlan, PodRef, VictimRef, encode
from tests.runtime.model import Cluster, Running

G, V = GangId("mine/g"), GangId("theirs/v")
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
PLAN = PlacementPlan(G, "job-g", "mine", 1, 1, {})
POD = PodRef("theirs", "v-0", PodId("u0"))
VICTIM = VictimRef(V, None, (POD,), at=CREATED.timestamp() + 60.0, work_lost=12.0)


class Known(Mirror):
    """A gang `theirs/v` of one pod, and its record with these preemptions."""

    def __init__(self, preemptions: list[Object]) -> None:
        super().__init__()
        job: Object = {
            "metadata": {
                "name": "v",
                "namespace": "theirs",
                "uid": "j",
                "annotations": {"muster.dev/gang": "true"},
            },
            "spec": {
                "parallelism": 1,
                "completions": 1,
                "completionMode": "Indexed",
                "template": {"spec": {"containers": [{"name": "c"}]}},
            },
        }
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "v", "uid": "j", "controller": True}
        metadata: Object = {
            "name": "v-0",
            "namespace": "theirs",
            "uid": "u0",
            "creationTimestamp": CREATED.isoformat(),
            "annotations": {COMPLETION_INDEX: "0"},
            "labels": {COMPLETION_INDEX: "0"},
            "ownerReferences": [owner],
        }
        pod: Object = {"metadata": metadata, "spec": {"nodeName": "n", "containers": [{"name": "c"}]}}
        other: Object = {**pod, "metadata": {**metadata, "name": "o", "uid": "u1", "ownerReferences": []}}
        record: Object = {
            "metadata": {"name": "job-v", "namespace": "theirs"},
            "status": {"preemptions": preemptions},
        }
        self.there: dict[tuple[AnyKind, str], Resource] = {}
        for kind, obj in (
            (kinds.JOB, job),
            (kinds.POD, pod),
            (kinds.POD, other),
            (kinds.GANG, record),
        ):
            read = msgspec.convert(obj, kind.type)
            self.there[kind, read.key] = read
            self.change(kind, None, read)
        self.drain(0.0)

    def find(self, kind: AnyKind, key: str) -> Resource | None:
        return self.there.get((kind, key))


SAYS_SO: Any = [entry(VICTIM, G)]
#: as an earlier muster wrote it
SAID_SO: Any = [{("workLost" if key == "lostResourceSeconds" else key): v for key, v in SAYS_SO[0].items()}]
OWN = VictimRef(GangId("mine/w"), None, (PodRef("mine", "w-0", PodId("u9")),))

CASES = {
    "of the plan's own namespace": (OWN, G, [], True),
    "of another namespace, and its Gang says so": (VICTIM, G, SAYS_SO, True),
    "of another namespace, and its Gang said so to an earlier muster": (VICTIM, G, SAID_SO, True),
    "its Gang says nothing": (VICTIM, G, [], False),
    "its Gang names another gang": (VICTIM, GangId("mine/h"), SAYS_SO, False),
    "its Gang tells of another time": (replace(VICTIM, at=VICTIM.at + 1), G, SAYS_SO, False),
    "its Gang tells of fewer pods": (replace(VICTIM, whole=False), G, SAYS_SO, False),
    "a pod that is not the gang's": (
        replace(VICTIM, pods=(POD, PodRef("theirs", "o", PodId("u1")))),
        G,
        SAYS_SO,
        False,
    ),
    "a pod that has gone": (
        replace(VICTIM, pods=(POD, PodRef("theirs", "v-1", PodId("u2")))),
        G,
        SAYS_SO,
        True,
    ),
    "a gang that is not there": (replace(VICTIM, gang=GangId("theirs/x")), G, SAYS_SO, False),
    "a foreign pod as of a gang of its own": (replace(OWN, pods=(POD,)), G, SAYS_SO, False),
    "a foreign gang with a pod of its own": (replace(OWN, gang=V), G, [], False),
    "a foreign owner with a pod of its own": (
        replace(OWN, owner=OwnerRef("batch/v1", "Job", "theirs", "v", "j")),
        G,
        [],
        True,  # the owner is looked up by the gang, so this one is never touched
    ),
}


@pytest.mark.parametrize(("victim", "gang", "says", "counts"), CASES.values(), ids=CASES.keys())
def test_which_victims_count(victim: VictimRef, gang: GangId, says: list[Object], counts: bool) -> None:
    assert agreed(PLAN, gang, victim, Known(says)) is counts


def test_an_entry_is_no_leave_to_end_a_later_start() -> None:
    early = replace(VICTIM, at=CREATED.timestamp() - 1.0)
    assert not agreed(PLAN, G, early, Known([entry(early, G)]))


@pytest.mark.parametrize("found", [False, True], ids=["while it leads", "when it begins"])
def test_a_forged_plan_ends_no_pod_of_another_namespace(found: bool) -> None:
    """By a user who may create GangPlans in a namespace; with a gang there, and without one."""
    cluster = Cluster()
    cluster.homes["victim"] = "other"
    cluster.node("a", 3)
    cluster.gang("victim", 2, "bare")
    cluster.gang("main", 1, "job")
    cluster.settle()
    leader = Running(cluster, 1)
    assert not leader.quiesce()
    assert cluster.outcome("victim", 2) == "whole"
    pods = [pod for pod in cluster.server.all(kinds.POD) if pod.metadata.namespace == "other"]
    refs = tuple(PodRef("other", pod.metadata.name, PodId(pod.metadata.uid)) for pod in pods)
    if found:
        leader.stop()
    for gang, record in (("main", "job-main"), ("gone", "job-gone")):
        for attempt, epoch in ((7, 1), (8, 999_999)):
            for i, victim in enumerate(("default/main", "default/none", "other/victim")):
                forged = PlacementPlan(
                    GangId(f"default/{gang}"),
                    record,
                    "default",
                    epoch,
                    attempt + 2 * i,
                    {},
                    victims=(VictimRef(GangId(victim), None, refs),),
                )
                cluster.server.create(kinds.GANG_PLAN, "default", encode(forged))
    if found:
        leader = Running(cluster, 2)
    leader.look()
    leader.quiesce()
    leader.stop()
    assert cluster.outcome("victim", 2) == "whole"
    assert cluster.outcome("main", 1) == "whole"
    for pod in pods:
        after = cluster.server.read(kinds.POD, pod.key)
        assert (after.metadata.uid, after.status) == (pod.metadata.uid, pod.status)
    assert not cluster.server.all(kinds.GANG_PLAN)
