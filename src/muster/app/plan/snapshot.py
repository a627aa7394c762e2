"""A hypothetical cluster, and the events about it for a scheduler."""

from muster.api.base import AnyKind, Resource
from muster.core.words.events import Event
from muster.runtime.mirror import WATCHED, Mirror
from muster.runtime.plan_record import plan_found
from muster.workloads.snapshot import Name, Objects


class SnapshotMirror:
    """A hypothetical cluster, and the events about it for a scheduler."""

    def __init__(self, schedulers: frozenset[str] | None) -> None:
        self.mirror = Mirror(schedulers, whole=True)
        self.known: dict[Name, Resource] = {}

    def put_all(self, objects: Objects) -> None:
        """Adds the objects, owners before their dependents, so that each pod is read once."""
        rank = {kind: number for number, kind in enumerate(WATCHED)}
        for name in sorted(objects.items, key=lambda name: (rank[name[0]], *name[1:])):
            self.put(name, objects.items[name])

    def put(self, name: Name, resource: Resource) -> None:
        self.mirror.change(name[0], self.known.get(name), resource)
        self.known[name] = resource

    def events(self, now: float) -> list[Event]:
        """The changes since the last call, and the open plans, which may be repeated."""
        changes = self.mirror.drain(now).events
        planned = [gang for gang in self.mirror.planned() if gang in self.mirror.groups]
        return [*changes, *(plan_found(gang, self.mirror.plans(gang)[-1], self._find) for gang in planned)]

    def _find(self, kind: AnyKind, key: str) -> Resource | None:
        namespace, _, name = key.rpartition("/")
        return self.known.get((kind, namespace, name))
