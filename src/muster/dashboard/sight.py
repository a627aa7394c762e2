"""A moment of the cluster as one may see it who may not see all of it.

What is not defined here is not shown: a property of `Moment` that is new raises HiddenPage, and so does
`live`, since what a scheduler answers depends on all namespaces. The page then says which right it needs.
"""

from dataclasses import replace
from functools import cached_property
from typing import NoReturn

from muster.api.core_v1 import Pod
from muster.app.views.job import JobView
from muster.app.views.nodes import NodeView
from muster.app.views.queues import QueueView
from muster.core.words.gang import GangId, Layer
from muster.dashboard.access import Sight
from muster.dashboard.cluster import Moment
from muster.translate.disclosure import Disclosure


class HiddenPage(Exception):
    """A page needs what the viewer may not see."""


def seen(moment: Moment, sight: Sight) -> Moment:
    """The moment as far as it may be seen."""
    return moment if sight.whole else Seen(moment, sight)


class Seen(Moment):
    """A part of a moment. Names of other namespaces' gangs are left out of its texts."""

    def __init__(self, moment: Moment, sight: Sight) -> None:
        self._whole, self.sight = moment, sight
        self.revision, self.now, self.lock = moment.revision, moment.now, moment.lock
        hidden = [name for name, shown in (("nodes", sight.nodes), ("queues", sight.queues)) if not shown]
        self.missing = [*moment.missing, *hidden]
        self.namespaces = self._own = moment.namespaces if sight.namespaces is None else sight.namespaces
        self._names = Disclosure(lambda name: name.partition("/")[0] in moment.namespaces)

    def __getattr__(self, name: str) -> NoReturn:
        raise HiddenPage(name)

    def on(self, node: str) -> list[tuple[Pod, JobView | None]]:
        return [one for one in self._whole.on(node) if one[0].metadata.namespace in self._own]

    @cached_property
    def jobs(self) -> list[JobView]:
        return [view for view in self._whole.jobs if view.namespace in self._own]

    def text(self, text: str) -> str:
        return self._names.text(text, self._own)

    def ends(self) -> dict[tuple[str, str], float]:
        return {record: end for record, end in self._whole.ends().items() if record[0] in self._own}

    @cached_property
    def queues(self) -> list[QueueView]:
        if not self.sight.queues:
            return []
        return [
            replace(view, front=[GangId(each) for each in self._names.gangs(view.front, self._own)])
            for view in self._whole.queues
        ]

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self._whole.layers if self.sight.nodes else ()

    @cached_property
    def nodes(self) -> list[NodeView]:
        if not self.sight.nodes:
            return []
        return [replace(node, note=self.text(node.note)) for node in self._whole.nodes]
