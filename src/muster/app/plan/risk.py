"""What decides on a cluster about the risk of preemption."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

from muster.api.core_v1 import Node
from muster.api.muster_v1alpha1 import Queue
from muster.api.rates import Rates
from muster.api.scheduling import PriorityClass
from muster.core.words.gang import Gang, GangId
from muster.core.words.gang import Queue as Rules
from muster.translate.nodes import capacity_of
from muster.translate.queues import queue_changed
from muster.translate.risk import Risk, risk


@dataclass(frozen=True, slots=True)
class Stakes:
    """PriorityClasses, rules of queues, and the capacity and prices of a cluster."""

    classes: list[PriorityClass]
    queues: dict[str, Rules]
    #: that the queues share
    capacity: Mapping[str, int]
    prices: Rates

    @classmethod
    def among(
        cls,
        known: Iterable[object],
        counting: Iterable[Queue],
        prices: Rates,
        capacity: Mapping[str, int] | None = None,
    ) -> Self:
        """As the known objects and the queues that count decide.

        `capacity`: that of the nodes, if the caller has computed it.
        """
        classes, nodes = list[PriorityClass](), list[Node]()
        queues = {each.metadata.name: queue_changed(each).queue for each in counting}
        for each in known:
            match each:
                case PriorityClass():
                    classes.append(each)
                case Node():
                    nodes.append(each)
        room = capacity_of(nodes if queues else ()) if capacity is None else capacity
        return cls(classes, queues, room, prices)

    def of(self, gangs: Iterable[Gang]) -> list[Risk]:
        """Returns the risk of each gang. Equal risks are returned once."""
        alike = dict.fromkeys(replace(gang, id=GangId(""), submitted=0.0) for gang in gangs)
        found = (risk(gang, self.classes, self.prices, self.queues, self.capacity) for gang in alike)
        return list(dict.fromkeys(each for each in found if each is not None))
