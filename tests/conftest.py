"""What holds for all tests."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from muster.local.store import Store

# Says that no event loop is current. Left unsaid, pytest-asyncio makes one when it asks which is, and nobody
# closes it.
asyncio.set_event_loop(None)


@pytest.fixture(autouse=True)
def _stores_in_memory_are_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A store in memory has nothing to lose and ends with its test; one in a file is its test's to close."""
    opened: list[Store] = []
    make = Store.__init__

    def remember(store: Store, path: Any, **how: Any) -> None:  # Any: whatever a store is opened with
        make(store, path, **how)
        if store.path == ":memory:":
            opened.append(store)

    monkeypatch.setattr(Store, "__init__", remember)
    yield
    for store in opened:
        if not store.closed:
            store.close()
