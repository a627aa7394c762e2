"""The fields of every kind, and how they merge: what OpenAPI, strict validation and patches rest on.

A type is a table of fields; each field has a code. Kubernetes' own types are in `muster/api/rules/types.json`
(`muster.api.rules.types` describes the codes). The types of CustomResourceDefinitions are made from their
structs, in the same codes, and `n` for a number; their names have the API group's module in front, as in
`jobset_v1alpha2.Network`.

`merging.json` says how a field merges in a strategic merge patch and in server-side apply. It is derived from
Kubernetes' OpenAPI (tests/embedded/schema/official.py). By type and field; the field "" is the type itself:

    name        a list of maps with that key, or those keys; a patch merges it by the first
    name+       the same, and a patch replaces the fields of an item (`retainKeys`)
    ~name       the same for apply only; a patch replaces the list
    =name       the same for patches only; apply replaces the list
    *, ~*       a list that is a set; with ~ for apply only
    !           a map that apply replaces as a whole
    replace     a map that a patch replaces as a whole
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect

from muster.api import kinds
from muster.api.base import Condition, Kind, LabelSelector, LabelSelectorRequirement, ObjectMeta
from muster.api.jobset_v1alpha2 import JobSetSpec, JobSetStatus, ReplicatedJob
from muster.api.rules import types

#: Structs that are Kubernetes' own types.
_KUBERNETES: Final = (ObjectMeta, Condition, LabelSelector, LabelSelectorRequirement)
#: Fields that structs keep as JSON, or that Kubernetes' types describe better.
_BETTER: Final[dict[tuple[type[msgspec.Struct], str], str]] = {(ReplicatedJob, "template"): "JobTemplateSpec"}
_HEAD: Final = {"apiVersion": "s", "kind": "s", "metadata": "ObjectMeta"}
#: How lists of CustomResourceDefinitions merge: for apply only, as patches of theirs never merge lists.
_OF_CRDS: Final[dict[tuple[type, str], str]] = {
    (JobSetSpec, "replicatedJobs"): "~name",
    (JobSetStatus, "conditions"): "~type",
    (JobSetStatus, "replicatedJobsStatus"): "~name",
}
Fields = dict[str, str]


class Merging(NamedTuple):
    """How the value of a field merges: `keys` of a list of maps, a set, or as a whole (`atomic`)."""

    keys: tuple[str, ...] = ()
    is_set: bool = False
    atomic: bool = False
    retain_keys: bool = False


_WHOLE: Final = Merging(atomic=True)


@cache
def table() -> dict[str, Fields]:
    """Every type by name: its fields and their codes, with `!` behind those that are required."""
    found = dict(_official())
    for kind in kinds.ALL:
        if is_custom(kind):
            _add(kind.type, found)
            found[type_name(kind)] = _HEAD | found[type_name(kind)]
    return found


@cache
def _official() -> dict[str, Fields]:
    found: dict[str, Fields] = json.loads(types.FILE.read_text())
    return found


def is_custom(kind: Kind[Any]) -> bool:  # Any: an object of any kind
    """Whether a CustomResourceDefinition defines the kind on a real cluster."""
    return kind.kind not in _official()


def type_name(kind: Kind[Any]) -> str:  # Any: as above
    """The name of the kind's type in the table."""
    return _name(kind.type) if is_custom(kind) else kind.kind


def fields(name: str) -> Fields:
    """The codes of a type's fields, without marks of requirement."""
    return _plain().get(name, {})


@cache
def _plain() -> dict[str, Fields]:
    return {
        name: {field: code.rstrip("!") for field, code in of_type.items()}
        for name, of_type in table().items()
    }


@cache
def merging(name: str, field: str, *, patch: bool) -> Merging:
    """How a field merges, in a strategic merge patch (`patch`) or in server-side apply."""
    code = _merging().get(name, {}).get(field, "")
    inner = fields(name).get(field, "o")
    if code == "replace":
        return Merging(atomic=patch or _is_whole(inner))
    if code == "!" or (not code and not patch and _is_whole(inner)):
        return Merging(atomic=not patch)
    if code.startswith(("~", "=")):
        code = code[1:] if code.startswith("=") is patch else ""
    if not code:
        return Merging(atomic=inner.startswith("["))
    if code == "*":
        return Merging(is_set=True)
    return Merging(tuple(code.rstrip("+").split(",")), retain_keys=code.endswith("+"))


def _is_whole(inner: str) -> bool:
    """Whether apply replaces values of this type as a whole."""
    return _merging().get(inner, {}).get("") == "!"


def item(name: str) -> Merging:
    """How an item of a list merges in server-side apply, once the list has found it."""
    return _WHOLE if _is_whole(name) else Merging()


@cache
def _merging() -> dict[str, Fields]:
    found: dict[str, Fields] = json.loads(Path(__file__).with_name("merging.json").read_text())
    for (struct, field), code in _OF_CRDS.items():
        found.setdefault(_name(struct), {})[field] = code
    return found


def _name(struct: type) -> str:
    if struct in _KUBERNETES:
        return struct.__name__
    return f"{struct.__module__.rpartition('.')[2]}.{struct.__name__}"


def _add(struct: type[msgspec.Struct], found: dict[str, Fields]) -> None:
    """Adds the type of a struct, and those that it refers to."""
    name = _name(struct)
    if name in found:
        return
    known = inspect.type_info(struct)
    assert isinstance(known, inspect.StructType)
    found[name] = {}
    for field in known.fields:
        code = _BETTER.get((struct, field.encode_name)) or _code(field.type, found)
        found[name][field.encode_name] = code + ("!" if field.required else "")


def _code(type_: inspect.Type, found: dict[str, Fields]) -> str:
    """The code of a field's type."""
    match type_:
        case inspect.Metadata():
            return _code(type_.type, found)
        case inspect.UnionType():
            some = [each for each in type_.types if not isinstance(each, inspect.NoneType)]
            return _code(some[0], found) if len(some) == 1 else "q"  # no other union than a quantity's
        case inspect.StructType():
            _add(type_.cls, found)
            return _name(type_.cls)
        case inspect.DictType(value_type=inspect.AnyType()):
            return "o"
        case inspect.DictType():
            return "{" + _code(type_.value_type, found)
        case inspect.ListType():
            return "[" + _code(type_.item_type, found)
        case inspect.DateTimeType():
            return "t"
        case inspect.IntType():
            return "i"
        case inspect.FloatType():
            return "n"
        case inspect.StrType():
            return "s"
        case inspect.BoolType():
            return "b"
    raise TypeError(f"no code for {type_}")
