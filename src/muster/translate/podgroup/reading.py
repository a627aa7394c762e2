"""Reads one PodGroup, which may be one of several of a gang."""

from dataclasses import dataclass, replace

from muster.api.base import Kind
from muster.api.kinds import POD_GROUP_SIGS, POD_GROUP_X
from muster.api.scheduling import PodGroup
from muster.core.words.gang import PodId, PodSet
from muster.translate import ganggroup
from muster.translate.demand import ours
from muster.translate.group import Group, Member
from muster.translate.identity import Dialect
from muster.translate.podgroup.members import Pods, sort
from muster.translate.podgroup.places import Places, places_of
from muster.translate.podgroup.pod_sets import PODS
from muster.translate.world import World

KINDS: dict[Dialect, Kind[PodGroup]] = {
    Dialect.POD_GROUP: POD_GROUP_X,
    Dialect.KOORDINATOR: POD_GROUP_SIGS,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of one PodGroup."""

    name: ganggroup.Name
    group: PodGroup | None
    pods: Pods
    places: Places
    #: its minMember, below 0 if it cannot be honoured; 0 only for one of several PodGroups
    wanted: int
    #: whether it is one of several of a gang, whose minima hold separately
    several: bool

    @property
    def there(self) -> int:
        return len(self.pods.ready) + len(self.pods.ended)

    @property
    def empty(self) -> bool:
        pods = self.pods
        return self.group is None and not (pods.ready or pods.gated or pods.ended or pods.leaving)

    @property
    def members(self) -> dict[PodId, Member]:
        return {PodId(pod.metadata.uid): Member(pod, None) for pod in self.pods.gated} | self.places.members

    @property
    def least(self) -> int:
        """The minimum of the group, plus its abandoned places.

        An abandoned place counts as satisfied and must not replace a member. A group whose minimum is refused
        needs at least one.
        """
        return (1 if self.wanted < 0 else self.wanted) + self.places.abandoned

    @property
    def pod_sets(self) -> list[PodSet]:
        """The pod sets. A single one has the group's minimum; several need all their pods, if any."""
        sets = self.places.pod_sets
        if not self.several:
            return sets
        if not self.wanted:
            return [replace(one, namespace=self.name[0]) for one in sets]
        least = [min(self.least, sets[0].count)] if len(sets) == 1 else [one.count for one in sets]
        return [replace(one, min_count=n, namespace=self.name[0]) for one, n in zip(sets, least, strict=True)]

    @property
    def finished(self) -> bool:
        pods = self.pods
        over = bool(pods.ended) or not self.wanted
        return over and not self.members and not pods.leaving and self.there >= self.wanted


def read_one(
    kind: Kind[PodGroup], name: ganggroup.Name, world: World, before: Group | None, several: bool
) -> Reading:
    group = world.pod_groups(kind).get(name)
    named = world.pods_in(kind, *name)
    pods = sort([pod for pod in named if ours(pod.spec.scheduler_name, world)], world)
    there = len(pods.ready) + len(pods.ended)
    wanted = group.spec.min_member if group is not None else there
    if group is not None and not several and wanted == 0:
        wanted = 1  # no minimum: any of its pods may start without the others
    # each of several PodGroups has its own pod sets, even of equal pods; "@" is in no name of Kubernetes
    prefix = f"{name[1]}@{name[0]}" if several else PODS
    if several and before is not None:
        own = tuple(one for one in before.gang.pod_sets if one.name.rpartition("-")[0] == prefix)
        before = replace(before, gang=replace(before.gang, pod_sets=own))
    return Reading(name, group, pods, places_of(pods, before, wanted - there, world, prefix), wanted, several)
