"""Ages and durations as `kubectl get` shows them: two or three significant figures, such as `3d4h`.

Source: kubernetes/apimachinery, pkg/util/duration/duration.go (HumanDuration).
"""

from datetime import datetime, timedelta
from typing import Final

UNKNOWN: Final = "<unknown>"
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 24 * 3600, 365 * 24 * 3600


def since(time: object, now: datetime) -> str:
    """The time from `time`, as an object's field has it, until `now`; `<unknown>` if it is no time."""
    return between(time, now) or UNKNOWN


def between(start: object, end: object) -> str:
    """The time between two times as fields of objects have them; "" if one of them is no time."""
    first, last = _time(start), _time(end)
    return short(last - first) if first is not None and last is not None else ""


def short(duration: timedelta) -> str:
    seconds = int(duration.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(0, seconds)}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _two(seconds: int, large: int, large_unit: str, small: int, small_unit: str) -> str:
    """`seconds` in two units, without the smaller one if that is 0."""
    rest = seconds % large // small
    return f"{seconds // large}{large_unit}" + (f"{rest}{small_unit}" if rest else "")


def _time(value: object) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    return value if isinstance(value, datetime) and value.tzinfo is not None else None
