"""Sorts the places of a gang by state: filled, ready to be filled, missing, or lost."""

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from functools import cached_property

from muster.api.core_v1 import Pod
from muster.core.words.gang import Gang, NodeName, Place
from muster.runtime.commit.view import GangView
from muster.translate.group import Group


class Places:
    """The places of a gang, by state. A missing place may be ready as well: its pod exists.

    What costs a visit to all places is computed when it is first read: while a large gang's pods appear, one
    step follows the other, and most of them only wait.
    """

    def __init__(self, view: GangView, group: Group) -> None:
        self._view, self._group = view, group
        #: places with a live pod on a node, and places with a pod that could be bound
        self.filled: Mapping[Place, Pod] = group.members.filled
        self.ready: Mapping[Place, Pod] = group.members.ready

    @cached_property
    def settled(self) -> Set[Place]:
        """Satisfied places: filled, or retired (no pod will fill them any more)."""
        filled, retired = self.filled.keys(), self._group.retired
        return filled | retired if retired else filled

    @cached_property
    def missing(self) -> Mapping[Place, NodeName]:
        """Assigned places that are to be filled."""
        nodes = self._view.nodes
        return {place: node for place, node in self._unfilled.items() if node in nodes}

    @cached_property
    def lost(self) -> Mapping[Place, NodeName]:
        """Places assigned to nodes that no longer exist."""
        nodes = self._view.nodes
        return {place: node for place, node in self._unfilled.items() if node not in nodes}

    @cached_property
    def _unfilled(self) -> Mapping[Place, NodeName]:
        assigned = self._view.assigned
        settled = self.settled if assigned else frozenset[Place]()
        return {place: node for place, node in assigned.items() if place not in settled}


def minimum_met(gang: Gang, places: Iterable[Place]) -> bool:
    """Whether these places satisfy all stated minima of `gang`."""
    return gang.met(Counter(place.pod_set for place in places))
