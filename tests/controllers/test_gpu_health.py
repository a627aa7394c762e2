"""Unhealthy GPUs and reports: quarantine, rank and node in the status, moves of jobs that save."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from muster import names
from muster.api.base import AnyKind, condition
from muster.api.kinds import GANG, JOB, NODE, POD
from muster.api.muster_v1alpha1 import GPU_HEALTHY, PROGRESSING, Gang
from muster.controllers import gang as gangs
from muster.controllers.driver import Change, Controller
from muster.controllers.gpu_health import (
    ILL,
    POD_INDEX,
    TAINT,
    UNHEALTHY,
    moves,
    of_node,
    quarantine,
)
from muster.effects import Effect, Patch, RecordEvent, Requeue
from tests.controllers.memory import START, Memory
from tests.unwalked import Unwalked

XID = "XID 79: GPU has fallen off the bus"


class Cluster:
    """Nodes with GPUs, a gang of two pods on the first two, and a stand-in for DCGM that sets conditions."""

    def __init__(self, nodes: int = 4, annotations: Mapping[str, str] | None = None) -> None:
        self.now = START
        self.memory = Memory(lambda: self.now)
        self.controllers: list[Controller[Any]] = [gangs.controller(), quarantine(), moves(gangs.POD_INDEX)]
        for number in range(nodes):
            status = {"allocatable": {"cpu": "8", names.GPU: "8"}}
            self.memory.create(NODE, "", {"metadata": {"name": f"node-{number}"}, "status": status})
        meta = {"name": "train", "labels": {names.ADMISSION: "gang"}, "annotations": dict(annotations or {})}
        job = self.memory.create(JOB, "ml", {"metadata": meta, "spec": {"suspend": False}})
        uid = job["metadata"]["uid"]
        source = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid}
        self.memory.create(
            GANG, "ml", {"metadata": {"name": "job-train"}, "spec": {"minCount": 2, "source": source}}
        )
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
        for rank in range(2):
            about = {
                "name": f"train-{rank}",
                "ownerReferences": [owner],
                "annotations": {"batch.kubernetes.io/job-completion-index": str(rank)},
            }
            limits = {"limits": {names.GPU: "8"}}
            spec = {"nodeName": f"node-{rank}", "containers": [{"name": "main", "resources": limits}]}
            self.memory.create(POD, "ml", {"metadata": about, "spec": spec})
            self.memory.patch(POD, "ml", f"train-{rank}", {"status": {"phase": "Running"}}, "status")

    def signal(self, node: str, on: bool = True) -> None:
        told = {
            "type": UNHEALTHY,
            "status": "True" if on else "False",
            "reason": "Xid",
            "message": XID,
            "lastTransitionTime": self.now.isoformat(),
        }
        self.memory.patch(NODE, "", node, {"status": {"conditions": [told]}}, "status")

    def decide(self) -> Sequence[Effect]:
        made: list[Effect] = []
        kinds = {watch.kind for each in self.controllers for watch in each.watches}
        indexes = {(i.kind, i.name): i for each in self.controllers for i in each.indexes}
        for number, controller in enumerate(self.controllers):
            key = "" if number == 1 else "ml/job-train"
            caches = self.memory.caches(list(kinds), tuple(indexes.values()))
            observed: Any = controller.observe(caches, key)
            made += [] if observed is None else controller.reconcile(observed, self.now)
        return made

    def settle(self) -> list[Effect]:
        done: list[Effect] = []
        for _ in range(10):
            effects = [each for each in self.decide() if not isinstance(each, Requeue)]
            if not effects:
                return done
            done += effects
            self.memory.apply(effects)
        raise AssertionError("the controllers do not come to rest")

    @property
    def quarantined(self) -> list[str]:
        nodes = [self.memory.read(NODE, key) for kind, key in list(self.memory.objects) if kind is NODE]
        return sorted(n.metadata.name for n in nodes if any(t.key == TAINT for t in n.spec.taints))

    @property
    def told(self) -> str:
        gang: Gang = self.memory.read(GANG, "ml/job-train")
        found = condition(gang.status.conditions, GPU_HEALTHY)
        return "" if found is None else f"{found.status}: {found.message}"

    @property
    def progress(self) -> str:
        gang: Gang = self.memory.read(GANG, "ml/job-train")
        found = condition(gang.status.conditions, PROGRESSING)
        return "" if found is None else f"{found.reason}: {found.message}"

    def report(self, rank: int, line: str) -> None:
        told = {"metadata": {"annotations": {names.PROGRESS: line}}}
        self.memory.patch(POD, "ml", f"train-{rank}", told)

    def requeued(self) -> datetime:
        return min(each.at for each in self.decide() if isinstance(each, Requeue))

    @property
    def suspended(self) -> bool:
        return bool(self.memory.read(JOB, "ml/train").spec.suspend)

    def requested(self) -> list[str]:
        pods = [self.memory.read(POD, f"ml/train-{rank}") for rank in range(2)]
        return [pod.metadata.name for pod in pods if names.CHECKPOINT_REQUESTED in pod.metadata.annotations]


@pytest.mark.parametrize(
    ("limits", "marks", "hit"),
    [
        ({"amd.com/gpu": "1"}, {}, True),
        ({"cpu": "1"}, {names.GPU_SHARE: "250"}, True),
        ({names.GPU: "0"}, {}, False),
        ({"cpu": "1"}, {}, False),
    ],
)
def test_a_rank_is_named_if_it_has_a_gpu_or_a_share_of_one(
    limits: dict[str, str], marks: dict[str, str], hit: bool
) -> None:
    cluster = Cluster()
    pod = cluster.memory.objects[POD, "ml/train-1"]
    pod["spec"]["containers"] = [{"name": "main", "resources": {"limits": limits}}]
    pod["metadata"]["annotations"] |= marks
    cluster.signal("node-1")
    cluster.settle()
    assert bool(cluster.told) == hit


def test_the_rank_and_the_node_are_named_and_the_node_is_quarantined() -> None:
    cluster = Cluster()
    cluster.settle()
    assert cluster.told == ""
    cluster.signal("node-1")
    (event,) = [each for each in cluster.settle() if isinstance(each, RecordEvent)]
    assert cluster.told == f"False: rank 1 (pod train-1) is on node-1: {XID}"
    assert (event.about["kind"], event.about["name"], event.reason) == ("Job", "train", "GpuAnomaly")
    assert event.message == f"rank 1 (pod train-1) is on node-1: {XID}"
    assert cluster.quarantined == ["node-1"]
    assert not cluster.suspended
    cluster.signal("node-1", on=False)
    cluster.settle()
    assert (cluster.told, cluster.quarantined) == ("True: ", [])


def test_other_taints_are_kept() -> None:
    cluster = Cluster()
    cluster.memory.patch(NODE, "", "node-0", {"spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}})
    cluster.signal("node-0")
    cluster.settle()
    taints = cluster.memory.json(NODE, "node-0")["spec"]["taints"]
    assert [(taint["key"], taint["effect"]) for taint in taints] == [
        ("own", "NoSchedule"),
        (TAINT, "NoSchedule"),
    ]
    cluster.signal("node-0", on=False)
    cluster.settle()
    assert [taint.key for taint in cluster.memory.read(NODE, "node-0").spec.taints] == ["own"]


@pytest.mark.parametrize(("nodes", "most"), [(1, 1), (2, 1), (4, 2), (5, 2)])
def test_at_most_half_of_the_nodes_are_quarantined(nodes: int, most: int) -> None:
    cluster = Cluster(nodes)
    for number in range(nodes):
        cluster.signal(f"node-{number}")
        cluster.now += timedelta(seconds=1)
    cluster.settle()
    assert cluster.quarantined == [f"node-{number}" for number in range(most)]


def test_a_node_without_gpus_is_not_quarantined_and_takes_no_place_of_those_that_have() -> None:
    cluster = Cluster(2)
    for name in ("a", "b"):
        status = {"allocatable": {"cpu": "8"}}
        cluster.memory.create(NODE, "", {"metadata": {"name": name}, "status": status})
        cluster.signal(name)
    cluster.now += timedelta(seconds=1)
    cluster.signal("node-1")
    cluster.settle()
    assert cluster.quarantined == ["node-1"]


MOVES = {
    "an interval, late": ({names.CHECKPOINT: "30m"}, True),
    "no checkpoint": ({}, False),
}


@pytest.mark.parametrize(("annotations", "moved"), MOVES.values(), ids=MOVES)
def test_only_a_job_with_a_checkpoint_is_moved(annotations: dict[str, str], moved: bool) -> None:
    cluster = Cluster(annotations={names.ON_GPU_ANOMALY: "checkpointAndMove", **annotations})
    cluster.settle()
    cluster.signal("node-1")
    cluster.settle()
    assert not cluster.suspended
    assert cluster.requested() == (["train-0", "train-1"] if moved else [])
    cluster.now += timedelta(minutes=5)
    cluster.settle()
    assert cluster.suspended is moved
    said = cluster.memory.read(JOB, "ml/train").metadata.annotations.get(names.MOVED, "")
    why = f" GpuAnomaly: rank 1 (pod train-1) is on node-1: {XID}"
    assert said.endswith(why) if moved else not said


def test_a_job_that_has_saved_its_work_moves_at_once() -> None:
    cluster = Cluster(annotations={names.ON_GPU_ANOMALY: "checkpointAndMove", names.CHECKPOINT: "30m"})
    cluster.signal("node-1")
    cluster.settle()
    cluster.now += timedelta(seconds=20)
    saved = {"metadata": {"annotations": {names.CHECKPOINT: cluster.now.isoformat()}}}
    cluster.memory.patch(POD, "ml", "train-0", saved)
    effects = cluster.settle()
    assert cluster.suspended
    assert any(isinstance(each, Patch) and each.kind is JOB for each in effects)


@pytest.mark.parametrize("choice", ["notify", "none", "", "checkpointandmove"])
def test_a_job_that_does_not_ask_for_moves_is_not_moved(choice: str) -> None:
    cluster = Cluster(annotations={names.ON_GPU_ANOMALY: choice, names.CHECKPOINT: "30m"})
    cluster.signal("node-1")
    cluster.settle()
    cluster.now += timedelta(hours=1)
    cluster.settle()
    assert not cluster.suspended
    assert bool(cluster.told) == (choice != "none")


def test_a_job_on_a_node_beyond_the_cap_stays() -> None:
    """It might start there again, and move for ever."""
    cluster = Cluster(2, {names.ON_GPU_ANOMALY: "checkpointAndMove", names.CHECKPOINT: "30m"})
    for node in ("node-0", "node-1"):
        cluster.signal(node)
    cluster.settle()
    cluster.now += timedelta(hours=1)
    cluster.settle()
    assert cluster.quarantined == ["node-0"]
    assert not cluster.suspended


@pytest.mark.parametrize(
    "hostile",
    [{names.CHECKPOINT: "x" * 9999}, {names.CHECKPOINT: "30m", names.CHECKPOINT_GRACE: "9" * 99 + "h"}],
)
def test_hostile_annotations_end_in_the_longest_grace(hostile: dict[str, str]) -> None:
    cluster = Cluster(annotations={names.ON_GPU_ANOMALY: "checkpointAndMove", **hostile})
    cluster.signal("node-0")
    cluster.settle()
    cluster.now += timedelta(minutes=10)
    cluster.settle()
    assert cluster.suspended


def test_a_change_of_a_pod_or_a_node_concerns_the_gangs_with_wrong_gpus_only() -> None:
    cluster = Cluster(annotations={names.ON_GPU_ANOMALY: "checkpointAndMove", names.CHECKPOINT: "30m"})
    cluster.settle()
    pod, node = cluster.memory.read(POD, "ml/train-0"), cluster.memory.read(NODE, "node-1")
    changed: list[tuple[AnyKind, Any, Any]] = [(POD, pod, pod), (NODE, node, node), (NODE, None, node)]
    moving = cluster.controllers[2]
    keys = {watch.kind: watch.keys for watch in moving.watches}

    def concerned() -> list[list[str]]:
        caches = cluster.memory.caches(list(keys), moving.indexes)
        return [list(keys[kind](Change(caches, old, new))) for kind, old, new in changed]

    assert concerned() == [[], [], []]
    cluster.signal("node-1")
    cluster.settle()
    changed.append((NODE, node, cluster.memory.read(NODE, "node-1")))
    assert concerned() == [["ml/job-train"], [], [], ["ml/job-train"]]
    indexed = [index.name for index in moving.indexes if index.kind is GANG]
    assert indexed == [ILL], "without an index each change costs a visit to every gang"


def test_only_a_change_of_the_signal_concerns_the_pods() -> None:
    cluster = Cluster()
    before = cluster.memory.read(NODE, "node-0")
    cluster.signal("node-0")
    after = cluster.memory.read(NODE, "node-0")
    caches = cluster.memory.caches([NODE, POD], [POD_INDEX])
    caches[POD].items = Unwalked(caches[POD].items)
    for old, new, concerned in (
        (before, after, True),
        (None, after, True),
        (after, None, True),
        (after, after, False),
        (None, before, False),  # as for each node that a cache fills with
        (before, None, False),
    ):
        assert list(of_node(Change(caches, old, new))) == ["ml/train-0"] * concerned


# -- progress

RULES = "stalledAfter=15m lossFinite=true lossFactor=3"


def reporting(rules: str = RULES, **annotations: str) -> Cluster:
    """A gang whose rank 0 is at step 7 since the start."""
    cluster = Cluster(annotations={names.PROGRESS_RULES: rules, **annotations})
    for rank in range(2):
        cluster.memory.patch(
            POD, "ml", f"train-{rank}", {"status": {"startTime": START.isoformat()}}, "status"
        )
    cluster.report(0, f"step=7 loss=0.3 median=0.3 at={START.isoformat()}")
    return cluster


def test_a_rank_without_a_new_step_is_stalled_when_its_time_is_over() -> None:
    cluster = reporting()
    cluster.settle()
    assert cluster.progress == ""
    assert cluster.requeued() == START + timedelta(minutes=15)
    cluster.now += timedelta(minutes=15)
    cluster.settle()
    told = "rank 0 (pod train-0) is on node-0: it is at step 7 for more than 15m"
    assert cluster.progress == f"Stalled: {told}"
    cluster.now += timedelta(minutes=1)
    cluster.report(0, f"step=8 loss=0.3 at={cluster.now.isoformat()}")
    cluster.settle()
    assert cluster.progress == "NoAnomaly: "
    assert cluster.quarantined == []


def test_if_no_rank_reports_all_are_stalled() -> None:
    cluster = reporting()
    cluster.report(0, "")
    cluster.now += timedelta(minutes=15)
    cluster.settle()
    told = "it has reported no step for more than 15m"
    assert cluster.progress == (
        f"Stalled: rank 0 (pod train-0) is on node-0: {told}; rank 1 (pod train-1) is on node-1: {told}"
    )


LOSSES = {
    "nan": ("nan", "LossNotFinite", "its loss is nan"),
    "infinite": ("inf", "LossNotFinite", "its loss is inf"),
    "high": ("1", "LossTooHigh", "its loss is 1, more than 3 times the median of earlier losses, 0.3"),
}


@pytest.mark.parametrize(("loss", "reason", "told"), LOSSES.values(), ids=LOSSES)
def test_a_wrong_loss_names_rank_and_node(loss: str, reason: str, told: str) -> None:
    cluster = reporting()
    cluster.report(1, f"step=7 loss={loss} median=0.3")
    cluster.settle()
    assert cluster.progress == f"{reason}: rank 1 (pod train-1) is on node-1: {told}"


@pytest.mark.parametrize(
    "rules",
    ["", "action=none " + RULES, "stalledAfter=9999y", "x" * 999],
    ids=["none", "off", "wrong", "long"],
)
def test_without_rules_that_can_be_read_no_report_is_judged(rules: str) -> None:
    cluster = reporting(rules)
    cluster.report(0, "step=1 loss=nan")
    cluster.now += timedelta(days=1)
    cluster.settle()
    assert cluster.progress == ""


def test_a_pod_that_starts_in_the_future_has_run_for_no_time() -> None:
    cluster = reporting()
    cluster.memory.patch(POD, "ml", "train-0", {"status": {"startTime": "9999-12-31T23:59:59Z"}}, "status")
    cluster.settle()
    assert cluster.progress == ""
    assert cluster.requeued() == START + timedelta(minutes=15)


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "2026-01-01T00:00:00"])
def test_hostile_times_stop_no_controller(at: str) -> None:
    cluster = reporting()
    cluster.report(0, f"step=1 loss=1 at={at}")
    cluster.settle()
    cluster.now += timedelta(days=1)
    cluster.settle()


def test_a_job_that_makes_no_progress_moves_after_its_checkpoint_three_times_at_most() -> None:
    cluster = reporting(RULES + " action=checkpointAndMove", **{names.CHECKPOINT: "30m"})
    for number in range(4):
        cluster.report(0, f"step=7 loss=nan at={cluster.now.isoformat()}")
        cluster.settle()
        assert not cluster.suspended
        assert cluster.requested() == ["train-0", "train-1"] or number == 3
        cluster.now += timedelta(minutes=5)
        cluster.settle()
        assert cluster.suspended is (number < 3)
        cluster.memory.patch(JOB, "ml", "train", {"spec": {"suspend": False}})
        cluster.report(0, f"step=8 loss=0.3 at={cluster.now.isoformat()}")
        cluster.settle()
        for rank in range(2):
            none = {"metadata": {"annotations": {names.CHECKPOINT_REQUESTED: None}}}
            cluster.memory.patch(POD, "ml", f"train-{rank}", none)
    assert cluster.memory.read(JOB, "ml/train").metadata.annotations[names.PROGRESS_MOVES] == "3"
    assert cluster.quarantined == []


@pytest.mark.parametrize(
    ("rules", "annotations"),
    [
        (RULES, {names.CHECKPOINT: "30m"}),
        (RULES + " action=checkpointAndMove", {}),
        (RULES + " action=checkpointAndMove", {names.CHECKPOINT: "30m", names.PROGRESS_MOVES: "many"}),
        (RULES, {names.CHECKPOINT: "30m", names.ON_GPU_ANOMALY: "checkpointAndMove"}),
    ],
    ids=["only notified", "no checkpoint", "an unreadable number of moves", "the rule for nodes"],
)
def test_other_jobs_with_a_wrong_report_stay(rules: str, annotations: dict[str, str]) -> None:
    cluster = reporting(rules, **annotations)
    cluster.report(0, "step=1 loss=nan")
    cluster.settle()
    cluster.now += timedelta(minutes=10)
    cluster.settle()
    assert cluster.progress.startswith("LossNotFinite")
    assert not cluster.suspended


def test_changed_rules_concern_the_gang() -> None:
    cluster = reporting()
    before = cluster.memory.read(JOB, "ml/train")
    cluster.memory.patch(JOB, "ml", "train", {"metadata": {"annotations": {names.PROGRESS_RULES: ""}}})
    after = cluster.memory.read(JOB, "ml/train")
    [watch] = [each for each in gangs.controller().watches if each.kind is JOB]
    caches = cluster.memory.caches(
        [GANG], [index for index in gangs.controller().indexes if index.kind is GANG]
    )
    assert list(watch.keys(Change(caches, before, after))) == ["ml/job-train"]
    assert list(watch.keys(Change(caches, after, after))) == []
