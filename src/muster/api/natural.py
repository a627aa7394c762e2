"""Natural numbers as text: indexes and counts in labels and annotations, which anybody may write."""

from typing import Final

#: int32, as nearly all numbers of Kubernetes.
_MOST: Final = 2**31 - 1


def natural(text: str | None, most: int = _MOST) -> int | None:
    """The number that these decimal digits write; None for any other text, and for more than `most`."""
    if not text or len(text) > 19 or not text.isascii() or not text.isdecimal():
        return None
    number = int(text)
    return number if number <= most else None
