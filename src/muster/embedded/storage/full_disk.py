"""Opens the store's file, also on a disk without any space left."""

import os
import sqlite3
from contextlib import suppress
from pathlib import Path


def opened_for_reading(path: str) -> sqlite3.Connection:
    """The file, or a copy of it in memory if its disk is full and no process hosts it.

    SQLite then cannot make the index of its log, which readers share. A connection that locks the file keeps
    that index in its own memory, and needs none of the disk.
    """
    uri = Path(path).absolute().as_uri()
    connection = connected(f"{uri}?mode=ro")
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
        return connection
    except sqlite3.OperationalError:
        connection.close()
        if not is_full(path):
            raise
    locked, copy = connected(f"{uri}?mode=rw"), sqlite3.connect(":memory:", isolation_level=None)
    try:
        locked.execute("PRAGMA locking_mode = EXCLUSIVE")
        locked.backup(copy)
    finally:
        locked.close()
    return copy


def connected(where: str) -> sqlite3.Connection:
    connection = sqlite3.connect(where, uri=where.startswith("file:"), isolation_level=None)
    connection.execute("PRAGMA busy_timeout = 5000")
    return connection


def is_full(path: str) -> bool:
    """Whether SQLite cannot even make the index of its log beside the store, which takes 32 KiB."""
    with suppress(OSError):
        disk = os.statvfs(os.path.dirname(path) or ".")
        return disk.f_bavail * disk.f_frsize < 64 * 2**10
    return False
