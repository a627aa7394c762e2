"""Translates a Queue object into the core's rules, and the core's state of a queue into its status."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from muster.api import quantity
from muster.api.base import AnyKind, Condition, Object, Resource, condition
from muster.api.core_v1 import Quantities
from muster.api.kinds import QUEUE, QUEUE_VOLCANO
from muster.api.muster_v1alpha1 import Queue, QueueSpec
from muster.api.volcano_v1beta1 import Queue as VolcanoQueue
from muster.core.words.events import QueueChanged
from muster.core.words.gang import Amounts, QueueOrder
from muster.core.words.gang import Queue as Rules
from muster.core.world.queues import Queues
from muster.core.world.queues.account import Account
from muster.names import GPU, GPU_SHARE

#: Condition of a queue that is in use; False, with a reason, while it is not.
READY: Final = "Ready"


#: Volcano's queue above all others; muster's `root` has no object.
_ROOT: Final = "root"
#: States of Volcano's queues that admit nothing.
_CLOSED: Final = ("Closed", "Closing")


class Adopted(Queue, frozen=True):
    """Volcano's queue as one of muster's."""

    #: fields that change where or when its gangs run, and are not read
    faults: list[str] = []


def effective(own: Resource | None, volcano: Resource | None) -> Queue | None:
    """Returns the queue of a name: muster's own if there is one, else Volcano's as one of muster's."""
    if isinstance(own, Queue):
        return own
    if not isinstance(volcano, VolcanoQueue) or volcano.metadata.name == _ROOT:
        return None
    spec = volcano.spec
    unread = {"affinity": spec.affinity, "extendClusters": spec.extend_clusters, "priority": spec.priority}
    return Adopted(
        metadata=volcano.metadata,
        spec=QueueSpec(
            parent=spec.parent or _ROOT,
            weight=spec.weight,
            guarantee=spec.guarantee.resource,
            deserved=spec.deserved,
            capability=spec.capability,
            reclaimable=spec.reclaimable is not False,
            closed=volcano.status.state in _CLOSED,
        ),
        faults=[
            f"spec.{field} of a Queue of Volcano is not read; remove it, or write a Queue of muster"
            for field, value in unread.items()
            if value
        ],
    )


def counting(objects: Iterable[object]) -> list[Queue]:
    """Returns the queues that count among objects of any kind, by name."""
    found: dict[str, list[Resource | None]] = {}
    for each in objects:
        if isinstance(each, Queue | VolcanoQueue):
            found.setdefault(each.metadata.name, [None, None])[isinstance(each, VolcanoQueue)] = each
    queues = (effective(*found[name]) for name in sorted(found))
    return [queue for queue in queues if queue is not None]


class QueueObjects:
    """The Queues of muster and of Volcano, by name; one of each name counts."""

    def __init__(self) -> None:
        self._of: dict[AnyKind, dict[str, Resource]] = {QUEUE: {}, QUEUE_VOLCANO: {}}

    def change(self, kind: AnyKind, name: str, new: Resource | None) -> tuple[Queue | None, Queue | None]:
        """Takes in a Queue, or that there is none; returns the queue that counted before, and now."""
        before = self._counts(name)
        if new is not None:
            self._of[kind][name] = new
        else:
            self._of[kind].pop(name, None)
        return before, self._counts(name)

    def _counts(self, name: str) -> Queue | None:
        return effective(self._of[QUEUE].get(name), self._of[QUEUE_VOLCANO].get(name))


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


def conditions(
    account: Account, before: list[Condition], now: datetime, *, covers: bool = False
) -> list[Condition]:
    """Returns whether the queue is in use; the time is that of the last change.

    `covers`: Volcano has a queue of the same name.
    """
    status, reason = ("False", "Invalid") if account.fault else ("True", "Valid")
    message = account.fault or ("it counts, and the Queue of Volcano of this name does not" if covers else "")
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
