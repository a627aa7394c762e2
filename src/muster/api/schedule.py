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
_VALUE: Final = r"(?:\+?[0-9]+|[A-Za-z]{3})"
_PART: Final = rf"(?:[*?](?:-{_VALUE})?|{_VALUE}(?:-{_VALUE})?)(?:/\+?[0-9]+)?"
#: The fifth field, whose days are 0 (Sunday) to 6: cronsim also takes 7.
_WEEKDAY: Final = 4
_SATURDAY: Final = 6
_FIELD: Final = re.compile(rf"{_PART}(?:,{_PART})*")
_EVERY: Final = "@every "
#: A duration of Go, such as 1h30m or 1.5h, and its parts.
_DURATION: Final = re.compile(r"[+-]?(?:0|(?:[0-9]+(?:\.[0-9]*)?(?:ns|us|µs|ms|s|m|h))+)")
_AMOUNT: Final = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_LONGEST: Final = 100 * 366 * 86400
#: The search for a time that a schedule names begins here at the earliest.
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST: Final = 256


class InvalidSchedule(ValueError):
    """A schedule or time zone that cannot be used; the message says what to write."""


class NeverDue(InvalidSchedule):
    """A schedule that API servers accept although it names a day that never comes, such as 30 February."""


class Schedule:
    """A parsed schedule. Times are in UTC."""

    def __init__(self, expression: str, zone: str = "") -> None:
        """`zone`: a name of the tz database; "" for UTC. Raises `InvalidSchedule`, `NeverDue`."""
        self.zone: Final = _zone(zone)
        self._every = _interval(expression)
        self._expression = _fields(expression if self._every is None else "@hourly")
        try:
            next(CronSim(self._expression, datetime(2026, 1, 1, tzinfo=UTC)))
        except (CronSimError, StopIteration) as error:
            # cronsim refuses as Bad day-of-month what API servers take; bad numbers are bad for both
            if isinstance(error, StopIteration) or _never_comes(self._expression):
                raise NeverDue(f"{expression[:80]!r} names a day that never comes") from None
            raise InvalidSchedule(f"{expression[:80]!r}: {error}") from None

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
    """The schedule of an expression. Raises `InvalidSchedule`, `NeverDue`."""
    return Schedule(expression, zone)


def _fields(expression: str) -> str:
    if len(expression) > _MOST:
        raise InvalidSchedule(f"has {len(expression)} characters; the most is {_MOST}")
    if expression.lstrip().startswith(("TZ=", "CRON_TZ=")):
        raise InvalidSchedule("the time zone is written in timeZone, not in the schedule")
    text = _MACROS.get(expression, expression)
    if text.strip().startswith("@"):
        raise InvalidSchedule(f"{text[:20]} is not one of {', '.join(_MACROS)}, @every 1h30m")
    fields = text.split()
    if len(fields) != _FIELDS:
        raise InvalidSchedule(
            f"has {len(fields)} fields; a schedule has {_FIELDS}: minute, hour, day, month, day of the week"
        )
    # as Kubernetes' parser: an empty element of a list says nothing, and neither does the end of `*-5`
    fields = [",".join(filter(None, field.split(","))) for field in fields]
    for number, field in enumerate(fields):
        if not _FIELD.fullmatch(field):
            raise InvalidSchedule(
                f"{expression[:80]!r}: {field[:20]!r} is no field; write *, 5, 1-5, */15, MON or a list"
            )
        days = re.findall(r"(?<![/0-9])[0-9]+", field) if number == _WEEKDAY else []
        if any(int(day) > _SATURDAY for day in days):
            raise InvalidSchedule(
                f"{expression[:80]!r}: days of the week are 0 to {_SATURDAY}; Sunday is 0 or SUN"
            )
    plain = (re.sub(r"[*?](?:-[^/,]+)?", "*", field).replace("+", "") for field in fields)
    return " ".join(plain)


def _never_comes(expression: str) -> bool:
    """Whether each field of the expression is right, but no month has such a day."""
    minute, hour, day, month, weekday = expression.split()
    try:
        next(CronSim(f"{minute} {hour} {day} * {weekday}", datetime(2026, 1, 1, tzinfo=UTC)))
        next(CronSim(f"{minute} {hour} * {month} {weekday}", datetime(2026, 1, 1, tzinfo=UTC)))
    except (CronSimError, StopIteration):
        return False
    return True


def _interval(expression: str) -> timedelta | None:
    """The interval of `@every`, in whole seconds; None if the expression is another."""
    if not expression.startswith(_EVERY):
        return None
    text = expression.removeprefix(_EVERY)
    if len(text) > _MOST or not _DURATION.fullmatch(text):
        raise InvalidSchedule(f"{expression[:80]!r}: write a duration such as @every 1h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _AMOUNT.findall(text))
    if seconds > _LONGEST:
        raise InvalidSchedule(f"{expression[:80]!r}: the longest is 100 years")
    return timedelta(seconds=1 if text.startswith("-") else max(int(seconds), 1))  # as Kubernetes' parser


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
