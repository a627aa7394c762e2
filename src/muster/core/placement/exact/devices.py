"""Which patterns the devices of a node allow: those that do not fit are replaced by their largest parts.

What a pattern takes is compared with sums first: of each resource, and of devices by class. Devices can be
too few all the same: a share of a GPU fits on one of them or not at all, and a claim may ask for devices of
one clique, or for all that there are. If a pattern fits, so does every part of it.

Each check is a search of its own (`pack`, `NodeClaims.serves`), so checks and their steps are bounded. A
pattern that is not decided stays: this overestimates the room and never underestimates it, so proofs hold,
and what is found is verified by charging it to the ledger.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from muster.core.world.allocation import Claims
from muster.core.world.claims import NodeClaims
from muster.core.world.nodes import Columns, Longs

#: Patterns that are checked in one go, for all new kinds of nodes together, and for one kind.
CHECKED: Final = 5_000
_OF_ONE: Final = 500
#: Steps of all checks of claims in one go (`allocation.STEPS` are those of one).
CLAIM_STEPS: Final = 40_000


def largest_parts(
    patterns: Longs, users: Sequence[int], fits: Callable[[Sequence[int]], bool], budget: int
) -> tuple[Longs, int]:
    """Return the maximal sub-patterns of these that fit, and how many were checked.

    Only pods of the groups `users` can be too many. All patterns are returned if it takes more checks than
    the budget.
    """
    budget = min(budget, _OF_ONE)
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
        if fits(pattern):
            fitting.add(pattern)
        else:
            stack += [(*pattern[:g], pattern[g] - 1, *pattern[g + 1 :]) for g in users if pattern[g]]
    found = np.array(sorted(fitting), np.int64).reshape(-1, patterns.shape[1])
    below = (found[:, None] <= found[None]).all(axis=2)
    return np.ascontiguousarray(found[below.sum(axis=1) == 1]), len(seen)


@dataclass(frozen=True, slots=True)
class Claiming:
    """Claims on devices among the pods of a node: which of them its devices serve together."""

    #: by group
    claims: tuple[Claims, ...]
    devices: NodeClaims

    @staticmethod
    def of(claims: Sequence[Claims], devices: NodeClaims) -> "Claiming | None":
        """Build from what each group claims; None if none claims anything."""
        return Claiming(tuple(claims), devices) if any(claims) else None

    def room(self, caps: Longs, columns: Columns) -> Longs:
        """Return nodes × 2: a number of what devices there are, and as of which numbering.

        `caps`: groups × nodes. Of nodes that take no pod with claims it does not matter.
        """
        used = caps[[bool(each) for each in self.claims]].any(axis=0)
        numbers = np.where(used, self.devices.situations(columns), -1)
        return np.stack((numbers, np.full(len(columns), self.devices.numbering)), axis=1)

    def all_within(self, listed: list[Longs], rooms: Longs) -> list[Longs]:
        """Return those patterns of each kind of node that its devices serve."""
        users = [g for g, each in enumerate(self.claims) if each]
        left, steps, found = CHECKED, CLAIM_STEPS, []
        for patterns, room in zip(listed, rooms[:, 0].tolist(), strict=True):

            def fits(pattern: Sequence[int], room: int = room) -> bool:
                nonlocal steps
                pods = [(self.claims[g], pattern[g]) for g in users if pattern[g]]
                if not pods or steps <= 0:
                    return True
                served, taken = self.devices.serves(room, pods, steps)
                steps -= taken
                return served

            fitting, checked = largest_parts(patterns, users, fits, left) if room >= 0 else (patterns, 0)
            left -= checked
            found.append(fitting)
        return found
