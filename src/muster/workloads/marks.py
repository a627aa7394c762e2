"""Checks the `muster.dev` keys of a file: unknown keys, and values that muster cannot honour.

The scheduler refuses such a value too (`translate.marks`), but for one object at a time, and it does not
notice a misspelt key.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any, Final, Protocol

from muster import names
from muster.api import duration, progress, times
from muster.api.base import Object
from muster.api.fields import Path
from muster.workloads.findings import Finding, Severity

#: Keys of `muster.dev` in `muster.names`, and the one key that only nodes have.
KEYS: Final = frozenset(
    value
    for value in [*vars(names).values(), f"{names.DOMAIN}/runtime"]
    if isinstance(value, str) and value.startswith(f"{names.DOMAIN}/") and value != names.PREEMPTED
)
#: Similarity from which an unknown key counts as misspelt.
_ALIKE: Final = 0.83
_FLAG: Final = 'write "true" or "false"'


def _flag(text: str) -> str:
    return "" if text in ("true", "false") else _FLAG


def _duration(text: str) -> str:
    try:
        duration.parse(text)
    except ValueError as error:
        return str(error)
    return ""


def _checkpoint(text: str) -> str:
    try:
        times.read(text)
    except ValueError:
        if _duration(text):
            return "write an interval (30m), or when the last one was (2026-01-31T12:00:00Z)"
    return ""


def _rules(text: str) -> str:
    try:
        progress.rules(text)
    except ValueError as error:
        return str(error)
    return ""


def _matches(pattern: str, advice: str) -> Callable[[str], str]:
    """A check that returns `advice` for values that do not match `pattern`."""
    return lambda text: "" if re.fullmatch(pattern, text, re.ASCII) else advice


_NAME: Final = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
#: Checks by key: what to write instead of a wrong value, "" for a right one.
_WRONG: Final[dict[str, Callable[[str], str]]] = {
    names.GANG: _flag,
    names.HOLD: _flag,
    names.PREEMPTIBLE: _flag,
    names.PRIORITY: _matches(
        rf"-?[0-9]{{1,9}}|{_NAME}", "write a number of up to nine digits, or the name of a PriorityClass"
    ),
    names.QUEUE: _matches(_NAME, "write the name of a queue: lower-case letters, digits, - and ."),
    names.GPU_SHARE: _matches(r"[1-9][0-9]{0,2}|1000", 'write thousandths of one GPU, "1" to "1000"'),
    names.ON_PARTIAL: _matches("keep|recreate", "write keep or recreate"),
    names.RESTART_BUDGET: _matches(r"[0-9]{1,9}", 'write a number of failures, such as "5"'),
    names.RUN_TIME: _duration,
    names.MIN_RUN_TIME: _duration,
    names.RESTART_COST: _duration,
    names.DEADLINE: _duration,
    names.CHECKPOINT: _checkpoint,
    names.CHECKPOINT_GRACE: _duration,
    names.ON_GPU_ANOMALY: _matches(
        "notify|checkpointAndMove|none", "write notify, checkpointAndMove or none"
    ),
    names.PROGRESS_RULES: _rules,
}
#: Keys that are read on objects of some kinds only.
_ON: Final = {
    names.DEADLINE: ("JobSet",),
    names.RESTART_BUDGET: ("JobSet",),
    names.GPU_SHARE: ("Pod",),
    names.ON_PARTIAL: ("PodGroup", "Pod"),
}


class Item(Protocol):
    """An object of a file, whether or not the rest of it can be read."""

    @property
    def object(self) -> Object: ...

    def report(self, path: Path, message: str, severity: Severity, /) -> Finding: ...


def marks(items: Iterable[Item]) -> Iterator[Finding]:
    """A finding for each wrong key and value of these objects."""
    for item in items:
        for path, metadata, kind in _metadata(item.object, item.object["kind"], ()):
            for field in ("labels", "annotations"):
                values = metadata.get(field)
                for key, text in values.items() if isinstance(values, dict) else ():
                    yield from _mark(item, (*path, field, key), key, str(text), kind)


def _mark(item: Item, at: Path, key: str, text: str, kind: str) -> Iterator[Finding]:
    if key not in KEYS:
        if close := get_close_matches(key, KEYS, 1, _ALIKE):
            yield item.report(at, f"is unknown; did you mean {close[0]}?", Severity.WARNING)
        elif key.startswith(f"{names.DOMAIN}/"):
            known = ", ".join(sorted(each.partition("/")[2] for each in _WRONG))
            yield item.report(
                at, f"is unknown to muster; known under {names.DOMAIN}/: {known}", Severity.WARNING
            )
        return
    if kind not in _ON.get(key, (kind,)):
        told = f"is read on a {' or '.join(_ON[key])} only, and this is a {kind}"
        yield item.report(at, told.replace("Pod only", "pod or its template only"), Severity.WARNING)
    elif key in _WRONG and (advice := _WRONG[key](text)):
        yield item.report(at, f"{text[:80]!r} cannot be honoured: {advice}", Severity.ERROR)


def _metadata(value: Any, kind: str, at: Path) -> Iterator[tuple[Path, Object, str]]:  # Any: a user's YAML
    """The metadata of an object and of its templates, each with its path and the kind that bears it."""
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        yield (*at, "metadata"), metadata, kind
    spec = value.get("spec")
    if not isinstance(spec, dict):
        return
    if kind == "Job" and isinstance(spec.get("template"), dict):
        yield from _metadata(spec["template"], "Pod", (*at, "spec", "template"))
    jobs = spec.get("replicatedJobs") if kind == "JobSet" else None
    for index, replicated in enumerate(jobs if isinstance(jobs, list) else ()):
        if isinstance(replicated, dict) and isinstance(replicated.get("template"), dict):
            here: Path = (*at, "spec", "replicatedJobs", index, "template")
            yield from _metadata(replicated["template"], "Job", here)
