"""A cluster as a command sees it: observed once, translated once, and asked whatever there is to ask.

A command that needs to know what the scheduler would say makes one `Snapshot` and asks that. So what it says
cannot contradict itself, nor what another command says of the same cluster. Nothing is written anywhere.

A snapshot knows the kinds that were observed; of the others there is nothing. `Snapshot.observe` reads all
that a scheduler watches, `Snapshot.around` only what decides about some objects before they are submitted.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import MappingProxyType
from typing import Final, Self

from muster.api import kinds, times
from muster.api.base import AnyKind, Object, ObjectMeta, Resource
from muster.api.core_v1 import Pod
from muster.api.muster_v1alpha1 import Queue
from muster.api.rates import KEY, Rates, read
from muster.app.plan import Plan, fit, plan, scheduler
from muster.app.plan.mirror import SnapshotMirror
from muster.app.plan.preflight import GANGS, SHARING, SURROUNDINGS, Preflight
from muster.core.cycle import Config, Scheduler
from muster.core.words.decisions import Explanation
from muster.core.words.events import Event
from muster.core.words.gang import Gang, GangId
from muster.kube.client import Client
from muster.kube.errors import Forbidden, NotFound
from muster.kube.listing import list_all
from muster.names import BAD_NODES, SCHEDULER_LEASE, SCHEDULES
from muster.runtime.mirror import WATCHED, Mirror
from muster.translate import bad_nodes
from muster.translate.bad_nodes import BadNodes
from muster.translate.disclosure import Disclosure
from muster.translate.priority import ranked
from muster.translate.queues import counting
from muster.workloads.snapshot import Objects

_GANGS: Final = frozenset(kind.kind for kind in GANGS)
#: Kinds that are observed for what they mean for pods, of which muster must be known to schedule them.
_OF_PODS: Final = frozenset((kinds.POD, *SURROUNDINGS))


class Snapshot:
    """A cluster at one moment, and what its scheduler says of it.

    `preflight(job)`   could a job ever start, does its queue admit it, what may preemption cost it
    `plan(objects)`    what would happen if they were submitted now
    `why(gang)`        why a gang of the cluster waits, and what would start it
    `barred(queue)`    why no gang can start in a queue
    `lowered(job)`     how the priority of a job is lowered
    `scheduler()`      a scheduler that knows the cluster and has decided nothing; `events`: what it was told

    Questions may be asked in any order, and again. The objects are translated by the first.
    """

    def __init__(
        self,
        objects: Objects,
        schedulers: frozenset[str] | None = None,
        *,
        prices: Rates | None = None,
        now: float | None = None,
        avoids: BadNodes | None = None,
    ) -> None:
        """`schedulers`: the values of `spec.schedulerName` whose pods muster schedules; None = all.

        `now`: seconds since the epoch; None: the newest time in the objects. `prices`: for what is lost.
        `avoids`: the scheduler's setting for nodes on which pods fail; None: the default.
        """
        self.objects, self.prices, self._avoids = objects, prices or Rates(), avoids
        self.schedulers = schedulers
        self._now = latest(objects) if now is None else now

    @classmethod
    async def observe(
        cls,
        client: Client,
        schedulers: frozenset[str] | None = None,
        observed: Sequence[AnyKind] = WATCHED,
        *,
        now: float | None = None,
        priced: bool = False,
        known: Mapping[AnyKind, Sequence[Resource]] = MappingProxyType({}),
    ) -> Self:
        """The cluster as of now, as far as its kinds may be listed; see `require`. `priced`: with prices.

        `schedulers`: None: the embedded cluster; otherwise what counts if the cluster does not say which
        schedulerNames muster serves there. `known`: all objects of kinds that the caller has just listed.
        """
        objects = await _objects(client, [kind for kind in observed if kind not in known])
        for kind, resource in ((kind, each) for kind, found in known.items() for each in found):
            objects.add(kind, resource)
        prices = await _prices(client) if priced else None
        avoids = None
        if schedulers is not None and not _OF_PODS.isdisjoint(observed):
            avoids, served = await scheduler_settings(client)
            schedulers = served or schedulers
        return cls(objects, schedulers, prices=prices, now=now, avoids=avoids)

    @classmethod
    async def around(
        cls, client: Client, job: Sequence[Object], schedulers: frozenset[str] | None = None
    ) -> Self:
        """What decides about the objects of a job file before they are submitted.

        The nodes are observed where no others can be added, and where queues share them.
        """
        there = {each["kind"] for each in job}
        if _GANGS.isdisjoint(there):
            return await cls.observe(client, schedulers, [kinds.QUEUE] if kinds.QUEUE.kind in there else [])
        needed = (*SURROUNDINGS, *SHARING)
        if schedulers is None:
            return await cls.observe(client, schedulers, (*needed, kinds.NODE), priced=True)
        found = await cls.observe(client, schedulers, needed, priced=True)
        if found.queues or kinds.QUEUE.kind in there:
            found.objects.items |= (await _objects(client, [kinds.NODE])).items
        return found

    def require(self, *needed: AnyKind) -> Self:
        """Raises Forbidden with those of these kinds that may not be listed; of none: of all."""
        denied = {kind: said for kind, said in self.objects.denied.items() if not needed or kind in needed}
        if denied:
            (_, first), *others = denied.items()
            names = (f"{kind.plural}.{kind.group}".rstrip(".") for kind, _ in others)
            raise Forbidden(f"{first}; nor may it list {', '.join(names)}" if others else first)
        return self

    @property
    def queues(self) -> list[Queue]:
        return counting(self.objects.items.values())

    def preflight(self, job: Sequence[Object]) -> Preflight:
        """What is known of the objects of a job file before they are submitted."""
        return Preflight(job, self._mirror, self.prices, self.objects.denied)

    def plan(self, proposed: Objects) -> Plan:
        """What would happen if these objects were submitted. Raises Invalid if one cannot be changed so."""
        return plan(self._mirror, self.objects, proposed, self.prices)

    def gang(self, namespace: str, record: str) -> Gang | None:
        """The gang of the Gang record of that name."""
        groups = self._cluster.groups.values()
        return next(
            (each.gang for each in groups if (each.namespace, each.record) == (namespace, record)), None
        )

    def waiting(self, pods: Collection[str]) -> list[GangId]:
        """The gangs that have some of these pods, by uid."""
        groups = sorted(self._cluster.groups.items())
        return [gang for gang, group in groups if not group.members.keys().isdisjoint(pods)]

    def why(self, gang: GangId) -> Explanation | None:
        """Why a gang waits, with all remedies and its expected start; None if it does not."""
        return self._decided.asked(gang)

    def other_nodes(self, gang: Gang) -> str | None:
        """A `--nodes` value on which a gang would start that never can on the nodes of this cluster."""
        return fit.other_nodes(gang, self.events)

    def disclosed(self, message: str, namespace: str) -> str:
        """The message as it is recorded in a namespace: without names of other namespaces' gangs."""
        return Disclosure(self._cluster.names).text(message, {namespace})

    def barred(self, queue: str, namespace: str) -> str | None:
        """Why no gang of the namespace can ever start in a queue, in the scheduler's words."""
        gang = Gang(GangId(""), (), 0, 0.0, queue=queue, namespace=namespace)
        return self.scheduler().world.queues.barred(gang)

    def lowered(self, meta: ObjectMeta, of_pods: int, queue: str) -> str:
        """How the scheduler lowers the priority of a job that exists; "" if it does not.

        `of_pods`: the priority that it has without a mark in `meta`.
        """
        return "; ".join(ranked([meta], of_pods, meta.namespace, queue, self._cluster.world).warnings)

    @property
    def events(self) -> Sequence[Event]:
        """What a scheduler is told about the cluster."""
        return self._mirror.as_it_is()

    def scheduler(self, config: Config | None = None) -> Scheduler:
        return scheduler(config or Config(), self.events)

    @cached_property
    def _mirror(self) -> SnapshotMirror:
        return SnapshotMirror(self.objects, self.schedulers, self._now, self._avoids)

    @property
    def _cluster(self) -> Mirror:
        """The mirror of the cluster without anything proposed."""
        self._mirror.as_it_is()
        return self._mirror.mirror

    @cached_property
    def _decided(self) -> Scheduler:
        core = self.scheduler(Config(remedies=0, steps=None))
        core.decide(self._now)
        return core


def latest(objects: Objects) -> float:
    """The newest creation or start time; 0 if no object has one."""
    stated = [resource.metadata.creation_timestamp for resource in objects.items.values()]
    stated += [pod.status.start_time for pod in objects.items.values() if isinstance(pod, Pod)]
    return max(map(times.seconds, stated), default=0.0)


async def scheduler_settings(client: Client) -> tuple[BadNodes, frozenset[str]]:
    """How the leading scheduler treats nodes on which pods fail, and which schedulerNames muster serves.

    Its Lease says both. Without one that may be read, the default, and what the admission policies of
    muster's releases say; no names if these may not be read either.
    """
    try:
        lease = await client.get(kinds.LEASE, *SCHEDULER_LEASE.split("/"))
    except (NotFound, Forbidden):
        stated = {}
    else:
        stated = lease.metadata.annotations
    served = [stated[SCHEDULES]] if SCHEDULES in stated else []
    if not served:
        with suppress(Forbidden):
            policies = await list_all(client, kinds.ADMITTING[0], missing_ok=True)
            served = [each.metadata.annotations.get(SCHEDULES, "") for each in policies.items]
    names = frozenset(name for each in served for name in each.split(",") if name)
    return bad_nodes.read(stated.get(BAD_NODES, "")), names


async def _objects(client: Client, observed: Sequence[AnyKind]) -> Objects:
    found = Objects()
    pages = await asyncio.gather(*(list_all(client, kind) for kind in observed), return_exceptions=True)
    for kind, page in zip(observed, pages, strict=True):
        match page:
            case NotFound():  # the cluster lacks muster's kinds, or another project's
                found.absent.append(kind)
            case Forbidden() if kind in kinds.HIDDEN:
                found.hidden.append(kind)
            case Forbidden(message=message):
                found.denied[kind] = message
            case BaseException():
                raise page
            case _:
                for resource in page.items:
                    found.add(kind, resource)
    return found


async def _prices(client: Client) -> Rates:
    """The prices of a cluster; none if there are none, or they may not be read."""
    try:
        return read(await client.get(kinds.CONFIG_MAP, *KEY.split("/")))
    except (NotFound, Forbidden):
        return Rates()
