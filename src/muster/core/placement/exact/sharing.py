"""GPU shares in an exact answer: which pods the devices of a node take together, and on which device.

The sum of what is left on several devices may be room that no single share fits in. Patterns are listed
by such sums (`patterns.py`); here each is checked device by device, and one that does not fit is replaced by
the largest parts of it that do. Packing shares on devices is bin packing, decided by a search within a
budget. A pattern that is not decided within the budget stays: this overestimates the room and never
underestimates it, so proofs hold, and what is found is verified by charging it to the ledger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster.core.world.devices import WHOLE
from muster.core.world.nodes import Columns, Longs, Nodes, RowAmounts

#: Steps of one packing.
STEPS: Final = 1_000
#: Patterns that are checked in one go, for all new kinds of nodes together, and for one kind.
CHECKED: Final = 5_000
_OF_ONE: Final = 500


@dataclass(frozen=True, slots=True)
class Sharing:
    """The devices that each pod takes, by group: thousandths of one device, and whole devices."""

    shares: tuple[int, ...]
    wholes: tuple[int, ...]

    @staticmethod
    def of(row_amounts_of: Sequence[RowAmounts], nodes: Nodes) -> "Sharing | None":
        """Build from demands; None if no pod requests a share."""
        shares = tuple(nodes.share(row_amounts) for row_amounts in row_amounts_of)
        wholes = tuple(dict(row_amounts).get(nodes.devices.row, 0) for row_amounts in row_amounts_of)
        return Sharing(shares, wholes) if any(shares) else None

    def room(self, nodes: Nodes, caps: Longs, columns: Columns) -> Longs:
        """Return nodes × (empty devices, then the open ones' rest, falling), as far as it can matter."""
        least = min(share for share in self.shares if share)
        users = (np.array(self.shares) > 0) + np.array(self.wholes)
        empty = np.minimum(np.maximum(nodes.free(nodes.devices.row)[columns], 0), users @ caps)
        left = np.sort(nodes.devices.left(columns).astype(np.int64), axis=0)[::-1]
        left[left < least] = 0
        return np.vstack((empty, left)).T

    def within(self, patterns: Longs, room: Sequence[int], budget: int) -> tuple[Longs, int]:
        """Return the maximal sub-patterns of these that fit the devices, and how many were checked; all of
        these, if it takes more checks than the budget."""
        budget = min(budget, _OF_ONE)
        users = [g for g, share in enumerate(self.shares) if share or self.wholes[g]]
        fitting: set[tuple[int, ...]] = set()
        seen: set[tuple[int, ...]] = set()
        stack = [tuple(pattern) for pattern in patterns.tolist()]
        while stack:
            pattern = stack.pop()
            if pattern in seen:
                continue
            seen.add(pattern)
            if len(seen) > budget:
                return patterns, len(seen)
            if self.places(pattern, room).fits:
                fitting.add(pattern)
            else:
                stack += [(*pattern[:g], pattern[g] - 1, *pattern[g + 1 :]) for g in users if pattern[g]]
        found = np.array(sorted(fitting), np.int64).reshape(-1, patterns.shape[1])
        below = (found[:, None] <= found[None]).all(axis=2)
        return np.ascontiguousarray(found[below.sum(axis=1) == 1]), len(seen)

    def places(self, pattern: Sequence[int], room: Sequence[int]) -> "Packing":
        """Return devices for a pattern's shares, largest first, by position in `room`; then new ones."""
        empty, left = room[0], room[1:]
        empty -= sum(n * whole for n, whole in zip(pattern, self.wholes, strict=True))
        if empty < 0:
            return Packing(None, fits=False)
        asked = zip(pattern, self.shares, strict=True)
        sizes = sorted((share for n, share in asked for _ in range(n) if share), reverse=True)
        return pack(sizes, [*left, *[WHOLE] * min(empty, len(sizes))])


@dataclass(frozen=True, slots=True)
class Packing:
    """The bin of each item. None: there is no packing, or (`fits`) none was found within the budget."""

    bins: list[int] | None
    fits: bool


def pack(sizes: Sequence[int], bins: Sequence[int]) -> Packing:
    """Pack items, given by falling size, into bins: each first where least is left, then elsewhere."""
    left, chosen, steps = list(bins), [], STEPS
    failed: set[tuple[int, ...]] = set()

    def go(i: int, rest: int) -> bool:
        nonlocal steps
        if i == len(sizes):
            return True
        steps -= 1
        state = (i, *sorted(left))
        if steps < 0 or rest > sum(left) or state in failed:
            return False
        for room in sorted({room for room in left if room >= sizes[i]}):
            b = left.index(room)
            left[b] -= sizes[i]
            chosen.append(b)
            if go(i + 1, rest - sizes[i]):
                return True
            chosen.pop()
            left[b] += sizes[i]
        failed.add(state)
        return False

    if go(0, sum(sizes)):
        return Packing(chosen, fits=True)
    return Packing(None, fits=steps < 0)
