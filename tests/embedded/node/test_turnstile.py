"""Many pods that are bound at once."""

import asyncio

import pytest

from muster.embedded.node import processes
from tests.embedded.node.conftest import Cluster

PODS = 12


async def test_each_start_leaves_a_turn_of_the_loop_to_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0
    started: list[int] = []
    start = processes.start

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def recorded(*arguments: object, **options: object) -> processes.Process:
        started.append(turns)
        return start(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(processes, "start", recorded)
    async with cluster.running():
        counting = asyncio.create_task(others())
        await asyncio.gather(*(cluster.submit(f"p{number}", ["true"]) for number in range(PODS)))
        for number in range(PODS):
            await cluster.ended(f"p{number}")
        counting.cancel()
    assert len(set(started)) == len(started) == PODS
