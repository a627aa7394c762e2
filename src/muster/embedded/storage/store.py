"""The objects of the embedded cluster on disk: one SQLite file, one counter, one owner.

One table holds the current state of every object, another the newest changes. Both are written in one
transaction, together with everything else that belongs to the change. The counter that numbers the changes
is every object's `resourceVersion`: the design of kine and etcd. Nothing is decoded or cached here: bodies
are JSON bytes, and SQLite's own page cache is the cache.

The file is in WAL mode with synchronous=NORMAL. A write that was acknowledged survives the death of the
process at any moment; a power cut may lose the writes since the last checkpoint, but never leaves
half of one.

A lock on `<file>.lock` ensures that there is one owner. Each owner increments the epoch, by which the
scheduler distinguishes its own writes from its predecessor's. Only the owner's user may read the files,
because they contain secrets.
"""

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import msgspec
from msgspec.structs import astuple

from muster.api.base import Object
from muster.embedded.storage.change_buffer import ChangeBuffer, Event
from muster.embedded.storage.full_disk import connected, is_full, opened_for_reading
from muster.kube.errors import Expired, MethodNotAllowed, ServerError, TooLarge

#: Largest object in bytes, as etcd's default.
MAX_OBJECT: Final = 1_572_864
#: Bounds of the changes kept on disk.
HISTORY_EVENTS, HISTORY_BYTES = 50_000, 64 * 2**20
#: Bounds of the changes kept in memory.
BUFFERED_EVENTS, BUFFERED_BYTES = 10_000, 24 * 2**20
#: Seconds to wait for an owner's lock: a process that is killed while it starts a child leaves its lock to
#: that child until the child runs its own program.
PATIENCE: Final = 1.0
#: "mstr" in the file's header, and the version of its tables.
APPLICATION, FORMAT = 0x6D737472, 1

T = TypeVar("T")
_SCHEMA: Final = (
    "CREATE TABLE counters(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    """CREATE TABLE objects(kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
       revision INTEGER NOT NULL, body BLOB NOT NULL, UNIQUE(kind, namespace, name))""",
    """CREATE TABLE events(revision INTEGER PRIMARY KEY, kind TEXT NOT NULL, namespace TEXT NOT NULL,
       name TEXT NOT NULL, body BLOB NOT NULL, previous BLOB, deleted INTEGER NOT NULL)""",
)


class StoreError(Exception):
    """The file cannot be used; the message says why and what to do."""


class Store:
    """A store that is open for writing; `open_read_only` reads one that no process hosts. For one thread."""

    def __init__(
        self,
        path: Path | str,
        *,
        history_events: int = HISTORY_EVENTS,
        history_bytes: int = HISTORY_BYTES,
        buffered_events: int = BUFFERED_EVENTS,
        buffered_bytes: int = BUFFERED_BYTES,
        _read_only: bool = False,
    ) -> None:
        self.path = str(path)
        self.read_only = _read_only
        self.closed = False
        #: how often the store has been opened for writing
        self.epoch = 0
        #: the newest change
        self.revision = 0
        #: the newest forgotten change, at which watches and snapshots can start at the earliest
        self.compacted = 0
        self._next_compacted = 0
        self._kept_events = self._kept_bytes = 0
        self._next_kept = (0, 0)
        self._history_events, self._history_bytes = history_events, history_bytes
        self._lock = None if _read_only or self.path == ":memory:" else _lock(self.path)
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = self._open()
            self._load()
        except (sqlite3.Error, StoreError, OSError) as error:
            self.close()
            raise _unusable(self.path, error) from None
        self._changes = ChangeBuffer(self.revision, buffered_events, buffered_bytes)
        self._depth = 0
        self._pending: list[Event] = []
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        #: by kind and function
        self._derived: dict[str, dict[Callable[[Store], Any], Any]] = {}
        #: called after a transaction, or a part of one, has been undone
        self.undone: list[Callable[[], None]] = []

    @classmethod
    def open_read_only(cls, path: Path | str) -> "Store":
        return cls(path, _read_only=True)

    def close(self) -> None:
        """Ends the watches and lets other processes open the file."""
        self.closed = True
        if self._connection is not None:
            self._connection.close()
        if self._lock is not None:
            self._lock.close()
        for kind in list(getattr(self, "_waiting", ())):
            self._wake(kind)

    # Reading

    def get(self, kind: str, namespace: str, name: str) -> bytes | None:
        row = self.execute(
            "SELECT body FROM objects WHERE kind = ? AND namespace = ? AND name = ?", (kind, namespace, name)
        ).fetchone()
        return row[0] if row else None

    def scan(
        self, kind: str, namespace: str = "", after: tuple[str, str] = ("", "")
    ) -> Iterator[tuple[str, str, bytes]]:
        """(namespace, name, body) in order, from the first after `after`; `namespace=""` means all."""
        where = "kind = ? AND (namespace, name) > (?, ?)" + (" AND namespace = ?" if namespace else "")
        yield from self.execute(
            f"SELECT namespace, name, body FROM objects WHERE {where} ORDER BY namespace, name",
            (kind, *after, namespace) if namespace else (kind, *after),
        )

    def count(self, kind: str, namespace: str = "", after: tuple[str, str] = ("", "")) -> int:
        where = "kind = ? AND (namespace, name) > (?, ?)" + (" AND namespace = ?" if namespace else "")
        return int(
            self.execute(
                f"SELECT count(*) FROM objects WHERE {where}",
                (kind, *after, namespace) if namespace else (kind, *after),
            ).fetchone()[0]
        )

    def since(self, kind: str, revision: int, limit: int) -> list[Event]:
        """Up to `limit` changes of `kind` after `revision`, oldest first; `Expired` if some are forgotten."""
        events = self._changes.since(kind, revision, limit)
        if events is not None:
            return events
        if revision < self.compacted:
            raise Expired(f"too old resource version: {revision} ({self.compacted})")
        rows = self.execute(
            "SELECT revision, kind, namespace, name, body, previous, deleted FROM events"
            " WHERE revision > ? AND kind = ? ORDER BY revision LIMIT ?",
            (revision, kind, limit),
        )
        return [
            Event(at, kind, namespace, name, body, previous, bool(deleted))
            for at, kind, namespace, name, body, previous, deleted in rows
        ]

    def execute(self, sql: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        """Executes one statement, for tables that share the store's transactions. `Any`: SQLite's types."""
        assert self._connection is not None
        try:
            return self._connection.execute(sql, tuple(values))
        except (sqlite3.Error, OverflowError) as error:
            raise ServerError(f"the store {self.path} failed: {error}") from error

    async def changed(self, kind: str) -> None:
        """Returns after the next commit that changes an object of `kind`, or when the store is closed."""
        if self.closed:
            return
        future = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(kind, set())
        waiting.add(future)
        try:
            await future
        finally:
            waiting.discard(future)

    def derived(self, kind: str, read: Callable[["Store"], T]) -> T:
        """`read(self)`, which depends on objects of `kind` alone; remembered until one of them changes."""
        if self.read_only:
            return read(self)  # another process may change the objects
        remembered = self._derived.setdefault(kind, {})
        if read not in remembered:
            remembered[read] = read(self)
        found: T = remembered[read]
        return found

    # Writing

    def transaction(self) -> AbstractContextManager[None]:
        """A transaction: all writes within take effect together, or none does.

        A transaction within another is part of it. If the inner one fails, it is undone alone.
        """
        if self.read_only:
            raise MethodNotAllowed(f"the store {self.path} is open for reading only")
        return _Transaction(self)

    def begin(self) -> None:
        """Begins a transaction, or a part of one; `commit` or `roll_back` ends it."""
        self.execute("SAVEPOINT part" if self._depth else "BEGIN IMMEDIATE")
        self._depth += 1

    def commit(self) -> None:
        part = self._depth > 1
        if not part:
            self._trim()
        self.execute("RELEASE part" if part else "COMMIT")
        self._depth -= 1
        if not part:
            self._publish()

    def roll_back(self, revision: int) -> None:
        """Undoes what was written since `begin`, when the store was at `revision`."""
        assert self._connection is not None
        self._depth -= 1
        self.revision = revision
        while self._pending and self._pending[-1].revision > revision:
            self._pending.pop()
        if not self._depth:
            self._next_compacted = self.compacted
        # on a full disk, or after a failed COMMIT, SQLite has rolled back all of it by itself
        if self._connection.in_transaction:
            for statement in ("ROLLBACK TO part", "RELEASE part") if self._depth else ("ROLLBACK",):
                self._connection.execute(statement)
        self._derived.clear()
        for undone in self.undone:
            undone()

    def put(self, kind: str, namespace: str, name: str, obj: Object, previous: bytes | None) -> bytes:
        """Writes `obj`, whose last state was `previous`, under the next revision; returns it encoded."""
        body = self._encode(obj)
        if previous is None:
            self.execute(
                "INSERT INTO objects VALUES (?, ?, ?, ?, ?)", (kind, namespace, name, self.revision, body)
            )
        else:
            self.execute(
                "UPDATE objects SET revision = ?, body = ? WHERE kind = ? AND namespace = ? AND name = ?",
                (self.revision, body, kind, namespace, name),
            )
        self._record(Event(self.revision, kind, namespace, name, body, previous, deleted=False))
        return body

    def remove(self, kind: str, namespace: str, name: str, obj: Object, previous: bytes) -> bytes:
        """Removes the object; `obj` is its last state, which watchers receive."""
        body = self._encode(obj)
        self.execute(
            "DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?", (kind, namespace, name)
        )
        self._record(Event(self.revision, kind, namespace, name, body, previous, deleted=True))
        return body

    def _encode(self, obj: Object) -> bytes:
        assert self._depth, "writes belong into a transaction"
        obj["metadata"]["resourceVersion"] = str(self.revision + 1)
        body = msgspec.json.encode(obj)
        if len(body) > MAX_OBJECT:
            raise TooLarge(
                f"Request entity too large: the object has {len(body)} bytes, limit is {MAX_OBJECT}"
            )
        self.revision += 1
        return body

    def _record(self, event: Event) -> None:
        self.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)",
            astuple(event),
        )
        self._pending.append(event)
        self._derived.pop(event.kind, None)

    def _trim(self) -> None:
        """Forgets the oldest changes beyond the bounds, some at a time, so that most writes need not."""
        count = self._kept_events + len(self._pending)
        size = self._kept_bytes + sum(event.size for event in self._pending)
        if count > self._history_events or size > self._history_bytes:
            enough = self._history_events - min(256, self._history_events // 8)
            enough_bytes = self._history_bytes * 15 // 16
            cut = self.compacted
            for revision, bytes_ in self.execute(
                "SELECT revision, length(body) + ifnull(length(previous), 0) FROM events"
                " WHERE revision < ? ORDER BY revision",
                (self.revision,),  # the newest stays, since it holds the counter
            ):
                if count <= enough and size <= enough_bytes:
                    break
                cut, count, size = revision, count - 1, size - bytes_
            self.execute("DELETE FROM events WHERE revision <= ?", (cut,))
            self.execute("UPDATE counters SET value = ? WHERE name = 'compacted'", (cut,))
            self._next_compacted = cut
        self._next_kept = (count, size)

    def _publish(self) -> None:
        self._kept_events, self._kept_bytes = self._next_kept
        self.compacted = self._next_compacted
        kinds = set()
        for event in self._pending:
            self._changes.append(event)
            kinds.add(event.kind)
        self._pending.clear()
        for kind in kinds:
            self._wake(kind)

    def _wake(self, kind: str) -> None:
        for future in self._waiting.pop(kind, ()):
            if not future.done():
                future.set_result(None)

    # Opening

    def _open(self) -> sqlite3.Connection:
        if self.read_only:
            if not Path(self.path).exists():
                raise StoreError("there is no such file")
            return opened_for_reading(self.path)
        if self.path != ":memory:":
            os.close(os.open(self.path, os.O_CREAT | os.O_CLOEXEC, 0o600))  # its WAL gets the same mode
            os.chmod(self.path, 0o600)
        return connected(self.path)

    def _load(self) -> None:
        assert self._connection is not None
        sql = self._connection.execute
        tables = sql("SELECT count(*) FROM sqlite_master").fetchone()[0]
        application = sql("PRAGMA application_id").fetchone()[0]
        version = sql("PRAGMA user_version").fetchone()[0]
        if tables and application != APPLICATION:
            raise StoreError("it belongs to another program")
        if tables and version != FORMAT:
            raise StoreError(f"it has format {version}, this muster reads format {FORMAT}")
        if tables and (fault := sql("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise StoreError(f"it is damaged ({fault.splitlines()[-1]})")
        if not tables and self.read_only:
            raise StoreError("it is empty")
        if not self.read_only:
            sql("PRAGMA journal_mode = WAL")
            sql("PRAGMA synchronous = NORMAL")
            sql("PRAGMA wal_autocheckpoint = 4000")
            sql("PRAGMA journal_size_limit = 67108864")
            sql("BEGIN IMMEDIATE")
            if not tables:
                for statement in _SCHEMA:
                    sql(statement)
                sql("INSERT INTO counters VALUES ('epoch', 0), ('compacted', 0)")
                sql(f"PRAGMA application_id = {APPLICATION}")
                sql(f"PRAGMA user_version = {FORMAT}")
            sql("UPDATE counters SET value = value + 1 WHERE name = 'epoch'")
            sql("COMMIT")
        counters = dict(sql("SELECT name, value FROM counters").fetchall())
        self.epoch = counters["epoch"]
        self.compacted = self._next_compacted = counters["compacted"]
        self.revision, self._kept_events, self._kept_bytes = sql(
            "SELECT ifnull(max(revision), 0), count(*),"
            " ifnull(sum(length(body) + ifnull(length(previous), 0)), 0) FROM events"
        ).fetchone()


class _Transaction:
    """A transaction of the store, or a part of one. (A generator would cost each write a microsecond.)"""

    __slots__ = ("_before", "_store")

    def __init__(self, store: Store) -> None:
        self._store, self._before = store, store.revision

    def __enter__(self) -> None:
        self._store.begin()

    def __exit__(self, type_: object, error: object, trace: object) -> None:
        store = self._store
        if type_ is None:
            try:
                store.commit()
            except BaseException:
                store.roll_back(self._before)
                raise
        else:
            store.roll_back(self._before)


def _lock(path: str) -> IO[str]:
    """Locks a file beside the store: a second lock on the store itself would interfere with SQLite's."""
    Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = open(f"{path}.lock", "a+", encoding="ascii", opener=_private)  # noqa: SIM115 - held until the end
    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except OSError:
            if time.monotonic() < end:
                time.sleep(0.01)
                continue
            file.seek(0)
            owner = file.read(20).strip()
            file.close()
            raise StoreError(f"the store {path} is in use by process {owner or 'unknown'}") from None
    file.truncate(0)
    with suppress(OSError):  # on a full disk; only the message above needs it
        os.write(file.fileno(), str(os.getpid()).encode())
    return file


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _unusable(path: str, error: Exception) -> StoreError:
    if isinstance(error, (sqlite3.OperationalError, OSError)):
        full = "; its disk is full: free 1 MiB there, or let muster: muster prune" if is_full(path) else ""
        return StoreError(f"cannot open the store {path}: {error}{full}")
    return StoreError(
        f"{path} is not a usable muster store: {error}; move it away to start with an empty one"
    )
