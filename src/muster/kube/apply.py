"""Updates an object to the state that a file declares, as `kubectl apply` does.

The last applied configuration is kept as JSON in the annotation that kubectl uses, so that both programs can
be used on the same object. A field that is in the annotation but no longer in the file is removed. A field
that the file never had (a default, a label of another program) stays. On an object without the annotation
nothing is removed; the object gets the file's fields and the annotation.

A merge patch replaces whole lists. Lists that Kubernetes merges by a key are therefore merged here first, so
that a pod keeps an injected volume.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

import msgspec

from muster.api.base import Kind, Object
from muster.kube.client import Client
from muster.kube.errors import AlreadyExists

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
#: Most bytes of the annotation: all annotations of an object together may have 256 KiB.
MOST_BYTES: Final = 192 * 1024
#: Fields whose lists Kubernetes merges, and the key by which it identifies their entries.
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "env", "imagePullSecrets"), ("name",)),
    "replicatedJobs": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "ports": ("containerPort", "port"),
    "hostAliases": ("ip",),
    "taints": ("key",),
}
_SERVERS: Final = frozenset(
    ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
)


class Outcome(Enum):
    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Applied:
    outcome: Outcome
    #: the merge patch that reverts the change
    back: Object = field(default_factory=dict)


async def apply(client: Client, kind: Kind[Any], obj: Object, stated: Object | None = None) -> Applied:
    """Creates `obj`, or updates the object of its name to `stated`.

    `stated` is the part of `obj` that its author wrote; without it, all of `obj`. Raises AlreadyExists if the
    existing object is being deleted.
    """
    stated = obj if stated is None else stated
    namespace, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
    try:
        await client.create(kind, namespace, noted(obj, stated))
    except AlreadyExists as error:
        live = await client.get_json(kind, namespace, name)
        if "deletionTimestamp" in live["metadata"]:
            told = f"{error.message} and is being deleted; try again when it is gone"
            raise AlreadyExists(told, details=error.details) from None
        change = patch(live, stated)
        if not change:
            return Applied(Outcome.UNCHANGED)
        await client.patch(kind, namespace, name, change)
        return Applied(Outcome.CHANGED, undo(change, live))
    return Applied(Outcome.CREATED)


def noted(obj: Object, stated: Object) -> Object:
    """A copy of `obj` with `stated` in the annotation; without the annotation if `stated` is too long."""
    text = _text(stated)
    metadata = obj.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), LAST_APPLIED: text}
    if text is None:
        del annotations[LAST_APPLIED]
    return {**obj, "metadata": {**metadata, "annotations": annotations}}


def last_applied(obj: Object) -> Object | None:
    """The last applied configuration from the annotation; None if it is absent or cannot be read."""
    text = ((obj.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        found = msgspec.json.decode(text) if isinstance(text, str) else None
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return found if isinstance(found, dict) else None


def patch(live: Object, stated: Object) -> Object:
    """The merge patch that updates `live` to `stated`; empty if nothing has to change."""
    was, wanted = last_applied(live), _stated(stated)
    metadata = {"labels": {}, "annotations": {}, **live["metadata"]}
    change = _changes(_stated(was or {}), wanted, {**live, "metadata": metadata})
    text = _text(stated)
    if (was and _stated(was)) != (wanted if text else None):
        change.setdefault("metadata", {}).setdefault("annotations", {})[LAST_APPLIED] = text
    return change


def undo(change: Object, before: Object) -> Object:
    """The merge patch that reverts `change` on an object whose state was `before`."""
    return {
        key: undo(value, before[key])
        if isinstance(value, dict) and isinstance(before.get(key), dict)
        else before.get(key)
        for key, value in change.items()
    }


def merge(target: Any, patch: Any) -> Any:  # Any: JSON
    """`target` with a merge patch applied (RFC 7386); neither argument is changed."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def _stated(obj: Object) -> Object:
    """`obj` without the fields that the server writes.

    Labels and annotations are always in the result, because other programs write some, too.
    """
    metadata = obj.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    own = {key: value for key, value in metadata.items() if key not in _SERVERS}
    for key in ("labels", "annotations"):
        values = own.get(key)
        own[key] = values if isinstance(values, dict) else {}
    own["annotations"] = {key: text for key, text in own["annotations"].items() if key != LAST_APPLIED}
    rest = {key: obj[key] for key in obj if key not in ("apiVersion", "kind", "metadata", "status")}
    return {**rest, "metadata": own}


def _text(stated: Object) -> str | None:
    """The annotation's text, as kubectl writes it; None if it is longer than `MOST_BYTES`.

    The text always has `annotations`, and has `labels` only if there are any: empty `labels` here that are
    absent from kubectl's file would make kubectl remove all labels of the object.
    """
    content = _stated(stated)
    metadata = {key: value for key, value in content["metadata"].items() if key != "labels" or value}
    metadata |= {key: stated["metadata"][key] for key in ("name", "namespace") if key in stated["metadata"]}
    what = {key: stated[key] for key in ("apiVersion", "kind") if key in stated}
    encoded = msgspec.json.encode({**what, **content, "metadata": metadata}, order="sorted")
    return encoded.decode() if len(encoded) <= MOST_BYTES else None


def _changes(was: Object, wanted: Object, live: Object) -> Object:
    change: Object = {key: None for key in was if key not in wanted and key in live}
    for key, value in wanted.items():
        now = live.get(key)
        if isinstance(value, dict) and isinstance(now, dict):
            before = was.get(key)
            if inner := _changes(before if isinstance(before, dict) else {}, value, now):
                change[key] = inner
        elif value is not None and (new := _list(key, was.get(key), value, now)) != now:
            change[key] = new
    return change


def _list(field: str, was: Any, wanted: Any, live: Any) -> Any:  # Any: JSON
    """The new value of `live`; a list whose entries have a key is changed entry by entry."""
    for key in _KEYS.get(field, ()):
        known, there = _by(key, live), _by(key, wanted)
        if known is None or there is None:
            continue
        before = _by(key, was) or {}
        entries = {
            name: merge(known.get(name, {}), _changes(before.get(name, {}), entry, known.get(name, {})))
            for name, entry in there.items()
        }
        others = {name: entry for name, entry in known.items() if name not in before}
        kept = [name for name in known if name in entries or name in others]
        return [(others | entries)[name] for name in dict.fromkeys([*kept, *entries])]
    return wanted


def _by(key: str, values: Any) -> dict[Any, Object] | None:  # Any: JSON
    """The entries of a list by their key; None unless each entry has a key of its own."""
    if not isinstance(values, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get(key), str | int) for entry in values
    ):
        return None
    found: dict[Any, Object] = {entry[key]: entry for entry in values}
    return found if len(found) == len(values) else None
