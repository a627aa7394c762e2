"""The Gang controller: counts what a gang's members do, and deletes records that have expired.

The committer states what a gang is meant to be, and how many of its places are filled (phase, reason, plan,
bound). This controller counts what its existing pods do: running, succeeded, failed. Two conditions summarise
the counts: `Bound` and `Running` are true if at least the minimum is bound or running, including pods that
have succeeded. `Members` says whether any pod exists, and since when.

Changed counts are written at once if the gang starts or stops running, or has lost its last member. Other
changes are written `REFRESH` after the last write at the earliest.

Garbage collection deletes a record with its group object. A record without an owner (for example because
its pods name a PodGroup that never existed) is deleted `LINGER` after its last member. Its finalizer keeps a
record until no plan is open: a plan without its Gang could not be finished or undone after a crash.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from muster import names
from muster.api import groups
from muster.api.base import (
    Condition,
    Object,
    Resource,
    condition,
    controller_of,
    involved,
    is_true,
    mark,
)
from muster.api.core_v1 import Pod
from muster.api.groups import Dialect
from muster.api.jobset_v1alpha2 import REPLICATED_JOB_NAME
from muster.api.kinds import (
    BY_NAME,
    GANG,
    GANG_PLAN,
    JOB,
    JOBSET,
    NODE,
    POD,
    PRIORITY_CLASS,
    QUEUE,
)
from muster.api.marks import ON_GPU_ANOMALY
from muster.api.muster_v1alpha1 import GPU_HEALTHY, PROGRESSING, Gang
from muster.api.progress import Rules
from muster.api.requests import whole_gpus
from muster.controllers import gpu_health, preemptions, progress, unsaved_work
from muster.controllers.caches import Caches, Index
from muster.controllers.driver import Change, Controller, Watch, itself
from muster.effects import Absent, Delete, Effect, Patch, RecordEvent, Requeue

#: How long a record without an owner stays after its last member.
LINGER: Final = timedelta(minutes=10)
#: Seconds within which changes of one gang's pods cause one reconcile.
SETTLE: Final = 0.1
#: Least time between two writes of counts that only differ in number.
REFRESH: Final = timedelta(seconds=5)
#: Index of pods by the groups that they may be members of, and of gangs by their groups.
GROUP: Final = "group"
#: Index of plans by their gang.
GANG_OF: Final = "gang"
#: What a group object says that concerns its record, besides its existence.
_RULES: Final = (names.ON_GPU_ANOMALY, names.PROGRESS_RULES)
#: Conditions whose every change is written at once.
_ANOMALIES: Final = (GPU_HEALTHY, PROGRESSING, unsaved_work.SAVED)


@dataclass(frozen=True, slots=True)
class Observed:
    gang: Gang
    pods: tuple[Pod, ...]
    #: whether the group object exists
    source: bool
    #: whether a plan of the gang is open
    planned: bool
    #: what is wrong with GPUs of the nodes of its pods
    faults: tuple[str, ...] = ()
    #: by which its reports are judged
    rules: Rules | None = None
    #: what may evict it, if it has no checkpoint; "" = nothing, or it has a checkpoint
    evictors: str = ""


def controller() -> Controller[Observed]:
    """Returns the controller for the driver."""
    sources = (row for row in groups.TABLE if row is not groups.POD)
    watches = (
        Watch(GANG, itself),
        Watch(GANG_PLAN, _planned),
        Watch(POD, _of_pod),
        Watch(NODE, _of_node),
        Watch(PRIORITY_CLASS, lambda _: ()),
        Watch(QUEUE, lambda _: ()),
        *(Watch(row.kind, _of_source(row)) for row in sources),
    )
    indexes = (
        POD_INDEX,
        gpu_health.NODE_INDEX,
        gpu_health.POD_INDEX,
        GANG_INDEX,
        Index(GANG_PLAN, GANG_OF, lambda plan: [f"{plan.metadata.namespace}/{plan.spec.gang}"]),
    )
    return Controller("gang", watches, observe, reconcile, indexes, SETTLE)


def reconcile(observed: Observed, now: datetime) -> list[Effect]:
    gang = observed.gang
    if gang.metadata.deletion_timestamp is not None:
        return _let_go(observed, now)
    effects = [*_own(observed), *_count(observed, now)]
    if not observed.source and not observed.pods and not observed.planned:
        effects += _expire(gang, now)
    return effects


def observe(caches: Caches, key: str) -> Observed | None:
    gang = caches[GANG].get(key)
    if gang is None:
        return None
    meta, source = gang.metadata, gang.spec.source
    kind = BY_NAME.get((source.api_version, source.kind))
    found = None
    if kind is not None and kind in caches:
        found = caches[kind].get(f"{meta.namespace}/{source.name}")
    pods = [pod for group in sources(gang) for pod in caches[POD].by(GROUP, group)]
    members = tuple(pod for pod in pods if _is_member(pod, gang))
    silent = found is not None and ON_GPU_ANOMALY.get(found.metadata) == "none"
    return Observed(
        gang=gang,
        pods=members,
        faults=() if silent else gpu_health.faults(caches, members),
        source=found is not None and found.metadata.uid == source.uid,
        planned=gang.plan is not None or bool(caches[GANG_PLAN].by(GANG_OF, key)),
        rules=progress.rules_of(found),
        evictors=_evictors(caches, gang, found, members),
    )


def _evictors(caches: Caches, gang: Gang, found: Resource | None, members: Sequence[Pod]) -> str:
    if not any(pod.status.phase == "Running" and whole_gpus(pod.spec) for pod in members):
        return ""
    metas = (pod.metadata for pod in members)
    return unsaved_work.evictors(caches, gang, (found.metadata, *metas) if found is not None else metas)


def groups_of(pod: Pod) -> list[str]:
    """Returns the gangs that a pod may be a member of, by dialect: `apiVersion kind namespace/name`."""
    return [key_of(row, f"{pod.metadata.namespace}/{name}") for row, name in groups.possible(pod)]


def sources(gang: Gang) -> list[str]:
    """Returns the groups that it was read from: its source, and the others of its GangGroup."""
    source, namespace = gang.spec.source, gang.metadata.namespace
    row = groups.naming_of(source)
    parts = {source.name, *(pod_set.group or source.name for pod_set in gang.spec.pod_sets)}
    names = sorted(name if "/" in name else f"{namespace}/{name}" for name in parts)
    return [key_of(row, name) for name in names] if row is not None else []


def key_of(row: Dialect, name: str) -> str:
    """Returns the key of `GROUP`: by the row by whose keys pods name the group. `name`: `namespace/name`."""
    kind = row.naming.kind
    return f"{kind.api_version} {kind.kind} {name}"


#: Shared with the controllers of groups.
POD_INDEX: Final = Index(POD, GROUP, groups_of)
GANG_INDEX: Final = Index(GANG, GROUP, sources)


def _let_go(observed: Observed, now: datetime) -> list[Effect]:
    """Removes muster's finalizer once the group object is gone and no plan needs the record.

    What the record says of evictions is kept first: the controller of these records may not have seen it.
    """
    gang = observed.gang
    meta, source = gang.metadata, gang.spec.source
    if observed.source or observed.planned or names.GANG_FINALIZER not in meta.finalizers:
        return []
    effects: list[Effect] = []
    kind = BY_NAME.get((source.api_version, source.kind))
    if kind is not None and source.uid:
        # a cache that does not show the group object may be behind; only the server is authoritative
        effects.append(Absent(kind, meta.namespace, source.name, source.uid))
    kept = [name for name in meta.finalizers if name != names.GANG_FINALIZER]
    body: Object = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": kept}}
    return [*effects, *preemptions.last_records(gang, now), Patch(GANG, meta.namespace, meta.name, body)]


def _own(observed: Observed) -> Iterator[Patch]:
    """Lets a group object that came after its pods own the record.

    The scheduler cannot: only who may delete an object may change its owners.
    """
    meta, source = observed.gang.metadata, observed.gang.spec.source
    if not observed.source or source.uid in {owner.uid for owner in meta.owner_references}:
        return
    owner = {
        "apiVersion": source.api_version,
        "kind": source.kind,
        "name": source.name,
        "uid": source.uid,
        "controller": False,
        "blockOwnerDeletion": False,
    }
    body: Object = {"metadata": {"resourceVersion": meta.resource_version, "ownerReferences": [owner]}}
    yield Patch(GANG, meta.namespace, meta.name, body)


def _count(observed: Observed, now: datetime) -> list[Effect]:
    gang, pods = observed.gang, observed.pods
    phases = [pod.status.phase for pod in pods]
    succeeded = phases.count("Succeeded")
    bound = sum(bool(pod.spec.node_name) and not pod.terminal for pod in pods)
    counts = {
        "running": phases.count("Running"),
        "succeeded": succeeded,
        "failed": phases.count("Failed"),
    }
    least = gang.spec.min_count
    answers = {
        "Bound": _enough(bound + succeeded, least, "bound or succeeded"),
        "Running": _enough(counts["running"] + succeeded, least, "running or succeeded"),
        "Members": (bool(pods), "PodsExist" if pods else "NoPods", ""),
    }
    if observed.faults:
        answers[GPU_HEALTHY] = (False, "GpuAnomaly", gpu_health.summary(observed.faults))
    elif condition(gang.status.conditions, GPU_HEALTHY) is not None:
        answers[GPU_HEALTHY] = (True, "NoAnomaly", "")
    again: list[Effect] = []
    if observed.rules is not None:
        wrong, due = progress.judge(observed.rules, pods, now)
        again = [Requeue(due)] if due is not None else []
        if wrong:
            hit = [pod for pod in pods if pod.metadata.name in wrong]
            told = gpu_health.by_rank(hit, lambda pod: wrong[pod.metadata.name][1])
            why = progress.reason(wrong.values())
            answers[PROGRESSING] = (False, why, gpu_health.summary(told))
    if PROGRESSING not in answers and condition(gang.status.conditions, PROGRESSING):
        answers[PROGRESSING] = (True, "NoAnomaly", "")
    answer, due = unsaved_work.judge(gang, observed.evictors, answers["Running"][0], now)
    again += [Requeue(due)] if due is not None else []
    if answer is not None:
        answers[unsaved_work.SAVED] = answer
    conditions = [
        _condition(gang.status.conditions, type_, *answer, now=now) for type_, answer in answers.items()
    ]
    status = gang.status
    before = {
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
    }
    if before == counts and status.conditions == conditions:
        return again
    last = status.counted or gang.metadata.creation_timestamp or now
    # A time to come is of a clock that is ahead: it must not keep this controller waiting.
    if last <= now < last + REFRESH and not _noticed(status.conditions, conditions):
        return [Requeue(last + REFRESH), *again]
    counted = msgspec.to_builtins(now)
    body: Object = {"status": {**counts, "conditions": msgspec.to_builtins(conditions), "counted": counted}}
    written = Patch(GANG, gang.metadata.namespace, gang.metadata.name, body)
    return [written, *_anomalies(gang, conditions), *again]


def _anomalies(gang: Gang, new: list[Condition]) -> Iterator[RecordEvent]:
    """An Event about the group object for each anomaly that begins, or becomes another one."""
    source = gang.spec.source
    about = {
        "apiVersion": source.api_version,
        "kind": source.kind,
        "namespace": gang.metadata.namespace,
        "name": source.name,
        "uid": source.uid,
    }
    for type_ in (GPU_HEALTHY, PROGRESSING):
        before, now = condition(gang.status.conditions, type_), condition(new, type_)
        if now is None or now.status != "False":
            continue
        if before is None or (before.status, before.reason) != (now.status, now.reason):
            occasion = f"{type_} since {now.last_transition_time}"
            whose = about if source.uid else involved(gang, GANG)
            yield RecordEvent(whose, "Warning", now.reason, now.message, occasion)


def _noticed(old: list[Condition], new: list[Condition]) -> bool:
    """Whether the gang begins or ceases to run, its last member has gone, or an anomaly begins or ends."""
    ran, runs = is_true(old, "Running"), is_true(new, "Running")
    told = [
        [(found.status, found.message) for type_ in _ANOMALIES if (found := condition(each, type_))]
        for each in (old, new)
    ]
    return ran != runs or told[0] != told[1] or (is_true(old, "Members") and not is_true(new, "Members"))


def _enough(have: int, least: int, of: str) -> tuple[bool, str, str]:
    enough = have >= least and have > 0
    return enough, "MinimumReached" if enough else "BelowMinimum", f"{have} {of}, {least} needed"


def _condition(
    old: list[Condition], type_: str, true: bool, reason: str, message: str, *, now: datetime
) -> Condition:
    status = "True" if true else "False"
    before = condition(old, type_)
    since = before.last_transition_time if before is not None and before.status == status else now
    return Condition(type=type_, status=status, reason=reason, message=message, last_transition_time=since)


def _expire(gang: Gang, now: datetime) -> list[Effect]:
    """Deletes a record without owner `LINGER` after its last member; until then a restart may bring pods."""
    members = condition(gang.status.conditions, "Members")
    if members is None or members.status == "True" or members.last_transition_time is None:
        return []  # just become empty: the patch that says so causes the next reconcile
    due = members.last_transition_time + LINGER
    if now < due:
        return [Requeue(due)]
    meta, source = gang.metadata, gang.spec.source
    kind = BY_NAME.get((source.api_version, source.kind))
    checks: list[Effect] = (
        [Absent(kind, meta.namespace, source.name, source.uid)] if kind is not None and source.uid else []
    )
    return [*checks, Delete(GANG, meta.namespace, meta.name, meta.uid)]


def _is_member(pod: Pod, gang: Gang) -> bool:
    """Whether a pod that names the group belongs to this stage, and not to a namesake that is gone."""
    source = gang.spec.source
    if JOB.matches(source):
        owner = controller_of(pod)
        return owner is not None and owner.uid == source.uid
    if JOBSET.matches(source):
        stage = {pod_set.name for pod_set in gang.spec.pod_sets}
        return pod.metadata.labels.get(REPLICATED_JOB_NAME) in stage
    return True


def _planned(change: Change) -> list[str]:
    return [f"{plan.metadata.namespace}/{plan.spec.gang}" for plan in change.objects]


def _of_pod(change: Change) -> Iterable[str]:
    for pod in change.objects:
        for group in groups_of(pod):
            yield from (gang.key for gang in change.caches[GANG].by(GROUP, group))


def _of_node(change: Change) -> Iterable[str]:
    pods = change.caches[POD]
    found = (pods.get(key) for key in gpu_health.of_node(change))
    theirs = (group for pod in found if pod is not None for group in groups_of(pod))
    return dict.fromkeys(gang.key for group in theirs for gang in change.caches[GANG].by(GROUP, group))


def _of_source(row: Dialect) -> Callable[[Change], Iterable[str]]:
    def keys(change: Change) -> Iterable[str]:
        if change.old is not None and change.new is not None:
            said = [[mark(each.metadata, key) for key in _RULES] for each in (change.old, change.new)]
            if said[0] == said[1]:
                return
        for source in change.objects[-1:]:
            yield from (gang.key for gang in change.caches[GANG].by(GROUP, key_of(row, source.key)))

    return keys
