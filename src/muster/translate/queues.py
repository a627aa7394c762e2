"""Translates a Queue object into the core's rules, and the core's state of a queue into its status."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from muster.api import quantity
from muster.api.base import Condition, Object, condition
from muster.api.core_v1 import Quantities
from muster.api.muster_v1alpha1 import Queue
from muster.core.words.events import QueueChanged
from muster.core.words.gang import Amounts, QueueOrder
from muster.core.words.gang import Queue as Rules
from muster.core.world.queues import Queues
from muster.core.world.queues.account import Account
from muster.names import GPU, GPU_SHARE
from muster.translate.adopted import Adopted

#: Condition of a queue that is in use; False, with a reason, while it is not.
READY: Final = "Ready"


def queue_changed(queue: Queue) -> QueueChanged:
    """Returns the queue's rules as accepted; what the API server should not accept makes it unusable.

    A limit is rounded down, a guarantee up: neither becomes larger or smaller than it was written.
    """
    spec, faults = queue.spec, [*queue.faults] if isinstance(queue, Adopted) else list[str]()
    if why := queue.metadata.unreadable:  # what was left out may be a limit
        faults.append(f"cannot be read: {why}")

    def amounts(field: str, written: Quantities, *, up: bool = False) -> Amounts:
        read = quantity.request if up else quantity.capacity
        found = []
        for resource, text in sorted(written.items()):
            try:
                amount = read(resource, text)
            except ValueError as error:
                faults.append(f"spec.{field}.{resource}: {error}")
                continue
            if amount < 0:
                faults.append(f"spec.{field}.{resource} is {text}; write 0 or more")
            found.append((resource, amount))
        return tuple(found)

    order = next((order for order in QueueOrder if order.value == spec.order), None)
    if order is None:
        faults.append(f"spec.order is {spec.order!r}; write {', '.join(order.value for order in QueueOrder)}")
    rules = Rules(
        name=queue.metadata.name,
        parent=spec.parent,
        weight=spec.weight,
        guarantee=amounts("guarantee", spec.guarantee, up=True),
        deserved=amounts("deserved", spec.deserved) if spec.deserved is not None else None,
        capability=amounts("capability", spec.capability),
        order=order or QueueOrder.PRIORITY,
        reclaimable=spec.reclaimable,
        protect_borrowed=spec.protect_borrowed,
        closed=spec.closed,
        namespaces=tuple(sorted(spec.allow.namespaces)),
        users=tuple(sorted(spec.allow.users)),
        max_gangs=spec.max_gangs,
        max_exclusive_layer=spec.max_exclusive_layer,
        parts=amounts("max", queue.parts) if isinstance(queue, Adopted) else (),
        fault="; ".join(faults),
        adopted=isinstance(queue, Adopted),
    )
    return QueueChanged(rules)


def status_of(account: Account, queues: Queues) -> Object:
    """Returns `status` without its conditions."""
    waiting = sum(other.waiting for other in queues.accounts.values() if account in other.path)
    return {
        "used": _quantities(account.used),
        "entitled": _quantities(account.entitled),
        "borrowed": _quantities(account.surplus()),
        "waiting": waiting,
        "standing": account.standing,
    }


def requested(account: Account) -> Object:
    """Returns what the gangs of a queue, and of those below it, use and wait for, as far as caps allow."""
    return _quantities(account.asked)


def conditions(
    account: Account, before: list[Condition], now: datetime, *, covers: str = ""
) -> list[Condition]:
    """Returns whether the queue is in use; the time is that of the last change.

    `covers`: what else there is of the same name, as people call it.
    """
    status, reason = ("False", "Invalid") if account.fault else ("True", "Valid")
    message = account.fault or (f"it counts, and the {covers} of this name does not" if covers else "")
    known = condition(before, READY)
    since = known.last_transition_time if known is not None and known.status == status else None
    return [Condition(READY, status, reason, message, last_transition_time=since or now)]


def _quantities(amounts: Mapping[str, int]) -> Object:
    """Formats amounts as people write them, without unlimited `pods` (of a node that states no number)."""
    return {
        GPU if resource == GPU_SHARE else resource: quantity.thousandths(amount)
        if resource == GPU_SHARE
        else quantity.show(resource, amount)
        for resource, amount in sorted(amounts.items())
        if resource != "pods" or amount < 2**31 - 1
    }
