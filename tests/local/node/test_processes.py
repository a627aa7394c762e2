"""A container's process, from its start to its end."""

import asyncio
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from muster.local.node import processes
from muster.local.node.isolation import WRAPPER, Files
from tests.local.node.conftest import PATIENCE

#: A wrapper whose set-up has a process that minds no SIGTERM, and ends once `go` is there.
SCRIPT = """
sh -c 'trap : TERM; true >began; until test -e go; do sleep 0.01; done'
true >ready
sleep 1000
echo $? >exit
"""


async def test_a_process_stopped_during_set_up_gets_the_signal_as_soon_as_it_runs(tmp_path: Path) -> None:
    files = Files(tmp_path)
    os.mkfifo(files.output)
    reader = os.open(files.output, os.O_RDONLY | os.O_NONBLOCK)
    argv = ["sh", "-c", f"cd {tmp_path}; {SCRIPT}", WRAPPER]
    process = processes.start(argv, dict(os.environ), files, namespaces=False)
    try:
        async with asyncio.timeout(PATIENCE):
            while not (tmp_path / "began").exists():  # noqa: ASYNC110  # a shell sends no events
                await asyncio.sleep(0.01)
            ending = asyncio.create_task(process.terminate(grace=1000))
            await asyncio.sleep(0)  # it has looked for a process to signal
            (tmp_path / "go").touch()
            await ending
    finally:
        await process.kill()
        os.close(reader)
    assert processes.recorded_exit(files) == 128 + 15


def test_no_end_is_recorded_before_it_came(tmp_path: Path) -> None:
    assert processes.recorded_end(Files(tmp_path)) is None
    for number in range(50):  # some of them late in a tick of the clock that dates files
        files = Files(tmp_path / str(number))
        files.directory.mkdir()
        came = datetime.now(UTC)
        subprocess.run(["sh", "-c", f"echo 0 >{files.exit}"], check=True)
        recorded = processes.recorded_end(files)
        assert recorded is not None
        assert came <= recorded <= datetime.now(UTC) + timedelta(seconds=2 * processes.COARSE)
