"""What a replay looked like over time, in bounded memory, however long it was.

Time is cut into a fixed number of slices. When it runs beyond the last, each two become one and slices are
twice as long; nothing is lost but resolution. A slice holds integrals (thousandths times seconds), so its
means are exact. Waits are counted by size and by length, both in powers of two: quantiles are interpolated
within a power, which is as fine as a chart shows them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
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
#: Classes of waits: none, below 1 s, below 2 s, below 4 s, …
_LENGTHS: Final = 40

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class Waits:
    """Of jobs of one class of size: how many waited how long."""

    count: int = 0
    total: float = 0.0
    lengths: Counter[int] = field(default_factory=Counter)

    @property
    def mean(self) -> float:
        return self.total / self.count

    def quantile(self, share: float) -> float:
        """The wait, in seconds, that this share of the jobs does not exceed, as nearly as is known."""
        left = share * self.count
        for length in sorted(self.lengths):
            number = self.lengths[length]
            if left <= number:
                low, high = (0.0, 0.0) if length < 0 else (2.0**length / 2 if length else 0.0, 2.0**length)
                return low + (high - low) * left / number
            left -= number
        return 0.0


class History:
    def __init__(self) -> None:
        self.start = 0.0
        #: seconds of one slice
        self.width = 1.0
        #: integrals by slice
        self.capacity, self.allocated, self.demand = (np.zeros(SLICES) for _ in range(3))
        self.queues: dict[str, Floats] = {}
        #: by size class: jobs of 2^n to 2^(n+1) pieces, those of less than one in -1
        self.waits: dict[int, Waits] = {}
        self._held: Counter[str] = Counter()
        self._begun = False
        self._end = 0.0

    def hold(self, queue: str, by: int) -> None:
        """Jobs of this queue hold so much more."""
        if queue not in self.queues:
            if len(self.queues) >= QUEUES:
                queue = OTHERS
            self.queues.setdefault(queue, np.zeros(SLICES))
        self._held[queue] += by

    def advance(self, begin: float, end: float, capacity: int, allocated: int, demand: int) -> None:
        """So it was between these times, which follow the last."""
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
        self.demand[at] += demand * seconds
        for queue, held in self._held.items():
            if held:
                self.queues[queue][at] += held * seconds

    def waited(self, size: int, seconds: float) -> None:
        """A job of so many thousandths waited so long."""
        waits = self.waits.setdefault(_power(size / WHOLE), Waits())
        waits.count += 1
        waits.total += seconds
        waits.lengths[-1 if seconds <= 0 else min(max(frexp(seconds)[1], 0), _LENGTHS)] += 1

    @property
    def series(self) -> Mapping[str, Floats]:
        """Means by slice, in pieces, up to the last slice in which there was anything."""
        length = int(np.ceil((self._end - self.start) / self.width))
        seconds = np.full(length, self.width)
        if length:
            seconds[-1] = self._end - self.start - (length - 1) * self.width
        rows = {"capacity": self.capacity, "allocated": self.allocated, "demand": self.demand}
        return {name: row[:length] / seconds / WHOLE for name, row in {**rows, **self._by_queue()}.items()}

    def _by_queue(self) -> dict[str, Floats]:
        return {f"queue {name}": row for name, row in self.queues.items()}

    def _halve(self) -> None:
        self.width *= 2
        for row in (self.capacity, self.allocated, self.demand, *self.queues.values()):
            row[: SLICES // 2] = row[::2] + row[1::2]
            row[SLICES // 2 :] = 0.0


def _power(pieces: float) -> int:
    """The largest n with 2^n at most so many; -1 for less than one."""
    return max(frexp(pieces)[1] - 1, -1) if pieces > 0 else -1
