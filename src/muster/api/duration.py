"""Durations as people write them (`6h`, `1d`, `90m`, `1h30m`, `45`), in whole seconds."""

import re
from typing import Final

_UNITS: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_FORM: Final = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s?)?", re.ASCII)
#: Above this, times computed from a duration may not fit a datetime.
_LONGEST: Final = 100 * 365 * 86_400


def parse(text: str | int) -> int:
    """The duration in seconds; a bare number is seconds.

    Raises ValueError, whose message says what a duration looks like.
    """
    match = _FORM.fullmatch(str(text).strip()) if not isinstance(text, bool) else None
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration; write for example 90s, 30m, 6h, 1h30m or 2d")
    seconds = sum(int(n or 0) * unit for n, unit in zip(match.groups(), _UNITS.values(), strict=True))
    if seconds > _LONGEST:
        raise ValueError(f"{text!r} is longer than 100 years")
    return seconds


def show(seconds: int) -> str:
    """The shortest text that `parse` reads as `seconds`: 5400 is `1h30m`."""
    text = ""
    for name, unit in _UNITS.items():
        amount, seconds = divmod(seconds, unit)
        text += f"{amount}{name}" if amount else ""
    return text or "0s"
