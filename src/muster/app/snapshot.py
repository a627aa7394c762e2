"""A snapshot of a cluster: lists its objects once, and answers what the scheduler would decide about them.

A command that needs an answer of the scheduler makes one `Snapshot`. All of its answers come from one state
of the cluster, one translation and the scheduler's own core, so they agree with each other and with those
of other commands. A snapshot writes nothing to the cluster.

A snapshot contains the kinds that were listed. Other kinds count as empty. `Snapshot.observe` lists all
kinds that a scheduler watches; `Snapshot.around` lists only those on which the checks of a job file depend.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple, Self

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
from muster.names import ADOPTS, AWAITS, BAD_NODES, SCHEDULER_LEASE, SCHEDULES
from muster.runtime.mirror import WATCHED, Mirror
from muster.translate import adopted, bad_nodes
from muster.translate.bad_nodes import BadNodes
from muster.translate.disclosure import Disclosure
from muster.translate.priority import ranked
from muster.workloads.snapshot import Objects

_GANGS: Final = frozenset(kind.kind for kind in GANGS)
#: Kinds that matter to a pod only if muster schedules it, so the scheduler names have to be read with them.
_OF_PODS: Final = frozenset((kinds.POD, *SURROUNDINGS))
#: Kinds that are read as the scheduler's settings say.
_SET: Final = _OF_PODS | {*kinds.QUEUES}


class Snapshot:
    """The objects of a cluster at one moment, and the scheduler's answers about them.

    `preflight(job)`   whether a job could ever start, whether its queue admits it, what it may lose
    `plan(objects)`    what would happen if the objects were submitted now
    `why(gang)`        why a gang of the cluster waits, and what would start it
    `barred(queue)`    why no gang can start in a queue
    `lowered(job)`     how the priority of a job is lowered
    `scheduler()`      a scheduler with the state of the cluster, before its first cycle
    `events`           the events that give a scheduler this state

    The first call translates the objects. Calls do not depend on each other, and may be repeated in any
    order.

    `observe` and `around` raise what `Client.list` and `Client.get` raise, except NotFound and Forbidden: a
    kind that the cluster does not serve counts as empty, as does one of another scheduler that may not be
    listed; `require` raises Forbidden for others that may not. `plan` raises Invalid. The other methods send
    no requests and raise no API errors. If a gang cannot be read, `why` returns the cause.
    """

    def __init__(
        self,
        objects: Objects,
        schedulers: frozenset[str] | None = None,
        *,
        prices: Rates | None = None,
        now: float | None = None,
        settings: "Settings | None" = None,
    ) -> None:
        """`schedulers`: the values of `spec.schedulerName` whose pods muster schedules; None = all.

        `now`: seconds since the epoch; None: the newest time in the objects. `prices`: of lost work.
        `settings`: the scheduler's; None: those of the embedded cluster.
        """
        self.objects, self.prices = objects, prices or Rates()
        self._settings = settings or Settings()
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
        """Returns the cluster as of now, without the kinds that may not be listed; see `require`.

        `schedulers`: None for the embedded cluster; otherwise the schedulerNames to assume if the cluster
        does not state which ones muster serves. `observed`: the kinds to list. `known`: all objects of
        kinds that the caller has just listed. `priced`: whether to read the prices.
        """
        objects = await _objects(client, [kind for kind in observed if kind not in known])
        for kind, resource in ((kind, each) for kind, found in known.items() for each in found):
            objects.add(kind, resource)
        prices = await _prices(client) if priced else None
        settings = None
        if schedulers is not None and not _SET.isdisjoint(observed):
            settings = await scheduler_settings(client)
            schedulers = settings.served or schedulers
        return cls(objects, schedulers, prices=prices, now=now, settings=settings)

    @classmethod
    async def around(
        cls, client: Client, job: Sequence[Object], schedulers: frozenset[str] | None = None
    ) -> Self:
        """Returns the part of the cluster on which the checks of a job file depend before it is submitted.

        Nodes are listed in the embedded cluster, where none can be added, and if queues share them. Where
        there are classes of devices, nodes and slices say whether a resource exists as devices only.
        """
        there = {each["kind"] for each in job}
        if _GANGS.isdisjoint(there):
            named = {kind.kind for kind in kinds.QUEUES} & there
            return await cls.observe(client, schedulers, kinds.QUEUES if named else [])
        needed = (*SURROUNDINGS, *SHARING)
        if schedulers is None:
            needed = (*needed, kinds.NODE)
        found, more = await cls.observe(client, schedulers, needed, priced=True), set[AnyKind]()
        if any(kind is kinds.DEVICE_CLASS for kind, _, _ in found.objects.items):
            more |= {kinds.NODE, kinds.RESOURCE_SLICE, kinds.RESOURCE_CLAIM_TEMPLATE, kinds.RESOURCE_CLAIM}
        if found.queues or any(kind.kind in there for kind in kinds.QUEUES):
            more |= {kinds.NODE}
        found.objects.items |= (await _objects(client, [*more.difference(needed)])).items
        return found

    def require(self, *needed: AnyKind) -> Self:
        """Returns self. Raises Forbidden if one of these kinds may not be listed; none given: any kind."""
        denied = {kind: said for kind, said in self.objects.denied.items() if not needed or kind in needed}
        if denied:
            (_, first), *others = denied.items()
            names = (f"{kind.plural}.{kind.group}".rstrip(".") for kind, _ in others)
            raise Forbidden(f"{first}; nor may it list {', '.join(names)}" if others else first)
        return self

    @property
    def unread(self) -> frozenset[AnyKind]:
        """The kinds that may not be listed, and may have objects on which a decision depends."""
        hidden = (kind for kind in self.objects.hidden if kind in kinds.FOREIGN)
        return frozenset((*self.objects.denied, *hidden))

    @property
    def queues(self) -> list[Queue]:
        found = ((name[0], each) for name, each in self.objects.items.items())
        return adopted.counting(found, self._settings.adopts)

    @property
    def adopts(self) -> frozenset[str]:
        """Which queues of other schedulers count (`muster.translate.adopted`)."""
        return self._settings.adopts

    def preflight(self, job: Sequence[Object]) -> Preflight:
        """Returns the checks of a job file before it is submitted. `job`: its objects."""
        return Preflight(job, self._mirror, self.prices, self.unread)

    def plan(self, proposed: Objects) -> Plan:
        """Returns what a submit of these objects does. Raises Invalid if an immutable field would change."""
        return plan(self._mirror, self.objects, proposed, self.prices)

    def gang(self, namespace: str, record: str) -> Gang | None:
        """Returns the gang whose Gang record has this name; None if there is none."""
        groups = self._cluster.groups.values()
        return next(
            (each.gang for each in groups if (each.namespace, each.record) == (namespace, record)), None
        )

    def waiting(self, pods: Collection[str]) -> list[GangId]:
        """Returns the gangs that have one of these pods as a member. `pods`: uids."""
        groups = sorted(self._cluster.groups.items())
        return [gang for gang, group in groups if not group.members.keys().isdisjoint(pods)]

    def why(self, gang: GangId) -> Explanation | None:
        """Returns why a gang waits, with all remedies and its expected start; None if it does not wait."""
        return self._decided.asked(gang)

    def other_nodes(self, gang: Gang) -> str | None:
        """Returns a `--nodes` value for a gang that can never start on the nodes of this cluster."""
        return fit.other_nodes(gang, self.events)

    def disclosed(self, message: str, namespace: str) -> str:
        """Returns the message as a namespace may read it: without the names of gangs of other namespaces."""
        return Disclosure(self._cluster.names).text(message, {namespace})

    def barred(self, queue: str, namespace: str) -> str | None:
        """Returns why no gang of the namespace can ever start in a queue; None if one can."""
        gang = Gang(GangId(""), (), 0, 0.0, queue=queue, namespace=namespace)
        return self.scheduler().world.queues.barred(gang)

    def lowered(self, meta: ObjectMeta, of_pods: int, queue: str) -> str:
        """Returns how the scheduler lowers the priority of an existing job; "" if it does not.

        `of_pods`: the priority of its pods, which counts if `meta` has no mark.
        """
        return "; ".join(ranked([meta], of_pods, meta.namespace, queue, self._cluster.world).warnings)

    @property
    def events(self) -> Sequence[Event]:
        """The events that give a scheduler the state of the cluster."""
        return self._mirror.as_it_is()

    def scheduler(self, config: Config | None = None) -> Scheduler:
        return scheduler(config or Config(), self.events)

    @cached_property
    def _mirror(self) -> SnapshotMirror:
        now = self._settings
        return SnapshotMirror(
            self.objects, self.schedulers, self._now, now.bad_nodes, now.adopts, now.awaiting
        )

    @property
    def _cluster(self) -> Mirror:
        """The mirror of the cluster without proposed objects."""
        self._mirror.as_it_is()
        return self._mirror.mirror

    @cached_property
    def _decided(self) -> Scheduler:
        core = self.scheduler(Config(remedies=0, steps=None))
        core.decide(self._now)
        return core


def latest(objects: Objects) -> float:
    """Returns the newest creation or start time, in Unix seconds; 0 if no object has one."""
    stated = [resource.metadata.creation_timestamp for resource in objects.items.values()]
    stated += [pod.status.start_time for pod in objects.items.values() if isinstance(pod, Pod)]
    return max(map(times.seconds, stated), default=0.0)


class Settings(NamedTuple):
    """What commands know of the settings of a scheduler."""

    #: for nodes on which pods fail
    bad_nodes: BadNodes = BadNodes()
    #: the schedulerNames that it serves; empty: unknown
    served: frozenset[str] = frozenset()
    #: which queues of other schedulers count
    adopts: frozenset[str] = adopted.EVERY
    #: the schedulerNames for whose pods another controller makes PodGroups
    awaiting: frozenset[str] = frozenset()


async def scheduler_settings(client: Client) -> Settings:
    """Returns what the leader states of its settings, in annotations of its Lease.

    If the Lease is absent or may not be read, they are the defaults. If the Lease has no schedulerNames,
    those in the admission policies of muster's releases are returned; none if these may not be listed.
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
    return Settings(
        bad_nodes.read(stated.get(BAD_NODES, "")),
        _names(",".join(served)),
        adopted.stated(stated.get(ADOPTS)),
        _names(stated.get(AWAITS, "")),
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))


async def _objects(client: Client, observed: Sequence[AnyKind]) -> Objects:
    found = Objects()
    pages = await asyncio.gather(*(list_all(client, kind) for kind in observed), return_exceptions=True)
    for kind, page in zip(observed, pages, strict=True):
        match page:
            case NotFound():  # the cluster does not serve the kind: it is muster's, or another project's
                found.absent.append(kind)
            case Forbidden() if kind in kinds.HIDDEN or kind in kinds.FOREIGN:
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
    """Returns the prices of a cluster; no prices if their ConfigMap is absent or may not be read."""
    try:
        return read(await client.get(kinds.CONFIG_MAP, *KEY.split("/")))
    except (NotFound, Forbidden):
        return Rates()
