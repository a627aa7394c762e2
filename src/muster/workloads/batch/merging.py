"""Merges `defaults` into each task, and remembers where every field of the result is written.

Maps are merged deeply by key; scalars and lists of the task win. `resources` may be written at the spec, in
defaults, at the task or in its workload. `entryRuntime` may wrap the fields of the pod. Merging happens
before anything reads a task, so no reader can forget the defaults.
"""

from collections.abc import Iterator
from typing import Any, Protocol

from msgspec.structs import replace

from muster.api.fields import Finding, Path, Severity

#: Wrapper of a task's runtime fields in the chapter's example.
WRAPPER = "entryRuntime"


class Job(Protocol):
    """A batch job as it is written: in a file, or as an object of a cluster."""

    value: Any  # Any: a user's YAML

    def finding(self, path: Path, message: str, severity: Severity = ...) -> Finding: ...


class Merged:
    """A batch job's document with defaults merged into its tasks.

    Fields keep their paths as if each task wrote all of them out. A finding is placed where its field is
    written.
    """

    def __init__(self, document: Job) -> None:
        self._document = document
        self.value = ordered(document.value)

    def task(self, name: str) -> dict[str, Any]:  # Any: a user's YAML
        """The task with its defaults; its resources are in its workload."""
        spec = _map(self.value.get("spec"))
        shared = {"workload": {"resources": _map(spec.get("resources"))}}
        task = _flat(_map(_map(spec.get("tasks")).get(name)))
        return _merged(_merged(shared, _flat(_map(spec.get("defaults")))), task)

    def finding(self, path: Path, message: str, severity: Severity = Severity.ERROR) -> Finding:
        """A finding about a field of the merged job, at the place where it is written, or would be."""
        value = self.value
        candidates = [path, *_elsewhere(path)]
        depths = [_depth(value, candidate) for candidate in candidates]
        whole = (each for each, depth in zip(candidates, depths, strict=True) if depth == len(each))
        best = next(whole, candidates[depths.index(max(depths))])
        return self._document.finding(best, message, severity)

    def placed(self, found: Finding) -> Finding:
        """The finding of the compiler or of a gate at its place in the file, with its fix."""
        return replace(self.finding(found.path, found.message, found.severity), fix=found.fix)


def _elsewhere(path: Path) -> Iterator[Path]:
    """Where a field of a task may be written instead of at its own path."""
    if path[:2] != ("spec", "tasks") or len(path) < 3:
        return
    base, rest = path[:3], path[3:]
    yield (*base, WRAPPER, *rest)
    yield ("spec", "defaults", *rest)
    yield ("spec", "defaults", WRAPPER, *rest)
    if rest[:2] == ("workload", "resources"):
        yield (*base, *rest[1:])
        yield ("spec", "defaults", *rest[1:])
        yield ("spec", *rest[1:])


def _flat(task: dict[str, Any]) -> dict[str, Any]:
    """The task without its wrapper, and with its resources in its workload. What is no mapping stays."""
    wrapped = task.get(WRAPPER)
    rest = {
        key: value
        for key, value in task.items()
        if key != "resources" and (key != WRAPPER or not isinstance(value, dict))
    }
    resources = task.get("resources")
    inner = {"workload": {"resources": {} if resources is None else resources}}
    return _merged(inner, _merged(_map(wrapped), rest))


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`base` with every field of `over`. A field that is null there is as if it were absent."""
    merged = dict(base)
    for key, value in over.items():
        known = base.get(key)
        if isinstance(known, dict) and isinstance(value, dict):
            merged[key] = _merged(known, value)
        elif value is not None or key not in base:
            merged[key] = value
    return merged


def ordered(value: Any, levels: int = 50) -> Any:  # Any: JSON
    """Returns the same JSON with the keys of each mapping sorted; an API server does not keep their order.

    Below that many levels, which no field reaches, the order stays.
    """
    if isinstance(value, dict) and levels:
        return {key: ordered(value[key], levels - 1) for key in sorted(value)}
    if isinstance(value, list) and levels:
        return [ordered(each, levels - 1) for each in value]
    return value


def _map(value: Any) -> dict[str, Any]:  # Any: a user's YAML
    return value if isinstance(value, dict) else {}


def _depth(value: Any, path: Path) -> int:  # Any: a user's YAML
    """How many steps of the path exist."""
    for length, step in enumerate(path):
        try:
            value = value[step]
        except (LookupError, TypeError):
            return length
    return len(path)
