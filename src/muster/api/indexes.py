"""Sets of completion indexes and their text, as in a Job's `status.completedIndexes`: "1,3-5,7".

A Job may have millions of indexes, most of them completed. A set is therefore kept as sorted intervals and
never as single numbers. The text writes three or more consecutive indexes as the first and the last.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Indexes:
    """A set of indexes; `intervals` are inclusive, ascending and never touch."""

    intervals: tuple[tuple[int, int], ...] = ()

    @classmethod
    def parse(cls, text: str, *, below: int | None = None) -> "Indexes":
        """The set that `text` describes, without the indexes that are not below `below`.

        Raises ValueError for a text that is not a list of ascending numbers and intervals.
        """
        found: list[tuple[int, int]] = []
        last = -1
        for part in text.split(",") if text else ():
            lo, hi = _interval(part)
            if lo <= last:
                raise ValueError(f'indexes must ascend; "{part}" does not')
            last = hi
            found.append((lo, hi))
        return cls(_cut(found, below))

    @classmethod
    def salvage(cls, text: str, *, below: int | None = None) -> "Indexes":
        """The readable parts of `text`, as Kubernetes reads a damaged status."""
        found = []
        for part in text.split(","):
            with suppress(ValueError):
                found.append(_interval(part))
        return cls(_cut(sorted(found), below))

    @classmethod
    def of(cls, indexes: Iterable[int]) -> "Indexes":
        return cls(_joined((index, index) for index in sorted(set(indexes))))

    def __str__(self) -> str:
        return ",".join(
            f"{lo}" if lo == hi else f"{lo},{hi}" if hi == lo + 1 else f"{lo}-{hi}"
            for lo, hi in self.intervals
        )

    def __len__(self) -> int:
        return sum(hi - lo + 1 for lo, hi in self.intervals)

    def __contains__(self, index: int) -> bool:
        position = bisect_right(self.intervals, (index, float("inf"))) - 1
        return position >= 0 and index <= self.intervals[position][1]

    def __or__(self, other: "Indexes") -> "Indexes":
        if not other.intervals:
            return self
        return Indexes(_joined(sorted((*self.intervals, *other.intervals))))

    def __and__(self, other: "Indexes") -> "Indexes":
        found: list[tuple[int, int]] = []
        mine, theirs = list(reversed(self.intervals)), list(reversed(other.intervals))
        while mine and theirs:
            lo, hi = max(mine[-1][0], theirs[-1][0]), min(mine[-1][1], theirs[-1][1])
            if lo <= hi:
                found.append((lo, hi))
            (mine if mine[-1][1] <= theirs[-1][1] else theirs).pop()
        return Indexes(tuple(found))

    def missing(self, below: int) -> Iterator[int]:
        """The indexes below `below` that are not in the set, ascending."""
        start = 0
        for lo, hi in self.intervals:
            yield from range(start, min(lo, below))
            start = hi + 1
        yield from range(start, below)


def _interval(part: str) -> tuple[int, int]:
    first, hyphen, end = part.partition("-")
    if not _is_number(first) or (hyphen and not _is_number(end)):
        raise ValueError(f'"{part}" is not an index or an interval like 3-5')
    lo, hi = int(first), int(end or first)
    if hi < lo or (hyphen and hi == lo):
        raise ValueError(f'indexes must ascend; "{part}" does not')
    return lo, hi


def _cut(intervals: Iterable[tuple[int, int]], below: int | None) -> tuple[tuple[int, int], ...]:
    """`intervals` joined, without the indexes that are not below `below`."""
    if below is not None:
        intervals = [(lo, min(hi, below - 1)) for lo, hi in intervals if lo < below]
    return _joined(intervals)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10


def _joined(intervals: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Intervals in order of their start; those that touch or overlap are merged."""
    joined: list[tuple[int, int]] = []
    for lo, hi in intervals:
        if joined and lo <= joined[-1][1] + 1:
            if hi > joined[-1][1]:
                joined[-1] = (joined[-1][0], hi)
        else:
            joined.append((lo, hi))
    return tuple(joined)
