"""Hands the objects of a cluster back when muster is uninstalled: nothing waits for muster any more.

A Gang has a finalizer that muster's controllers remove, so without them Gangs, namespaces and CRDs could not
be deleted. Pods stay as they are. What only a scheduler could finish is reported: gangs that are bound in
part, and Jobs and JobSets that muster has not unsuspended.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from muster import names
from muster.api.base import Kind, Resource, mark
from muster.api.batch_v1 import Job
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.kinds import BATCH_JOB, GANG, GANG_PLAN, JOB, JOBSET, LEASE, PREEMPTION
from muster.api.muster_v1alpha1 import Gang
from muster.app.commands.change import Refused
from muster.controllers.preemptions import last_records
from muster.effects.execute import execute
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.errors import NotFound
from muster.kube.listing import list_all
from muster.runtime.election import LONGEST
from muster.runtime.plan_record import RecreationPlan, found
from muster.translate.status import Phase

Owner = TypeVar("Owner", Job, JobSet)

#: Requests under way at a time.
PARALLEL: Final = 32
#: Phases of a gang that has pods and is not complete. (A standing gang's pods may have succeeded.)
_SHORT: Final = (Phase.STARTING.value, Phase.DEGRADED.value)


@dataclass(frozen=True, slots=True)
class HandedBack:
    """What was handed back, and what is left to the cluster's users; each as `namespace/name`."""

    gangs: list[str]
    #: gangs below their minimum, with the pods that are bound and the minimum
    partial: list[tuple[str, int, int]]
    #: what muster was to unsuspend: the kind in lower case, and the object
    suspended: list[tuple[str, str]]
    #: what is kept, and would be deleted with the definition of its kind
    batch_jobs: list[str]
    preemptions: list[str]


async def hand_back(client: Client, clock: Clock, lease: tuple[str, str]) -> HandedBack:
    """Deletes all GangPlans and Gangs, finalizers included. `lease`: the scheduler's.

    What Gangs say about preemptions is kept in Preemptions, as when muster's controllers delete a Gang.
    Waits until the Lease of a scheduler that has ended expires. Raises Refused while a scheduler leads, or
    while the only copy of a pod is in a GangPlan.
    """
    await _no_leader(client, clock, lease)
    plans = (await list_all(client, GANG_PLAN, missing_ok=True)).items
    if remade := next((plan for plan in plans if isinstance(found(plan), RecreationPlan)), None):
        raise Refused(
            f"GangPlan {remade.key} holds pods that are being re-created; "
            "let a scheduler run until it is gone, then uninstall again"
        )
    gangs = (await list_all(client, GANG, missing_ok=True)).items
    slots = asyncio.Semaphore(PARALLEL)
    await asyncio.gather(*(_remove(client, slots, GANG_PLAN, plan) for plan in plans))
    await asyncio.gather(*(_keep_records(client, slots, gang, clock.now()) for gang in gangs))
    await asyncio.gather(*(_remove(client, slots, GANG, gang) for gang in gangs))
    return HandedBack(
        gangs=sorted(gang.key for gang in gangs),
        partial=sorted(
            (gang.key, gang.status.bound, gang.spec.min_count)
            for gang in gangs
            if 0 < gang.status.bound < gang.spec.min_count and gang.status.phase in _SHORT
        ),
        suspended=[*await _suspended(client, JOBSET), *await _suspended(client, JOB)],
        batch_jobs=await _keys(client, BATCH_JOB),
        preemptions=await _keys(client, PREEMPTION),
    )


async def _suspended(client: Client, kind: Kind[Owner]) -> list[tuple[str, str]]:
    """The owners that muster was to unsuspend; a JobSet decides about its Jobs."""
    return [
        (kind.kind.lower(), owner.key)
        for owner in (await list_all(client, kind, missing_ok=True)).items
        if owner.spec.suspend
        and mark(owner.metadata, names.ADMISSION) == "gang"
        and not owner.metadata.owner_references
    ]


async def _keys(client: Client, kind: Kind[Any]) -> list[str]:
    return sorted(each.key for each in (await list_all(client, kind, missing_ok=True)).items)


async def _keep_records(client: Client, slots: asyncio.Semaphore, gang: Gang, now: datetime) -> None:
    async with slots:
        for record in last_records(gang, now):
            await execute(client, record, now)


async def _no_leader(client: Client, clock: Clock, lease: tuple[str, str]) -> None:
    """Returns once no candidate can hold the Lease, by this machine's clock alone, as candidates see it."""
    seen, since = None, clock.monotonic()
    while True:
        try:
            spec = (await client.get(LEASE, *lease)).spec
        except NotFound:
            return
        if not spec.holder_identity:
            return
        if seen is not None and spec != seen:
            raise Refused(
                f"the scheduler {spec.holder_identity} leads (lease {'/'.join(lease)}), and would make its "
                "records again; uninstall it first, as by `helm uninstall`"
            )
        seen = spec
        if clock.monotonic() >= since + min(spec.lease_duration_seconds, LONGEST):
            return
        await clock.sleep(1)


async def _remove(client: Client, slots: asyncio.Semaphore, kind: Kind[Any], item: Resource) -> None:
    meta = item.metadata
    async with slots:
        try:
            await client.delete(kind, meta.namespace, meta.name, uid=meta.uid)
            if names.GANG_FINALIZER in meta.finalizers:
                kept = [name for name in meta.finalizers if name != names.GANG_FINALIZER]
                body = {"metadata": {"uid": meta.uid, "finalizers": kept}}
                await client.patch(kind, meta.namespace, meta.name, body)
        except NotFound:
            pass  # gone, which is what is wanted
