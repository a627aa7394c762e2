"""The cluster as pages see it, kept up to date by watches: jobs, nodes, and a scheduler that decides nothing.

A change is only noted when it arrives, one per object. The next look takes all of them in, and costs as much
as what has changed. The scheduler learns of the cluster through the mirror that the real one has, so both
count queues alike. Why a gang waits is asked of a copy of it, which decides once.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from math import inf
from typing import Final

from muster.api import kinds
from muster.api.base import AnyKind, Object, Resource
from muster.api.core_v1 import Node, Pod
from muster.api.fields import UNREADABLE
from muster.app.snapshot import Settings, Snapshot
from muster.app.views import queues, why
from muster.app.views.job import JobView
from muster.app.views.live import OF_JOBS, LiveJobs, LiveNodes
from muster.app.views.nodes import NodeView
from muster.app.views.queues import QueueView
from muster.core.cycle import Config, Scheduler
from muster.core.saved import copied
from muster.core.words.events import Event, LayersChanged
from muster.core.words.gang import Layer
from muster.core.world.topology import CLUSTER, NODE
from muster.runtime.mirror import WATCHED, Mirror
from muster.runtime.plan_record import plan_found
from muster.translate.nodes import node_changed
from muster.workloads.snapshot import Objects

#: Owners before what they own, so that each group is read once.
_RANK: Final = {kind: number for number, kind in enumerate(dict.fromkeys((*WATCHED, *OF_JOBS)))}
#: Looks up an object of a kind by its `namespace/name`.
Find = Callable[[AnyKind, str], Resource | None]
log = logging.getLogger(__name__)


class Live:
    """`lock` is held while its answers are used: a queue of them changes with the next `catch_up`."""

    def __init__(self, schedulers: frozenset[str] | None, settings: Settings, find: Find) -> None:
        """`schedulers`, `settings`: as `Snapshot` takes them."""
        rules = settings.bad_nodes
        self.schedulers, self.settings, self._find = schedulers, settings, find
        self.lock = threading.RLock()
        self._mirror = Mirror(schedulers, whole=True, counted=rules.counted(), adopts=settings.adopts)
        self._mirror.avoid(rules.rules())
        self._core = Scheduler(Config(remedies=0, steps=None))
        self._jobs, self._nodes = LiveJobs(), LiveNodes()
        #: changes since the last `catch_up`, by object: as it was then, and as it is
        self._pending: dict[tuple[AnyKind, str], tuple[Resource | None, Resource | None]] = {}
        #: how many changes have been taken in
        self.taken = 0
        self._noting = threading.Lock()  # held for a moment only: watches go on while others take in
        self._queues: list[QueueView] | None = None
        #: the namespaces of all objects, and how many are in each
        self._namespaces = Counter[str]()

    def change(self, kind: AnyKind, old: Resource | None, new: Resource | None) -> None:
        """Notes a change; the arguments are a reflector's."""
        latest = new or old
        assert latest is not None, "a change has an object"
        one = kind, latest.key
        with self._noting:
            self._pending[one] = self._pending.get(one, (old, None))[0], new

    def catch_up(self, now: float) -> frozenset[str]:
        """Takes in what has changed. Returns the namespaces of all objects. `now`: Unix seconds."""
        with self.lock:
            with self._noting:
                pending, self._pending = self._pending, {}
            for (kind, key), (old, new) in sorted(pending.items(), key=lambda one: _RANK[one[0][0]]):
                self.taken += 1
                try:
                    self._take(kind, key, old, new)
                except UNREADABLE:  # the others are taken in
                    log.exception("%s %s cannot be read, and is set aside", kind.kind, key)
            if pending:
                self._queues = None
                for event in self._mirror.drain(now).events:
                    self._core.apply(event)
            memory = self._core.world.failed_starts
            if memory.active:
                memory.settle(now, len(self._mirror.present))
            return frozenset(self._namespaces)

    @property
    def jobs(self) -> list[JobView]:
        """All jobs, oldest first."""
        with self.lock:
            return self._jobs.views()

    @property
    def nodes(self) -> list[NodeView]:
        """All nodes, by name."""
        with self.lock:
            return self._nodes.views(self._core.world.failed_starts)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers of the network topology between the cluster and the nodes, the widest first."""
        with self.lock:
            found = self._mirror.world.layers.chain
            return tuple(each for each in found if each.name not in (CLUSTER, NODE))

    @property
    def queues(self) -> list[QueueView]:
        """All queues, each after its parent."""
        with self.lock:
            if self._queues is None:
                self._queues = queues.of(self._core)
            return self._queues

    def on(self, node: str) -> list[tuple[Pod, JobView | None]]:
        """The pods that take room on a node, and their jobs."""
        return [(pod, self._jobs.of_pod(key)) for key, pod in sorted(self._nodes.on(node).items())]

    def ends(self) -> dict[tuple[str, str], float]:
        """When running gangs end, by namespace and name of their records, as far as that is known."""
        with self.lock:
            self._core.settle()
            found = {}
            for end, state in self._core.world.completions.after(0.0):
                if end < inf and (group := self._mirror.groups.get(state.id)) is not None:
                    found[group.namespace, group.record] = end
            return found

    def decided(self, now: float) -> "Decided":
        """Lets a copy of the scheduler decide. It takes long if many gangs wait."""
        with self.lock:
            core, mirror = copied(self._core), self._mirror
            for gang in mirror.planned():
                if gang in mirror.groups:
                    core.apply(plan_found(gang, mirror.plans(gang)[-1], self._find))
        core.decide(now)
        return Decided(self, core)

    def _take(self, kind: AnyKind, key: str, old: Resource | None, new: Resource | None) -> None:
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            self._take(kind, key, old, None)  # deleted and re-created since the last look
            old = None
        if old is None and new is None:
            return
        if namespace := key.rpartition("/")[0]:
            self._namespaces[namespace] += (new is not None) - (old is not None)
            if not self._namespaces[namespace]:
                del self._namespaces[namespace]
        if kind in OF_JOBS:
            self._jobs.change(kind, key, new)
        if kind is kinds.NODE:
            self._nodes.node(key, new if isinstance(new, Node) else None)
        elif kind is kinds.POD:
            before, after = (each if isinstance(each, Pod) else None for each in (old, new))
            self._nodes.pod(key, before, after)
        if kind in WATCHED:
            self._mirror.change(kind, old, new)


class Decided(Snapshot):
    """Answers why gangs wait, as of one moment; other questions are not asked of it."""

    def __init__(self, live: Live, core: Scheduler) -> None:
        super().__init__(Objects(), live.schedulers, settings=live.settings)
        self._live, self._core = live, core

    def answered(self, view: JobView, *, embedded: bool) -> tuple[JobView, Object | None]:
        """As `why.answered`."""
        with self._live.lock:
            return why.answered(view, self, embedded=embedded)

    def reserved(self) -> dict[tuple[str, str], tuple[float, int]]:
        """By record of a gang, from when nodes are kept for it, and how many."""
        with self._live.lock:
            groups = self._live._mirror.groups
            made = ((groups.get(each.gang), each) for each in self._core.reservations.made)
            return {
                (group.namespace, group.record): (each.start, len({*each.nodes.values()}))
                for group, each in made
                if group is not None
            }

    @property
    def events(self) -> Sequence[Event]:
        """What `other_nodes` asks for."""
        found: Iterable[Node] = self._live._nodes._nodes.values()
        return [*map(node_changed, found), LayersChanged(self._live._mirror.world.layers.chain)]

    @property
    def _cluster(self) -> Mirror:
        return self._live._mirror

    @cached_property
    def _decided(self) -> Scheduler:
        return self._core
