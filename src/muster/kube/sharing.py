"""What objects have in common is in memory once.

Pods of one Job differ in a name, a node and a few times. Their labels, containers and owners are most of what
they take, and are equal. Objects are frozen and what they hold is read only, so that nobody notices that he
holds another's parts, except by the memory that caches of thousands of pods do not take.

Equal is what is equal by value (a text by itself, a list by its encoding), so there is nothing that could go
stale; what has not been met for long is forgotten, and then is in memory twice.
"""

from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import force_setattr

from muster.api.base import Resource
from muster.api.core_v1 import Pod

R = TypeVar("R", bound=Resource)

#: Texts and lists remembered; a cluster has far fewer templates at work.
TEXTS: Final = 8192
LISTS: Final = 2048


def shared(resource: R) -> R:
    """The same object, parts of it replaced by equal ones that others hold already."""
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
            # of one field, for a container and a volume may be encoded alike
            with suppress(OverflowError, RecursionError):  # a number or a depth that is encoded nowhere
                force_setattr(holder, field, _lists.setdefault((field, _encode(found)), found))


_text: Final = lru_cache(maxsize=TEXTS)(str)
_lists: Final[dict[tuple[str, bytes], list[Any]]] = {}
_encode: Final = msgspec.msgpack.Encoder().encode
