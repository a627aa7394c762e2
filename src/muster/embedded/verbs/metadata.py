"""The metadata fields that only the server writes: set at creation, carried over by every update.

Source: kubernetes/apiserver, pkg/registry/rest/{meta,create,update}.go.
"""

from datetime import datetime
from typing import Final

import msgspec

from muster.api import kinds
from muster.api.base import Object
from muster.api.fields import Finding
from muster.embedded.api_errors import AnyKind, conflict, invalid, modified
from muster.kube.errors import BadRequest, NotFound

#: Metadata that no update changes.
_SERVERS: Final = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
)
#: Kinds whose creator also reports their status: they are created with one.
_BORN_WITH_STATUS: Final = (kinds.NODE,)


def stamp(kind: AnyKind, obj: Object, namespace: str, *, uid: str, now: datetime) -> Object:
    """Sets the server's fields of a new object, in place; the caller has set the name."""
    meta = obj["metadata"]
    if meta.get("resourceVersion"):
        raise BadRequest("resourceVersion should not be set on objects to be created")
    if kind.namespaced and meta.get("namespace", namespace) != namespace:
        raise BadRequest(
            f"the namespace of the provided object ({meta['namespace']}) does not match the namespace "
            f"sent on the request ({namespace})"
        )
    for field in ("resourceVersion", "selfLink", "managedFields", "deletionTimestamp", "generation"):
        meta.pop(field, None)
    meta.pop("deletionGracePeriodSeconds", None)
    if kind.namespaced:
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)
    meta["uid"] = uid
    meta["creationTimestamp"] = time_text(now)
    if kind.status:
        meta["generation"] = 1
        if kind not in _BORN_WITH_STATUS:
            obj.pop("status", None)
    return obj


def check_preconditions(
    kind: AnyKind, current: Object, *, uid: str | None, resource_version: str | None
) -> None:
    """Raises `Conflict` unless `current` has the expected uid and resourceVersion (None: any)."""
    meta = current["metadata"]
    if uid and uid != meta["uid"]:
        raise conflict(
            kind,
            meta["name"],
            f"Precondition failed: UID in precondition: {uid}, UID in object meta: {meta['uid']}",
        )
    if resource_version and resource_version not in ("0", meta["resourceVersion"]):
        raise modified(kind, meta["name"])


def carry_over(kind: AnyKind, current: Object, proposed: Object, subresource: str) -> Object:
    """`current` with what this update may change: either its status or everything else."""
    if subresource not in ("", "status") or (subresource and not kind.status):
        raise NotFound(f"{kind.kind} has no subresource {subresource!r}")
    if subresource:
        new = {key: value for key, value in current.items() if key != "status"}
        return new | {"status": proposed.get("status") or {}}
    new = proposed
    if kind.status:
        new.pop("status", None)
        if "status" in current:
            new["status"] = current["status"]
    meta, old = new["metadata"], current["metadata"]
    meta.pop("selfLink", None)
    for field in _SERVERS:
        meta.pop(field, None)
        if field in old:
            meta[field] = old[field]
    added = set(meta.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if added and "deletionTimestamp" in old:
        raise invalid(
            kind,
            old["name"],
            [
                Finding(
                    ("metadata", "finalizers"),
                    "Forbidden: no new finalizers can be added if the object is being deleted, found new "
                    f"finalizers {sorted(added)}",
                )
            ],
        )
    return new


def count_generation(kind: AnyKind, current: Object, new: Object) -> None:
    """Increments the generation of `new`, in place, if anything but metadata and status changed."""
    if kind.status and any(
        not equal(current.get(key), new.get(key))
        for key in {*current, *new} - {"apiVersion", "kind", "metadata", "status"}
    ):
        new["metadata"]["generation"] = current["metadata"].get("generation", 0) + 1


def equal(one: object, other: object) -> bool:
    """Whether two values are the same JSON. Python takes `true` for equal to `1`."""
    return one == other and msgspec.json.encode(one, order="sorted") == msgspec.json.encode(
        other, order="sorted"
    )


def time_text(time: datetime) -> str:
    """`time` as RFC 3339 in UTC with microseconds."""
    return time.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
