"""Pod by pod through every placement of a minimum, within a budget: for constraints that defeat greed.

Pods of a part are interchangeable, so while a part is being placed its pods take columns in ascending
order. Ports, anti-affinity and affinity prune as they do for a trial; which part comes next is tried too
where some part wants company. Spreads are judged in the end, on what all pods together make of them.
Exhaustive for small gangs on small clusters; larger ones run out of steps, and the answer stays open.
"""

from typing import Final

import numpy as np

from muster.core.exact import Answer
from muster.core.placement import Trial, Want

#: Placements of one pod that are tried, and nodes that are looked at for them in all.
STEPS: Final = 400
WORK: Final = 400_000


def search(trial: Trial, want: Want) -> Answer | None:
    """None: the minimum is placed, and as many more as fit, charged to the ledger. Else it is as it was."""
    steps = min(STEPS, WORK // max(trial.nodes, 1))
    if steps < want.need:
        return Answer.NONE_FOUND
    walk = _Walk(trial, want, steps)
    begin = trial.begin()
    if walk.go(None, 0):
        trial.fill_up()
        trial.keep(begin)
        return None
    trial.undo(begin)
    return Answer.NONE_FOUND if walk.steps < 0 else Answer.NONE_LEFT


class _Walk:
    def __init__(self, trial: Trial, want: Want, steps: int) -> None:
        self._trial = trial
        self._want = want
        self._sociable = any(part.shape.near for part in want.parts)
        self.steps = steps

    def go(self, last: int | None, first: int) -> bool:
        """Place what is still needed; the part placed last goes on from column `first`."""
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
        """Parts of which the next pod may be: those that need one, then any for the gang's own minimum."""
        trial, parts = self._trial, self._want.parts
        lacking = [p for p in trial.order if trial.placed[p] < parts[p].need]
        if lacking:
            return lacking if self._sociable else lacking[:1]
        if sum(trial.placed) >= self._want.need:
            return []
        return [p for p in trial.order if trial.placed[p] < parts[p].count]
