"""The journal of a scheduler on a real API server: bounded, and each file that is left can be replayed."""

import asyncio
import subprocess
import sys
from pathlib import Path

from muster.api.kinds import NODE
from muster.journal import Snapshot, previous, read
from tests.cluster.conftest import Cluster
from tests.cluster.gangs import bound, gang
from tests.patience import CLUSTER

LIMIT = 2**20


async def test_a_journal_without_its_beginning_is_replayed_after_rotations_and_a_crash(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = tmp_path / "journal" / "scheduler.jsonl"
    cluster.muster("fake-nodes", "8 x name=noted,cpu=8,memory=8Gi,label:test=noted")
    options = ("--journal", str(path), "--journal-size", "1Mi")
    scheduler = cluster.daemon("scheduler", 0, *options)
    cluster.daemon("controllers")
    await gang(cluster, "waits", 80, test="noted")
    rotations, number = 0, 0

    async def nodes_there() -> bool:
        return len((await cluster.client.list(NODE, labels="test=noted")).items) == 8

    await cluster.until("nodes", nodes_there)

    async def rotated_again() -> bool:
        """Starts a gang, and changes each node: every change is an event of some kilobytes."""
        nonlocal number, rotations
        before, _ = of(path)
        number += 1
        if number % 8 == 0:
            await gang(cluster, f"starts-{number}", 2, "10m", test="noted")
        labels = {f"label-{i}": f"{number}{'x' * 60}"[:60] for i in range(40)}
        await asyncio.gather(
            *(
                cluster.client.patch(NODE, "", f"noted-{i}", {"metadata": {"labels": labels}})
                for i in range(8)
            )
        )
        after, size = of(path)
        rotations += before > 0 and after > 0 and after != before
        return rotations >= 3 and size > 0

    await cluster.until("the journal was rotated three times", rotated_again, 0.0)
    scheduler.kill()
    scheduler.wait()
    replayed(path)
    scheduler = cluster.daemon("scheduler", 0, *options)
    await gang(cluster, "after", 2, "10m", test="noted")

    async def starts() -> bool:
        return await bound(cluster, "after") == 2

    await cluster.until("the next scheduler starts gangs", starts)
    scheduler.kill()
    scheduler.wait()
    replayed(path)


def of(path: Path) -> tuple[int, int]:
    """Inode and bytes of the file; 0 if there is none, as between its renaming and the next one."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_ino, found.st_size


def replayed(path: Path) -> None:
    """Each file is replayed alone by a process of its own, and both together. Nothing may write to them."""
    copies = []
    for number, file in enumerate((previous(path), path)):
        assert file.stat().st_size <= LIMIT
        copies.append(path.parent / f"{number}.copy")
        copies[-1].write_bytes(file.read_bytes())
        assert isinstance(next(read(copies[-1])).what, Snapshot)
    whole = path.parent / "whole"
    previous(whole).write_bytes(copies[0].read_bytes())
    whole.write_bytes(copies[1].read_bytes())
    for copy in (*copies, whole):
        done = subprocess.run(
            [sys.executable, "-m", "muster", "replay", str(copy)],
            capture_output=True,
            text=True,
            timeout=CLUSTER,
        )
        print(done.stdout)
        assert (done.returncode, done.stderr) == (0, "")
        assert "all the same" in done.stdout
