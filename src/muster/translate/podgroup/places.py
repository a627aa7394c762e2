"""The places of one pod set: a place per pod, kept open for the successor of a lost pod.

A bound pod that is lost (deleted, or its node is gone) leaves its place to a successor of equal shape, as
long as the group has fewer pods than its minimum. Only the earlier readings show that such a place existed:
after a change of leader only the claim remains.
"""

from bisect import bisect_left, insort
from collections import Counter

from muster.api.core_v1 import Pod
from muster.core.words.gang import MOST_PLACES, Labels, Place, PodId, PodSet, Shape
from muster.translate import network
from muster.translate.group import Members
from muster.translate.places import Claim, Filling, planned
from muster.translate.podgroup.pod_sets import pod_set_name
from muster.translate.quotas import proposed
from muster.translate.world import World


class Places:
    """The pods of one shape, running and ended, and their places. `settle` applies what has changed since."""

    def __init__(self, shape: Shape, looked_at: Labels, world: World) -> None:
        self.shape, self.looked_at = shape, looked_at
        self.name = ""
        #: the name for its shape; to compute it costs more than to read a pod
        self.called_for = pod_set_name(shape, looked_at)
        self.retired: set[Place] = set()
        #: how many retired places no pod has: a bound pod of a higher index still runs
        self.abandoned = 0
        #: how many places whose pod was lost wait for another
        self.awaited = 0
        self._world = world
        self._filling = Filling()
        self._pods: dict[PodId, Pod] = {}
        self._names: list[tuple[str, PodId]] = []  # ascending
        self._labels: Counter[tuple[str, str]] = Counter()
        self._common = looked_at
        self._ranks: dict[int, int] = {}
        self._changed: set[PodId] = set()
        #: it has changed since it was settled; and its pod set, as long as it has not
        self._stale = True
        self._known: PodSet | None = None

    @property
    def first(self) -> str:
        """The least name of its pods; "" if it has none left."""
        return self._names[0][0] if self._names else ""

    def put(self, pod: Pod) -> None:
        """Takes in a pod in its current state."""
        uid = PodId(pod.metadata.uid)
        old = self._pods.get(uid)
        if old is None:
            insort(self._names, (pod.metadata.name, uid))
        if old is None or old.metadata.labels != pod.metadata.labels:
            if old is not None:
                self._unlabel(old)
            self._labels.update(pod.metadata.labels.items())
        self._pods[uid] = pod
        self._changed.add(uid)
        self._stale = True

    def renew(self, pod: Pod) -> None:
        """Takes in a newer state of one of its pods that says the same."""
        self._pods[PodId(pod.metadata.uid)] = pod

    def remove(self, uid: PodId, *, lost: bool) -> None:
        """Forgets a pod. `lost`: it was bound, and nothing says that it has ended."""
        pod = self._pods.pop(uid)
        del self._names[bisect_left(self._names, (pod.metadata.name, uid))]
        self._unlabel(pod)
        self._changed.discard(uid)
        self._stale = True
        place = self._filling.drop(uid)
        if lost and place is not None:
            self._filling.lose(place)

    def recharge(self) -> None:
        """Computes anew what ResourceQuotas charge for its pods: one of them has changed."""
        self._known = None

    @property
    def empty(self) -> bool:
        """Whether it has neither pods nor places that wait for one."""
        return not self._pods and not self._filling.gaps

    def call(self, name: str) -> None:
        """Names the pod set. Places of another name are other places: the pods claim them from the start."""
        if name != self.name:
            self.name = name
            self._filling, self.retired, self._ranks = Filling(), set(), {}
            self._changed.update(self._pods)
            self._stale = True

    def await_none(self) -> None:
        """Keeps no place for the successor of a lost pod."""
        if self._filling.gaps:
            self._filling.give_up(0)
            self._stale = True

    def settle(self, lacking: int, members: Members) -> set[PodId]:
        """Gives the pods their places, and returns the pods whose place has changed.

        `lacking`: how many pods the minimum lacks, and so how many places of lost pods are kept.
        """
        filling = self._filling
        if not (self._stale or filling.gaps):
            return set()
        for uid in self._changed:
            filling.put(uid, self._claim(self._pods[uid]))
            if uid in filling.place_of:
                filling.changed.add(filling.place_of[uid])
        # One place per pod, and up to the highest index that a pod has or that is kept. While a place is
        # kept, no place is removed: a pod that was bound before muster started would take the kept one.
        filling.resize(max(len(self._pods), 1 + filling.highest, filling.size if filling.gaps else 0))
        filling.settle()
        filling.give_up(max(lacking, 0))
        for uid in sorted(filling.moved | self._changed):
            if (pod := self._pods.get(uid)) is None:
                continue
            if pod.terminal:
                members.remove(uid)
            else:
                members.put(pod, Place(self.name, filling.place_of[uid]))
        for place in filling.changed:
            self._look(place)
        self.awaited = len(filling.gaps)
        self.abandoned = len(filling.free) - self.awaited
        moved = filling.moved
        filling.moved, filling.changed, self._changed = set(), set(), set()
        self._stale, self._known = False, None
        return moved

    @property
    def size(self) -> int:
        """The number of its places."""
        return self._filling.size

    def pod_set(self) -> PodSet:
        """Returns the pod set; the same object as long as nothing has changed."""
        if self._known is None or self._world.uncreated:
            self._known = self._pod_set()
        return self._known

    def _pod_set(self) -> PodSet:
        if self._pods:
            any_of_them = next(iter(self._pods.values())).metadata.labels
            same = len(self._pods)
            self._common = tuple(sorted(item for item in any_of_them.items() if self._labels[item] == same))
        asked = self._names if self._world.uncreated else self._names[:1]
        uncreated, charges = proposed((self._pods[uid] for _, uid in asked), self._world)
        return PodSet(
            self.name,
            self.shape,
            self.size,
            labels=self._common,
            uncreated=uncreated,
            quotas=charges,
            ranks=network.ranks(self.size, self._ranks),
        )

    def _unlabel(self, pod: Pod) -> None:
        """Subtracts a pod from the counts of its labels, and forgets labels that no pod has any more."""
        for label in pod.metadata.labels.items():
            self._labels[label] -= 1
            if not self._labels[label]:
                del self._labels[label]

    def _claim(self, pod: Pod) -> Claim:
        named = planned(pod)
        own = named is not None and named.pod_set == self.name and named.index < MOST_PLACES
        # running pods claim their places before those that have ended
        return Claim((pod.terminal, pod.metadata.name), named.index if named is not None and own else None)

    def _look(self, place: int) -> None:
        """Looks whether a place is retired, and which position in the gang its pod has."""
        uid = self._filling.pod_at.get(place)
        pod = self._pods[uid] if uid is not None else None
        held = pod is not None and not pod.terminal
        there = place < self._filling.size
        if there and not held and not self._filling.is_kept(place):
            self.retired.add(Place(self.name, place))
        else:
            self.retired.discard(Place(self.name, place))
        rank = network.index(pod) if pod is not None and held else None
        if rank is None:
            self._ranks.pop(place, None)
        else:
            self._ranks[place] = rank
