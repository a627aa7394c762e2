"""Runs one part of muster as in a process of its own: with informers that nothing else reads."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from muster.api.base import AnyKind
from muster.kube.client import Client
from muster.kube.informers import Informers


async def informed(
    run: Callable[..., Awaitable[None]],
    client: Client,
    *args: Any,
    single: Mapping[AnyKind, str] | None = None,
    **how: Any,
) -> None:
    """`run(client, informers, *args, **how)`; Any: the arguments of a part. `single`: see `Informers`."""
    informers = Informers(client, single=single)
    watching = asyncio.create_task(informers.run())
    try:
        await run(client, informers, *args, **how)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
