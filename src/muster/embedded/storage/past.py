"""The last states of deleted jobs, kept as long as the logs of their pods.

`list --all`, `get` and `why` read them. An entry is written in the transaction that removes the object, so a
job is either in the store or here. Jobs are JobSets, Jobs, PodGroups, and pods that belong to none of these.
"""

import zlib
from datetime import datetime
from typing import Final

import msgspec

from muster.api import groups, kinds
from muster.api.base import Object
from muster.embedded.api_errors import AnyKind
from muster.embedded.node.logs import TOTAL_SECONDS
from muster.embedded.storage.store import Store

#: Most jobs kept; the oldest are removed first. They are counted once in a number of removals.
JOBS: Final = 1_000
_COUNTED: Final = 64
#: Most bytes of a job, compressed. Of a larger job only metadata and status are kept.
_LARGEST: Final = 64 * 1024
#: Seconds for which jobs are kept: as long as logs.
KEPT: Final = TOTAL_SECONDS
#: Kinds that count as a job, in no particular order.
_JOBS: Final = tuple(groups.BY_KIND)
#: Kinds of jobs that make Jobs. A Job of a CronJob, or the JobSet of a BatchJob, is a job itself.
_CONTROLLERS: Final = {(kind.api_version, kind.kind) for kind in _JOBS}


class Deleted(msgspec.Struct, frozen=True):
    """A job as it was when it was removed."""

    kind: AnyKind
    namespace: str
    name: str
    #: the object as JSON
    body: bytes
    #: time of the removal, in seconds since 1970
    at: float

    @property
    def created(self) -> datetime | None:
        return self.meta.creation_timestamp

    @property
    def meta(self) -> "_Meta":
        return msgspec.json.decode(self.body, type=_Made).metadata


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    creation_timestamp: datetime | None = None
    uid: str = ""
    annotations: dict[str, str] = {}


class _Made(msgspec.Struct, frozen=True):
    """The part of an object that says when it was created."""

    metadata: _Meta


class Past:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._removed = 0  # removals since jobs were last counted
        if not store.read_only:
            store.execute(
                "CREATE TABLE IF NOT EXISTS past_jobs"
                "(uid TEXT PRIMARY KEY, api_version, kind, namespace, name, removed, body)"
            )

    def close(self, kind: AnyKind, obj: Object, now: datetime) -> None:
        """Keeps `obj` if it is a job. Call it within the transaction that removes `obj`, of any kind."""
        if kind not in _JOBS or not _is_job(kind, obj):
            return
        meta = obj["metadata"]
        row = (
            meta["uid"],
            kind.api_version,
            kind.kind,
            meta["namespace"],
            meta["name"],
            now.timestamp(),
            _packed(obj),
        )
        self._store.execute("INSERT OR REPLACE INTO past_jobs VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        self._removed += 1
        if self._removed % _COUNTED == 1:
            self._store.execute(
                "DELETE FROM past_jobs WHERE removed < ? OR uid IN"
                " (SELECT uid FROM past_jobs ORDER BY removed DESC LIMIT -1 OFFSET ?)",
                (now.timestamp() - KEPT, JOBS),
            )

    def jobs(self, namespace: str = "", prefix: str = "") -> list[Deleted]:
        """Deleted jobs whose names begin with `prefix`, in order of removal. `namespace` "" means all."""
        if not self._store.execute("SELECT 1 FROM sqlite_master WHERE name = 'past_jobs'").fetchall():
            return []
        rows = self._store.execute(
            "SELECT api_version, kind, namespace, name, body, removed FROM past_jobs"
            " WHERE ? IN ('', namespace) AND substr(name, 1, ?) = ? ORDER BY removed, name",
            (namespace, len(prefix), prefix),
        )
        return [
            Deleted(kinds.BY_NAME[version, kind], namespace, name, zlib.decompress(body), removed)
            for version, kind, namespace, name, body, removed in rows
        ]


def _packed(obj: Object) -> bytes:
    packed = zlib.compress(msgspec.json.encode(obj), 1)
    if len(packed) > _LARGEST:
        rest = {key: obj[key] for key in ("apiVersion", "kind", "metadata", "status") if key in obj}
        packed = zlib.compress(msgspec.json.encode(rest), 1)
    return packed


def _is_job(kind: AnyKind, obj: Object) -> bool:
    meta = obj["metadata"]
    for owner in meta.get("ownerReferences") or ():
        above = owner.get("apiVersion"), owner.get("kind")
        if owner.get("controller") and (kind is kinds.POD or above in _CONTROLLERS):
            return False
    return kind is not kinds.POD or groups.named_in(obj) is None
