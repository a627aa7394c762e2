"""Ending a job from outside: its objects are deleted, and with them its pods."""

import asyncio
from contextlib import suppress

from muster.api import kinds
from muster.api.core_v1 import Pod
from muster.app.jobs import JobView
from muster.kube.client import Client
from muster.kube.errors import NotFound


async def cancel(client: Client, view: JobView, *, at_once: bool = False) -> None:
    """Returns when the deletion has been accepted; pods end with their grace after that, or at once."""
    with suppress(NotFound):  # somebody else was quicker
        await client.delete(
            view.kind, view.namespace, view.name, uid=view.resource.metadata.uid, propagation="Background"
        )
    if at_once or view.kind in (kinds.POD_GROUP_X, kinds.POD_GROUP_SIGS):
        await asyncio.gather(*(_delete_pod(client, pod, 0 if at_once else None) for pod in view.pods))


async def _delete_pod(client: Client, pod: Pod, grace_period: int | None) -> None:
    with suppress(NotFound):
        await client.delete(
            kinds.POD,
            pod.metadata.namespace,
            pod.metadata.name,
            uid=pod.metadata.uid,
            grace_period=grace_period,
        )
