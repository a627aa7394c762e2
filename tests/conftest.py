"""What holds for all tests."""

import asyncio
import gc
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from muster.embedded.storage.store import Store
from tests.tiers import FULL, examples

# Modules and tests stay to the end. They are not searched for garbage: neither while they are collected nor
# afterwards.
gc.disable()

# No event loop is current. Without this, pytest-asyncio makes one when it asks which is, and does not close
# it.
asyncio.set_event_loop(None)

# A process inherits the signals that its parent ignores: SIGINT from `make test &` in a script, SIGHUP
# from nohup. Tests send these signals to themselves and to programs that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

# No test depends on how busy the machine is. Speed is judged by `make bench`.
settings.register_profile(
    "unhurried", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

# CI judges a change, so it draws the same examples each time. Whoever looks for more faults draws others.
if os.environ.get("MUSTER_TESTS_DRAW") == "fixed":
    settings.register_profile("fixed", settings.get_profile("unhurried"), derandomize=True, database=None)
    settings.load_profile("fixed")

# `make mutants` asks only whether something fails, not for the smallest example.
settings.register_profile(
    "unshrunk", settings.get_profile("unhurried"), database=None, phases=[Phase.explicit, Phase.generate]
)
if os.environ.get("MUSTER_TESTS_SHRINK") == "no":
    settings.load_profile("unshrunk")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The quick tier leaves out what is marked `full`."""
    if FULL:
        return
    left_out = [item for item in items if item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


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
