"""What the verbs have in common that change a job which is there: find it, act on it by a running cluster."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from muster.app import jobs
from muster.app.cluster import Target, acting, attached, reading
from muster.kube.client import Client

T = TypeVar("T")


def steer(
    target: Target, job: str, act: Callable[[Client, jobs.JobView], Awaitable[T]]
) -> tuple[jobs.JobView, T]:
    """The job as it was, and what `act` returned. Exactly one job must be meant."""

    async def find(client: Client) -> jobs.JobView:
        return await jobs.named(client, job, target.scope)

    async def look() -> None:
        async with reading(target) as client:
            await find(client)

    async def change() -> tuple[jobs.JobView, T]:
        async with acting(target, endpoint) as client:
            view = await find(client)
            return view, await act(client, view)

    asyncio.run(look())  # before a cluster is started for nothing
    with attached(target) as endpoint:
        return asyncio.run(change())
