"""The course of a replay over time, and how long jobs of each size waited.

Time is cut into a fixed number of slices. When it exceeds the last slice, each two are merged and slices are
twice as long; only resolution is lost. A slice holds integrals (thousandths times seconds), so its means are
exact. Every wait is kept, 8 bytes for each job, so quantiles are exact.
"""

from array import array
from collections import Counter
from collections.abc import Mapping
from math import frexp
from typing import Final

import numpy as np
import numpy.typing as npt

from muster.sim.trace import WHOLE

#: Slices of time; an even number.
SLICES: Final = 400
#: Queues with a row of their own; all further ones share the last.
QUEUES: Final = 50
OTHERS: Final = "others"

Floats = npt.NDArray[np.float64]


class History:
    def __init__(self) -> None:
        self.start = 0.0
        #: seconds of one slice
        self.width = 1.0
        #: integrals by slice
        self.capacity, self.allocated, self.row_amounts = (np.zeros(SLICES) for _ in range(3))
        self.queues: dict[str, Floats] = {}
        #: seconds, by size class: of jobs of 2^n to 2^(n+1) pieces, those of less than one in -1
        self.waits: dict[int, array[float]] = {}
        self._held: Counter[str] = Counter()
        self._begun = False
        self._end = 0.0

    def hold(self, queue: str, by: int) -> None:
        """Add to what jobs of this queue hold."""
        if queue not in self.queues:
            if len(self.queues) >= QUEUES:
                queue = OTHERS
            self.queues.setdefault(queue, np.zeros(SLICES))
        self._held[queue] += by

    def advance(self, begin: float, end: float, capacity: int, allocated: int, row_amounts: int) -> None:
        """Add these values for the time from `begin` to `end`, which follows the last one."""
        if not self._begun:
            self._begun, self.start = True, begin
        self._end = end
        while end > self.start + self.width * SLICES:
            self._halve()
        first, last = (begin - self.start) / self.width, (end - self.start) / self.width
        one, other = int(first), min(int(last), SLICES - 1)
        if one == other:
            seconds: float | Floats = end - begin
            at = slice(one, one + 1)
        else:
            at = slice(one, other + 1)
            edges = np.clip(np.arange(one, other + 2), first, last)
            seconds = np.diff(edges) * self.width
        self.capacity[at] += capacity * seconds
        self.allocated[at] += allocated * seconds
        self.row_amounts[at] += row_amounts * seconds
        for queue, held in self._held.items():
            if held:
                self.queues[queue][at] += held * seconds

    def waited(self, size: int, seconds: float) -> None:
        """Record that a job of `size` thousandths waited for `seconds`."""
        self.waits.setdefault(_power(size / WHOLE), array("d")).append(seconds)

    @property
    def series(self) -> Mapping[str, Floats]:
        """Return means by slice, in pieces, up to the last slice that is not empty."""
        length = int(np.ceil((self._end - self.start) / self.width))
        seconds = np.full(length, self.width)
        if length:
            seconds[-1] = self._end - self.start - (length - 1) * self.width
        rows = {"capacity": self.capacity, "allocated": self.allocated, "demand": self.row_amounts}
        return {name: row[:length] / seconds / WHOLE for name, row in {**rows, **self._by_queue()}.items()}

    def _by_queue(self) -> dict[str, Floats]:
        return {f"queue {name}": row for name, row in self.queues.items()}

    def _halve(self) -> None:
        self.width *= 2
        for row in (self.capacity, self.allocated, self.row_amounts, *self.queues.values()):
            row[: SLICES // 2] = row[::2] + row[1::2]
            row[SLICES // 2 :] = 0.0


def _power(pieces: float) -> int:
    """Return the largest n with 2^n at most `pieces`; -1 for less than one."""
    return max(frexp(pieces)[1] - 1, -1) if pieces > 0 else -1
