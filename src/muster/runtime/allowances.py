"""Says what ResourceQuotas and PodDisruptionBudgets still allow, once it has changed.

The API server counts for most of them. Where nobody does (a kind that no controller of the cluster counts, as
on a snapshot), every change of a pod may change what is left, so the namespace's pods are counted at the next
drain.
"""

from collections.abc import Iterator

from muster.api import kinds
from muster.api.base import Resource
from muster.api.scheduling import PodDisruptionBudget
from muster.core.words.events import BudgetChanged, BudgetRemoved, Event, QuotaChanged, QuotaRemoved
from muster.core.words.gang import Amounts
from muster.translate import budgets, quotas
from muster.translate.world import World


class Allowances:
    """Events for the core about the quotas and budgets of a world. Budgets are kept here, quotas there."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: namespaces whose quotas may have more or less left; and the room last reported for each quota
        self._metered: dict[str, None] = {}
        self._rooms: dict[tuple[str, str], tuple[Amounts, Amounts]] = {}
        #: budgets by namespace and name, namespaces whose budgets may allow more or less, last reports
        self._budgets: dict[str, dict[str, PodDisruptionBudget]] = {}
        self._disrupted: dict[str, None] = {}
        self._allowed: dict[tuple[str, str], BudgetChanged] = {}

    def pod(self, namespace: str) -> None:
        """Notes that a pod has changed: quotas and budgets whose pods muster itself counts may, too."""
        if not all(map(quotas.counts_itself, self._world.quotas_in(namespace))):
            self._metered[namespace] = None
        if not all(map(budgets.counts_itself, self._budgets.get(namespace, {}).values())):
            self._disrupted[namespace] = None

    def quota(self, namespace: str) -> None:
        """Notes that a quota of this namespace has come, changed or gone."""
        self._metered[namespace] = None

    def budget(self, latest: Resource, *, gone: bool) -> None:
        """Takes in a budget in its current state, or the last one."""
        assert isinstance(latest, PodDisruptionBudget)
        namespace, name = latest.metadata.namespace, latest.metadata.name
        mine = self._budgets.setdefault(namespace, {})
        if gone:
            mine.pop(name, None)
        else:
            mine[name] = latest
        if not mine:
            del self._budgets[namespace]
        self._disrupted[namespace] = None

    def due(self) -> tuple[dict[str, None], dict[str, None]]:
        """Returns the namespaces whose quotas, and those whose budgets, may allow more or less, once each."""
        metered, self._metered = self._metered, {}
        disrupted, self._disrupted = self._disrupted, {}
        return metered, disrupted

    def of_quotas(self, namespace: str) -> Iterator[Event]:
        """Yields what the quotas of a namespace have left, if that has changed."""
        there = {quota.metadata.name: quota for quota in self._world.quotas_in(namespace)}
        for key in [key for key in self._rooms if key[0] == namespace and key[1] not in there]:
            del self._rooms[key]
            yield QuotaRemoved(*key)
        itself = all(map(quotas.counts_itself, there.values()))
        mine = () if itself else self._world.in_namespace(kinds.POD, namespace)
        pods = [pod for pod in mine if pod.metadata.uid not in self._world.uncreated]
        for name, quota in there.items():
            amounts = quotas.room(quota, pods)
            if self._rooms.get((namespace, name)) != amounts:
                self._rooms[namespace, name] = amounts
                yield QuotaChanged(namespace, name, *amounts)

    def of_budgets(self, namespace: str) -> Iterator[Event]:
        """Yields what the disruption budgets of a namespace allow, if that has changed."""
        mine = self._budgets.get(namespace, {})
        pods = self._world.in_namespace(kinds.POD, namespace) if mine else ()
        told = {name: event for name, one in mine.items() if (event := budgets.budget_changed(one, pods))}
        for key in [key for key in self._allowed if key[0] == namespace and key[1] not in told]:
            del self._allowed[key]
            yield BudgetRemoved(*key)
        for name, event in sorted(told.items()):
            if self._allowed.get((namespace, name)) != event:
                self._allowed[namespace, name] = event
                yield event
