"""Cron expressions as Kubernetes reads them: five fields, macros, a time zone.

cronsim evaluates them. Kubernetes' dialect differs from cronsim's: it has `@hourly` and the like, takes `?`
for `*`, has `@every 90m`, and has neither a field for seconds nor cronsim's `L`, `W` and `#`. A time that
does not exist because clocks go forward is the first moment after the gap; one that exists twice because
clocks go back is the first of the two.

Source: robfig/cron, parser.go; kubernetes, pkg/controller/cronjob/utils.go.
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS: Final = 5
_VALUE: Final = r"(?:[0-9]+|[A-Za-z]{3})"
_PART: Final = rf"(?:[*?]|{_VALUE}(?:-{_VALUE})?)(?:/[0-9]+)?"
_FIELD: Final = re.compile(rf"{_PART}(?:,{_PART})*")
_EVERY: Final = "@every "
#: A duration of Go, such as 1h30m or 1.5h, and its parts.
_DURATION: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+")
_AMOUNT: Final = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_LONGEST: Final = 100 * 366 * 86400
#: The search for a time that a schedule names begins here at the earliest.
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST: Final = 256


class InvalidSchedule(ValueError):
    """A schedule or time zone that cannot be used; the message says what to write."""


class Schedule:
    """A parsed schedule. Times are in UTC."""

    def __init__(self, expression: str, zone: str = "") -> None:
        """`zone`: a name of the tz database; "" for UTC. Raises `InvalidSchedule`."""
        self.zone: Final = _zone(zone)
        self._every = _interval(expression)
        self._expression = _fields(expression if self._every is None else "@hourly")
        try:
            next(CronSim(self._expression, datetime(2026, 1, 1, tzinfo=UTC)))
        except (CronSimError, StopIteration) as error:
            raise InvalidSchedule(f"{expression[:80]!r}: {error or 'names a day that never comes'}") from None

    def next(self, after: datetime, since: datetime | None = None) -> datetime:
        """The first time after this one. `@every` counts from `since`, or else from `after`."""
        if self._every is not None:
            since = since if since is not None and since <= after else after
            since = since.astimezone(UTC).replace(microsecond=0)
            return since + ((after - since) // self._every + 1) * self._every
        return next(CronSim(self._expression, after.astimezone(self.zone))).astimezone(UTC)

    def latest(self, until: datetime, after: datetime) -> datetime | None:
        """The last time that is not later than `until`, and later than `after`; None if there is none.

        Takes no longer after a long downtime than after a short one.
        """
        if after >= until or self.next(max(after, _FIRST)) > until:
            return None
        if self._every is not None:
            return self.next(until, max(after, _FIRST)) - self._every
        times = CronSim(self._expression, until.astimezone(self.zone), reverse=True)
        found = next(times).astimezone(UTC)
        following = self.next(found)
        return following if following <= until else found


@lru_cache(maxsize=1024)
def parse(expression: str, zone: str = "") -> Schedule:
    """The schedule of an expression. Raises `InvalidSchedule`."""
    return Schedule(expression, zone)


def _fields(expression: str) -> str:
    if len(expression) > _MOST:
        raise InvalidSchedule(f"has {len(expression)} characters; the most is {_MOST}")
    if expression.lstrip().startswith(("TZ=", "CRON_TZ=")):
        raise InvalidSchedule("the time zone is written in timeZone, not in the schedule")
    text = _MACROS.get(expression.strip(), expression)
    if text.strip().startswith("@"):
        raise InvalidSchedule(f"{text.strip()[:20]} is not one of {', '.join(_MACROS)}, @every 1h30m")
    fields = text.split()
    if len(fields) != _FIELDS:
        raise InvalidSchedule(
            f"has {len(fields)} fields; a schedule has {_FIELDS}: minute, hour, day, month, day of the week"
        )
    for field in fields:
        if not _FIELD.fullmatch(field):
            raise InvalidSchedule(
                f"{expression[:80]!r}: {field[:20]!r} is no field; write *, 5, 1-5, */15, MON or a list"
            )
    return " ".join(field.replace("?", "*") for field in fields)


def _interval(expression: str) -> timedelta | None:
    """The interval of `@every`, in whole seconds; None if the expression is another."""
    if not expression.startswith(_EVERY):
        return None
    text = expression.removeprefix(_EVERY)
    seconds = 0.0
    if len(text) <= _MOST and _DURATION.fullmatch(text):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _AMOUNT.findall(text))
    if not 0 < seconds <= _LONGEST:
        raise InvalidSchedule(f"{expression[:80]!r}: write a duration such as @every 1h30m")
    return timedelta(seconds=max(int(seconds), 1))


def _zone(name: str) -> tzinfo:
    if not name:
        return UTC
    if name.lower() == "local":
        raise InvalidSchedule("timeZone: Local is not supported; name a time zone, such as Europe/Berlin")
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise InvalidSchedule(
            f"timeZone: {name[:80]!r} is unknown; write a name such as Europe/Berlin or Etc/UTC"
        ) from None
