"""Checks the `muster.dev` keys of a file: unknown keys, and values that muster cannot honour.

The scheduler refuses such a value too, but for one object at a time, and it does not notice a misspelt key.
"""

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Final, Protocol

from muster import names
from muster.api.base import Object, at
from muster.api.fields import Finding, Path, Severity
from muster.api.marks import CHECKED, MARKS
from muster.api.templates import templates

#: Similarity from which an unknown key counts as misspelt.
_ALIKE: Final = 0.83


class Item(Protocol):
    """An object of a file, whether or not the rest of it can be read."""

    @property
    def object(self) -> Object: ...

    def report(self, path: Path, message: str, severity: Severity, /) -> Finding: ...


def marks(items: Iterable[Item], *, compiled: bool = False) -> Iterator[Finding]:
    """A finding for each wrong key and value of these objects.

    `compiled`: they come from a batch job, whose compiler takes its keys to where they are read.
    """
    for item in items:
        for path, obj, kind in bearers(item.object):
            for field in ("labels", "annotations"):
                for key, text in at(obj, "metadata", field).items():
                    yield from _mark(item, (*path, "metadata", field, key), key, str(text), kind, compiled)


def _mark(item: Item, path: Path, key: str, text: str, kind: str, compiled: bool) -> Iterator[Finding]:
    mark = MARKS.get(key)
    if mark is None:
        if close := get_close_matches(key, MARKS, 1, _ALIKE):
            yield item.report(path, f"is unknown; did you mean {close[0]}?", Severity.WARNING)
        elif key.startswith(f"{names.DOMAIN}/"):
            known = ", ".join(sorted(each.key.partition("/")[2] for each in CHECKED))
            yield item.report(
                path, f"is unknown to muster; known under {names.DOMAIN}/: {known}", Severity.WARNING
            )
    elif mark.on and kind not in mark.on and not compiled:
        told = f"is read on a {' or '.join(mark.on)} only, and this is a {kind}"
        yield item.report(path, told.replace("Pod only", "pod or its template only"), Severity.WARNING)
    elif advice := mark.advice(text):
        yield item.report(path, f"{text[:80]!r} cannot be honoured: {advice}", Severity.ERROR)


def bearers(obj: Object) -> Iterator[tuple[Path, Object, str]]:
    """Yields an object and its templates, which have marks, each with its path and kind."""
    yield (), obj, str(obj["kind"])
    for template in templates(obj):
        if isinstance(template.value, dict):
            yield template.path, template.value, template.kind.kind
