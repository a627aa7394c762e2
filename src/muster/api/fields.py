"""Errors that name a field, and the conversion of JSON into structs that raises them."""

import re
from typing import Any, Final, TypeVar

import msgspec

from muster.api.base import Object, without_nulls

#: A path into an object: keys and list indices, e.g. ("spec", "replicatedJobs", 0, "name").
Path = tuple[str | int, ...]
T = TypeVar("T")

#: How deep the lists and maps of one object may be nested. Kubernetes' own kinds are far below this.
MOST_NESTED: Final = 100
#: Exceptions that an unexpected value can cause. The boundary of a reader catches these and nothing else:
#: a failed assertion or an error of the operating system is not the fault of the value.
UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class FieldError(msgspec.Struct, frozen=True):
    """An error in one field: what is wrong, and what to write instead."""

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{dotted(self.path)}: {self.message}" if self.path else self.message


def dotted(path: Path) -> str:
    """The path as text, such as `spec.replicatedJobs[0].name`; a key that would move the cursor is quoted."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            shown = step if step.isprintable() else repr(step)
            text += f".{shown}" if text else shown
    return text


_MSGSPEC_PATH = re.compile(r"^(?P<message>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?$", re.S)


def convert(value: Object, type_: type[T], at: Path = ()) -> T:
    """`value` read as `type_`; null means absent. Raises `InvalidObject`, which names the field."""
    try:
        try:
            return msgspec.convert(value, type_)
        except msgspec.ValidationError:
            return msgspec.convert(without_nulls(value), type_)
    except msgspec.ValidationError as error:
        match = _MSGSPEC_PATH.match(str(error))
        assert match is not None, "the pattern matches any text"
        raise InvalidObject([FieldError((*at, *_steps(match["path"] or "")), match["message"])]) from None
    except RecursionError:
        raise InvalidObject([FieldError(at, f"Invalid value: it {TOO_DEEP}")]) from None


TOO_DEEP: Final = f"is nested more than {MOST_NESTED} levels deep"


def too_deep(raw: bytes | msgspec.Raw, value: Any | None = None) -> bool:  # Any: JSON
    """Whether JSON is nested deeper than `MOST_NESTED`, as `deep` says of the decoded value.

    `value` is the decoded JSON if the caller has it. For most JSON a count of brackets is enough to answer.
    Raises RecursionError for JSON that is nested too deeply to decode.
    """
    text = bytes(raw)
    if text.count(b"{") + text.count(b"[") <= MOST_NESTED:
        return False  # too few lists and maps to be nested that deep
    return deep(msgspec.json.decode(text) if value is None else value)


def deep(value: Any) -> bool:  # Any: JSON
    """Whether lists and maps are nested deeper than `MOST_NESTED`."""
    level = [value]
    for _ in range(MOST_NESTED + 1):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return any(isinstance(each, dict | list) for each in level)


def _steps(path: str) -> Path:
    """The Path in a message of msgspec, `.spec.items[0].name`. msgspec omits the keys of maps: `[...]`."""
    steps: list[str | int] = []
    for name, index in re.findall(r"\.([^.\[]+)|\[([^\]]*)\]", path):
        if name or index.isdigit():
            steps.append(name or int(index))
    return tuple(steps)


class InvalidObject(ValueError):
    """An object breaks the rules of its kind; `errors` lists every invalid field."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors
