"""Warns about misspelt fields: unknown to muster, and similar to the name of a known field.

Unknown fields are no error, since muster reads only part of Kubernetes' objects. But `replica: 4` would be
ignored by muster and by a lenient server alike, and would run one pod instead of four. muster knows all
fields of its own kinds, so there any unknown field is reported.
"""

import difflib
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, get_args

import msgspec

from muster.api import kinds
from muster.api.base import Struct, at
from muster.api.batch_v1 import JobSpec
from muster.api.core_v1 import PodTemplate
from muster.api.fields import Finding, Path, Severity
from muster.api.templates import templates
from muster.names import DOMAIN
from muster.workloads.kubernetes.objects import Entry

#: Similarity from which a name counts as misspelt. `serviceAccount`, which exists, is at 0.88 from its
#: successor; one letter too few or too many in a word of eight is at 0.93.
_ALIKE: Final = 0.9


def findings(entry: Entry) -> Iterator[Finding]:
    """A warning for each misspelt field of the object."""
    yield from _in(entry, entry.object, entry.kind.type, ())
    for path, kind, template in templates(entry.object, entry.kind):
        if kind is kinds.JOB:
            yield from _in(entry, at(template, "spec"), JobSpec, (*path, "spec"))
        else:
            yield from _in(entry, template, PodTemplate, path)


def _in(entry: Entry, value: Any, type_: type[Struct], at: Path) -> Iterator[Finding]:  # Any: a user's YAML
    known = _known(type_)
    for name, item in value.items():
        if name not in known:
            if close := _alike(name, set(known) - set(value)):
                yield entry.report((*at, name), f"unknown field; did you mean {close}?", Severity.WARNING)
            elif entry.kind.group == DOMAIN and at[:1] == ("spec",):
                told = f"unknown field; known: {', '.join(sorted(known))}"
                yield entry.report((*at, name), told, Severity.WARNING)
        elif (inner := known[name]) is not None:
            if isinstance(item, list):
                for index, each in enumerate(item):
                    yield from _in(entry, each, inner, (*at, name, index))
            elif isinstance(item, dict):
                yield from _in(entry, item, inner, (*at, name))


def _alike(name: str, known: set[str]) -> str:
    """The known field that may be meant, "" if there is none.

    Swapped letters are matched separately, because they make short words very dissimilar.
    """
    swapped = [each for each in sorted(known) if sorted(each) == sorted(name)]
    found = swapped or difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
    return found[0] if found else ""


@cache
def _known(type_: type[Struct]) -> dict[str, type[Struct] | None]:
    """The fields of a struct as they are written, each with its nested struct, if any."""
    return {field.encode_name: _struct(field.type) for field in msgspec.structs.fields(type_)}


def _struct(annotation: Any) -> type[Struct] | None:  # Any: a type as written
    """The struct nested in `T`, `T | None` or `list[T]`."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    return next((found for each in get_args(annotation) if (found := _struct(each))), None)
