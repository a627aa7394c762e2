"""How much a cycle works for demands that take long, and for which of them: the cost falls on those who ask.

Most demands are placed or refused in a few vector operations. A demand with constraints, topology rules or
several shapes may take thousands. So work is counted in *steps* (`Nodes.steps`: vector operations over the
nodes), never in seconds: the same events give the same decisions on any machine.

Each namespace has an equal share of a cycle's steps, and pays what it exceeds that by in later cycles: until
then its demands are postponed. Within a namespace demands take turns by rounds: a demand that has been served
is served again only after all that were postponed before it. So of n demands that ask in each cycle, each is
served once before any is served twice, and a demand of a namespace without debts is served at once, whatever
others ask for. Only if many namespaces use up their shares in one cycle may it wait for the next.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

#: A vector operation over fewer nodes counts once; over more, in proportion.
_NODES: Final = 2048
#: A namespace's share is at least this part of all steps of a cycle.
_LEAST: Final = 16
#: So many times all steps of a cycle may be used by all namespaces together, and may one be in debt.
_MOST: Final = 2
_DEBT: Final = 16


@dataclass(slots=True)
class _Tenant:
    """What a namespace has used, and its demands that ask."""

    #: steps that it has used and not paid for
    debt: int = 0
    #: demands of the present round that have not been served yet, and those of the next one
    now: dict[Hashable, None] = field(default_factory=dict)
    later: dict[Hashable, None] = field(default_factory=dict)
    #: by demand that has asked in this cycle, whether it is served
    asked: dict[Hashable, bool] = field(default_factory=dict)


class WorkBudget:
    """Says which demands are worked on in a cycle. Bounded by the demands that asked in the last cycle."""

    def __init__(self, steps: int | None) -> None:
        """`steps`: of a cycle, over up to 2,048 nodes; None: without limit."""
        self._steps = steps
        #: by namespace; while there are none, no cycle need begin
        self.tenants: dict[str, _Tenant] = {}
        self._share, self._used = steps or 0, 0
        #: whether demands have been postponed in this cycle
        self.behind = False

    def next_cycle(self) -> None:
        if self._steps is None:
            return
        self.behind, self._used = False, 0
        waiting = sum(not all(tenant.asked.values()) for tenant in self.tenants.values())
        self._share = max(self._steps // max(waiting, 1), self._steps // _LEAST)
        for tenant in self.tenants.values():
            tenant.debt = max(tenant.debt - self._share, 0)
            refused = {demand for demand, served in tenant.asked.items() if not served}
            tenant.now = {demand: None for demand in tenant.now if demand in refused}
            tenant.later = {demand: None for demand in tenant.later if demand in refused}
            if not tenant.now:
                tenant.now, tenant.later = tenant.later, {}
            tenant.asked = {}
        self.tenants = {name: tenant for name, tenant in self.tenants.items() if tenant.debt or tenant.now}
        if not self.tenants:
            self._share = self._steps

    def takes(self, namespace: str, demand: Hashable) -> bool:
        """Whether this demand is worked on in this cycle. The answer stays the same within a cycle."""
        if self._steps is None:
            return True
        served = not self.refuses(namespace, demand)
        if served:
            tenant = self.tenants.setdefault(namespace, _Tenant())
            tenant.asked[demand] = True
            tenant.now.pop(demand, None)
        return served

    def refuses(self, namespace: str, demand: Hashable) -> bool:
        """Whether this demand is postponed; if not, it need not be worked on (`takes`)."""
        tenant = self.tenants.get(namespace)
        if self._steps is None or (tenant is None and self._used < _MOST * self._steps):
            return False
        if tenant is None:
            tenant = self.tenants[namespace] = _Tenant()
        if (served := tenant.asked.get(demand)) is None:
            paid = tenant.debt < self._share and self._used < _MOST * self._steps
            served = paid and (not tenant.now or demand in tenant.now)
            if not served:
                tenant.asked[demand] = False
                if demand not in tenant.now:
                    tenant.later[demand] = None
        self.behind |= not served
        return not served

    def charge(self, namespace: str, steps: int, nodes: int) -> None:
        """Charge a namespace for steps on demands of its own, on so many nodes."""
        if self._steps is None or not steps:
            return
        tenant = self.tenants.get(namespace)
        if tenant is None:
            tenant = self.tenants[namespace] = _Tenant()
        steps *= 1 + nodes // _NODES
        self._used += steps
        tenant.debt = min(tenant.debt + steps, _DEBT * self._steps)
