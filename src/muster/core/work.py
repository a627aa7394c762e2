"""How much a cycle works for demands that take long, and for which of them: the cost falls on those who ask.

Most demands are placed or refused in a few vector operations. A demand with constraints, topology rules or
several shapes may take thousands. So work is counted in *steps* (`Nodes.steps`: vector operations over the
nodes), never in seconds: the same events give the same decisions on any machine. A budget of four searches is
a `WorkBudget` as well: each is charged as one step.

Each namespace has a share of a cycle, and pays what it exceeds that by in later cycles: until then its
demands are postponed. Within a namespace demands take turns by rounds: a demand that has been served is
served again only after all that were postponed before it. So of n demands that ask in each cycle, each is
served once before any is served twice, and a demand of a namespace without debts is served at once, whatever
others ask for. Only if many namespaces use up their shares in one cycle may it wait for the next.

If one namespace waits, or two, the share of each is a whole cycle, so that what one of them asks for changes
nothing for the other. If more wait, they share what two have; and so do all that ask, if one was refused what
it had a share for.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Final

#: A vector operation over fewer nodes counts once; over more, in proportion.
_NODES: Final = 2048
#: So many times the steps of a cycle are shared among namespaces, may be used by all of them in one cycle,
#: and may be the debt of one.
_SHARED: Final = 2
_MOST: Final = 3
_DEBT: Final = 16
#: Parts of a step, so that the share of one among many namespaces is not rounded to nothing.
_PARTS: Final = 1024


@dataclass(slots=True)
class _Tenant:
    """What a namespace has used, and its demands that ask."""

    #: parts of steps that it has used and not paid for
    debt: int = 0
    #: demands of the present round that have not been served yet, and those of the next one
    now: dict[Hashable, None] = field(default_factory=dict)
    later: dict[Hashable, None] = field(default_factory=dict)
    #: by demand that has asked in this cycle, whether it was served when it asked last
    asked: dict[Hashable, bool] = field(default_factory=dict)


def in_steps(nodes: int) -> int:
    """How many steps a vector operation over so many nodes is."""
    return 1 + nodes // _NODES


class WorkBudget:
    """Says which demands are worked on in a cycle. Bounded by the demands that asked in the last cycle."""

    def __init__(self, steps: int | None) -> None:
        """`steps`: of a cycle, over up to 2,048 nodes, or how many searches; None: without limit."""
        self._steps = None if steps is None else steps * _PARTS
        #: by namespace
        self.tenants: dict[str, _Tenant] = {}
        self._share, self._used = self._steps or 0, 0
        #: whether a namespace was refused what it had a share for
        self._crowded = False
        #: how many cycles have begun
        self.cycle = 0
        #: whether demands have been postponed in this cycle
        self.behind = False

    def next_cycle(self) -> None:
        self.cycle += 1
        if self._steps is None:
            return
        self.behind, self._used = False, 0
        if not self.tenants:  # in most cycles
            self._crowded, self._share = False, self._steps
            return
        asking = [tenant.asked for tenant in self.tenants.values() if tenant.asked]
        waiting = len(asking) if self._crowded else sum(not all(asked.values()) for asked in asking)
        self._crowded = False
        self._share = min(self._steps, _SHARED * self._steps // max(waiting, 1))
        for tenant in self.tenants.values():
            tenant.debt = max(tenant.debt - self._share, 0)
            refused = {demand for demand, served in tenant.asked.items() if not served}
            tenant.now = {demand: None for demand in tenant.now if demand in refused}
            tenant.later = {demand: None for demand in tenant.later if demand in refused}
            if not tenant.now:
                tenant.now, tenant.later = tenant.later, {}
            tenant.asked = {}
        self.tenants = {name: each for name, each in self.tenants.items() if each.debt or each.now}

    def takes(self, namespace: str, demand: Hashable) -> bool:
        """Whether this demand is worked on now. What that takes is charged before the next one asks."""
        if self.refuses(namespace, demand):
            return False
        if self._steps is not None:
            tenant = self.tenants.setdefault(namespace, _Tenant())
            tenant.asked[demand] = True
            tenant.now.pop(demand, None)
            tenant.later.pop(demand, None)
        return True

    def refuses(self, namespace: str, demand: Hashable) -> bool:
        """Whether this demand is postponed; if not, it need not be worked on (`takes`)."""
        tenant = self.tenants.get(namespace)
        if self._steps is None or (tenant is None and self._used < _MOST * self._steps):
            return False
        if tenant is None:
            tenant = self.tenants[namespace] = _Tenant()
        paid, free = tenant.debt < self._share, self._used < _MOST * self._steps
        self._crowded |= paid and not free
        if paid and free and (not tenant.now or demand in tenant.now):
            return False
        tenant.asked[demand] = False
        if demand not in tenant.now:
            tenant.later[demand] = None
        self.behind = True
        return True

    def taken(self, namespace: str, demand: Hashable) -> bool:
        """Whether this demand has been worked on in this cycle."""
        tenant = self.tenants.get(namespace)
        return tenant is not None and tenant.asked.get(demand) is True

    def refused(self, namespace: str, demand: Hashable) -> bool:
        """Whether this demand was postponed when it asked last in this cycle."""
        tenant = self.tenants.get(namespace)
        return tenant is not None and tenant.asked.get(demand) is False

    def charge(self, namespace: str, steps: int, nodes: int = 0) -> None:
        """Charge a namespace for steps on demands of its own, on so many nodes."""
        if self._steps is None or not steps:
            return
        tenant = self.tenants.setdefault(namespace, _Tenant())
        parts = steps * _PARTS * in_steps(nodes)
        self._used += parts
        tenant.debt = min(tenant.debt + parts, _DEBT * self._steps)
