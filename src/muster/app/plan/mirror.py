"""The mirror of a snapshot: a cluster, and for a while the objects that are proposed to it."""

from collections.abc import Sequence

from muster.api.base import AnyKind, Resource
from muster.app.plan.answers import answered
from muster.core.words.events import Event
from muster.runtime.mirror import WATCHED, Mirror
from muster.runtime.plan_record import plan_found
from muster.translate.adopted import EVERY
from muster.translate.bad_nodes import BadNodes
from muster.workloads.snapshot import Name, Objects


class SnapshotMirror:
    """A cluster and the events about it for a scheduler.

    `now`: seconds since the epoch. Whatever is put later is hypothetical, until `as_it_is`.
    """

    def __init__(
        self,
        cluster: Objects,
        schedulers: frozenset[str] | None,
        now: float,
        bad_nodes: BadNodes | None = None,
        adopts: frozenset[str] = EVERY,
        awaiting: frozenset[str] = frozenset(),
    ) -> None:
        rules = bad_nodes or BadNodes()
        self.mirror = Mirror(
            schedulers, whole=True, counted=rules.counted(), adopts=adopts, awaiting=awaiting
        )
        self.mirror.avoid(rules.rules())
        self.schedulers, self.now = schedulers, now
        self.known: dict[Name, Resource] = {}
        self._replaced: dict[Name, Resource | None] = {}
        self.put_all(cluster)
        self._cluster = self.changes()
        self._replaced.clear()

    def as_it_is(self) -> Sequence[Event]:
        """Takes back what was proposed. Returns the events about the cluster alone."""
        for name, before in reversed(self._replaced.items()):
            self.mirror.change(name[0], self.known.pop(name), before)
            if before is not None:
                self.known[name] = before
        if self._replaced:
            self._replaced.clear()
            self.mirror.world.uncreated.clear()
            self.mirror.drain(self.now)
        return self._cluster

    def put_all(self, objects: Objects) -> None:
        """Adds the objects, owners before their dependents, so that each pod is read once."""
        rank = {kind: number for number, kind in enumerate(WATCHED)}
        for name in sorted(objects.items, key=lambda name: (rank[name[0]], *name[1:])):
            self.put(name, objects.items[name])

    def put(self, name: Name, resource: Resource) -> None:
        before = self.known.get(name)
        self._replaced.setdefault(name, before)
        self.mirror.change(name[0], before, resource)
        self.known[name] = resource

    def changes(self) -> list[Event]:
        """The changes since the last call, and the open plans, which may be repeated."""
        changes = self.mirror.drain(self.now).events
        while self.mirror.devices.asks and answered(self.mirror.devices):
            changes += self.mirror.drain(self.now).events
        planned = [gang for gang in self.mirror.planned() if gang in self.mirror.groups]
        return [*changes, *(plan_found(gang, self.mirror.plans(gang)[-1], self._find) for gang in planned)]

    def _find(self, kind: AnyKind, key: str) -> Resource | None:
        namespace, _, name = key.rpartition("/")
        return self.known.get((kind, namespace, name))
