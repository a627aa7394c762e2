"""Decides which pod fills which place, and keeps that up to date pod by pod.

A place is for one running pod at a time, not for one particular pod: the pods of a Job's second wave, and the
replacement of a lost pod, take the places of their predecessors. A pod takes, in this order,

1. the place that its annotation names (it was bound to it);
2. the place it has already, so that its place in a plan in progress does not change;
3. of its Job, the slot of its completion index, if that is below the number of slots;
4. a place whose pod was lost, else the lowest free place.

Without 2 the rule would need no memory, and bound pods would still always have the same places; but
waiting pods would move up whenever a lower place becomes free, while binds to the old places are under way.
"""

from bisect import bisect_left, insort
from typing import NamedTuple

from muster import names
from muster.api.core_v1 import Pod
from muster.api.natural import natural
from muster.core.words.gang import Place, PodId


class Claim(NamedTuple):
    """What a pod may claim among the places of its block, which are counted from 0."""

    #: of several pods with equal claims, the least goes first
    order: tuple[float | bool, str]
    #: the place that its annotation names
    named: int | None = None
    #: the slot of its completion index
    own: int | None = None


class Filling:
    """The places of one block, 0 to `size` - 1, and their pods. `settle` applies what has changed since."""

    def __init__(self, size: int = 0) -> None:
        self.size = 0
        self.place_of: dict[PodId, int] = {}
        self.pod_at: dict[int, PodId] = {}
        #: places without a pod, ascending
        self.free: list[int] = []
        #: those of them whose pod was lost, which a new pod takes before any other, ascending
        self.gaps: list[int] = []
        #: pods with another place, or none, and places with another pod, or none; the reader clears both
        self.moved: set[PodId] = set()
        self.changed: set[int] = set()
        self._claims: dict[PodId, Claim] = {}
        self._naming: dict[int, set[PodId]] = {}
        self._named: list[int] = []  # the keys of `_naming`, ascending
        self._contested: set[int] = set()  # named places that may have the wrong pod
        self._waiting: set[PodId] = set()  # pods without a place
        self.resize(size)

    def put(self, uid: PodId, claim: Claim, last: int | None = None) -> None:
        """Takes in a pod, or its changed claim. `last`: the place that a new pod had in an earlier block."""
        old = self._claims.get(uid)
        if old == claim:
            return
        if old is not None and old.named is not None:
            self._unname(uid, old.named)
        self._claims[uid] = claim
        if claim.named is not None:
            if claim.named not in self._naming:
                insort(self._named, claim.named)
            self._naming.setdefault(claim.named, set()).add(uid)
            self._contested.add(claim.named)
        if old is None and last is not None and 0 <= last < self.size and last not in self.pod_at:
            self._seat(uid, last)
        elif old is None:
            self._waiting.add(uid)

    def drop(self, uid: PodId) -> int | None:
        """Forgets a pod; returns the place that it had."""
        claim = self._claims.pop(uid, None)
        if claim is not None and claim.named is not None:
            self._unname(uid, claim.named)
        place = self.place_of.get(uid)
        if place is not None:
            self._unseat(uid)
        self._waiting.discard(uid)
        return place

    def resize(self, size: int) -> None:
        """Adds places, or removes the last ones; pods of removed places wait for another."""
        self.changed.update(range(min(size, self.size), max(size, self.size)))
        if size > self.size:
            self.free.extend(range(self.size, size))
            self._contested.update(self._named[bisect_left(self._named, self.size) :])
        for place in range(size, self.size):
            if place in self.pod_at:
                self._unseat(self.pod_at[place])
        if size < self.size:
            del self.free[bisect_left(self.free, size) :]
            del self.gaps[bisect_left(self.gaps, size) :]
        self.size = size

    def lose(self, place: int) -> None:
        """Keeps a free place for a successor of the pod that was lost."""
        insort(self.gaps, place)

    def give_up(self, but: int) -> None:
        """Keeps no more than the lowest `but` of these places."""
        self.changed.update(self.gaps[but:])
        del self.gaps[but:]

    def is_kept(self, place: int) -> bool:
        position = bisect_left(self.gaps, place)
        return position < len(self.gaps) and self.gaps[position] == place

    @property
    def highest(self) -> int:
        """The highest place that an annotation names, or that is kept; -1 without one."""
        return max(self._named[-1:] + self.gaps[-1:], default=-1)

    def settle(self) -> None:
        """Gives each pod the place that the rule gives it; a pod that finds none free waits."""
        while self._contested:
            place = self._contested.pop()
            claimants = self._naming.get(place)
            if not claimants or place >= self.size:
                continue
            first = min(claimants, key=self._order)
            holder = self.pod_at.get(place)
            if holder == first:
                continue
            for uid in (holder, first):
                if uid is not None and uid in self.place_of:
                    self._unseat(uid)
            self._seat(first, place)
        if not (self._waiting and self.free):
            return
        waiting = sorted(self._waiting, key=self._order)
        for uid in waiting:
            own = self._claims[uid].own
            if own is not None and own < self.size and own not in self.pod_at:
                self._seat(uid, own)
        for uid in waiting:
            if not self.free:
                break
            if uid not in self.place_of:
                self._seat(uid, self.gaps[0] if self.gaps else self.free[0])

    def _order(self, uid: PodId) -> tuple[float | bool, str]:
        return self._claims[uid].order

    def _seat(self, uid: PodId, place: int) -> None:
        self._waiting.discard(uid)
        self.place_of[uid], self.pod_at[place] = place, uid
        _remove(self.free, place)
        _remove(self.gaps, place)
        self.moved.add(uid)
        self.changed.add(place)

    def _unseat(self, uid: PodId) -> None:
        place = self.place_of.pop(uid)
        del self.pod_at[place]
        insort(self.free, place)
        self._waiting.add(uid)
        self.moved.add(uid)
        self.changed.add(place)
        if place in self._naming:
            self._contested.add(place)

    def _unname(self, uid: PodId, place: int) -> None:
        claimants = self._naming[place]
        claimants.discard(uid)
        self._contested.add(place)
        if not claimants:
            del self._naming[place]
            _remove(self._named, place)


def _remove(ascending: list[int], place: int) -> None:
    position = bisect_left(ascending, place)
    if position < len(ascending) and ascending[position] == place:
        del ascending[position]


def planned(pod: Pod) -> Place | None:
    """Returns the place that `muster.dev/plan: <epoch>.<attempt>/<pod set>/<index>` names."""
    match pod.metadata.annotations.get(names.PLAN, "").split("/"):
        case [_, pod_set, text] if (index := natural(text)) is not None:
            return Place(pod_set, index)
    return None
