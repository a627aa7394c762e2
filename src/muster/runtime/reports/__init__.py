"""Statuses of objects that the scheduler writes beside its decisions, for people and other programs."""

from collections.abc import Iterator
from datetime import datetime
from typing import Protocol

from muster.effects import Patch


class Reports(Protocol):
    """Statuses that people or other programs read, and no decision of the scheduler depends on."""

    def due(self, now: datetime) -> Iterator[Patch]:
        """Yields the patches to write now; `written` takes their outcomes."""
        ...

    def written(self, report: Patch, error: Exception | None) -> None: ...

    def wait(self, now: float) -> float:
        """Returns the seconds until there is something to write; infinite if there is nothing."""
        ...
