"""Ending a job from outside: its objects are deleted, and with them its pods."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from muster.api import kinds
from muster.api.core_v1 import Pod
from muster.app.follow import Followed
from muster.kube.client import Client
from muster.kube.errors import NotFound

#: seconds between two looks at whether pods have gone
LOOK: Final = 0.1


async def cancel(client: Client, job: Followed, pods: Iterable[Pod], *, at_once: bool = False) -> None:
    """Returns when the deletion has been accepted; `pods` of the job end with their grace, or at once."""
    with suppress(NotFound):  # somebody else was quicker
        await client.delete(job.kind, job.namespace, job.name, propagation="Background")
    if at_once or job.kind in (kinds.POD_GROUP_X, kinds.POD_GROUP_SIGS):  # whose pods belong to nobody
        await asyncio.gather(*(_delete_pod(client, pod, 0 if at_once else None) for pod in pods))


async def gone(client: Client, job: Followed, pods: Iterable[Pod]) -> None:
    """Returns when nothing is left of these pods, whose grace may be long."""
    waited_for = {pod.metadata.uid for pod in pods}
    while True:
        left = (await client.list(kinds.POD, job.namespace)).items
        if waited_for.isdisjoint(pod.metadata.uid for pod in left):
            return
        await asyncio.sleep(LOOK)


async def _delete_pod(client: Client, pod: Pod, grace_period: int | None) -> None:
    meta = pod.metadata
    with suppress(NotFound):
        await client.delete(kinds.POD, meta.namespace, meta.name, uid=meta.uid, grace_period=grace_period)
