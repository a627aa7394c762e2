"""Cron expressions as Kubernetes reads them: five fields, macros, a time zone.

cronsim evaluates them. Kubernetes' dialect differs from cronsim's: it has `@hourly` and the like, takes `?`
for `*`, and has no field for seconds. A time that does not exist because clocks go forward is the first
moment after the gap; one that exists twice because clocks go back is the first of the two.

Source: robfig/cron, parser.go; kubernetes, pkg/controller/cronjob/utils.go.
"""

from datetime import UTC, datetime, tzinfo
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
#: The search for a time that a schedule names begins here at the earliest.
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST: Final = 256


class InvalidSchedule(ValueError):
    """A schedule or time zone that cannot be used; the message says what to write."""


class Schedule:
    """A parsed schedule. Times are in UTC."""

    def __init__(self, expression: str, zone: str = "") -> None:
        """`zone`: a name of the tz database; "" for UTC. Raises `InvalidSchedule`."""
        self._expression, self._zone = _fields(expression), _zone(zone)
        try:
            next(CronSim(self._expression, datetime(2026, 1, 1, tzinfo=UTC)))
        except (CronSimError, StopIteration) as error:
            raise InvalidSchedule(f"{expression[:80]!r}: {error or 'names a day that never comes'}") from None

    def next(self, after: datetime) -> datetime:
        """The first time after this one."""
        return next(CronSim(self._expression, after.astimezone(self._zone))).astimezone(UTC)

    def latest(self, until: datetime, after: datetime) -> datetime | None:
        """The last time that is not later than `until`, and later than `after`; None if there is none.

        Takes no longer after a long downtime than after a short one.
        """
        if after >= until or self.next(max(after, _FIRST)) > until:
            return None
        times = CronSim(self._expression, until.astimezone(self._zone), reverse=True)
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
        raise InvalidSchedule(f"{text.strip()[:20]} is not one of {', '.join(_MACROS)}")
    fields = text.split()
    if len(fields) != _FIELDS:
        raise InvalidSchedule(
            f"has {len(fields)} fields; a schedule has {_FIELDS}: minute, hour, day, month, day of the week"
        )
    return " ".join("*" if field == "?" else field for field in fields)


def _zone(name: str) -> tzinfo:
    if not name:
        return UTC
    if name == "Local":
        raise InvalidSchedule("timeZone: Local is not supported; name a time zone, such as Europe/Berlin")
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise InvalidSchedule(
            f"timeZone: {name[:80]!r} is unknown; write a name such as Europe/Berlin or Etc/UTC"
        ) from None
