"""A cluster as it is now, read once."""

import asyncio

from muster.kube.client import Client
from muster.kube.listing import every
from muster.runtime.mirror import WATCHED
from muster.workloads.snapshot import Objects


async def observe(client: Client) -> Objects:
    """All objects that the scheduler would look at."""
    found = Objects()
    lists = await asyncio.gather(*(every(client, kind) for kind in WATCHED))
    for kind, items in zip(WATCHED, lists, strict=True):
        for resource in items:
            found.add(kind, resource)
    return found
