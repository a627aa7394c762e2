"""Natural numbers as text: indexes and counts in labels and annotations, which any user may write."""

from typing import Final

#: The largest int32, the type of nearly all numbers in Kubernetes.
_MOST: Final = 2**31 - 1


def natural(text: str | None, most: int = _MOST) -> int | None:
    """The number that `text` states in decimal digits; None for any other text, or a number above `most`."""
    if not text or len(text) > 19 or not text.isascii() or not text.isdecimal():
        return None
    number = int(text)
    return number if number <= most else None
