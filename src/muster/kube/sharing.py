"""Shares equal parts of objects, so that each is in memory once.

Pods of one Job differ in a name, a node and a few times. Their labels, containers and owners take most of
their memory, and are equal. Objects are frozen and their parts are read only, so sharing is not visible; it
only saves memory in caches of thousands of pods.

The templates of the Jobs of a JobSet differ only in labels, and each Job has most of its labels four times.

Parts are compared by value (a text by itself, a list or a template by its encoding), so nothing can become
stale. Parts that have not been seen for long are forgotten, and are then in memory twice.
"""

from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, TypeGuard, TypeVar

import msgspec
from msgspec.structs import force_setattr

from muster.api.base import Object, Resource
from muster.api.batch_v1 import Job
from muster.api.core_v1 import Pod

R = TypeVar("R", bound=Resource)
T = TypeVar("T")

#: Most texts and other parts remembered; a cluster has far fewer templates in use.
TEXTS: Final = 8192
PARTS: Final = 2048
#: Texts of more characters count as parts. The encodings of all parts have at most so many bytes together, so
#: that little is remembered of large objects that are gone.
LONG: Final = 256
BYTES: Final = 16 * 2**20


def shared(resource: R) -> R:
    """Returns `resource`, with its parts replaced in place by equal parts of earlier objects."""
    meta = resource.metadata
    if meta.labels:
        force_setattr(meta, "labels", _texts(meta.labels))
    if meta.annotations:
        force_setattr(meta, "annotations", _texts(meta.annotations, meta.labels))
    _share_lists(meta, ("owner_references", "finalizers"))
    if isinstance(resource, Job):
        force_setattr(resource.spec, "template", _template(resource.spec.template, meta.labels))
    if isinstance(resource, Pod):
        _share_lists(resource.spec, ("containers", "init_containers", "volumes", "tolerations"))
        for condition in resource.status.conditions:
            force_setattr(condition, "type", _text(condition.type))
            force_setattr(condition, "status", _text(condition.status))
    return resource


def _texts(texts: dict[str, str], labels: Object | None = None) -> dict[str, str]:
    """Returns these texts; `labels`, if they are equal: a JobSet marks a Job and its template alike."""
    if texts == labels:
        return labels
    return dict(zip(map(_text, texts), map(_text, texts.values()), strict=True))


def _template(template: Object, labels: Object) -> Object:
    """Returns a Job's template. Jobs of one JobSet have one spec, and labels and annotations of their own."""
    parts: Object = {}
    for key, part in template.items():
        if key == "metadata" and isinstance(part, dict):
            parts[key] = {
                of: _texts(found, labels) if _is_texts(found) else found for of, found in part.items()
            }
        else:  # a name of its own, because the part of a typed pod may have the same encoding
            parts[key] = _one(f"template.{key}", part)
    return parts


def _is_texts(value: object) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and all(type(text) is str for text in value.values())


def _share_lists(holder: msgspec.Struct, fields: tuple[str, ...]) -> None:
    for field in fields:
        if found := getattr(holder, field):
            force_setattr(holder, field, _one(field, found))


def _one(field: str, found: T) -> T:
    """Returns the first of all equal parts of this field."""
    # the field is part of the key, because a container and a volume may have the same encoding
    with suppress(OverflowError, RecursionError):  # msgpack cannot encode such a number or depth
        found = _parts.first((field, _encode(found)), found)
    return found


class _Parts(dict[tuple[str, str | bytes], Any]):  # Any: lists, JSON and long texts
    """Parts by field and encoding. When they become too many, or too large together, all are forgotten."""

    size = 0

    def first(self, key: tuple[str, str | bytes], found: T) -> T:
        """Returns the first part that was found for this key."""
        if key not in self:
            if len(self) >= PARTS or self.size + len(key[1]) > BYTES:
                self.clear()
                self.size = 0
            self.size += len(key[1])
        first: T = self.setdefault(key, found)
        return first


def _text(text: str) -> str:
    return _short(text) if len(text) <= LONG else _parts.first(("", text), text)


_short: Final = lru_cache(maxsize=TEXTS)(str)
_parts: Final = _Parts()
_encode: Final = msgspec.msgpack.Encoder().encode
