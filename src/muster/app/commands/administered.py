"""Reads the YAML files beside an administrator's policies: TrustPolicies, and what the cluster declares."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from muster.api.base import Object
from muster.workloads import source

_MOST: Final = 1_000


def objects(directory: Path) -> Iterator[tuple[Path, Object]]:
    """Each object of a directory's `*.yaml` files, with its file; those of a List one by one.

    Raises `JobFileError`.
    """
    files = sorted(directory.glob("*.yaml"))
    for file in files[:_MOST]:
        text = source.read(file)
        if not text.strip():
            continue
        for document in source.parse(text, str(file)):
            yield from ((file, each) for each in _listed(document.value))


def _listed(value: Any) -> Iterator[Object]:  # Any: YAML
    if isinstance(value, dict):
        items = value.get("items")
        if str(value.get("kind", "")).endswith("List") and isinstance(items, list):
            yield from (each for each in items if isinstance(each, dict))
        else:
            yield value
