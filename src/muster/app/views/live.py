"""The views of jobs and nodes, kept up to date by changes of objects.

Each view is what `jobs.views` and `nodes.views` make of the same objects. A change costs as much as the job
or the node that it belongs to, however many others there are: objects that name each other (by controller,
by group, as the source of a gang) form a part, and only parts that have changed are viewed again, once for
all changes since the last look.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final

from muster.api import groups, kinds
from muster.api.base import AnyKind, Resource
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Node, Pod
from muster.api.fields import UNREADABLE
from muster.api.jobset_v1alpha2 import JobSet
from muster.api.muster_v1alpha1 import Gang
from muster.app.views import jobs, nodes
from muster.app.views.job import JobView
from muster.app.views.nodes import NodeView
from muster.app.views.objects import (
    GroupName,
    Objects,
    controlled_by,
    group_name,
    group_of,
    groups_of_templates,
)
from muster.core.words.gang import NodeName
from muster.core.world.failed_starts import FailedStarts, Suspect

#: What jobs consist of.
OF_JOBS: Final[tuple[AnyKind, ...]] = (
    *(kinds.JOBSET, kinds.JOB, kinds.VOLCANO_JOB, kinds.BATCH_JOB, kinds.POD, kinds.GANG),
    *groups.OF_NAMED,
)
_RANK: Final = {kind: number for number, kind in enumerate(OF_JOBS)}
#: What these are controlled by, if that is part of a job, too.
_CONTROLLERS: Final = {(kind.group, kind.kind) for kind in OF_JOBS}
_Id = tuple[AnyKind, str]
log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Part:
    """Objects that name each other, and the jobs that they make up."""

    members: list[_Id]
    #: with the keys by which jobs are sorted
    views: Sequence[tuple[Any, JobView]] = ()  # Any: of `jobs.by_age`
    #: by `namespace/name` of a pod, its job; a group has the pods that no Job in it has made
    of_pod: Mapping[str, JobView] = field(default_factory=dict)


@dataclass(slots=True)
class LiveJobs:
    _objects: dict[_Id, Resource] = field(default_factory=dict)
    _names: dict[_Id, tuple[str | GroupName, ...]] = field(default_factory=dict)
    _naming: dict[str | GroupName, dict[_Id, None]] = field(default_factory=dict)
    _parts: dict[_Id, _Part] = field(default_factory=dict)
    _all_parts: dict[_Part, None] = field(default_factory=dict)
    #: objects whose part is to be viewed again
    _stale: dict[_Id, None] = field(default_factory=dict)
    _all: list[JobView] | None = None

    def change(self, kind: AnyKind, key: str, new: Resource | None) -> None:
        """Takes in an object of a kind of `OF_JOBS`; `new`: None = it is gone. `key`: `namespace/name`."""
        one = (kind, key)
        self._leave(one)
        for name in self._names.pop(one, ()):
            del self._naming[name][one]
            if not self._naming[name]:
                del self._naming[name]
        self._all = None
        if new is None:
            self._objects.pop(one, None)
            self._stale.pop(one, None)
            return
        try:
            names = tuple(dict.fromkeys(_names(kind, new)))
        except UNREADABLE:
            log.exception("%s %s cannot be read, and is set aside", kind.kind, key)
            self._objects.pop(one, None)
            self._stale.pop(one, None)
            return
        self._objects[one], self._names[one], self._stale[one] = new, names, None
        for name in names:
            self._naming.setdefault(name, {})[one] = None

    def views(self) -> list[JobView]:
        """One view per job, oldest first."""
        if self._all is None:
            while self._stale:
                self._view(next(iter(self._stale)))
            keyed = [each for part in self._all_parts for each in part.views]
            keyed.sort(key=itemgetter(0))
            self._all = [view for _, view in keyed]
        return self._all

    def of_pod(self, key: str) -> JobView | None:
        """The job of a pod, by its `namespace/name`, as of the last `views`."""
        part = self._parts.get((kinds.POD, key))
        return part.of_pod.get(key) if part is not None else None

    def _leave(self, one: _Id) -> None:
        """Dissolves the part of an object: what is left of it may be one part no longer."""
        part = self._parts.get(one)
        if part is None:
            return
        del self._all_parts[part]
        for member in part.members:
            del self._parts[member]
            self._stale[member] = None

    def _view(self, first: _Id) -> None:
        members, found, seen = [first], {first}, set[str | GroupName]()
        for one in members:  # it grows
            self._leave(one)
            self._stale.pop(one, None)
            for name in self._names[one]:
                if name not in seen:
                    seen.add(name)
                    new = [other for other in self._naming[name] if other not in found]
                    members += new
                    found.update(new)
        part = _Part(sorted(members, key=lambda one: (_RANK[one[0]], one[1])))
        self._parts |= dict.fromkeys(part.members, part)
        self._all_parts[part] = None
        try:
            made = jobs.views(_objects((one[0], self._objects[one]) for one in part.members))
            part.views = [(jobs.by_age(view), view) for view in made]
            part.of_pod = {pod.key: view for view in sorted(made, key=_no_group) for pod in view.pods}
        except UNREADABLE:
            log.exception("%s %s cannot be read, and is set aside", first[0].kind, first[1])


def _no_group(view: JobView) -> bool:
    return view.kind not in groups.OF_NAMED


def _names(kind: AnyKind, resource: Any) -> Iterator[str | GroupName]:  # Any: of this kind
    """The names by which an object and the other objects of its job name each other."""
    if resource.metadata.uid:
        yield resource.metadata.uid
    by = controlled_by(resource)
    if by is not None and (by.group, by.kind) in _CONTROLLERS:
        yield by.uid
    if isinstance(resource, Pod):
        if (named := group_of(resource)) is not None:
            yield named
    elif isinstance(resource, JobSet | Job):
        yield from groups_of_templates(resource)
    elif isinstance(resource, Gang):
        if resource.spec.source.uid:
            yield resource.spec.source.uid
        yield from jobs.sources(resource)
    elif kind in groups.BY_KIND and kind in groups.OF_NAMED:
        yield group_name(kind, resource)


def _objects(found: Iterable[tuple[AnyKind, Any]]) -> Objects:  # Any: of this kind
    by_kind: dict[AnyKind, list[Any]] = {}
    for kind, each in found:
        by_kind.setdefault(kind, []).append(each)
    return Objects(
        by_kind.get(kinds.JOBSET, ()),
        by_kind.get(kinds.JOB, ()),
        [(kind, each) for kind in groups.OF_NAMED for each in by_kind.get(kind, ())],
        by_kind.get(kinds.POD, ()),
        by_kind.get(kinds.GANG, ()),
        by_kind.get(kinds.BATCH_JOB, ()),
        by_kind.get(kinds.VOLCANO_JOB, ()),
    )


@dataclass(slots=True)
class LiveNodes:
    _nodes: dict[str, Node] = field(default_factory=dict)
    _pods: dict[str, dict[str, Pod]] = field(default_factory=dict)
    _views: dict[str, NodeView] = field(default_factory=dict)
    #: names of nodes to view again
    _stale: set[str] = field(default_factory=set)
    _suspects: Mapping[NodeName, tuple[Suspect, bool]] = field(default_factory=dict)
    _all: list[NodeView] = field(default_factory=list)

    def node(self, name: str, new: Node | None) -> None:
        """Takes in a node; `new`: None = it is gone."""
        self._stale.add(name)
        if new is None:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = new

    def pod(self, key: str, old: Pod | None, new: Pod | None) -> None:
        """Takes in a pod. `key`: `namespace/name`; `old`: as it was taken in before."""
        for pod, there in ((old, False), (new, True)):
            if pod is not None and (name := pod.spec.node_name):
                self._stale.add(name)
                on = self._pods.setdefault(name, {})
                if there and not pod.terminal:
                    on[key] = pod
                else:
                    on.pop(key, None)
                if not on:
                    del self._pods[name]

    def on(self, name: str) -> Mapping[str, Pod]:
        """The pods that take room on a node, by `namespace/name`."""
        return self._pods.get(name, {})

    def views(self, memory: FailedStarts) -> list[NodeView]:
        """All nodes by name. `memory`: where pods have failed."""
        suspects = {name: (each, name in memory.avoided) for name, each in memory.suspects.items()}
        if suspects != self._suspects:
            self._stale.update(suspects.keys() | self._suspects.keys())
            self._suspects = suspects
        if self._stale:
            for name in self._stale:
                node = self._nodes.get(name)
                if node is None:
                    self._views.pop(name, None)
                else:
                    self._views[name] = nodes.view(node, self.on(name).values(), memory)
            self._stale.clear()
            self._all = [self._views[name] for name in sorted(self._views)]
        return self._all
