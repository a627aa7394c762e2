"""Times that objects state, bounded when they are read, so that nobody's arithmetic can overflow.

A status, an annotation or a backup may say the year 1 or 9999, in any time zone. `datetime` holds such times,
but not what is a day before or after them, or what they are in another zone. Every time that muster
calculates with therefore passes through a function of this module. An absurd time becomes the nearest
that is usable.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

#: Times that fit every zone, and seconds since the epoch that are not negative.
FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST: Final = datetime(9999, 1, 1, tzinfo=UTC)
_LONGEST: Final = (LAST - FIRST).total_seconds()


def bounded(time: datetime) -> datetime:
    """Returns the time in UTC, between `FIRST` and `LAST`."""
    return min(max(time, FIRST), LAST).astimezone(UTC)


def seconds(time: datetime | None) -> float:
    """Returns a time in seconds since the epoch; 0 if there is none."""
    return bounded(time).timestamp() if time is not None else 0.0


def after(time: datetime, delay: float) -> datetime:
    """Returns the time that is `delay` seconds after a time, or before it if `delay` is negative."""
    start = bounded(time)
    span = timedelta(seconds=min(max(delay, -_LONGEST), _LONGEST))
    return start + min(max(span, FIRST - start), LAST - start)


def read(text: str) -> datetime:
    """Reads an ISO 8601 time; without a zone it is in UTC. Raises ValueError."""
    time = datetime.fromisoformat(text)
    return bounded(time if time.tzinfo is not None else time.replace(tzinfo=UTC))


def written(time: datetime) -> str:
    """Returns a time in RFC 3339, in UTC and with microseconds if it has any."""
    return bounded(time).isoformat().replace("+00:00", "Z")
