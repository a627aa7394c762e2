"""A cluster as it is now, read once."""

import asyncio
from collections.abc import Sequence

from muster.api.base import Resource
from muster.kube.client import Client
from muster.kube.errors import NotFound
from muster.runtime.mirror import WATCHED
from muster.runtime.writes import AnyKind
from muster.workloads.snapshot import Objects


async def observe(client: Client) -> Objects:
    """All objects that the scheduler would look at."""
    found = Objects()
    lists = await asyncio.gather(*(_list(client, kind) for kind in WATCHED))
    for kind, items in zip(WATCHED, lists, strict=True):
        for resource in items:
            found.add(kind, resource)
    return found


async def _list(client: Client, kind: AnyKind) -> Sequence[Resource]:
    try:
        return (await client.list(kind)).items
    except NotFound:  # a cluster without our kinds, or without somebody else's
        return []
