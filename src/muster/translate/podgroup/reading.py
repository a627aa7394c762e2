"""Reads one PodGroup, which may be one of several of a gang, and keeps what its pods say pod by pod.

A pod that has succeeded counts towards the minimum like a running pod, and so does a failed pod
that no controller replaces.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from enum import Enum, auto
from typing import Any, NamedTuple

from msgspec import structs

from muster.api.base import Kind, Resource, controller_of, mark
from muster.api.core_v1 import Pod
from muster.api.groups import Asked, Dialect
from muster.api.kinds import (
    JOB,
    RESOURCE_QUOTA,
)
from muster.api.marks import KEEP
from muster.api.named_queue import stated_queue
from muster.api.times import seconds
from muster.core.words.gang import (
    MOST_PLACES,
    Labels,
    Operator,
    Place,
    PodId,
    PodSet,
    PodTerm,
    Requirement,
    Shape,
    Subgroup,
)
from muster.translate import ganggroup
from muster.translate.filling import job_finished
from muster.translate.group import Members
from muster.translate.marks import unbound
from muster.translate.podgroup.facts import Kept, Said, kept, said
from muster.translate.podgroup.places import Places
from muster.translate.podgroup.pod_sets import PODS, pod_set_name
from muster.translate.pods import IN_GROUP, live, occupies, rejected, says_the_same, scheduling_gates
from muster.translate.surroundings import device_claims, refers
from muster.translate.world import World


class State(Enum):
    """What a pod means to its group."""

    READY = auto()
    GATED = auto()
    #: succeeded, or failed without a controller that replaces it
    ENDED = auto()
    #: being deleted, and still on its node
    LEAVING = auto()
    #: failed and may be replaced by its controller, or refused by its node
    FAILED = auto()
    #: being deleted, and on no node
    GONE = auto()


#: The states in which a pod has a place.
_PLACED = (State.READY, State.ENDED)


class Noted(NamedTuple):
    """A pod as it was last looked at."""

    pod: Pod
    state: State
    shape: tuple[Shape, Labels] | None = None
    said: Said | None = None
    kept: Kept | None = None


class Reading:
    """What is known of one PodGroup and its pods. `settle` applies what has changed since."""

    def __init__(self, dialect: Dialect, name: ganggroup.Name, world: World, *, several: bool) -> None:
        """`several`: it is one of several of a gang, whose minima hold separately."""
        self.name, self.several = name, several
        self.group: Resource | None = None
        #: what the object asks for; None without one
        self.asked: Asked | None = None
        #: its minimum, below 0 if it cannot be honoured; 0 only for one of several PodGroups
        self.wanted = 0
        self.members = Members()
        self.leaving: dict[PodId, Pod] = {}
        #: pods whose place has changed; the reader clears it
        self.moved: set[PodId] = set()
        #: the names of ready pods by what they say, and how many live pods say what of their end
        self.said: dict[Said, set[str]] = {}
        self.kept: Counter[Kept] = Counter()
        self.count: Counter[State] = Counter()
        self.places: list[Places] = []
        #: by task, the places of the pods that name it
        self._of_task: dict[str, list[Places]] = {}
        self.dialect, self._kind, self._world = dialect, dialect.kind, world
        self._noted: dict[str, Noted] = {}
        #: of the pod that was read last, all that `said` and `kept` read of it, and what they returned
        self._template: tuple[object, ...] = ()
        self._facts: tuple[tuple[Shape, Labels], Said, Kept]
        self._failed: set[str] = set()
        self._by_shape: dict[tuple[Shape, Labels], Places] = {}
        for _, pod in sorted(world.pods_in(dialect.kind, *name)):
            self.note(pod)

    def note_referring(self, others: Mapping[Kind[Any], Set[str]]) -> None:
        """Reads the pods again that refer to objects of these kinds and names, which have changed."""
        self._template = ()
        if RESOURCE_QUOTA in others:
            for places in self.places:
                places.recharge()
        for name in [name for name, one in self._noted.items() if refers(one.pod, others)]:
            self.note(name)

    def note_changed(self, name: str) -> None:
        """Reads the pod of this name again if it says something new. No other pod has changed."""
        pod, old = self._pod(name), self._noted.get(name)
        if pod is None or old is None or old.state is not State.READY or not says_the_same(pod, old.pod):
            self.note(name)
        elif old.shape is not None:
            self._noted[name] = old._replace(pod=pod)
            self._by_shape[old.shape].put(pod)

    def renew(self, pod: Pod) -> None:
        """Takes in a newer state of a pod that says the same, if it is one of these."""
        name = pod.metadata.name
        old = self._noted.get(name) if pod.metadata.namespace == self.name[0] else None
        if old is None or old.shape is None or old.pod.metadata.uid != pod.metadata.uid:
            return
        self._noted[name] = Noted(pod, *old[1:])
        self._by_shape[old.shape].renew(pod)
        self.members.renew(pod)

    def _pod(self, name: str) -> Pod | None:
        return self._world.pods_in(self._kind, *self.name).get((self.name[0], name))

    def note(self, name: str) -> None:
        """Looks at the pod of this name again."""
        pod = self._pod(name)
        new = self._look(pod) if pod is not None and self._world.schedules(pod) else None
        old = self._noted.get(name)
        if old is not None and new is not None and old.pod is new.pod and old == new:
            return
        self._noted.pop(name, None)
        if old is not None:
            self._uncount(old)
            if new is None or new.pod.metadata.uid != old.pod.metadata.uid or new.shape != old.shape:
                self._leave(old, new)
        if new is not None:
            self._noted[name] = new
            self._count(new)

    def settle(self) -> None:
        """Reads the PodGroup, and gives its pods their places."""
        for name in [*self._failed]:  # their Jobs may have ended
            if _for_good(self._noted[name].pod, self._world):
                self.note(name)
        self.group, self.asked = self._world.groups_of(self.dialect).get(self.name), None
        row = self._world.describing(self.dialect, *self.name)
        if self.group is not None and row.asked is not None:
            self.asked = row.asked(self.group)
        # the gang's record has room for no sum of any minima
        self.wanted = min(self.asked.minimum, MOST_PLACES) if self.asked is not None else self.there
        if self.group is not None and not self.several and self.wanted == 0:
            self.wanted = 1  # no minimum: any of its pods may start without the others
        if not any(one.bound for one in self.said):
            for places in self._by_shape.values():
                places.await_none()
        self._name_places()
        lacking = self.wanted - self.there
        for places in self.places:
            self.moved |= places.settle(lacking, self.members)
            lacking -= places.awaited

    @property
    def schedulers(self) -> list[str]:
        """The other schedulers that pods name which name this group, where there are other schedulers."""
        if self._world.schedulers is None:
            return []
        names = {pod.spec.scheduler_name for pod in self._world.strangers_in(self._kind, *self.name).values()}
        return sorted(name or "default-scheduler" for name in names)

    @property
    def queue(self) -> str:
        """The queue that the object names; "" if none."""
        if self.group is None:
            return ""
        return stated_queue(self.group.metadata, self.asked.queue if self.asked is not None else "")

    @property
    def domain(self) -> str:
        """The node label of which one value holds all its pods; "" = any."""
        return self.asked.domain if self.asked is not None else ""

    @property
    def tasks(self) -> tuple[tuple[str, int], ...]:
        """The tasks of which it has a minimum, with that minimum."""
        return self.asked.tasks if self.asked is not None and not self.several else ()

    def of_task(self, task: str) -> int:
        """Returns how many places there are for pods of a task."""
        return sum(places.size for places in self._of_task.get(task, ()))

    @property
    def there(self) -> int:
        return self.count[State.READY] + self.count[State.ENDED]

    @property
    def empty(self) -> bool:
        """Whether there is no gang: neither a PodGroup nor pods, or only pods of other schedulers."""
        counted = (*_PLACED, State.GATED, State.LEAVING)
        if any(self.count[state] for state in counted):
            return False
        others = not self._noted and bool(self._world.strangers_in(self._kind, *self.name))
        return self.group is None or others

    @property
    def retired(self) -> frozenset[Place]:
        return frozenset().union(*(places.retired for places in self.places))

    @property
    def awaited(self) -> int:
        return sum(places.awaited for places in self.places)

    @property
    def least(self) -> int:
        """The minimum of the group, plus its abandoned places.

        An abandoned place counts as satisfied and must not replace a member. A group whose minimum is refused
        needs at least one.
        """
        return (1 if self.wanted < 0 else self.wanted) + sum(places.abandoned for places in self.places)

    @property
    def pod_sets(self) -> list[PodSet]:
        """The pod sets. Those of one of several PodGroups are a subgroup of the gang."""
        sets = [self._gathered(places.pod_set()) for places in self.places]
        if not self.several:
            subgroup = {id(places): task for task, _ in self.tasks for places in self._of_task.get(task, ())}
            return [
                replace(one, subgroup=subgroup[id(places)]) if id(places) in subgroup else one
                for places, one in zip(self.places, sets, strict=True)
            ]
        sets = [replace(one, namespace=self.name[0], subgroup="/".join(self.name)) for one in sets]
        if len(sets) == 1 and self.wanted:
            return [replace(sets[0], min_count=min(self.least, sets[0].count))]
        return sets

    def _gathered(self, pods: PodSet) -> PodSet:
        """Returns the pod set with affinity to its own group, if that names a node label that is no layer's.

        Its pods select each other by a label that no pod can have, and all pods of the group count as having.
        """
        domain = self.domain
        if not domain or self._world.layers.labels.of_label(domain):
            return pods
        shape, (namespace, name) = pods.shape, self.name
        term = PodTerm(domain, (Requirement(IN_GROUP, Operator.IN, (name,)),), (namespace,))
        return replace(
            pods,
            shape=replace(shape, pod_affinity=(*shape.pod_affinity, term)),
            labels=((IN_GROUP, name), *pods.labels),
        )

    @property
    def subgroups(self) -> tuple[Subgroup, ...]:
        """The minima of its tasks; or its own over its pod sets, if it is one of several PodGroups."""
        if not self.several:
            sized = ((task, least, self.of_task(task)) for task, least in self.tasks)
            return tuple(Subgroup(task, min(least, size)) for task, least, size in sized if size)
        if not self.places:
            return ()
        size = sum(places.size for places in self.places)
        return (Subgroup("/".join(self.name), min(self.least, size)),)

    @property
    def finished(self) -> bool:
        over = bool(self.count[State.ENDED]) or not self.wanted
        return over and not self.members and not self.leaving and self.there >= self.wanted

    @property
    def submitted(self) -> float:
        """When the group was created, or the oldest of its pods."""
        if self.group is not None:
            created = [self.group.metadata.creation_timestamp]
        else:
            counted = (one for one in self._noted.values() if one.state in (*_PLACED, State.GATED))
            created = [one.pod.metadata.creation_timestamp for one in counted]
        return min((seconds(time) for time in created if time is not None), default=0.0)

    def ready(self, names: Iterable[str]) -> Iterator[tuple[Pod, Said]]:
        """Yields these ready pods, in order of name."""
        for name in sorted(names):
            one = self._noted[name]
            assert one.said is not None, "a ready pod says something"
            yield one.pod, one.said

    def rejected(self) -> Iterator[Pod]:
        """Yields, in order of name, the pods without a controller that their nodes have refused."""
        for name in sorted(self._failed):
            pod = self._noted[name].pod
            if pod.metadata.deletion_timestamp is not None or not rejected(pod):
                continue
            said = kept(pod)
            if not said.controlled and said.on_partial != KEEP:
                yield pod

    def _look(self, pod: Pod) -> Noted:
        if pod.terminal:
            if not _for_good(pod, self._world):
                return Noted(pod, State.FAILED)
            return Noted(pod, State.ENDED, self._read(pod)[0])
        if not live(pod):
            return Noted(pod, State.LEAVING if occupies(pod) else State.GONE)
        if scheduling_gates(pod.spec):
            return Noted(pod, State.GATED, kept=kept(pod))
        return Noted(pod, State.READY, *self._read(pod))

    def _read(self, pod: Pod) -> tuple[tuple[Shape, Labels], Said, Kept]:
        """Returns what `said` and `kept` return, which pods of one template have in common."""
        meta, spec = pod.metadata, structs.replace(pod.spec, node_name="")
        own = meta.labels, unbound(meta.annotations), meta.unreadable, meta.deletion_timestamp
        template = spec, *own, controller_of(pod) is None, device_claims(pod, self._world)
        if template != self._template:
            shape, labels, what = said(pod, self._world)
            if (task := mark(meta, self.dialect.task)) and self.dialect.task:
                labels = tuple(sorted({*labels, (self.dialect.task, task)}))
            self._template, self._facts = template, ((shape, labels), what, kept(pod))
        shaped, what, lasting = self._facts
        return shaped, what._replace(bound=bool(pod.spec.node_name)), lasting

    def _count(self, new: Noted) -> None:
        uid, name = PodId(new.pod.metadata.uid), new.pod.metadata.name
        self.count[new.state] += 1
        if new.said is not None:
            self.said.setdefault(new.said, set()).add(name)
        if new.kept is not None:
            self.kept[new.kept] += 1
        if new.state is State.LEAVING:
            self.leaving[uid] = new.pod
        elif new.state is State.FAILED:
            self._failed.add(name)
        elif new.state is State.GATED:
            self.members.put(new.pod, None)
        if new.shape is not None:
            places = self._by_shape.get(new.shape)
            if places is None:
                places = self._by_shape[new.shape] = Places(*new.shape, self._world)
            places.put(new.pod)

    def _uncount(self, old: Noted) -> None:
        name = old.pod.metadata.name
        self.count[old.state] -= 1
        if old.said is not None:
            names = self.said[old.said]
            names.discard(name)
            if not names:
                del self.said[old.said]
        if old.kept is not None:
            self.kept[old.kept] -= 1
            if not self.kept[old.kept]:
                del self.kept[old.kept]
        uid = PodId(old.pod.metadata.uid)
        self.leaving.pop(uid, None)
        self._failed.discard(name)
        if old.state is State.GATED:
            self.members.remove(uid)

    def _leave(self, old: Noted, new: Noted | None) -> None:
        """Takes a pod out of its place. A bound pod that is neither ready nor ended now is lost."""
        uid = PodId(old.pod.metadata.uid)
        self.members.remove(uid)
        if old.shape is None:
            return
        here = new is not None and new.pod.metadata.uid == uid and new.state in _PLACED
        lost = old.state is State.READY and bool(old.pod.spec.node_name) and not here
        self._by_shape[old.shape].remove(uid, lost=lost)

    def _name_places(self) -> None:
        """Puts the pod sets into order, by the names of their pods, and names each; forgets empty ones."""
        for shape in [shape for shape, places in self._by_shape.items() if places.empty]:
            del self._by_shape[shape]
        self.places = sorted(self._by_shape.values(), key=lambda places: (not places.first, places.first))
        # each of several PodGroups has its own pod sets, even of equal pods; "@" is in no name of Kubernetes
        prefix = f"{self.name[1]}@{self.name[0]}" if self.several else PODS
        taken: set[str] = set()
        for places in self.places:
            name = places.called_for
            if name in taken:
                name = pod_set_name(places.shape, places.looked_at, namespaces=True)
            while name in taken:  # of two terms the one that means all namespaces has the plain name
                name += "x"
            taken.add(name)
            places.call(prefix + name.removeprefix(PODS))
        self._of_task = {}
        for places in self.places:
            for task in (value for key, value in places.looked_at if key == self.dialect.task):
                self._of_task.setdefault(task, []).append(places)


def _for_good(pod: Pod, world: World) -> bool:
    """Whether an ended pod will have no successor."""
    controller = controller_of(pod)
    if pod.status.phase == "Succeeded" or controller is None:
        return not rejected(pod)
    if not JOB.matches(controller):
        return False
    job = world.jobs.get((pod.metadata.namespace, controller.name))
    return job is None or job.metadata.uid != controller.uid or job_finished(job)
