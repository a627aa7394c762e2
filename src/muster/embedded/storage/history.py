"""The history of pods: one row per pod, written with the pod itself and kept after the pod is removed.

`timeline` and `logs` read it, also from a store that no process hosts. A row follows the pod's life: created
with the pod, then bound, started, ended. Times are seconds since 1970. Beyond a bound the oldest ended runs
are forgotten.
"""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import astuple, fields, replace

from muster.api import kinds
from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.embedded.storage.store import Store
from muster.kube.decode import decode
from muster.workloads.pod_run import PodRun, Progress, failure_of, progress_of, run_of

#: Most runs kept.
RUNS: Final = 100_000


_COLUMNS: Final = PodRun.__struct_fields__
#: Columns that change in a pod's life; of times the first counts.
_TIMES: Final = ("bound", "started", "ended")
_CHANGING: Final = tuple(name for name in Progress.__struct_fields__ if name not in _TIMES)
#: Columns that name the job of a run.
_JOB: Final = ("jobset", "jobset_uid", "job", "pod_group", "name")
_DEFAULTS: Final = frozenset(each.name for each in fields(PodRun) if each.default is not NODEFAULT)
_changing: Final = attrgetter(*_CHANGING)
_INSERT: Final = (
    f"INSERT OR REPLACE INTO pod_runs({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"
)
_UPDATE: Final = (
    "UPDATE pod_runs SET "
    + ", ".join([f"{name} = coalesce({name}, ?)" for name in _TIMES] + [f"{name} = ?" for name in _CHANGING])
    + " WHERE uid = ?"
)


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
        """Runs in order of creation. `job`: a JobSet's name or uid, or the name of a Job, PodGroup or pod."""
        if not job:
            return self._read(["1"], namespace)
        named = ", ".join(name for name in _JOB if name in self._columns())
        return self._read([f"? IN ({named})"], namespace, [job])

    def _read(self, where: list[str], namespace: str, values: Sequence[str] = ()) -> list[PodRun]:
        columns = self._columns()
        if not columns:
            return []
        values = list(values)
        if namespace:
            where.append("namespace = ?")
            values.append(namespace)
        rows = self._store.execute(
            f"SELECT {', '.join(columns)} FROM pod_runs WHERE {' AND '.join(where)} ORDER BY created, name",
            values,
        )
        runs = [dict(zip(columns, row, strict=True)) for row in rows]
        return [_run(run) for run in runs]

    def failed(self, namespace: str = "") -> list[PodRun]:
        """The runs that failed by themselves, or may have, in order of creation."""
        where = "phase = 'Failed'" + (
            " OR failed_code IS NOT NULL" if "failed_code" in self._columns() else ""
        )
        found = self._read([f"({where})"], namespace)
        return [run for run in found if failure_of(run) is not None]

    def record(self, pod: Object, old: Object | None, now: datetime, typed: Pod | None = None) -> None:
        """Records a pod's new state. Call it within the transaction that writes `pod`.

        `typed` is the pod as a struct if the caller has it; its metadata may be older.
        """
        if old is None:
            run = replace(
                run_of(_typed(pod), now.timestamp()), created=now.timestamp(), bound=_bound(pod, now)
            )
            self._store.execute(_INSERT, astuple(run))
            self._forget_the_oldest()
        elif pod.get("status") is not None and _changed(pod, old):
            self._update(pod, progress_of(typed or _typed(pod), now.timestamp()), now)

    def close(self, pod: Object, old: Object, now: datetime) -> None:
        """Records the end of a pod. Call it within the transaction that removes `pod`."""
        last = progress_of(_typed(pod), now.timestamp())
        if last.ended is None:
            last = replace(last, phase="Deleted", ended=now.timestamp(), deleted=True)
        self._update(pod, last, now)

    def _update(self, pod: Object, progress: Progress, now: datetime) -> None:
        times = (_bound(pod, now), progress.started, progress.ended)
        self._store.execute(_UPDATE, (*times, *_changing(progress), pod["metadata"]["uid"]))

    def _forget_the_oldest(self) -> None:
        self._made += 1
        if self._made % min(1024, self._bound) == 0:
            self._store.execute(
                "DELETE FROM pod_runs WHERE uid IN (SELECT uid FROM pod_runs WHERE ended IS NOT NULL"
                " ORDER BY created LIMIT max(0, (SELECT count(*) FROM pod_runs) - ?))",
                (self._bound,),
            )

    def _columns(self) -> list[str]:
        """The columns that the table has; none if there is no table.

        A process that only reads may find a table of an earlier version.
        """
        there = {name for _, name, *_ in self._store.execute("PRAGMA table_info(pod_runs)")}
        return [name for name in _COLUMNS if name in there]


def _run(row: dict[str, Any]) -> PodRun:  # Any: SQLite's types
    """The run of a row. A column that the table of an earlier version lacked has its default."""
    flags = {name: bool(row[name]) for name in ("preempted", "deleted")}
    known = {name: value for name, value in row.items() if value is not None or name not in _DEFAULTS}
    return PodRun(**known | flags)


def _changed(pod: Object, old: Object) -> bool:
    return pod.get("status") != old.get("status") or pod["spec"].get("nodeName") != old["spec"].get(
        "nodeName"
    )


def _bound(pod: Object, now: datetime) -> float | None:
    """A pod counts as bound since its node is first seen, which is more exact than its condition."""
    return now.timestamp() if pod["spec"].get("nodeName") else None


def _typed(pod: Object) -> Pod:
    try:
        return msgspec.convert(pod, Pod)
    except msgspec.ValidationError:  # some field cannot be read: `decode` leaves it out
        return decode(kinds.POD, msgspec.json.encode(pod))
