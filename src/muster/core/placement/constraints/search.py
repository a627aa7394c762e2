"""Searches a minimum's placements pod by pod, within a budget, where constraints defeat greedy placement.

Pods of a part are interchangeable, so while a part is being placed its pods take columns in ascending
order. Ports, anti-affinity and affinity prune as they do for a trial. If some part has affinity, the search
also varies which part is placed next. Spreads are checked at the end, on all pods together.
The search is exhaustive for small gangs on small clusters; for larger ones it uses up its steps, and the
answer stays open.
"""

from typing import Final

import numpy as np

from muster.core.demand import Demand
from muster.core.placement.answer import Reason
from muster.core.placement.greedy import Trial

#: Limits of one search: placements of one pod that are tried, and nodes that are examined for them in total.
STEPS: Final = 400
WORK: Final = 400_000


def search(trial: Trial, demand: Demand) -> Reason | None:
    """Place the minimum and as many more pods as fit, and charge them to the ledger.

    If none is placed, return the reason, with the ledger unchanged.
    """
    steps = min(STEPS, WORK // max(trial.nodes, 1))
    if steps < demand.need:
        return Reason.BUDGET
    walk = _Walk(trial, demand, steps)
    begin = trial.begin()
    if walk.go(None, 0):
        trial.fill_up()
        trial.keep(begin)
        return None
    trial.undo(begin)
    return Reason.BUDGET if walk.steps < 0 else Reason.EXHAUSTED


class _Walk:
    def __init__(self, trial: Trial, demand: Demand, steps: int) -> None:
        self._trial = trial
        self._demand = demand
        self._sociable = any(part.shape.near for part in demand.parts)
        self.steps = steps

    def go(self, last: int | None, first: int) -> bool:
        """Place what is still needed, and return whether that succeeded.

        The part placed last continues from column `first`.
        """
        trial = self._trial
        nexts = self._nexts(last)
        if not nexts:
            return trial.even()
        for p in nexts:
            columns = trial.free(p)
            for column in columns[np.searchsorted(columns, first if p == last else 0) :].tolist():
                self.steps -= 1
                if self.steps < 0:
                    return False
                begin = trial.begin()
                trial.put_on(p, column)
                if self.go(p, column):
                    trial.keep(begin)
                    return True
                trial.undo(begin)
        return False

    def _nexts(self, last: int | None) -> list[int]:
        """Return the next pod's possible parts: those that need one, then any for the gang's minimum."""
        trial, parts = self._trial, self._demand.parts
        lacking = [p for p in trial.order if trial.placed[p] < parts[p].need]
        if lacking:
            return lacking if self._sociable else lacking[:1]
        if sum(trial.placed) >= self._demand.need:
            return []
        return [p for p in trial.order if trial.placed[p] < parts[p].count]
