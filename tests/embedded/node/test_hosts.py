"""The hosts file: seen by readers at any moment, and by a muster that starts again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.embedded.node import hosts
from muster.embedded.node.hosts import BLOCK, GRAIN, QUARANTINE, HostsTable
from tests.patience import PATIENCE
from tests.processes import started
from tests.tiers import examples


class Time:
    """Monotonic seconds that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def seen(path: Path) -> dict[str, str]:
    """name → address, as any resolver reads it."""
    found: dict[str, str] = {}
    for line in path.read_text().splitlines():
        words = line.partition("#")[0].split()
        for name in words[1:]:
            found.setdefault(name, words[0])
    return found


def test_records_come_change_and_go(tmp_path: Path) -> None:
    table = HostsTable(tmp_path / "hosts", Time())
    table.set("a", "127.1.0.1", ["a.sub.ns.svc.cluster.local", "a.sub"])
    table.set("b", "127.1.0.2", ["b.sub"])
    assert seen(table.path) == {
        "localhost": "127.0.0.1",
        "a.sub.ns.svc.cluster.local": "127.1.0.1",
        "a.sub": "127.1.0.1",
        "b.sub": "127.1.0.2",
    }
    table.set("a", "127.1.0.3", ["a.sub"])
    table.drop("b")
    table.drop("never there")
    assert seen(table.path) == {"localhost": "127.0.0.1", "a.sub": "127.1.0.3"}


def test_room_is_used_again_only_after_a_while(tmp_path: Path) -> None:
    clock = Time()
    table = HostsTable(tmp_path / "hosts", clock)
    table.set("a", "127.1.0.1", ["a"])
    size = table.path.stat().st_size
    table.drop("a")
    table.set("b", "127.1.0.2", ["b"])
    assert table.path.stat().st_size > size
    size = table.path.stat().st_size
    clock.now += QUARANTINE
    table.set("c", "127.1.0.3", ["c"])
    assert table.path.stat().st_size == size
    assert seen(table.path)["c"] == "127.1.0.3"


def test_a_restart_keeps_what_is_claimed_and_drops_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    first = HostsTable(path, Time())
    first.set("a", "127.1.0.1", ["a"])
    first.set("b", "127.1.0.2", ["b"])
    first.close()
    inode = path.stat().st_ino
    second = HostsTable(path, Time())
    second.set("a", "127.1.0.1", ["a"])
    assert seen(path) == {"localhost": "127.0.0.1", "a": "127.1.0.1", "b": "127.1.0.2"}
    second.drop_unclaimed()
    assert seen(path) == {"localhost": "127.0.0.1", "a": "127.1.0.1"}
    assert path.stat().st_ino == inode, "running pods hold on to the inode"


def test_a_half_written_record_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    HostsTable(path, Time()).set("a", "127.1.0.1", ["a"])
    with path.open("ab") as file:
        file.write(b"#27.1.0.9 half")
    table = HostsTable(path, Time())
    table.set("b", "127.1.0.2", ["b"])
    table.drop_unclaimed()
    assert seen(path) == {"localhost": "127.0.0.1", "b": "127.1.0.2"}


names = st.text("abcdefgh-", min_size=1, max_size=63)
steps = st.lists(
    st.tuples(st.integers(0, 5), st.lists(names, min_size=1, max_size=5, unique=True) | st.none())
)


@given(steps=steps)
@settings(max_examples=examples(50), deadline=None)
def test_the_file_is_the_dictionary(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, list[str] | None]]
) -> None:
    path = tmp_path_factory.mktemp("hosts") / "hosts"
    clock = Time()
    table = HostsTable(path, clock)
    expected: dict[str, str] = {}
    for number, found in steps:
        key, address = str(number), f"127.1.0.{number}"
        if found is None:
            table.drop(key)
            expected.pop(key, None)
        else:
            table.set(key, address, found)
            expected[key] = " ".join([address, *found])
        clock.now += 1
        content = path.read_bytes()
        live = sorted(line.rstrip().decode() for line in content.splitlines() if line.startswith(b"1"))
        assert live == sorted(["127.0.0.1 localhost", *expected.values()])
        offset = 0
        for line in content.splitlines(keepends=True):
            assert len(line) % GRAIN == 0
            assert offset // BLOCK == (offset + len(line) - 1) // BLOCK, "a record crosses a block"
            offset += len(line)


READER = """
import os, sys
whole = {f"127.1.0.{n} {'x' * n}.sub.ns.svc.cluster.local {'x' * n}.sub" for n in range(1, 60)}
whole |= {"127.0.0.1 localhost"}
while True:
    with open(sys.argv[1], "rb", buffering=0) as file:
        text = b""
        while block := file.read(4096):
            text += block
    for line in text.decode().splitlines():
        line = line.partition("#")[0].rstrip()
        if line and line not in whole:
            sys.exit(f"half of a record: {line!r}")
    os.write(1, b".")
    if b"the-end" in text:
        sys.exit(0)
"""


def test_a_reader_never_sees_half_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process reads block by block, as libc does, while records come and go as fast as they can.

    Time is how often it has read the file, so a read that was under way is over after two, however long.
    """
    monkeypatch.setattr(hosts, "QUARANTINE", 2.0)
    clock = Time()
    table = HostsTable(tmp_path / "hosts", clock)
    with started([sys.executable, "-c", READER, str(table.path)], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        for turn in range(10_000):
            number = turn % 59 + 1
            if number == 1:
                clock.now += len(os.read(reader.stdout.fileno(), 2**16))
            if turn // 59 % 2 == 0:
                base = "x" * number + ".sub"
                table.set(str(number), f"127.1.0.{number}", [f"{base}.ns.svc.cluster.local", base])
            else:
                table.drop(str(number))
        with table.path.open("ab") as file:
            file.write(b"#the-end\n")
        assert reader.wait(PATIENCE) == 0
    assert table.path.stat().st_size < 2**16, "room was used again"
