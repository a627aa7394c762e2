"""Queues as users see them: rules, usage and entitlement, computed from the cluster's current objects.

The scheduler computes them: a new core receives the events of a live one, and decides nothing. The numbers
therefore also cover the queue `default`, which needs no object, and hold while no scheduler runs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from muster.api.base import Object
from muster.api.quantity import show
from muster.app.snapshot import Snapshot
from muster.core.cycle import Scheduler
from muster.core.words.gang import Amounts, GangId
from muster.core.world.queues import Queues
from muster.core.world.queues.account import Account
from muster.kube.client import Client
from muster.names import GPU, GPU_SHARE
from muster.translate.queues import status_of

#: Gangs that a view of a queue names as the next ones.
FRONT: Final = 3


@dataclass(frozen=True, slots=True)
class QueueView:
    name: str
    #: 0: child of the root
    depth: int
    account: Account
    #: as in the object's status: quantities, and counts of gangs
    status: Object
    #: the gangs that wait in it, in the order in which the scheduler serves them, the first few
    front: Sequence[GangId] = ()

    @property
    def notes(self) -> list[str]:
        """Remarks about the queue's rules."""
        rules = self.account.rules
        if self.account.fault:
            return [f"invalid: {self.account.fault}"]
        notes = ["closed"] if rules.closed else []
        if self.account.refused:
            notes.append(f"the adopted queue of this name is invalid: {self.account.refused}")
        if not rules.reclaimable:
            notes.append("not reclaimable")
        if rules.protect_borrowed:
            notes.append("protects what it borrows")
        if rules.max_exclusive_layer:
            notes.append(f"exclusively at most a {rules.max_exclusive_layer}")
        if rules.max_gangs is not None:
            notes.append(f"at most {rules.max_gangs} gangs")
        return notes


async def fetch(client: Client, schedulers: frozenset[str] | None) -> list[QueueView]:
    """All queues, each after its parent, by name; queues that cannot be used are last."""
    return views((await Snapshot.observe(client, schedulers, now=0.0)).require())


def views(snapshot: Snapshot) -> list[QueueView]:
    """As `fetch`, of the cluster of a snapshot."""
    return of(snapshot.scheduler())


def of(core: Scheduler) -> list[QueueView]:
    """As `fetch`, of the cluster that a scheduler knows."""
    core.settle()
    found = [*_below(core.world.queues.root, core.world.queues, 0), *_faulty(core.world.queues)]
    return [replace(view, front=core.front(view.name, FRONT)) for view in found]


def _below(parent: Account, queues: Queues, depth: int) -> Iterator[QueueView]:
    for account in parent.children:
        yield QueueView(account.name, depth, account, status_of(account, queues))
        yield from _below(account, queues, depth + 1)


def _faulty(queues: Queues) -> Iterator[QueueView]:
    for name, account in queues.accounts.items():
        if account.fault:
            yield QueueView(name, 0, account, status_of(account, queues))


def summary(view: QueueView) -> Object:
    """A view as JSON: the object's rules and status, merged."""
    rules = view.account.rules
    found: Object = {
        "name": view.name,
        "parent": rules.parent,
        "weight": rules.weight,
        "guarantee": _amounts(rules.guarantee),
        "deserved": _amounts(rules.deserved) if rules.deserved is not None else None,
        "capability": _amounts(rules.capability),
        "order": rules.order.value,
        "reclaimable": rules.reclaimable,
        "closed": rules.closed,
        "maxGangs": rules.max_gangs,
        **view.status,
    }
    if view.account.fault:
        found["invalid"] = view.account.fault
    return found


def _amounts(amounts: Amounts) -> Object:
    return {resource: show(resource, amount) for resource, amount in amounts}


def resources(found: list[QueueView]) -> list[str]:
    """Resources that a queue uses, waits for, or has rules about; what machines are bought for is first."""
    named: set[str] = set()
    for view in found:
        rules = view.account.rules
        named |= view.account.used.keys() | view.account.wanted.keys()
        for amounts in (rules.guarantee, rules.deserved or (), rules.capability):
            named |= {resource for resource, _ in amounts}
    if GPU_SHARE in named:  # the core counts GPUs under this name
        named = (named - {GPU_SHARE}) | {GPU}
    named.discard("pods")
    return sorted(named, key=lambda name: (_LAST.get(name, 0), name))


#: Shown after the scarce resources.
_LAST: Final = {"cpu": 1, "memory": 2, "ephemeral-storage": 3}
