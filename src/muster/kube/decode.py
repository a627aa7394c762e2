"""Decoders of objects and lists, one per kind, made once."""

from typing import Any, Final, Generic, TypeVar

import msgspec

from muster.api.base import Kind, Resource

R = TypeVar("R", bound=Resource)


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class ObjectList(msgspec.Struct, Generic[R]):
    """A list as the API server answers it."""

    items: list[R]
    metadata: ListMeta


# Any: one table for decoders of many types
_OBJECTS: Final[dict[Kind[Any], msgspec.json.Decoder[Any]]] = {}
_LISTS: Final[dict[Kind[Any], msgspec.json.Decoder[Any]]] = {}


def object_decoder(kind: Kind[R]) -> msgspec.json.Decoder[R]:
    decoder = _OBJECTS.get(kind)
    if decoder is None:
        decoder = _OBJECTS[kind] = msgspec.json.Decoder(kind.type)
    return decoder


def list_decoder(kind: Kind[R]) -> msgspec.json.Decoder[ObjectList[R]]:
    decoder = _LISTS.get(kind)
    if decoder is None:
        generic: Any = ObjectList  # Any: a generic struct is filled in at run time
        decoder = _LISTS[kind] = msgspec.json.Decoder(generic[kind.type])
    return decoder
