"""The history of pods: one row per pod, written with the pod itself and kept after the pod is removed.

`timeline` and `logs` read it, also from a store that no process hosts. A row follows the pod's life: created
with the pod, then bound, started, ended. Times are seconds since 1970. Beyond a bound the oldest ended runs
are forgotten.
"""

from datetime import datetime
from typing import Final

import msgspec

from muster.api.base import Object
from muster.api.batch_v1 import COMPLETION_INDEX, JOB_NAME
from muster.api.jobset_v1alpha2 import (
    JOB_GLOBAL_INDEX,
    JOB_INDEX,
    JOBSET_NAME,
    JOBSET_UID,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
)
from muster.api.natural import natural
from muster.local.store import Store
from muster.names import PREEMPTED

#: Most runs kept.
RUNS: Final = 100_000


class PodRun(msgspec.Struct, frozen=True, gc=False):
    """One pod from its creation to its end. Times are in seconds since 1970; None means not (yet)."""

    uid: str
    namespace: str
    name: str
    #: names and indexes of the pod's owners; "" or None if it has none
    jobset: str
    jobset_uid: str
    replicated_job: str
    job: str
    job_index: int | None
    completion_index: int | None
    attempt: int
    node: str
    created: float
    bound: float | None
    started: float | None
    ended: float | None
    #: Pending, Running, Succeeded, Failed; "Deleted" if it was removed before it ended
    phase: str
    #: exit code of the first container that failed, else 0; None if no container has ended
    exit_code: int | None
    reason: str
    #: restarts of containers within the pod
    restarts: int
    #: whether muster itself decided to end the pod, which is no failure
    preempted: bool
    #: whether the run ended because the pod was deleted, whatever its exit code
    deleted: bool
    #: index of the pod's job among all jobs of the JobSet, in the order of the file
    job_global_index: int | None = None


_COLUMNS: Final = PodRun.__struct_fields__


class History:
    def __init__(self, store: Store, *, bound: int = RUNS) -> None:
        self._store, self._bound = store, bound
        self._made = 0  # runs since the bound was last checked
        if not store.read_only:
            columns = ", ".join(f"{name} TEXT PRIMARY KEY" if name == "uid" else name for name in _COLUMNS)
            store.execute(f"CREATE TABLE IF NOT EXISTS pod_runs({columns})")
            for name in [name for name in _COLUMNS if name not in self._columns()]:
                store.execute(f"ALTER TABLE pod_runs ADD COLUMN {name}")  # a table of an earlier version

    def runs(self, *, namespace: str = "", job: str = "") -> list[PodRun]:
        """Runs in order of creation. `job` is the name or uid of a JobSet, or the name of a Job or a pod."""
        columns = self._columns()
        if not columns:
            return []
        where, values = ["1"], list[str]()
        if namespace:
            where.append("namespace = ?")
            values.append(namespace)
        if job:
            where.append("? IN (jobset, jobset_uid, job, name)")
            values.append(job)
        rows = self._store.execute(
            f"SELECT {', '.join(columns)} FROM pod_runs WHERE {' AND '.join(where)} ORDER BY created, name",
            values,
        )
        runs = [dict(zip(columns, row, strict=True)) for row in rows]
        return [
            PodRun(**run | {"preempted": bool(run["preempted"]), "deleted": bool(run["deleted"])})
            for run in runs
        ]

    def record(self, pod: Object, old: Object | None, now: datetime) -> None:
        """Records a pod's new state. Call it within the transaction that writes `pod`."""
        if old is None:
            self._insert(pod, now)
        if pod.get("status") is not None and (old is None or _changed(pod, old)):
            self._update(pod, _life(pod, now), now)

    def close(self, pod: Object, old: Object, now: datetime) -> None:
        """Records the end of a pod. Call it within the transaction that removes `pod`."""
        life = _life(pod, now)
        if life.ended is None:
            life = msgspec.structs.replace(life, phase="Deleted", ended=now.timestamp(), deleted=True)
        self._update(pod, life, now)

    def _insert(self, pod: Object, now: datetime) -> None:
        meta = pod["metadata"]
        labels = meta.get("labels") or {}
        values = {
            "uid": meta["uid"],
            "namespace": meta["namespace"],
            "name": meta["name"],
            "jobset": labels.get(JOBSET_NAME, ""),
            "jobset_uid": labels.get(JOBSET_UID, ""),
            "replicated_job": labels.get(REPLICATED_JOB_NAME, ""),
            "job": labels.get(JOB_NAME, ""),
            "job_index": natural(labels.get(JOB_INDEX)),
            "completion_index": natural(
                labels.get(COMPLETION_INDEX) or (meta.get("annotations") or {}).get(COMPLETION_INDEX)
            ),
            "attempt": natural(labels.get(RESTART_ATTEMPT)) or 0,
            "node": "",
            "created": now.timestamp(),
            "phase": "Pending",
            "reason": "",
            "restarts": 0,
            "preempted": 0,
            "deleted": 0,
            "job_global_index": natural(labels.get(JOB_GLOBAL_INDEX)),
        }
        self._store.execute(
            f"INSERT OR REPLACE INTO pod_runs({', '.join(values)}) VALUES ({', '.join('?' * len(values))})",
            values.values(),
        )
        self._made += 1
        if self._made % min(1024, self._bound) == 0:
            self._store.execute(
                "DELETE FROM pod_runs WHERE uid IN (SELECT uid FROM pod_runs WHERE ended IS NOT NULL"
                " ORDER BY created LIMIT max(0, (SELECT count(*) FROM pod_runs) - ?))",
                (self._bound,),
            )

    def _update(self, pod: Object, life: "_Life", now: datetime) -> None:
        self._store.execute(
            "UPDATE pod_runs SET node = ?, bound = coalesce(bound, ?), started = coalesce(started, ?),"
            " ended = coalesce(ended, ?), phase = ?, exit_code = ?, reason = ?, restarts = ?, preempted = ?,"
            " deleted = ? WHERE uid = ?",
            (
                life.node,
                now.timestamp() if life.node else None,
                life.started,
                life.ended,
                life.phase,
                life.exit_code,
                life.reason,
                life.restarts,
                life.preempted,
                life.deleted,
                pod["metadata"]["uid"],
            ),
        )

    def _columns(self) -> list[str]:
        """The columns that the table has; none if there is no table.

        A process that only reads may find a table of an earlier version.
        """
        there = {name for _, name, *_ in self._store.execute("PRAGMA table_info(pod_runs)")}
        return [name for name in _COLUMNS if name in there]


class _Life(msgspec.Struct, frozen=True, gc=False):
    """The part of a run that changes."""

    node: str
    phase: str
    started: float | None
    ended: float | None
    exit_code: int | None
    reason: str
    restarts: int
    preempted: bool
    deleted: bool


def _changed(pod: Object, old: Object) -> bool:
    return pod.get("status") != old.get("status") or pod["spec"].get("nodeName") != old["spec"].get(
        "nodeName"
    )


def _life(pod: Object, now: datetime) -> _Life:
    status = pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    containers = status.get("containerStatuses") or []
    states = [state for c in containers for state in (c.get("state") or {}, c.get("lastState") or {})]
    parts = [part for state in states for part in (state.get("running"), state.get("terminated")) if part]
    starts = [begun for part in parts if (begun := _seconds(part, "startedAt"))]
    ended_states = [
        state["terminated"] for c in containers if (state := c.get("state") or {}).get("terminated")
    ]
    failed = [t for t in ended_states if t.get("exitCode")]
    failed.sort(key=lambda t: _seconds(t, "finishedAt") or 0)
    started = min(starts, default=None)
    if started is None and phase == "Running":
        started = now.timestamp()
    ended = None
    if phase in ("Succeeded", "Failed"):
        ended = max((s for t in ended_states if (s := _seconds(t, "finishedAt"))), default=now.timestamp())
    first = failed[0] if failed else None
    return _Life(
        node=pod["spec"].get("nodeName") or "",
        phase=phase,
        started=started,
        ended=ended,
        exit_code=first["exitCode"] if first else 0 if ended_states else None,
        reason=status.get("reason") or (first or {}).get("reason") or "",
        restarts=sum(c.get("restartCount", 0) for c in containers),
        preempted=any(
            c["type"] == PREEMPTED and c["status"] == "True" for c in status.get("conditions") or ()
        ),
        deleted=ended is not None and _told_to_end(pod["metadata"], ended),
    )


def _told_to_end(meta: Object, ended: float) -> bool:
    """Whether the pod was being deleted when it ended. deletionTimestamp is the end of the grace period."""
    due = _seconds(meta, "deletionTimestamp")
    return due is not None and ended >= due - (meta.get("deletionGracePeriodSeconds") or 0)


def _seconds(state: Object, field: str) -> float | None:
    text = state.get(field)
    return msgspec.convert(text, datetime).timestamp() if text else None
