"""The nodes of a cluster, and those of them that muster uses: nodes with the labels of a selector.

Other nodes do not exist for the core.
"""

from collections.abc import Iterator

from muster.api import selectors
from muster.api.base import LabelSelector, Resource
from muster.api.core_v1 import Node
from muster.core.words.events import Event, NodeRemoved
from muster.core.words.gang import NodeName
from muster.translate.nodes import node_changed, says_as_before


class UsedNodes:
    def __init__(self, selector: LabelSelector) -> None:
        self.selector = selector
        #: names of the nodes that muster uses
        self.names: set[str] = set()
        #: names of all nodes, also of others; and of those that are gone, until their pods count as lost
        self.present, self.vanished = set[str](), set[str]()

    def change(self, old: Resource | None, new: Resource | None) -> Iterator[Event]:
        """Takes in a node, and yields what the core has to know of it."""
        if new is not None:
            self.present.add(new.metadata.name)
        elif old is not None:
            self.present.discard(old.metadata.name)
            self.vanished.add(old.metadata.name)
        if isinstance(new, Node) and selectors.matches(self.selector, new.metadata.labels):
            before = old if isinstance(old, Node) and old.metadata.name in self.names else None
            self.names.add(new.metadata.name)
            if before is None or not says_as_before(new, before):
                event = node_changed(new)
                if before is None or node_changed(before) != event:
                    yield event
        elif old is not None and old.metadata.name in self.names:
            self.names.discard(old.metadata.name)
            yield NodeRemoved(NodeName(old.metadata.name))
