"""`kill -9` of the process that hosts the agent, and a fresh start on the same state."""

import asyncio
import subprocess
import sys
from pathlib import Path

from muster.api.kinds import POD
from muster.embedded.node.isolation import Isolation
from muster.embedded.storage.store import Store, StoreError
from tests.embedded.node.conftest import HERE, Cluster, marked_processes
from tests.patience import PATIENCE
from tests.processes import started

HOST = """
import asyncio, sys
from pathlib import Path
from muster.embedded.node.isolation import Isolation
from muster.embedded.storage.store import Store
from tests.embedded.node.conftest import HERE, Cluster

async def main():
    root = Path(sys.argv[1])
    isolation = Isolation(sys.argv[2] == "True", sys.argv[3] == "True")
    cluster = Cluster(root, isolation, [HERE], None, Store(root / "store"))
    async with cluster.running():
        for number in range(5):
            wait = f"while ! [ -e {root}/release ]; do sleep 0.02; done"
            script = f"echo {number}; {wait}; echo end; exit {number}"
            await cluster.submit(f"p{number}", ["sh", "-c", script])
        for number in range(5):
            await cluster.started(f"p{number}")
        for number in range(1000):
            await cluster.submit(f"late-{number}", ["true"])
            if number == 20:
                print("up", flush=True)  # in the middle of starting others
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_nothing_is_lost_and_no_process_is_left(tmp_path: Path, isolation: Isolation) -> None:
    argv = [sys.executable, "-c", HOST, str(tmp_path), str(isolation.namespaces), str(isolation.user)]
    root = Path(__file__).parents[3]
    with started(argv, stdout=subprocess.PIPE, cwd=root) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"up\n"
    assert marked_processes(tmp_path)
    store = await _open(tmp_path / "store")
    cluster = Cluster(tmp_path, isolation, [HERE], None, store)
    async with cluster.running():
        (tmp_path / "release").touch()
        for number in range(5):
            pod = await cluster.ended(f"p{number}")
            state = pod.status.container_statuses[0].state.terminated
            assert state is not None
            assert state.exit_code == number
            assert await cluster.output(f"p{number}") == f"{number}\nend\n"
        late = 0
        while await _is_there(cluster, f"late-{late}"):
            pod = await cluster.ended(f"late-{late}")
            assert pod.status.phase == "Succeeded", pod.status
            late += 1
        assert late > 0, "the crash came before the middle"
        async with asyncio.timeout(PATIENCE):
            while marked_processes(tmp_path):  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.02)
    store.close()


async def _open(path: Path) -> Store:
    """A child that was being started holds its parent's lock until it runs its own program."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return Store(path)
            except StoreError:
                await asyncio.sleep(0.02)


async def _is_there(cluster: Cluster, name: str) -> bool:
    page = await cluster.client.list(POD, "default", fields=f"metadata.name={name}")
    return bool(page.items)
