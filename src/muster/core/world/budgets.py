"""PodDisruptionBudgets: how many of the pods that each selects may be evicted now.

The numbers are the cluster's (`BudgetChanged.allowed`), as of its last count. Victims that still exist may
not be in that count yet. Here they count as evicted, which can only err on the side of the budget, and only
until they have gone. A set of victims is checked as a whole: a pod may be selected by several budgets, and
all of them must allow it.

Source: kubernetes, pkg/registry/core/pod/storage/eviction.go. (There a pod under two budgets can never be
evicted; here both are checked.)
"""

from collections.abc import Iterable, Mapping

from muster.core.words.events import BudgetChanged, PodsBound
from muster.core.words.gang import PodId
from muster.core.world.labels import satisfied


class Budgets:
    def __init__(self) -> None:
        self._budgets: dict[str, dict[tuple[str, str], BudgetChanged]] = {}  # by namespace
        #: how often a budget changed
        self.changes = 0

    def change(self, namespace: str, name: str, budget: BudgetChanged | None) -> None:
        """Record a budget; None: it is removed."""
        key, mine = (namespace, name), self._budgets.setdefault(namespace, {})
        self.changes += mine.get(key) != budget
        if budget is None:
            mine.pop(key, None)
        else:
            mine[key] = budget
        if not mine:
            del self._budgets[namespace]

    def __bool__(self) -> bool:
        return bool(self._budgets)

    def of(self, pod: PodsBound) -> list[tuple[str, str]]:
        """The budgets that select this pod, all of its namespace."""
        footprint = pod.footprint
        mine = self._budgets.get(footprint.namespace) if footprint.namespace else None
        if mine is None:
            return []
        labels = dict(footprint.labels)
        return [key for key, budget in mine.items() if satisfied(budget.labels, labels)]

    def left(
        self, keys: Iterable[tuple[str, str]], pods: Mapping[PodId, PodsBound], leaving: Iterable[PodId]
    ) -> dict[tuple[str, str], int]:
        """How many more pods each of these budgets allows to be evicted, besides those that leave already."""
        left = {key: self._budgets[key[0]][key].allowed for key in keys}
        for pod in leaving:
            for key in self.of(pods[pod]):
                if key in left:
                    left[key] -= 1
        return left
