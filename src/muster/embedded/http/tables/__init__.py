"""Lists, objects and watch events as tables: the columns of `kubectl get`.

kubectl asks for `application/json;as=Table;v=v1;g=meta.k8s.io` and prints the cells that it gets. A row also
has the object's metadata, or the whole object or nothing, as the query parameter `includeObject` says.
Columns with priority 1 are shown with `-o wide` only. In a watch, only the
first event has the columns' names.

Source: kubernetes/apiserver, pkg/endpoints/handlers/response.go.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

from muster.api.base import Object
from muster.embedded.api_errors import AnyKind
from muster.embedded.http.tables.cells import columns
from muster.embedded.http.tables.column import Column
from muster.kube.errors import BadRequest, NotAcceptable

_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])  # Any: JSON
_INCLUDES: Final = ("", "Metadata", "Object", "None")
_VERSIONS: Final = ("v1", "v1beta1")


class Table:
    """The columns of one kind, as a request asks for them. It stamps ages with the time of each call."""

    def __init__(self, kind: AnyKind, version: str, include: str) -> None:
        if include not in _INCLUDES:
            raise BadRequest(f"includeObject={include} is not known; choose from None, Metadata and Object")
        self._kind, self._include = kind, include
        self._columns: tuple[Column, ...] | list[Column] = columns(kind)
        self._group = f"meta.k8s.io/{version}"
        self._is_head_sent = False

    def encode(self, bodies: Iterable[bytes], metadata: Object, now: datetime) -> bytes:
        """The table of objects, given as JSON. `metadata` is the list's, or that of the only object."""
        return msgspec.json.encode(self._table([self._row(body, now) for body in bodies], metadata))

    def event(self, type_: str, body: bytes, revision: int, now: datetime) -> bytes:
        """One line of a watch; the first has the columns' names. A bookmark has no row."""
        rows = [] if type_ == "BOOKMARK" else [self._row(body, now)]
        table = self._table(rows, {"resourceVersion": str(revision)})
        if self._is_head_sent:
            table["columnDefinitions"] = None
        self._is_head_sent = True
        return msgspec.json.encode({"type": type_, "object": table}) + b"\n"

    def _table(self, rows: list[Object], metadata: Object) -> Object:
        return {
            "kind": "Table",
            "apiVersion": self._group,
            "metadata": metadata,
            "columnDefinitions": [column.definition() for column in self._columns],
            "rows": rows,
        }

    def _row(self, body: bytes, now: datetime) -> Object:
        obj = _OBJECT.decode(body)
        row: Object = {"cells": [column.read(obj, now) for column in self._columns]}
        if self._include == "Object":
            row["object"] = obj
        elif self._include != "None":
            partial = {"kind": "PartialObjectMetadata", "apiVersion": self._group}
            row["object"] = {**partial, "metadata": obj["metadata"]}
        return row


def asked(kind: AnyKind, accept: bytes, include: str) -> Table | None:
    """The table that the header `Accept` prefers; None if it prefers plain objects, or says nothing.

    Raises `NotAcceptable` if it accepts neither.
    """
    if b"as=" not in accept:
        return None
    for choice in accept.decode("latin-1").split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        given = dict(part.split("=", 1) for part in parameters if "=" in part)
        if media not in ("application/json", "application/*", "*/*"):
            continue
        shape = given.get("as")
        if shape is None:
            return None
        if shape == "Table" and given.get("g") == "meta.k8s.io" and given.get("v") in _VERSIONS:
            return Table(kind, given["v"], include)
    raise NotAcceptable("only application/json is served, plain or as=Table;g=meta.k8s.io;v=v1")
