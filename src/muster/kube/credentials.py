"""Caches the credentials of requests until they expire or the API server refuses them.

Reading may run a plug-in, which may take long. The credentials are therefore read at most once in `PAUSE`
seconds. In that time a token is sent even if it had already expired when it was read, or is refused again.
From `EARLY` seconds before they expire, the credentials are read again in a thread, while requests use the
old ones. A caller in an event loop asks `expired` first; if they have expired, it calls `headers` in a
thread.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Least seconds between two reads of the credentials.
PAUSE: Final = 10.0
#: Seconds before their end at which credentials are renewed.
EARLY: Final = 30.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Headers that authenticate muster, and until when they are valid, in seconds since the epoch."""

    headers: Mapping[str, str] = field(default_factory=dict)
    until: float = float("inf")


class Credentials:
    """The credentials in use, renewed by `read`.

    If `read` raises, the error is logged and the last credentials stay in use. Without `read` the credentials
    never change.
    """

    def __init__(
        self,
        reading: Reading,
        read: Callable[[], Reading] | None = None,
        now: Callable[[], float] = time.time,
        beside: Callable[[Callable[[], None]], None] = lambda work: threading.Thread(
            target=work, name="credentials", daemon=True
        ).start(),
    ) -> None:
        """`beside` runs a function in another thread."""
        self._reading, self._read, self._now, self._beside = reading, read, now, beside
        self._next = now() + PAUSE
        self._reading_beside = False
        self._lock = threading.Lock()

    @property
    def expired(self) -> bool:
        """Whether `headers` may take long, since it reads the credentials."""
        return self._reading.until <= self._now() and self._due

    def headers(self) -> Mapping[str, str]:
        """The headers for a request to be sent now: the same object as long as the credentials are equal."""
        left = self._reading.until - self._now()
        if left <= 0:
            self._renew()
        elif left <= EARLY and self._due and not self._reading_beside:
            self._reading_beside = True
            self._beside(self._renew)
        return self._reading.headers

    def refused(self, headers: Mapping[str, str]) -> bool:
        """Whether there are other headers to retry with, after the server refused a request with these."""
        if headers is self._reading.headers:  # otherwise another request was refused first and renewed them
            self._renew()
        return headers != self._reading.headers

    @property
    def _due(self) -> bool:
        return self._read is not None and self._now() >= self._next

    def _renew(self) -> None:
        with self._lock:
            if self._read is None or not self._due:
                return  # another thread has read them meanwhile
            try:
                found = self._read()
            except Exception as error:  # the loaders' exceptions have no common type
                log.error("credentials cannot be renewed: %s", error)
            else:
                same = found.headers == self._reading.headers
                self._reading = Reading(self._reading.headers if same else found.headers, found.until)
            self._next = self._now() + PAUSE
            self._reading_beside = False


async def in_thread(call: Callable[[], T]) -> T:
    """The result of a call that may take long, made in a thread that nothing waits for.

    (`asyncio.to_thread` would keep a process that is interrupted from ending before its plug-in does.)
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result, failed = None, None
        try:
            result = call()
        except Exception as error:  # it belongs to the caller
            failed = error
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=work, name="credentials", daemon=True).start()
    return await done
