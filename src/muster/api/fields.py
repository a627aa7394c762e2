"""Errors that name a field, and reading JSON into structs with such errors."""

import re
from typing import TypeVar

import msgspec

from muster.api.base import Object

#: A path into an object: keys and list indices, e.g. ("spec", "replicatedJobs", 0, "name").
Path = tuple[str | int, ...]
T = TypeVar("T")


class FieldError(msgspec.Struct, frozen=True):
    """What is wrong with one field, and what to write instead."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.message}" if self.path else self.message


def dotted(path: Path) -> str:
    """`spec.replicatedJobs[0].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


_MSGSPEC_PATH = re.compile(r"^(?P<message>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?$", re.S)


def convert(value: Object, type_: type[T], at: Path = ()) -> T:
    """`value` read as `type_`; raises `InvalidObject` with one FieldError that names the field."""
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        match = _MSGSPEC_PATH.match(str(error))
        assert match is not None, "the pattern matches any text"
        raise InvalidObject([FieldError((*at, *_steps(match["path"] or "")), match["message"])]) from None


def _steps(path: str) -> Path:
    """Reads msgspec's `.spec.items[0].name` or `[...]` (any key) as a Path."""
    steps: list[str | int] = []
    for name, index in re.findall(r"\.([^.\[]+)|\[([^\]]*)\]", path):
        steps.append(name or (int(index) if index.isdigit() else index))
    return tuple(steps)


class InvalidObject(ValueError):
    """An object that breaks the rules of its kind; `errors` has every field at fault."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors
