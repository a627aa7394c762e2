"""Keeps jobs off nodes with unhealthy GPUs, and moves jobs that can be moved without losing their work.

The signal is the condition `muster.dev/GpuUnhealthy` of a node: node-problem-detector, a watcher of DCGM, or
a person sets it to True, with what is wrong as its message. The gang controller names the ranks on such nodes
in the condition `GpuHealthy` of their Gang. Two controllers act on the signal:

- `quarantine` taints a node with the signal, and removes the taint when the signal ends. At most half of the
  nodes with GPUs (at least one) are in quarantine, so that a faulty detector cannot stop a cluster.
- `moves` requests a checkpoint from a job with `muster.dev/on-gpu-anomaly: checkpointAndMove`, and then
  suspends it like a preempted job; the scheduler starts it again on other nodes. It never moves a job without
  a checkpoint, nor a job whose node is not in quarantine: that job might start there again.

`moves` also moves a job whose reports break a rule (`muster.controllers.progress`) and whose rules say so, at
most `MOST_MOVES` times, because the fault may be the job's. No node is quarantined for a report.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from muster import names
from muster.api import times
from muster.api.base import Condition, Object, ObjectMeta, condition, involved, is_true, mark
from muster.api.batch_v1 import COMPLETION_INDEX, Job
from muster.api.core_v1 import Node, Pod, Taint
from muster.api.jobset_v1alpha2 import JOB_GLOBAL_INDEX, JobSet
from muster.api.kinds import BY_NAME, GANG, JOB, JOBSET, NODE, POD
from muster.api.marks import CHECKPOINT, CHECKPOINT_GRACE, ON_GPU_ANOMALY
from muster.api.muster_v1alpha1 import GPU_HEALTHY, PROGRESSING, Gang
from muster.api.natural import natural
from muster.api.requests import gpus
from muster.controllers.caches import Caches, Index
from muster.controllers.driver import Change, Controller, Watch, itself
from muster.controllers.progress import judge, rules_of
from muster.effects import Effect, Patch, RecordEvent, Requeue

#: The condition of a node with unhealthy GPUs, and the taint of a node in quarantine.
UNHEALTHY: Final = f"{names.DOMAIN}/GpuUnhealthy"
TAINT: Final = f"{names.DOMAIN}/gpu-unhealthy"
#: How long a job may take for its checkpoint: by default, and at most.
GRACE: Final = timedelta(minutes=5)
#: How often a job is moved because of its own reports. If its loss is wrong on all these nodes, they are not
#: the cause.
MOST_MOVES: Final = 3
#: Most ranks that a message names, and most characters of a node's message.
_MOST: Final = 3
_LONGEST: Final = 200
#: Status and message of a node without the condition; the signal and the quarantine of one that is not there.
_SILENT: Final = ("", "")
_UNKNOWN: Final = (_SILENT, False)
#: Index of nodes with the signal.
WRONG: Final = "unhealthy"
NODE_INDEX: Final = Index(NODE, WRONG, lambda node: [""] if _wrong(node) else [])
#: Index of pods by node.
ON_NODE: Final = "node"
POD_INDEX: Final = Index(POD, ON_NODE, lambda pod: [pod.spec.node_name] if pod.spec.node_name else [])
#: Index of gangs that may have to move; a changed pod looks its gang up in it.
ILL: Final = "ill"


def faults(caches: Caches, pods: Iterable[Pod]) -> tuple[str, ...]:
    """Returns what is wrong with the GPUs of these pods' nodes, by rank: `rank 3 (pod p) is on n: XID 79`."""
    wrong = {node.metadata.name: node for node in caches[NODE].by(WRONG, "")}
    if not wrong:
        return ()
    hit = [pod for pod in pods if pod.spec.node_name in wrong and not pod.terminal and gpus(pod)]
    return by_rank(hit, lambda pod: _told(wrong[pod.spec.node_name]))


def by_rank(pods: Iterable[Pod], what: Callable[[Pod], str]) -> tuple[str, ...]:
    """Returns what is wrong with each pod, with its rank and node, in the order of ranks."""
    return tuple(
        f"rank {_rank(pod)} (pod {pod.metadata.name}) is on {pod.spec.node_name}: {what(pod)}"
        for pod in sorted(pods, key=lambda pod: (_rank(pod), pod.metadata.name))
    )


def summary(found: tuple[str, ...]) -> str:
    """Returns the first few faults, and the number of the others."""
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return "; ".join(found[:_MOST]) + more


def of_node(change: Change) -> Iterable[str]:
    """Returns the keys of the pods on a node whose signal has changed. A new node has had no signal."""
    old, new = (_signal(each) if each is not None else _SILENT for each in _both(change))
    if old == new:
        return []
    return [pod.key for pod in change.caches[POD].by(ON_NODE, change.objects[-1].metadata.name)]


# -- quarantine


def quarantine() -> Controller[tuple[Node, ...]]:
    """Returns the controller of taints; its only key, "", is the cluster."""

    def concerned(change: Change) -> list[str]:
        return [""] if change.old is None or change.new is None or _turned(change) else []

    def observe(caches: Caches, key: str) -> tuple[Node, ...] | None:
        return tuple(node for _, node in sorted(caches[NODE].items.items()))

    return Controller("gpu quarantine", (Watch(NODE, concerned),), observe, isolate)


def isolate(nodes: tuple[Node, ...], now: datetime) -> list[Effect]:
    """Taints nodes with the signal, those that have had it longest first; untaints other nodes."""
    effects: list[Effect] = [_taint(node, on=False) for node in nodes if _tainted(node) and not _wrong(node)]
    most = max(sum(_is_gpu_node(node) for node in nodes) // 2, 1)
    free = most - sum(_tainted(node) and _wrong(node) for node in nodes)
    waiting = [node for node in nodes if _is_gpu_node(node) and _wrong(node) and not _tainted(node)]
    waiting.sort(key=lambda node: (_since(node) or now, node.metadata.name))
    return [*effects, *(_taint(node, on=True) for node in waiting[: max(free, 0)])]


# -- moves


@dataclass(frozen=True, slots=True)
class Observed:
    gang: Gang
    owner: Job | JobSet
    pods: tuple[Pod, ...]
    #: whether all of its nodes with the signal are in quarantine
    quarantined: bool


def moves(pods_of: Index) -> Controller[Observed]:
    """Returns the controller that moves jobs. `pods_of`: pods by their group object, as of the Gang."""

    def observe(caches: Caches, key: str) -> Observed | None:
        gang = caches[GANG].get(key)
        if gang is None or not _ill(gang):
            return None
        source = gang.spec.source
        kind = BY_NAME.get((source.api_version, source.kind))
        if kind is not JOB and kind is not JOBSET:
            return None
        owner = caches[kind].get(f"{gang.metadata.namespace}/{source.name}")
        if owner is None or owner.metadata.uid != source.uid:
            return None
        group = f"{source.api_version} {source.kind} {gang.metadata.namespace}/{source.name}"
        pods = tuple(pod for pod in caches[POD].by(pods_of.name, group) if not pod.terminal)
        on = {pod.spec.node_name for pod in pods}
        wrong = [node for node in caches[NODE].by(WRONG, "") if node.metadata.name in on]
        return Observed(gang, owner, pods, bool(wrong) and all(map(_tainted, wrong)))

    def by_node(change: Change) -> list[str]:
        return [gang.key for gang in change.caches[GANG].by(ILL, "")] if _turned(change) else []

    def by_pod(change: Change) -> list[str]:
        groups = dict.fromkeys(group for pod in change.objects for group in pods_of.values(pod))
        return [gang.key for group in groups for gang in change.caches[GANG].by(ILL, group)]

    watches = (
        Watch(GANG, itself),
        Watch(NODE, by_node),
        Watch(POD, by_pod),
        Watch(JOB, _none),
        Watch(JOBSET, _none),
    )
    indexes = (NODE_INDEX, pods_of, Index(GANG, ILL, _ill))
    return Controller("gpu moves", watches, observe, move, indexes, 0.1)


def move(observed: Observed, now: datetime) -> list[Effect]:
    """Requests a checkpoint, and suspends the job once it has one, or its grace period is over."""
    owner, meta = observed.owner, observed.owner.metadata
    saves = [meta, *(pod.metadata for pod in observed.pods)]
    stated = [each for each in saves if CHECKPOINT.text(each)]
    if (cause := _cause(observed, now)) is None or not stated or owner.spec.suspend:
        return []
    if mark(meta, names.ADMISSION) != "gang":
        return []
    ill, annotations = cause
    since = ill.last_transition_time or now
    if not any(saved and saved.at and saved.at >= since for saved in map(CHECKPOINT.get, stated)):
        due = since + _grace(meta)
        if now < due:
            return [*_requests(observed.pods, since), Requeue(due)]
    kind = JOB if isinstance(owner, Job) else JOBSET
    moved = f"{times.written(now)} {ill.reason}: {ill.message}"
    body: Object = {
        "metadata": {
            "resourceVersion": meta.resource_version,
            "annotations": {**annotations, names.MOVED: moved},
        },
        "spec": {"suspend": True},
    }
    event = RecordEvent(involved(owner, kind), "Warning", ill.reason, f"moved: {ill.message}")
    return [Patch(kind, meta.namespace, meta.name, body), event]


def _cause(observed: Observed, now: datetime) -> tuple[Condition, Object] | None:
    """The condition for which a job is to be moved, and what the move writes on it; None if it is not."""
    meta, conditions = observed.owner.metadata, observed.gang.status.conditions
    ill = condition(conditions, GPU_HEALTHY)
    chosen = ON_GPU_ANOMALY.get(meta) == "checkpointAndMove"
    if chosen and ill is not None and ill.status == "False" and observed.quarantined:
        return ill, {}
    ill, rules = condition(conditions, PROGRESSING), rules_of(observed.owner)
    moved = natural(meta.annotations.get(names.PROGRESS_MOVES, "0"))
    if ill is None or ill.status != "False" or rules is None or rules.action != "checkpointAndMove":
        return None
    if moved is None or moved >= MOST_MOVES:
        return None
    if not judge(rules, observed.pods, now)[0]:
        return None  # the condition is of pods before the last move
    return ill, {names.PROGRESS_MOVES: str(moved + 1)}


def _requests(pods: Iterable[Pod], since: datetime) -> list[Effect]:
    text = times.written(since)
    return [
        Patch(
            POD,
            pod.metadata.namespace,
            pod.metadata.name,
            {"metadata": {"uid": pod.metadata.uid, "annotations": {names.CHECKPOINT_REQUESTED: text}}},
        )
        for pod in pods
        if pod.metadata.annotations.get(names.CHECKPOINT_REQUESTED) != text
    ]


def _grace(meta: ObjectMeta) -> timedelta:
    seconds = CHECKPOINT_GRACE.get(meta)
    return GRACE if seconds is None else timedelta(seconds=seconds)


def _taint(node: Node, *, on: bool) -> Patch:
    """Returns a merge patch. It replaces all taints, so it applies only to the version that was seen."""
    meta = node.metadata
    kept = [taint for taint in node.spec.taints if taint.key != TAINT]
    # the effect is always written: a server requires it, and a struct omits it if it is the default
    taints = [
        {**msgspec.to_builtins(taint), "effect": taint.effect}
        for taint in (*kept, *((Taint(key=TAINT),) if on else ()))
    ]
    body: Object = {"metadata": {"resourceVersion": meta.resource_version}, "spec": {"taints": taints}}
    return Patch(NODE, "", meta.name, body)


def _signal(node: Node) -> tuple[str, str]:
    found = condition(node.status.conditions, UNHEALTHY)
    return (found.status, found.message) if found is not None else _SILENT


def _wrong(node: Node) -> bool:
    return is_true(node.status.conditions, UNHEALTHY)


def _tainted(node: Node) -> bool:
    return any(taint.key == TAINT for taint in node.spec.taints)


def _since(node: Node) -> datetime | None:
    found = condition(node.status.conditions, UNHEALTHY)
    return found.last_transition_time if found is not None else None


def _told(node: Node) -> str:
    found = condition(node.status.conditions, UNHEALTHY)
    told = (found.message or found.reason) if found is not None else ""
    return (told or "its GPUs are unhealthy")[:_LONGEST]


def _is_gpu_node(node: Node) -> bool:
    return any(map(names.is_gpu, node.status.allocatable or node.status.capacity))


def _rank(pod: Pod) -> int:
    """Returns the number of the pod in its job: its completion index, or the index of its Job in a JobSet."""
    meta = pod.metadata
    index = meta.annotations.get(COMPLETION_INDEX) or meta.labels.get(COMPLETION_INDEX) or ""
    number = meta.labels.get(JOB_GLOBAL_INDEX) or "0"
    texts = (index, number) if index not in ("", "0") else (number, index)
    return next((int(text) for text in texts if text.isascii() and text.isdecimal() and len(text) < 10), 0)


def _ill(gang: Gang) -> list[str]:
    """Returns the group object of a gang that may have to move, and "" for all such gangs."""
    found = (condition(gang.status.conditions, each) for each in (GPU_HEALTHY, PROGRESSING))
    if not any(each is not None and each.status == "False" for each in found):
        return []
    source = gang.spec.source
    return ["", f"{source.api_version} {source.kind} {gang.metadata.namespace}/{source.name}"]


def _turned(change: Change) -> bool:
    """Whether the signal of a node, or its quarantine, has changed."""
    old, new = ((_signal(node), _tainted(node)) if node is not None else _UNKNOWN for node in _both(change))
    return old != new


def _both(change: Change) -> tuple[Node | None, Node | None]:
    return change.old, change.new


def _none(change: Change) -> list[str]:
    return []
