"""Reads a mapping field by field, so that one pass finds everything that is wrong with the mapping.

Each read names the field and the values that it accepts; a wrong value is reported and the default returned.
`close` reports the fields that were never read, with the most similar name of those that were.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from muster.api import duration, quantity
from muster.api.base import Object
from muster.api.fields import Finding, Path
from muster.workloads.findings import nearest, similar

T = TypeVar("T")
#: Unknown fields of one mapping that are reported by name: for each, the most similar name is looked for.
_UNKNOWN: Final = 20


class Source(Protocol):
    """Where a mapping comes from: a document, or several of its mappings merged."""

    def finding(self, path: Path, message: str) -> Finding: ...


class Section:
    """A mapping of a source that is being read; findings are added to the given list."""

    def __init__(self, document: Source, value: Any, path: Path, findings: list[Finding]) -> None:
        self._document = document
        self._findings = findings
        self.path = path
        self._value: dict[str, Any] = {}  # Any: a user's YAML
        if isinstance(value, dict):
            self._value = value
        elif value is not None:
            self.error((), f"takes a mapping, not {_kind(value)}")
        self._asked: set[str] = set()

    def __contains__(self, name: str) -> bool:
        """Whether the field is given. Its caller reads it then, so it counts as read."""
        return self._get(name) is not None

    def __bool__(self) -> bool:
        return bool(self._value)

    @property
    def errors(self) -> int:
        """How many errors the source has so far."""
        return len(self._findings)

    def names(self) -> list[str]:
        """The fields as written, in order; for a mapping with keys chosen by the user."""
        self._asked.update(self._value)
        return list(self._value)

    def error(self, name: str | Path, message: str) -> None:
        """Reports an error about a field of this section."""
        step = (name,) if isinstance(name, str) else name
        self._findings.append(self._document.finding((*self.path, *step), message))

    def section(self, name: str, value: Any = None) -> "Section":  # Any: a user's YAML
        """A nested mapping, or `value` in its place; empty if it is absent."""
        given = self._get(name)
        value = given if value is None else value
        return Section(self._document, value, (*self.path, name), self._findings)

    def sections(self, name: str) -> list["Section"]:
        """A list of nested mappings."""
        items = self._typed(name, list, "a list") or []
        return [
            Section(self._document, item, (*self.path, name, i), self._findings)
            for i, item in enumerate(items)
        ]

    def raw(self, name: str, form: Object | None = None) -> Any:  # Any: a user's YAML
        """The value of a field, unchecked. `form`: the JSON Schema of what the caller accepts (`outline`)."""
        return self._get(name)

    def text(self, name: str, default: str = "") -> str:
        value = self._get(name)
        if isinstance(value, str) or value is None:
            return value or default
        advice = "" if isinstance(value, list | dict) else f'; put it in quotes: "{_plain(value)}"'
        self.error(name, f"takes text, not {_kind(value)}{advice}")
        return default

    def kind(self, name: str, kinds: tuple[str, ...]) -> str:
        """A text that decides which fields are read beside it: one of `kinds`, or of others."""
        return self.text(name)

    def spelt(self, name: str | Path, spell: Callable[[str], str], text: str | None = None) -> str:
        """The one spelling of a text field, or of `text`, which is at `name`; "" if absent or without one.

        `spell` raises ValueError, whose message says what is wrong with the text.
        """
        value = self.text(name) if text is None and isinstance(name, str) else text
        if not value:
            return ""
        try:
            return spell(value)
        except ValueError as error:
            self.error(name, str(error))
            return ""

    def texts(self, name: str) -> dict[str, str]:
        """A mapping of text to text."""
        section = self.section(name)
        return {key: section.text(key) for key in section.names()}

    def words(self, name: str) -> list[str]:
        """A list of texts."""
        items = self._typed(name, list, "a list") or []
        for i, item in enumerate(items):
            if not isinstance(item, str):
                self.error((name, i), f"takes text, not {_kind(item)}")
        return [item for item in items if isinstance(item, str)]

    def flag(self, name: str, default: bool = False) -> bool:
        value = self._typed(name, bool, "true or false")
        return default if value is None else value

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        value = self._get(name)
        if isinstance(value, bool) and _plain(value) in choices:  # YAML reads the word as this
            return _plain(value)
        value = self.text(name, default)
        if value in choices or value == default:
            return value
        meant = similar(value, [each for each in choices if each])
        hint = f"; did you mean {meant}?" if meant else ""
        self.error(name, f"{value[:80]!r} is not one of {', '.join(filter(None, choices))}{hint}")
        return default

    def integer(self, name: str, default: int, *, minimum: int = 0, maximum: int = 2**31 - 1) -> int:
        value = self._get(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.error(name, f"takes a whole number, not {_kind(value)}")
        elif value < minimum:
            self.error(name, f"is {value}; the least is {minimum}")
        elif value > maximum:
            self.error(name, f"is {value}; the most is {maximum}")
        else:
            return value
        return default

    def number(
        self,
        name: str,
        default: Fraction,
        *,
        above: int = 0,
        least: int | None = None,
        maximum: int = 10**6,
        gib: bool = False,
    ) -> Fraction:
        """A number with or without fraction, exactly as written: more than `above`, or at least `least`.

        `gib`: it counts GiB, so the error about a quantity such as 16Gi says what number to write.
        """
        value = self._get(name)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            advice = _in_gib(value) if gib and isinstance(value, str) else ""
            self.error(name, f"takes a number, not {_kind(value)}{advice}")
            return default
        exact = Fraction(str(value))
        if least is not None and exact < least:
            self.error(name, f"is {value}; the least is {least}")
        elif least is None and exact <= above:
            self.error(name, f"is {value}; it must be more than {above}")
        elif exact > maximum:
            self.error(name, f"is {value}; the most is {maximum}")
        else:
            return exact
        return default

    def quantity(self, name: str) -> str:
        """A Kubernetes quantity such as 10Gi; "" if absent."""
        return self._parsed(name, _quantity, "")

    def seconds(self, name: str) -> int | None:
        """A duration such as 6h, in seconds."""
        return self._parsed(name, _seconds, None)

    def close(self, meant: Mapping[str, str] = MappingProxyType({})) -> None:
        """Reports the fields that were not read: `_UNKNOWN` of them, and how many more there are.

        `meant`: what is meant by fields whose names do not look like it.
        """
        unknown = [name for name in self._value if name not in self._asked]
        for name in unknown[:_UNKNOWN]:
            hint = f"; did you mean {meant[name]}?" if name in meant else nearest(name, self._asked)
            self.error(name, f"unknown field{hint}")
        if len(unknown) > _UNKNOWN:
            self.error((), f"has {len(unknown) - _UNKNOWN:,} more unknown fields")

    def _get(self, name: str) -> Any:
        self._asked.add(name)
        return self._value.get(name)

    def _typed(self, name: str, type_: type, wanted: str) -> Any:
        value = self._get(name)
        if value is None or isinstance(value, type_):
            return value
        self.error(name, f"takes {wanted}, not {_kind(value)}")
        return None

    def _parsed(self, name: str, parse: Callable[[Any], T], default: T) -> T:
        value = self._get(name)
        if value is None:
            return default
        if not isinstance(value, str | int | float):
            self.error(name, f"takes text, not {_kind(value)}")
            return default
        try:
            return parse(value)
        except ValueError as error:
            self.error(name, str(error))
            return default


def _quantity(value: str | int | float) -> str:
    if quantity.parse(value) < 0:
        raise ValueError(f"{value} is negative")
    return str(value)


def _in_gib(value: str) -> str:
    """What to write for a quantity in the place of a number of GiB; "" if the text is none."""
    if value[-1:].isdecimal():  # no unit: it may be meant as GiB
        return ""
    try:
        amount = quantity.parse(quantity.meant(value) or value)
        return f"; write {float(Fraction(amount) / 2**30):g} (GiB)"
    except (ValueError, OverflowError):
        return ""


def _seconds(value: str | int) -> int | None:
    return duration.parse(value)


def _kind(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f'the text "{value[:40]}"'
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return "nothing"


def _plain(value: object) -> str:
    """The value as text in YAML, at most 40 characters."""
    return str(value).lower() if isinstance(value, bool) else str(value)[:40]
