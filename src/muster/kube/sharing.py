"""Shares equal parts of objects, so that each is in memory once.

Pods of one Job differ in a name, a node and a few times. Their labels, containers and owners take most of
their memory, and are equal. Objects are frozen and their parts are read only, so sharing is not visible; it
only saves memory in caches of thousands of pods.

Parts are compared by value (a text by itself, a list by its encoding), so nothing can become stale. Parts
that have not been seen for long are forgotten, and are then in memory twice.
"""

from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import force_setattr

from muster.api.base import Resource
from muster.api.core_v1 import Pod

R = TypeVar("R", bound=Resource)

#: Most texts and lists remembered; a cluster has far fewer templates in use.
TEXTS: Final = 8192
LISTS: Final = 2048


def shared(resource: R) -> R:
    """Returns `resource`, with its parts replaced in place by equal parts of earlier objects."""
    meta = resource.metadata
    for field in ("labels", "annotations"):
        texts: dict[str, str] = getattr(meta, field)
        if texts:
            force_setattr(meta, field, dict(zip(map(_text, texts), map(_text, texts.values()), strict=True)))
    _share_lists(meta, ("owner_references", "finalizers"))
    if isinstance(resource, Pod):
        _share_lists(resource.spec, ("containers", "init_containers", "volumes", "tolerations"))
        for condition in resource.status.conditions:
            force_setattr(condition, "type", _text(condition.type))
            force_setattr(condition, "status", _text(condition.status))
    return resource


def _share_lists(holder: msgspec.Struct, fields: tuple[str, ...]) -> None:
    for field in fields:
        found: list[Any] = getattr(holder, field)  # Any: of structs, of texts, of JSON
        if found:
            if len(_lists) >= LISTS:
                _lists.clear()
            # the field is part of the key, because a container and a volume may have the same encoding
            with suppress(OverflowError, RecursionError):  # msgpack cannot encode such a number or depth
                force_setattr(holder, field, _lists.setdefault((field, _encode(found)), found))


_text: Final = lru_cache(maxsize=TEXTS)(str)
_lists: Final[dict[tuple[str, bytes], list[Any]]] = {}
_encode: Final = msgspec.msgpack.Encoder().encode
