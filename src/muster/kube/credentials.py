"""Credentials of requests: kept until they expire or the API server refuses them, then read again.

Reading may run a plug-in. Therefore it happens at most once in `PAUSE` seconds, whatever the plug-in answers:
a token that is expired when it is new, or that stays refused, is sent as it is until then.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

log = logging.getLogger(__name__)

#: Seconds between two readings.
PAUSE: Final = 10.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Headers that prove who we are, and until when they do, in seconds since the epoch."""

    headers: Mapping[str, str] = field(default_factory=dict)
    until: float = float("inf")


class Credentials:
    """`read` raises whatever prevents a reading: the log tells, and the last one stays in use.

    Without `read` the credentials never change.
    """

    def __init__(
        self,
        reading: Reading,
        read: Callable[[], Reading] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._reading, self._read, self._now = reading, read, now
        self._next = now() + PAUSE

    def headers(self) -> Mapping[str, str]:
        """Headers for a request to be sent now. One object as long as the credentials are the same."""
        if self._reading.until <= self._now():
            self._renew()
        return self._reading.headers

    def refused(self, headers: Mapping[str, str]) -> bool:
        """Whether a request that the server refused with these headers is worth another try with others."""
        if headers is self._reading.headers:  # else another request has been refused before, and they are new
            self._renew()
        return headers != self._reading.headers

    def _renew(self) -> None:
        if self._read is None or self._now() < self._next:
            return
        try:
            found = self._read()
        except Exception as error:  # what loaders of a configuration raise has no common type
            log.error("credentials cannot be renewed: %s", error)
        else:
            same = found.headers == self._reading.headers
            self._reading = Reading(self._reading.headers if same else found.headers, found.until)
        self._next = self._now() + PAUSE
