"""The one ledger of who uses what where: charges by node name, and speculation with marks.

Facts (a bound pod, a held place) and trials (would this gang fit?) go through the same two calls, so
there is no second account that could differ. A trial takes a mark first; `rollback` undoes everything
after it, newest first, and `commit` makes it last. Marks do not nest across a change of columns.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from muster.core.gang import Amounts, NodeName
from muster.core.nodes import Columns, Demand, Nodes


@dataclass(frozen=True, slots=True)
class Mark:
    position: int


class Ledger:
    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        #: how often something was given back for good; as long as it stays the same, room is only taken
        self.given = 0
        self._trial: list[tuple[int | Columns, Demand, int | npt.NDArray[np.int64]]] = []
        self._marks = 0

    def mark(self) -> Mark:
        self._marks += 1
        return Mark(len(self._trial))

    def rollback(self, mark: Mark) -> None:
        while len(self._trial) > mark.position:
            columns, demand, times = self._trial.pop()
            self._charge(columns, demand, -times)
        self._marks -= 1

    def commit(self, mark: Mark) -> None:
        """What was tried since the mark lasts (unless an earlier mark is rolled back)."""
        self._marks -= 1
        if not self._marks:
            self.given += any(_gives(times) for _, _, times in self._trial)
            self._trial.clear()

    def take(self, node: NodeName, requests: Amounts, times: int = 1) -> None:
        """Charge pods with these requests to a node, present or not."""
        column = self.nodes.column.get(node)
        if column is None:
            self.nodes.charge_elsewhere(node, requests, times)
        else:
            self.take_at(column, self.nodes.demand(requests), times)

    def give(self, node: NodeName, requests: Amounts) -> None:
        self.take(node, requests, -1)

    def take_at(self, columns: int | Columns, demand: Demand, times: int | npt.NDArray[np.int64] = 1) -> None:
        """Charge `times` pods to one column, or `times[i]` to each of several distinct ones."""
        self._charge(columns, demand, times)
        if self._marks:
            self._trial.append((columns, demand, times))
        else:
            self.given += _gives(times)

    def _charge(self, columns: int | Columns, demand: Demand, times: int | npt.NDArray[np.int64]) -> None:
        if isinstance(columns, np.ndarray):
            assert isinstance(times, np.ndarray)
            self.nodes.charge_many(columns, demand, times)
        else:
            assert isinstance(times, int)
            self.nodes.charge(columns, demand, times)


def _gives(times: int | npt.NDArray[np.int64]) -> bool:
    return times < 0 if isinstance(times, int) else bool((times < 0).any())
