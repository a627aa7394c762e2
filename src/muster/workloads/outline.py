"""JSON Schemas of job files, from the readers that check them: a reader reads an outline instead of a file.

An outline answers every question of a reader as a file with all fields would, and notes which fields the
reader asks for and what they may be. So a field is described nowhere but where it is read. Rules that span
fields are not in a schema; `muster check` knows them.

Any field may be null, which is as if it were absent.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

from muster.api.base import Object
from muster.api.fields import Finding, Path
from muster.workloads.section import Section

#: The draft that the YAML extension of VS Code knows best.
DRAFT: Final = "http://json-schema.org/draft-07/schema#"
#: Stands for a key that the user chooses.
_KEY: Final = "x"
OPTIONAL_MAP: Final[Object] = {"type": ["object", "null"]}
_TEXT: Final[Object] = {"type": ["string", "null"]}


def outline(read: Callable[[Section], object]) -> Object:
    """The JSON Schema of what `read` reads, given the section of the whole file.

    `read` is called again for each answer of `Section.kind`.
    """
    plain: dict[Path, Object] = {}
    top = Outline({}, plain)
    read(top)
    shape = top.shape()
    for path, kinds in list(plain.items()):
        for kind in kinds["examples"]:
            variant = Outline({path: kind}, {})
            read(variant)
            _at(shape, path[:-1]).setdefault("allOf", []).append(
                {
                    "if": {"properties": {path[-1]: {"const": kind}}, "required": [path[-1]]},
                    "then": {"properties": _at(variant.shape(), path[:-1])["properties"]},
                }
            )
    return shape


def _at(shape: Object, path: Path) -> Object:
    for step in path:
        shape = shape["additionalProperties"] if step == _KEY else shape["properties"][step]
    return shape


class Outline(Section):
    """A section that has every field, and remembers what it was asked for."""

    def __init__(self, answers: Mapping[Path, str], kinds: dict[Path, Object], path: Path = ()) -> None:
        super().__init__(_Nowhere(), None, path, [])
        self._answers, self._kinds = answers, kinds
        self._fields: dict[str, Object] = {}
        self._inner: dict[str, Outline] = {}
        self._keys = self._closed = False

    def shape(self) -> Object:
        """The JSON Schema of the mapping, from what has been asked so far."""
        fields = self._fields | {name: self._shape_of(name, inner) for name, inner in self._inner.items()}
        found = dict(OPTIONAL_MAP)
        if self._keys:
            found["additionalProperties"] = fields.pop(_KEY, True)
        elif self._closed:
            found["additionalProperties"] = False
        return found | ({"properties": fields} if fields else {})

    def _shape_of(self, name: str, inner: "Outline") -> Object:
        listed = self._fields.get(name, {}).get("type") == ["array", "null"]
        return {**self._fields[name], "items": inner.shape()} if listed else inner.shape()

    def __contains__(self, name: str) -> bool:
        return True

    def names(self) -> list[str]:
        self._keys = True
        return [_KEY]

    def error(self, name: str | Path, message: str) -> None:
        pass

    def section(self, name: str, value: Any = None) -> "Outline":  # Any: a user's YAML
        return self._inner.setdefault(name, Outline(self._answers, self._kinds, (*self.path, name)))

    def sections(self, name: str) -> list[Section]:
        self._fields[name] = {"type": ["array", "null"]}
        return [self.section(name)]

    def raw(self, name: str, form: Object | None = None) -> Any:  # Any: a user's YAML
        if form is not None or name not in self._fields:
            self._fields[name] = form or {}

    def text(self, name: str, default: str = "") -> str:
        self._fields[name] = _TEXT
        return default

    def kind(self, name: str, kinds: tuple[str, ...]) -> str:
        path = (*self.path, name)
        self._fields[name] = self._kinds[path] = {**_TEXT, "examples": list(kinds)}
        return self._answers.get(path, _KEY)

    def words(self, name: str) -> list[str]:
        self._fields[name] = {"type": ["array", "null"], "items": {"type": "string"}}
        return []

    def flag(self, name: str, default: bool = False) -> bool:
        self._fields[name] = {"type": ["boolean", "null"]}
        return default

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        plain = [each == "true" for each in choices if each in ("true", "false")]
        known = [*dict.fromkeys([*choices, default])]
        self._fields[name] = {"enum": [*filter(None, known), *plain, *([""] if "" in known else []), None]}
        return default

    def integer(self, name: str, default: int, *, minimum: int = 0, maximum: int = 2**31 - 1) -> int:
        self._fields[name] = {"type": ["integer", "null"], "minimum": minimum, "maximum": maximum}
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
        bound = {"exclusiveMinimum": above} if least is None else {"minimum": least}
        self._fields[name] = {"type": ["number", "null"], **bound, "maximum": maximum}
        return default

    def quantity(self, name: str) -> str:
        self._fields[name] = {"type": ["string", "number", "null"], "examples": ["500m", "10Gi"]}
        return ""

    def seconds(self, name: str) -> int | None:
        self._fields[name] = {"type": ["string", "number", "null"], "examples": ["30m", "6h"]}
        return None

    def close(self, meant: Mapping[str, str] = {}) -> None:
        self._closed = True


class _Nowhere:
    def finding(self, path: Path, message: str) -> Finding:
        return Finding(path, message)
