"""Finds an existing job and changes it through a running cluster: shared by the commands that do so."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from muster.app.views.find import with_run
from muster.app.views.job import JobView
from muster.app.wiring.cluster import Target, acting, attached, reading
from muster.kube.client import Client

T = TypeVar("T")


def steer(target: Target, job: str, act: Callable[[Client, JobView], Awaitable[T]]) -> tuple[JobView, T]:
    """The job before the change, and the result of `act`. The name must match exactly one job."""

    async def find(client: Client) -> JobView:
        return await with_run(client, job, target.scope)

    async def look() -> None:
        async with reading(target) as client:
            await find(client)

    async def change() -> tuple[JobView, T]:
        async with acting(target, endpoint) as client:
            view = await find(client)
            return view, await act(client, view)

    asyncio.run(look())  # looked up first, so that no cluster is started needlessly
    with attached(target) as endpoint:
        return asyncio.run(change())
