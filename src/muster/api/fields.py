"""What is wrong with a file or an object, by field, and the reading of JSON into structs that raises it."""

import re
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec

from muster.api.base import Object, without_nulls
from muster.api.visible import visible, visible_lines

#: A path into an object: keys and list indices, e.g. ("spec", "replicatedJobs", 0, "name").
Path = tuple[str | int, ...]
T = TypeVar("T")

#: How deep the lists and maps of one object may be nested. Kubernetes' own kinds are far below this.
MOST_NESTED: Final = 100
#: Exceptions that an unexpected value can cause. The boundary of a reader catches these and nothing else:
#: a failed assertion or an error of the operating system is not the fault of the value.
UNREADABLE: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Severity(Enum):
    ERROR = "error"
    #: the job runs, but perhaps not as the author means it
    WARNING = "warning"
    #: what muster did with the file
    NOTE = "note"
    #: what the author may want to add to the file
    HINT = "hint"


class Finding(msgspec.Struct, frozen=True):
    """What is wrong with a file or an object, in which field, and what to write instead."""

    #: the field; () = the whole
    path: Path
    message: str
    severity: Severity = Severity.ERROR
    #: what to add, and to which file: a patch or a policy of several lines; "" if the message says it all
    fix: str = ""
    #: where the field is written, from 1; "" and 0: in no file, or the finding is about the file as a whole
    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def field(self) -> str:
        """The field as people write it: `spec.types.worker.count`."""
        return dotted(self.path)

    def whole(self) -> str:
        """The finding with its fix, indented below it."""
        return "\n".join(
            [str(self), *(f"    {visible(line)}" for line in self.fix.rstrip("\n").split("\n") if self.fix)]
        )

    def among_errors(self) -> str:
        """Returns the whole finding, with its severity first unless it is an error."""
        return self.whole() if self.severity is Severity.ERROR else f"{self.severity.value}: {self.whole()}"

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return visible_lines("".join(f"{each}: " for each in (place, self.field) if each) + self.message)


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
        raise InvalidObject([Finding((*at, *_steps(match["path"] or "")), match["message"])]) from None
    except RecursionError:
        raise InvalidObject([Finding(at, f"Invalid value: it {TOO_DEEP}")]) from None


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

    def __init__(self, errors: list[Finding]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors
