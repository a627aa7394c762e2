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
        self._budgets: dict[tuple[str, str], BudgetChanged] = {}
        #: how often a budget changed
        self.changes = 0

    def change(self, namespace: str, name: str, budget: BudgetChanged | None) -> None:
        """Record a budget; None: it is removed."""
        key = (namespace, name)
        self.changes += self._budgets.get(key) != budget
        if budget is None:
            self._budgets.pop(key, None)
        else:
            self._budgets[key] = budget

    def __bool__(self) -> bool:
        return bool(self._budgets)

    def of(self, pod: PodsBound) -> list[tuple[str, str]]:
        """The budgets that select this pod."""
        footprint = pod.footprint
        if not self._budgets or not footprint.namespace:
            return []
        labels = dict(footprint.labels)
        return [
            key
            for key, budget in self._budgets.items()
            if budget.namespace == footprint.namespace and satisfied(budget.labels, labels)
        ]

    def left(self, pods: Mapping[PodId, PodsBound], leaving: Iterable[PodId]) -> dict[tuple[str, str], int]:
        """How many more pods each budget allows to be evicted, besides those that are leaving already."""
        left = {key: budget.allowed for key, budget in self._budgets.items()}
        if left:
            for pod in leaving:
                for key in self.of(pods[pod]):
                    left[key] -= 1
        return left
