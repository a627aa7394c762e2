"""Muster's own traces as JSON, one object per line (`records.py` says what each may hold).

What a line is, its keys tell: `job`, `queue`, `layers`, `at` (an outage) or `node`. One line is in memory at
a time.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from muster.sim.readers.lines import Line, lines
from muster.sim.readers.records import (
    GatherRecord,
    JobRecord,
    LayerRecord,
    LayersRecord,
    NodeRecord,
    OutageRecord,
    PodSetRecord,
    QueueRecord,
    Record,
    Told,
    refusal,
)
from muster.sim.trace import TraceError

#: In this order: an outage names a node, too.
_KINDS: Final[dict[str, msgspec.json.Decoder[Record]]] = {
    key: msgspec.json.Decoder(type_)
    for key, type_ in (
        ("job", JobRecord),
        ("queue", QueueRecord),
        ("layers", LayersRecord),
        ("at", OutageRecord),
        ("node", NodeRecord),
    )
}
_INNER: Final[dict[str, type[Record]]] = {
    "pods": PodSetRecord,
    "gather": GatherRecord,
    "layers": LayerRecord,
}
_KEYS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_JOB: Final = re.compile(r'\s*\{\s*"job"\s*:')


def records(path: Path) -> Iterator[Told]:
    """Raises TraceError for the file."""
    for number, text in lines(path):
        if text.strip():
            where = Line(f"{path}, line {number}")
            try:
                yield where, _record(text, where)
            except TraceError as error:
                yield where, error


def _record(text: str, where: Line) -> Record:
    kind = "job"
    try:
        if not _JOB.match(text):  # as nearly every line does
            keys = _KEYS.decode(text)
            kind = next((key for key in _KINDS if key in keys), "")
        if kind:
            return _KINDS[kind].decode(text)
    except msgspec.ValidationError as error:
        found = refusal(error, where)
        if "unknown field" in str(error):
            type_ = _INNER.get(str(error).partition("`$.")[2].partition("[")[0], _KINDS[kind].type)
            found = TraceError(f"{found}; known are {', '.join(type_.__struct_encode_fields__)}")
        raise found from None
    except (msgspec.DecodeError, RecursionError) as error:
        message, _, position = str(error).removeprefix("JSON is malformed: ").rpartition(" (byte ")
        at = int(position.rstrip(")")) if message else len(text)  # where it breaks off
        column = "" if isinstance(error, RecursionError) else f", column {at + 1}"
        raise TraceError(
            f"{where}{column}: not JSON: {message or error}; expected one object per line"
        ) from None
    raise TraceError(f"{where}: none of the keys {', '.join(_KINDS)}; what is it?")
