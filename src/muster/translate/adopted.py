"""The table of queues of other schedulers that muster adopts: a row for each kind of object.

A row says how an object is read as one of muster's queues. Of several objects of one name muster's own Queue
counts, then that of the first row. What is adopted never makes one of muster's own queues unusable
(`core.world.queues.faults`).

Who may write an adopted object decides about shares of the whole cluster. Volcano's Queues are
cluster-scoped, as muster's are. Koordinator's ElasticQuotas are in namespaces, and their names are the
cluster's: a user who may write one in some namespace could reserve all nodes, or take the name of another
queue. So they count only in namespaces that the administrator lists (`adoptQueues`); others change nothing.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import msgspec

from muster.api import elastic_quota, kinds, quantity
from muster.api.base import AnyKind, Resource
from muster.api.core_v1 import Quantities
from muster.api.elastic_quota import ElasticQuota
from muster.api.muster_v1alpha1 import Queue, QueueSpec
from muster.api.rules.metadata import LABEL
from muster.api.volcano_v1beta1 import Queue as VolcanoQueue

#: The queue above all others, which has no object.
ROOT: Final = "root"
#: States of Volcano's queues that admit nothing.
_CLOSED: Final = ("Closed", "Closing")
#: Characters of an annotation that is read, and of a value that a message shows.
_LONGEST: Final = 8192
_SHOWN: Final = 80
#: Namespaces that one quota serves at most.
_MOST_SERVED: Final = 1000


class Adopted(Queue, frozen=True):
    """A queue of another scheduler as one of muster's. Its metadata are the object's, but for the name."""

    #: the row's name, and `namespace/name` of the object
    of: str = ""
    object: str = ""
    #: fields that change where or when its gangs run, and are not read
    faults: list[str] = []
    #: by resource, its part of what queues like it share beyond their guarantees
    parts: Quantities = {}
    #: namespaces whose gangs wait in it unless they name another
    serves: list[str] = []


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """A kind of queues."""

    #: as the setting `adoptQueues` names it
    name: str
    kind: AnyKind
    #: what people call it
    what: str
    read: Callable[[Any], Adopted]  # Any: an object of `kind`
    #: queues that its scheduler has by itself, by their muster names; "": muster needs no such queue
    own: Mapping[str, str] = field(default_factory=dict)

    def queue_of(self, name: str) -> str:
        """Returns the name of the queue that an object of this name is; "" if it is none."""
        return self.own.get(name, name)

    def adopted_in(self, namespace: str, entries: frozenset[str]) -> bool:
        """Whether the setting lists the objects of a namespace."""
        if not self.kind.namespaced:
            return self.name in entries
        return f"{self.name}/{namespace}" in entries or f"{self.name}/*" in entries


def _of_volcano(queue: VolcanoQueue) -> Adopted:
    spec = queue.spec
    unread = {"affinity": spec.affinity, "extendClusters": spec.extend_clusters, "priority": spec.priority}
    return Adopted(
        of=VOLCANO.name,
        object=queue.key,
        metadata=queue.metadata,
        spec=QueueSpec(
            parent=spec.parent or ROOT,
            weight=spec.weight,
            guarantee=spec.guarantee.resource,
            deserved=spec.deserved,
            capability=spec.capability,
            reclaimable=spec.reclaimable is not False,
            closed=queue.status.state in _CLOSED,
        ),
        faults=[
            f"spec.{field} of a Queue of Volcano is not read; remove it, or write a Queue of muster"
            for field, value in unread.items()
            if value
        ],
    )


def _of_koordinator(quota: ElasticQuota) -> Adopted:
    """Its minimum is guaranteed; what is above the minima is shared by `shared-weight`, or else by `max`.

    So the entitlement is Koordinator's runtime quota. What is idle is always lent: it is reclaimed when the
    queue asks for it.
    """
    meta, faults = quota.metadata, list[str]()
    for key, where in (
        (elastic_quota.TREE, meta.labels),
        (elastic_quota.TOTAL, meta.annotations),
        (elastic_quota.ADMISSION, meta.annotations),
    ):
        if where.get(key):
            faults.append(f"{key} of an ElasticQuota is not read; remove it, or write a Queue of muster")
    parent = meta.labels.get(elastic_quota.PARENT) or elastic_quota.ROOT
    serves = [meta.namespace] if meta.name == meta.namespace else []
    return Adopted(
        of=KOORDINATOR.name,
        object=quota.key,
        metadata=msgspec.structs.replace(meta, name=KOORDINATOR.queue_of(meta.name)),
        spec=QueueSpec(
            parent=ROOT if parent == elastic_quota.ROOT else parent,
            guarantee=quota.spec.min,
            capability=quota.spec.max,
        ),
        parts=_shared_weight(quota, faults),
        serves=[*serves, *_namespaces(quota, faults)],
        faults=faults,
    )


def _shared_weight(quota: ElasticQuota, faults: list[str]) -> Quantities:
    key = elastic_quota.SHARED_WEIGHT
    text = quota.metadata.annotations.get(key)
    if text is None:
        return {name: amount for name, amount in quota.spec.max.items() if _positive(name, amount)}
    found = _json(text)
    if not isinstance(found, dict) or not all(_positive(*each) for each in found.items()):
        faults.append(f'{key} is {text[:_SHOWN]!r}; write amounts above 0 by resource, such as {{"cpu": 2}}')
        return {}
    return found


def _namespaces(quota: ElasticQuota, faults: list[str]) -> list[str]:
    key = elastic_quota.NAMESPACES
    text = quota.metadata.annotations.get(key)
    found = _json(text) if text else []
    if (
        isinstance(found, list)
        and len(found) <= _MOST_SERVED
        and all(isinstance(each, str) for each in found)
    ):
        return found
    faults.append(
        f'{key} is {str(text)[:_SHOWN]!r}; write at most {_MOST_SERVED} namespaces, such as ["team"]'
    )
    return []


def _json(text: str) -> Any:  # Any: JSON
    try:
        return json.loads(text) if len(text) <= _LONGEST else None
    except (ValueError, RecursionError):
        return None


def _positive(resource: str, amount: Any) -> bool:  # Any: JSON
    if not isinstance(amount, int | float | str) or isinstance(amount, bool):
        return False
    try:
        return quantity.capacity(resource, amount) > 0
    except ValueError:
        return False


VOLCANO: Final = Row("volcano", kinds.QUEUE_VOLCANO, "Queue of Volcano", _of_volcano, {ROOT: ""})
KOORDINATOR: Final = Row(
    *("koordinator", kinds.ELASTIC_QUOTA, "ElasticQuota of Koordinator", _of_koordinator),
    elastic_quota.OWN,
)
#: All rows; of one name, the queue of the first counts.
TABLE: Final = (VOLCANO, KOORDINATOR)
BY_KIND: Final[Mapping[AnyKind, Row]] = MappingProxyType({row.kind: row for row in TABLE})
BY_NAME: Final[Mapping[str, Row]] = MappingProxyType({row.name: row for row in TABLE})

#: What is adopted where one user owns the cluster.
EVERY: Final = frozenset(f"{row.name}/*" if row.kind.namespaced else row.name for row in TABLE)
#: What a daemon adopts unless its setting says otherwise: tenants write in none of these namespaces.
DEFAULT: Final = (VOLCANO.name, f"{KOORDINATOR.name}/koordinator-system", f"{KOORDINATOR.name}/kube-system")


def wrong(entries: Iterable[str]) -> Iterator[str]:
    """Yields what is wrong with entries of the setting `adoptQueues`."""
    for entry in entries:
        name, slash, namespace = entry.partition("/")
        row = BY_NAME.get(name)
        good = row is not None and bool(slash) == row.kind.namespaced
        if not good or (slash and namespace != "*" and not LABEL.fullmatch(namespace)):
            forms = (f"{row.name}/NAMESPACE" if row.kind.namespaced else row.name for row in TABLE)
            yield f"{entry[:_SHOWN]!r}: write {' or '.join(forms)}"


def written(entries: Sequence[str]) -> str:
    """Returns the setting as a Lease has it."""
    return ",".join(entries)


def stated(text: str | None) -> frozenset[str]:
    """Returns the setting that a Lease has; the default if it has none that could be a scheduler's."""
    if text is None:
        return frozenset(DEFAULT)
    found = frozenset(filter(None, text[:_LONGEST].split(",")))
    return frozenset(DEFAULT) if any(wrong(found)) else found


def queue_of(kind: AnyKind, name: str) -> str:
    """Returns the name of the queue that an object of a queue is; "" if it is none."""
    row = BY_KIND.get(kind)
    return row.queue_of(name) if row is not None else name


class QueueObjects:
    """The Queues of muster and what it adopts, by name; one of each name counts. `adopts`: the setting."""

    def __init__(self, adopts: frozenset[str] = EVERY) -> None:
        self.adopts = adopts
        self._own: dict[str, Queue] = {}
        #: by name of the queue: by rank of the row and key of the object
        self._adopted: dict[str, dict[tuple[int, str], Adopted]] = {}

    def change(
        self, kind: AnyKind, latest: Resource, *, gone: bool = False
    ) -> tuple[str, Queue | None, Queue | None]:
        """Takes in an object of a queue, or that it is gone.

        Returns the name of the queue, and what counted before, and counts now.
        """
        row, meta = BY_KIND.get(kind), latest.metadata
        if row is None:
            before = self.counts(meta.name)
            self._own.pop(meta.name, None)
            if not gone:
                assert isinstance(latest, Queue)
                self._own[meta.name] = latest
            return meta.name, before, self.counts(meta.name)
        name = row.queue_of(meta.name)
        before = self.counts(name)
        if name and row.adopted_in(meta.namespace, self.adopts):
            known = self._adopted.setdefault(name, {})
            known.pop(key := (TABLE.index(row), latest.key), None)
            if not gone:
                known[key] = row.read(latest)
            if not known:
                del self._adopted[name]
        return name, before, self.counts(name)

    def counts(self, name: str) -> Queue | None:
        """Returns the queue of a name."""
        if (own := self._own.get(name)) is not None:
            return own
        found = self._adopted.get(name)
        if not found:
            return None
        (rank, key), first = min(found.items())
        others = sorted(other for same, other in found if same == rank and other != key)
        if not others:
            return first
        fault = f"{first.object} and {others[0]} have one name; delete one of them"
        return msgspec.structs.replace(first, faults=[*first.faults, fault])

    def all_counting(self) -> list[Queue]:
        """Returns the queues that count, by name."""
        queues = (self.counts(name) for name in sorted({*self._own, *self._adopted}))
        return [queue for queue in queues if queue is not None]

    def covered(self, name: str) -> str:
        """Returns what people call the adopted queue that does not count beside muster's own; "" if none."""
        found = self._adopted.get(name)
        return TABLE[min(found)[0]].what if found and name in self._own else ""


def counting(objects: Iterable[tuple[AnyKind, Resource]], adopts: frozenset[str] = EVERY) -> list[Queue]:
    """Returns the queues that count among objects of any kind, by name."""
    found = QueueObjects(adopts)
    for kind, each in objects:
        if kind in kinds.QUEUES:
            found.change(kind, each)
    return found.all_counting()
