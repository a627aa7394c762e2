"""The hosts file of a Kubernetes namespace, changed in place while running pods read it.

Each pod has the file bound over /etc/hosts. A bind mount keeps the inode, so pods would never see a new file
that is renamed over the old one; and they would see a file that is rewritten in place half written. The file
is therefore a table of records, and each change takes effect with **one byte**:

- A record is one line, padded with blanks to a multiple of 64 bytes, that never crosses a 4096-byte
  block: readers read whole blocks.
- It is written as a comment, `#27.1.2.3 name …`; then its first byte is set to that of the address.
- It is removed by setting its first byte to `#`. Its room is used again for a record of the same size,
  but not at once: a reader that was interrupted in the middle of the old record must finish first.

A reader therefore sees each record either whole or as a comment, at any moment. Changing the names of one pod
costs one short write, however long the file is. The file is the only storage: after a restart of muster its
records are read back, and the running pods still see the same inode.
"""

import os
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BLOCK: Final = 4096
GRAIN: Final = 64
#: Seconds before the room of a removed record is used again.
QUARANTINE: Final = 5.0
_DEAD: Final = b"#"
_LOCAL: Final = {"localhost": "127.0.0.1"}


@dataclass(slots=True)
class _Room:
    """Bytes of the file for one record."""

    offset: int
    size: int
    line: str
    free_since: float = 0.0


class HostsTable:
    """The records of a hosts file: one per key, as in a dictionary."""

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        """`now` returns monotonic seconds. Raises OSError."""
        self.path = path
        self._now = now
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._records: dict[str, _Room] = {}
        self._free: defaultdict[int, deque[_Room]] = defaultdict(deque)  # by size, longest free first
        self._unclaimed, self._size = self._read_back()
        for name, address in _LOCAL.items():
            self.set(name, address, [name])

    def set(self, key: str, address: str, names: Iterable[str]) -> None:
        """Sets the record of `key`. Raises OSError if the disk is full; the record is then unchanged."""
        line = " ".join([address, *names])
        old = self._records.get(key)
        if old is not None and old.line == line:
            return
        known = self._unclaimed.pop(line, None)
        self._records[key] = self._write(line) if known is None else known
        if old is not None:
            self._remove(old)

    def records(self) -> Iterator[tuple[str, str, list[str]]]:
        """All records: key, address, names."""
        for key, record in self._records.items():
            address, *names = record.line.split()
            yield key, address, names

    def drop(self, key: str) -> None:
        record = self._records.pop(key, None)
        if record is not None:
            self._remove(record)

    def drop_unclaimed(self) -> None:
        """Removes the records that an earlier muster wrote and no key has claimed since."""
        while self._unclaimed:
            self._remove(self._unclaimed.popitem()[1])

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, line: str) -> _Room:
        text = line.encode()
        size = -(-(len(text) + 1) // GRAIN) * GRAIN
        if size > BLOCK:
            raise ValueError(f"a hosts record of {size} bytes: names are too long or too many")
        room = self._take(size, line)
        padded = text.ljust(size - 1) + b"\n"
        self._write_at(_DEAD + padded[1:], room.offset)
        self._write_at(padded[:1], room.offset)
        return room

    def _take(self, size: int, line: str) -> _Room:
        """Room that has been free for long enough, else new room at the end of the file."""
        free = self._free[size]
        if free and self._now() - free[0].free_since >= QUARANTINE:
            return _Room(free.popleft().offset, size, line)
        rest = BLOCK - self._size % BLOCK
        if rest < size:
            self._write_at(_DEAD + b" " * (rest - 2) + b"\n", self._size)
            self._free[rest].append(_Room(self._size, rest, "", self._now()))
            self._size += rest
        self._size += size
        return _Room(self._size - size, size, line)

    def _remove(self, room: _Room) -> None:
        self._write_at(_DEAD, room.offset)
        room.free_since = self._now()
        self._free[room.size].append(room)

    def _write_at(self, content: bytes, offset: int) -> None:
        if os.pwrite(self._fd, content, offset) != len(content):
            raise OSError(f"{self.path}: short write")  # only a full disk does that

    def _read_back(self) -> tuple[dict[str, _Room], int]:
        """The records of the file, and its end; a record that a crash left half written is free room."""
        records: dict[str, _Room] = {}
        offset = 0
        for raw in self.path.read_bytes().splitlines(keepends=True):
            if len(raw) % GRAIN or not raw.endswith(b"\n"):
                break
            line = raw.decode(errors="replace").rstrip()
            room = _Room(offset, len(raw), line)
            if not raw.startswith(_DEAD) and line not in records:
                records[line] = room
            else:
                self._remove(room)
            offset += len(raw)
        os.ftruncate(self._fd, offset)
        return records, offset
