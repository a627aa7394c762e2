import asyncio
import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from muster.embedded.storage import store as module
from muster.embedded.storage.store import MAX_OBJECT, Store, StoreError
from muster.kube.errors import Expired, MethodNotAllowed, ServerError, TooLarge
from tests.processes import started


def write(store: Store, name: str, value: object = 1, kind: str = "things") -> bytes:
    with store.transaction():
        obj = {"metadata": {"name": name}, "value": value}
        return store.put(kind, "ns", name, obj, store.get(kind, "ns", name))


def remove(store: Store, name: str) -> None:
    with store.transaction():
        body = store.get("things", "ns", name)
        assert body is not None
        store.remove("things", "ns", name, msgspec.json.decode(body), body)


def names(store: Store, revision: int, kind: str = "things") -> list[str]:
    return [event.name for event in store.since(kind, revision, 1000)]


def test_each_write_has_the_next_revision_and_carries_it() -> None:
    store = Store(":memory:")
    assert b'"resourceVersion":"1"' in write(store, "a")
    assert b'"resourceVersion":"2"' in write(store, "b")
    assert store.revision == 2


def test_writes_are_there_when_the_file_is_opened_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.db")
    body = write(store, "a")
    write(store, "b")
    remove(store, "b")
    store.close()
    store = Store(tmp_path / "store.db")
    assert store.get("things", "ns", "a") == body
    assert store.get("things", "ns", "b") is None
    assert store.revision == 3
    assert [(e.name, e.previous is None, e.deleted) for e in store.since("things", 0, 10)] == [
        ("a", True, False),
        ("b", True, False),
        ("b", False, True),
    ]
    store.close()


def test_a_transaction_that_fails_leaves_nothing() -> None:
    store = Store(":memory:")
    write(store, "a")

    def fail() -> None:
        with store.transaction():
            store.put("things", "ns", "b", {"metadata": {}}, None)
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        fail()
    assert store.get("things", "ns", "b") is None
    assert store.revision == 1
    assert names(store, 0) == ["a"]
    assert b'"resourceVersion":"2"' in write(store, "c")


def test_a_transaction_within_another_that_fails_is_undone_alone() -> None:
    store = Store(":memory:")

    def fail() -> None:
        with store.transaction():
            write(store, "b")
            with store.transaction():
                write(store, "c")
            raise RuntimeError("half way")

    with store.transaction():
        write(store, "a")
        with pytest.raises(RuntimeError):
            fail()
        assert store.revision == 1
        write(store, "d")
    assert [event.name for event in store.since("things", 0, 9)] == ["a", "d"]
    assert [name for _, name, _ in store.scan("things")] == ["a", "d"]
    assert b'"resourceVersion":"2"' in (store.get("things", "ns", "d") or b"")


def test_an_object_beyond_the_limit_is_refused_with_its_size() -> None:
    store = Store(":memory:")
    with pytest.raises(TooLarge, match=rf"has 15\d{{5}} bytes, limit is {MAX_OBJECT}"):
        write(store, "a", "x" * MAX_OBJECT)
    assert store.revision == 0


@pytest.mark.parametrize(("events", "size"), [(20, 10**6), (10**6, 1500)])
def test_history_is_bounded_on_disk(tmp_path: Path, events: int, size: int) -> None:
    store = Store(tmp_path / "s", buffered_events=4, history_events=events, history_bytes=size)
    for number in range(100):
        write(store, f"n{number}")
        assert store.execute("SELECT count(*) FROM events").fetchone()[0] <= 30
    assert store.compacted > 60
    with pytest.raises(Expired):
        store.since("things", store.compacted - 1, 10)
    kept = store.since("things", store.compacted, 1000)
    assert [event.revision for event in kept] == list(range(store.compacted + 1, 101))
    compacted = store.compacted
    store.close()
    store = Store(tmp_path / "s", history_events=events, history_bytes=size)
    assert (store.revision, store.compacted) == (100, compacted)
    assert store.count("things") == 100
    store.close()


def test_the_newest_change_stays_because_it_carries_the_counter(tmp_path: Path) -> None:
    store = Store(tmp_path / "s", history_bytes=10)
    write(store, "a")
    write(store, "b")
    store.close()
    store = Store(tmp_path / "s")
    assert store.revision == 2
    store.close()


def test_changes_beyond_the_memory_bound_are_read_from_disk() -> None:
    store = Store(":memory:", buffered_events=3)
    for number in range(10):
        write(store, f"n{number}")
    assert names(store, 0) == [f"n{number}" for number in range(10)]
    assert names(store, 8) == ["n8", "n9"]


async def test_waiting_ends_with_the_next_change_of_the_kind_only() -> None:
    store = Store(":memory:")
    waiting = asyncio.ensure_future(store.changed("things"))
    await asyncio.sleep(0)
    write(store, "a", kind="others")
    await asyncio.sleep(0)
    assert not waiting.done()
    write(store, "a")
    await waiting


async def test_waiting_ends_when_the_store_is_closed() -> None:
    store = Store(":memory:")
    waiting = asyncio.ensure_future(store.changed("things"))
    await asyncio.sleep(0)
    store.close()
    await waiting
    await store.changed("things")


def test_there_is_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.embedded.storage.store.PATIENCE", 0.05)
    store = Store(tmp_path / "store.db")
    with pytest.raises(StoreError, match=rf"in use by process {os.getpid()}"):
        Store(tmp_path / "store.db")
    store.close()
    Store(tmp_path / "store.db").close()


def test_a_lock_that_a_killed_owner_left_to_its_child_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = os.open(tmp_path / "store.db.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    # the child lets go while we wait
    monkeypatch.setattr("muster.embedded.storage.store.time.sleep", lambda seconds: os.close(held))
    Store(tmp_path / "store.db").close()


def test_no_other_user_can_read_it(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch(0o644)  # as an earlier muster made it
    store = Store(tmp_path / "store.db")
    write(store, "a")
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("store.db", "store.db-wal", "store.db-shm", "store.db.lock"), 0o600)
    store.close()


def test_each_owner_raises_the_epoch(tmp_path: Path) -> None:
    epochs = []
    for _ in range(3):
        store = Store(tmp_path / "store.db")
        epochs.append(store.epoch)
        store.close()
    assert epochs == [1, 2, 3]


def test_reading_needs_no_ownership_and_cannot_write(tmp_path: Path) -> None:
    owner = Store(tmp_path / "store.db")
    body = write(owner, "a")
    for _ in ("while it is hosted", "when no process hosts it"):
        reader = Store.open_read_only(tmp_path / "store.db")
        assert reader.get("things", "ns", "a") == body
        assert (reader.epoch, reader.revision) == (1, 1)
        with pytest.raises(MethodNotAllowed, match="reading only"):
            write(reader, "b")
        reader.close()
        owner.close()


def test_reading_a_store_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        Store.open_read_only(tmp_path / "store.db")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("damage", ["foreign bytes", "foreign database", "cut", "garbled", "other format"])
def test_a_file_that_is_damaged_or_not_ours_gives_one_clear_error(
    tmp_path: Path, damage: str, read_only: bool
) -> None:
    path = tmp_path / "store.db"
    store = Store(path)
    for number in range(200):
        write(store, f"n{number}", "x" * 500)
    store.close()
    if damage == "foreign bytes":
        path.write_bytes(b"PK\3\4 this is no database" * 100)
    elif damage == "foreign database":
        path.unlink()
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE recipes(name)")
        other.close()
    elif damage == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif damage == "garbled":
        content = bytearray(path.read_bytes())
        content[8192:65536] = b"\xa5" * (65536 - 8192)
        path.write_bytes(content)
    else:
        with sqlite3.connect(path) as other:
            other.execute("PRAGMA user_version = 99")
        other.close()
    with pytest.raises(StoreError, match=r"store\.db is not a usable muster store: .*; move it away"):
        Store(path, _read_only=read_only)
    path.unlink()
    Store(path).close()  # the lock was given back


def test_a_full_disk_refuses_the_write_and_loses_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    write(store, "a")
    pages = store.execute("PRAGMA page_count").fetchone()[0]
    store.execute(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(ServerError, match="disk is full"):
        write(store, "b", "x" * 100_000)
    assert store.revision == 1
    store.execute("PRAGMA max_page_count = 100000")
    write(store, "b", "x" * 100_000)
    assert names(store, 0) == ["a", "b"]
    store.close()


WRITER = """
import sys
from muster.embedded.storage.store import Store
store = Store(sys.argv[1], history_events=64)
number = 0
while True:
    name = f"n{number % 50}"
    with store.transaction():
        store.put("things", "ns", name, {"metadata": {}, "value": number}, store.get("things", "ns", name))
    sys.stdout.write(f"{number} {store.revision}\\n")
    sys.stdout.flush()
    number += 1
"""


@pytest.mark.parametrize("acknowledged", [1, 70, 700])
def test_kill_9_loses_no_acknowledged_write(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "store.db"
    argv = [sys.executable, "-c", WRITER, str(path)]
    with started(argv, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(acknowledged):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read()
    complete = [line for line in rest.splitlines(keepends=True) if line.endswith("\n")]
    store = Store(path)
    last = acknowledged - 1 + len(complete)
    assert store.revision - 1 in (last, last + 1)  # one more may have been committed and not told
    assert store.epoch == 2
    for name in range(min(50, last + 1)):
        newest = last - (last - name) % 50
        body = store.get("things", "ns", f"n{name}")
        assert body is not None
        assert msgspec.json.decode(body)["value"] in (newest, newest + 50)
    assert names(store, store.revision - 1) == [f"n{(store.revision - 1) % 50}"]
    store.close()


@pytest.mark.parametrize(
    ("free", "told"),
    [(0, "its disk is full: free 1 MiB there, or let muster: muster prune"), (10**9, "I/O error")],
)
def test_a_store_that_cannot_be_opened_says_whether_its_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, told: str
) -> None:
    class Disk:
        f_bavail, f_frsize = free, 1

    monkeypatch.setattr(os, "statvfs", lambda path: Disk)
    error = module._unusable(str(tmp_path / "store.sqlite"), sqlite3.OperationalError("disk I/O error"))
    assert "cannot open the store" in str(error)
    assert told in str(error)
    assert ("full" in str(error)) is (free == 0)
