"""The event loop of long-running processes: uvloop, which needs half of asyncio's time for TLS."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs `main` to its end, as `asyncio.run` does."""
    try:
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] | None = uvloop.new_event_loop
    except ImportError:  # uvloop does not exist for this platform
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)
