"""A registry on an empty store in memory, under a clock that stands still unless told."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from muster.api import kinds
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry


class StillClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def monotonic(self) -> float:
        return self.time.timestamp()

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def registry(clock: StillClock) -> Iterator[Registry]:
    """With one node, `node-0`."""
    store = Store(":memory:")
    registry = Registry(store, clock=clock)
    registry.create(kinds.NODE, "", {"metadata": {"name": "node-0"}, "status": {"capacity": {"cpu": "8"}}})
    yield registry
    store.close()
