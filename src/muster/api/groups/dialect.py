"""A row of the table of groups, and what an object of its kind asks for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from muster.api.base import AnyKind, Object, Resource
from muster.api.fields import convert


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a group object asks for by fields of its own, whatever its pods say.

    Marks and annotations that all dialects have in common are read from its metadata, and count more.
    """

    #: how many of its pods must run together
    minimum: int
    #: the field that says so
    field: str
    #: by task, how many of the pods of that task must be among them (`Dialect.task`)
    tasks: tuple[tuple[str, int], ...] = ()
    #: the field that says so
    field_of_tasks: str = ""
    queue: str = ""
    #: the name of a PriorityClass
    priority_class: str = ""
    #: counts more than the value of its class
    priority: int | None = None
    #: False: it does not preempt, whatever its class and its pods say
    preempts: bool = True
    #: node label: all of its pods run on nodes with one value of it
    domain: str = ""
    #: its pods are evicted together or not at all, also those above the minimum
    indivisible: bool = False
    #: what all of its pods request: quota is held for it before they exist
    total: Mapping[str, str | int | float] | None = None
    #: why it is Invalid: a field that cannot be honoured, and what to write instead
    refusal: str = ""
    #: what is read otherwise than its dialect would
    warnings: tuple[str, ...] = ()


class Phases(NamedTuple):
    """The words for what a group does, in the status of its object."""

    pending: str
    #: as many of its pods exist as must run together
    enough: str
    scheduling: str
    scheduled: str
    running: str
    finished: str
    failed: str
    #: whether the status counts its pods on nodes, too
    counted: bool = True


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Dialect:
    """A kind of group. Rows are compared by identity: keys of groups are hashed often."""

    #: what the names of its Gang records begin with
    name: str
    #: what people call it; "": `name`
    called: str = ""
    kind: AnyKind
    #: what an object of it controls: the pods, or the Jobs that control them
    controls: AnyKind | None = None
    #: label of pods that its controller sets to its name
    stamp: str = ""
    #: label by which a pod names its group. Without the object the gang waits: it may come after its pods
    label: str = ""
    #: annotations by which a pod names its group as by `label`; the first that a pod has counts
    annotations: tuple[str, ...] = ()
    #: the row by whose keys pods name the objects of this one, too (`naming`)
    shares: "Dialect | None" = None
    #: whether `spec.schedulingGroup.podGroupName` of a pod names its group
    in_spec: bool = False
    #: label or annotation of a pod that names its task, of which the group may have a minimum
    task: str = ""
    #: labels or annotations by which a pod names a gang that it describes itself while the object does not
    #: exist; the first that a pod has counts
    by_description: tuple[str, ...] = ()
    #: where such a pod says how many must run together, and what else describes its gang
    minimum: tuple[str, ...] = ()
    description: tuple[str, ...] = ()
    #: reads an object. None: it asks for what its pod templates say
    asked: Callable[[Any], Asked] | None = None  # Any: an object of `kind`
    #: the inverse of `asked`, as far as the dialect has fields for it: the spec of an object
    spec: Callable[[Asked], Object] | None = None
    #: whether the pods that name an object are no gang: each starts alone. None: they always are one
    alone: Callable[[Any], bool] | None = None  # Any: an object of `kind`
    #: None: the status is its own controller's
    phases: Phases | None = None

    def __repr__(self) -> str:
        return self.name  # a key of a group is shown with it

    def __str__(self) -> str:
        return self.called or self.name

    @property
    def naming(self) -> "Dialect":
        """The row by whose keys pods name a group: the dialect of their gang, whose object may come later."""
        return self.shares or self

    def frees(self, group: Resource | None) -> bool:
        """Whether the pods that name this object are no gang."""
        return self.alone is not None and group is not None and self.alone(group)

    def written(self, name: str, namespace: str, asked: Asked) -> Object:
        """Returns an object that asks for as much of it as the dialect has fields for."""
        assert self.spec is not None, "only a group that pods name is written"
        metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
        head = {"apiVersion": self.kind.api_version, "kind": self.kind.kind}
        return {**head, "metadata": metadata, "spec": self.spec(asked)}

    def read(self, obj: Object) -> Asked:
        """Returns what an object asks for that is given as JSON. Raises InvalidObject."""
        assert self.asked is not None, "a group that pods name says what it asks for"
        return self.asked(convert(obj, self.kind.type))
