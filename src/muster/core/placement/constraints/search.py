"""Searches a minimum's placements pod by pod, within a budget, where constraints defeat greedy placement.

Pods of a part are interchangeable, so while a part is being placed its pods take columns in ascending
order. Ports, anti-affinity and affinity prune as they do for a draft. If some part has affinity, the search
also varies which part is placed next. Spreads are checked at the end, on all pods together.
The search is exhaustive for small gangs on small clusters; for larger ones it uses up its steps, and the
answer stays open.
"""

from typing import Final

import numpy as np

from muster.core.placement.answer import Reason
from muster.core.placement.greedy import Draft

#: Limits of one search: placements of one pod that are tried, and nodes that are examined for them in total.
STEPS: Final = 400
WORK: Final = 400_000


def search(draft: Draft) -> Reason | None:
    """Place the minimum and as many more pods as fit, and charge them to the ledger.

    If none is placed, return the reason, with the ledger unchanged.
    """
    walk = _Walk(draft, min(STEPS, WORK // max(draft.nodes, 1)))
    if walk.steps < draft.request.demand.need:
        return Reason.BUDGET
    with draft.trial() as trial:
        if walk.go(None, 0):
            draft.fill_up()
            trial.keep()
            return None
    return Reason.BUDGET if walk.steps < 0 else Reason.EXHAUSTED


class _Walk:
    def __init__(self, draft: Draft, steps: int) -> None:
        self._draft, self.steps = draft, steps
        self._by_affinity = any(part.shape.pod_affinity for part in draft.parts)

    def go(self, last: int | None, first: int) -> bool:
        """Place what is still needed, and return whether that succeeded.

        The part placed last continues from column `first`.
        """
        draft = self._draft
        nexts = self._nexts()
        if not nexts:
            return draft.even()
        for p in nexts:
            columns = draft.free(p)
            for column in columns[np.searchsorted(columns, first if p == last else 0) :].tolist():
                self.steps -= 1
                if self.steps < 0:
                    return False
                with draft.trial() as trial:
                    draft.put_on(p, column)
                    if self.go(p, column):
                        trial.keep()
                        return True
        return False

    def _nexts(self) -> list[int]:
        """Return the next pod's possible parts: those that need one, then any for the gang's minimum."""
        draft = self._draft
        lacking = [p for p in draft.order if draft.placed[p] < draft.parts[p].need]
        if lacking:
            return lacking if self._by_affinity else lacking[:1]
        if sum(draft.placed) >= draft.request.demand.need:
            return []
        return [p for p in draft.order if draft.placed[p] < draft.parts[p].count]
