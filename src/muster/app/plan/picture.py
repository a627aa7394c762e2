"""A cluster that is only thought of, and what a scheduler is told of it."""

from muster.api import kinds
from muster.api.base import Resource
from muster.api.core_v1 import Pod
from muster.core.decisions import Victim
from muster.core.events import Event, PlanFound
from muster.core.gang import GangId
from muster.runtime.mirror import WATCHED, Mirror
from muster.runtime.plan import PodRef
from muster.translate.pods import occupies
from muster.workloads.snapshot import Name, Objects


class Picture:
    """A cluster that is only thought of, and what a scheduler is told of it."""

    def __init__(self, schedulers: frozenset[str] | None) -> None:
        self.mirror = Mirror(schedulers, whole=True)
        self.known: dict[Name, Resource] = {}

    def put_all(self, objects: Objects) -> None:
        """Owners before what they own, so that each pod is read once."""
        rank = {kind: number for number, kind in enumerate(WATCHED)}
        for name in sorted(objects.items, key=lambda name: (rank[name[0]], *name[1:])):
            self.put(name, objects.items[name])

    def put(self, name: Name, resource: Resource) -> None:
        self.mirror.change(name[0], self.known.get(name), resource)
        self.known[name] = resource

    def events(self, now: float) -> list[Event]:
        """What has changed since the last call, and the open plans, which may be told twice."""
        changes = self.mirror.drain(now).events
        planned = [gang for gang in self.mirror.planned() if gang in self.mirror.groups]
        return [*changes, *(self._plan_found(gang) for gang in planned)]

    def _plan_found(self, gang: GangId) -> PlanFound:
        """As a new leader tells of an open plan: its places, and its victims that are still there."""
        plan = self.mirror.plans(gang)[-1]
        victims = []
        for victim in plan.victims:
            pods = frozenset(pod.uid for pod in victim.pods if self._occupies(pod))
            if pods:
                victims.append(Victim(victim.gang, frozenset() if victim.whole else pods, victim.work_lost))
        return PlanFound(gang, plan.nodes, tuple(victims))

    def _occupies(self, ref: PodRef) -> bool:
        namespace, _, name = ref.key.partition("/")
        pod = self.known.get((kinds.POD, namespace, name))
        return isinstance(pod, Pod) and pod.metadata.uid == ref.uid and occupies(pod)
