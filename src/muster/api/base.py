"""The base of every struct, object metadata, conditions, and JSON that muster passes on.

Times are `datetime`s in UTC, encoded as RFC 3339 with microseconds.
"""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Final, Generic, Protocol, TypeVar

import msgspec

from muster.api.times import after

#: JSON that muster passes on unread. `Any`, because its shape is the user's, not ours.
Object = dict[str, Any]

#: Numbers and times in Kubernetes' ranges. A value out of range is refused when it is read, so that no code
#: that uses a struct can overflow.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Time = Annotated[datetime, msgspec.Meta(tz=True)]


_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME: Final = 253
_QUALIFIED: Final = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?")
_LONGEST_KEY: Final = 253 + 1 + 63


class Struct(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True, omit_defaults=True):
    """A slim view of a JSON object: unknown fields are ignored, absent ones take their default."""


class OwnerReference(Struct, frozen=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(Struct, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: Int64 = 0
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: Int64 | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []
    #: the first field that could not be read and was left out (`muster.kube.decode`); "" if there is none
    unreadable: str = msgspec.field(name="muster.dev/unreadable", default="")


def deletion_asked(meta: ObjectMeta) -> datetime | None:
    """When the deletion was asked for: the deletion timestamp is the end of the grace period."""
    if meta.deletion_timestamp is None:
        return None
    return after(meta.deletion_timestamp, -max(meta.deletion_grace_period_seconds or 0, 0))


def explained(reason: str, message: str) -> str:
    """`Evicted: the disk is full` for a reason and its message; the message alone if it has the reason."""
    return message if reason in message else ": ".join(filter(None, [reason, message]))


class Condition(Struct, frozen=True):
    """A condition of any kind; `status` is "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None
    last_probe_time: Time | None = None
    observed_generation: Int64 = 0


class LabelSelectorRequirement(Struct, frozen=True):
    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist; for nodes also Gt, Lt
    values: list[str] = []


class LabelSelector(Struct, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: list[LabelSelectorRequirement] = []


class Resource(Struct, frozen=True):
    """An object with metadata: what every kind has in common."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def key(self) -> str:
        """`namespace/name`; `name` for a cluster-scoped object."""
        meta = self.metadata
        return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


R = TypeVar("R", bound=Resource)


class Reference(Protocol):
    """What names an object by its kind: an owner reference, or the source of a Gang."""

    @property
    def api_version(self) -> str: ...

    @property
    def kind(self) -> str: ...


class Kind(msgspec.Struct, Generic[R], frozen=True, eq=False):
    """A kind as the API server serves it. The instances live in `muster.api.kinds`."""

    group: str  # "" for the core group
    version: str
    kind: str
    plural: str
    namespaced: bool
    type: type[R]
    #: whether `status` is a subresource with a writer of its own
    status: bool = True
    #: makes of an object that has been read the object that is kept in memory; None = it is kept as read
    kept: Callable[[R], R] | None = None
    #: other versions with the same fields, the newest first, in which a cluster may serve it instead
    others: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def names(self) -> Iterator[tuple[str, str]]:
        """apiVersion and kind of its objects, in each version that has its fields."""
        for version in (self.version, *self.others):
            yield (f"{self.group}/{version}" if self.group else version), self.kind

    def matches(self, reference: Reference) -> bool:
        """Whether an owner or a source is an object of this kind. Its version may be another: groups tell."""
        return reference.kind == self.kind and reference.api_version.rpartition("/")[0] == self.group

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """The URL path of a collection, an object or a subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        middle = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        path = f"{root}{middle}/{self.plural}"
        if name:
            path += f"/{name}"
        return f"{path}/{subresource}" if subresource else path


AnyKind = Kind[Any]  # Any: where objects of many kinds meet


def owner(resource: Resource, kind: AnyKind, *, controller: bool = True) -> Object:
    """An owner reference to `resource`, as JSON."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": resource.metadata.name,
        "uid": resource.metadata.uid,
        "controller": controller,
        "blockOwnerDeletion": True,
    }


def involved(resource: Resource, kind: AnyKind) -> Object:
    """A reference to `resource` as the `involvedObject` of an Event, as JSON."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "namespace": resource.metadata.namespace,
        "name": resource.metadata.name,
        "uid": resource.metadata.uid,
    }


def revision(resource_version: str) -> int:
    """Returns a resourceVersion as a number; 0, which every cache has reached, if it is not a number."""
    return int(resource_version) if resource_version.isdigit() else 0


def is_subdomain(name: str) -> bool:
    """Whether an object can have this name: a lowercase RFC 1123 subdomain."""
    return len(name) <= _LONGEST_NAME and _SUBDOMAIN.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def is_label_key(key: str) -> bool:
    """Whether a label can have this key: a name with an optional prefix, `example.com/name`.

    The result is remembered, because the pods of a template have the same keys.
    """
    prefix, slash, name = key.rpartition("/")
    if len(key) > _LONGEST_KEY or len(name) > 63 or not _QUALIFIED.fullmatch(name):
        return False
    return not slash or is_subdomain(prefix)


def controller_of(resource: Resource) -> OwnerReference | None:
    """The owner that controls `resource`, if any."""
    for reference in resource.metadata.owner_references:
        if reference.controller:
            return reference
    return None


def controls(kind: Kind[Any], owner: Resource, obj: Resource) -> bool:  # Any: a kind of any objects
    """Whether `owner`, of this kind, is the controller of `obj` by each of the fields that name it."""
    reference = controller_of(obj)
    return (
        reference is not None
        and reference.uid == owner.metadata.uid
        and reference.name == owner.metadata.name
        and kind.matches(reference)
    )


def at(obj: Object, *path: str) -> Object:
    """Returns the object at this path; an empty one if there is none."""
    for step in path:
        found = obj.get(step)
        if not isinstance(found, dict):
            return {}
        obj = found
    return obj


def mark(meta: ObjectMeta, key: str) -> str | None:
    """The value that users set as the label or annotation `key`; a label wins; None without either."""
    return meta.labels.get(key, meta.annotations.get(key))


def condition(conditions: list[Condition], type_: str) -> Condition | None:
    """The condition of this type; None if there is none."""
    for found in conditions:
        if found.type == type_:
            return found
    return None


def is_true(conditions: list[Condition], type_: str) -> bool:
    found = condition(conditions, type_)
    return found is not None and found.status == "True"


def without_nulls(value: Any) -> Any:  # Any: JSON
    """`value` without the map entries that are null: null means absent, as in Kubernetes."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
