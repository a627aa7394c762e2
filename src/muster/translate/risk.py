"""Says what preemption may cost a gang before it happens, in work and in money."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from muster import names
from muster.api import duration, rates
from muster.api.rates import CPU, Rates, hours, money
from muster.api.scheduling import PriorityClass, above
from muster.core.words.gang import Gang, Queue, gpus
from muster.core.world.queues.lending import borrowed
from muster.translate.cost import product_asked

#: Expected run time in seconds from which a job without checkpoints gets a warning.
LONG: Final = 3600.0
#: Most PriorityClasses, and most queues, that a message names.
_MOST: Final = 3


@dataclass(frozen=True, slots=True)
class Risk:
    message: str
    #: that it runs for long without a checkpoint although it may be preempted; "" = it does not
    warning: str = ""
    queue: str = ""


def risk(
    gang: Gang,
    classes: Iterable[PriorityClass],
    prices: Rates,
    queues: Mapping[str, Queue] = MappingProxyType({}),
    capacity: Mapping[str, int] = MappingProxyType({}),
) -> Risk | None:
    """Returns what preemption and reclaim may cost the gang; None if no gang may evict it.

    Gangs of PriorityClasses above its own may preempt it. Gangs of other queues may reclaim what its queue
    borrows for it. `capacity`: of the cluster. Without GPUs there is a risk only if CPUs have a price.
    """
    higher = above(classes, gang.priority) if gang.preemptible else []
    hourly = _hourly(gang, prices)
    lent = borrowed(gang, queues, capacity) if queues else None
    if not (higher or lent) or not any(hourly.values()):
        return None
    count = rates.gpu_seconds(hourly) / 3600
    if not count and prices.price(CPU) is None:
        return None
    kept = gang.checkpoint_every or 0.0
    span = Decimal(kept or 3600.0) / 3600
    lost = {product: amount * span for product, amount in hourly.items()}
    cost = prices.cost(lost)
    amount = money(cost) if cost is not None else f"{hours(rates.gpu_seconds(lost))} GPU-hours"
    pieces = f"{count.normalize():f} GPU{'s' * (count != 1)}" if count else "CPUs"
    said = []
    if higher:
        plural = "classes" if len(higher) > 1 else "class"
        listed = _listed(higher)
        said.append(
            f"its priority is {gang.priority}; {len(higher)} higher {plural} can preempt it ({listed})"
        )
    if lent is not None:
        plural = "queues" if len(lent.reclaimers) > 1 else "queue"
        said.append(f"{lent.message}; {plural} {_listed(lent.reclaimers)} can reclaim the rest")
    who = "; ".join(said)
    if kept:
        stake = (
            f"up to {amount} of work is at risk ({pieces}, a checkpoint every {duration.show(round(kept))})"
        )
        return Risk(f"PreemptionRisk: {who}; {stake}", queue=gang.queue)
    saves = "no checkpoint" if gang.checkpointed is None else "since the last checkpoint"
    message = f"PreemptionRisk: {who}; up to {amount} of work is at risk each hour ({pieces}, {saves})"
    if gang.checkpointed is not None or (gang.estimate or 0.0) < LONG:
        return Risk(message, queue=gang.queue)
    return Risk(
        message,
        f"it is expected to run for {duration.show(round(gang.estimate or 0.0))} without a checkpoint, and "
        f"may be preempted; let it save its work, and annotate it {names.CHECKPOINT}: 30m",
        gang.queue,
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST]) + (" and others" if len(names) > _MOST else "")


def _hourly(gang: Gang, prices: Rates) -> dict[str, Decimal]:
    """Returns the GPU-seconds by product that the gang uses in an hour, or CPU-seconds under `CPU`."""
    found, cpus = dict[str, Decimal](), Decimal(0)
    for pod_set in gang.pod_sets:
        requests = pod_set.shape.requests
        cpus += Decimal(dict(requests).get("cpu", 0)) / 1000 * pod_set.count
        if number := gpus(requests):
            product = prices.product(product_asked(pod_set.shape))
            found[product] = found.get(product, Decimal(0)) + Decimal(str(number)) * pod_set.count
    return {product: amount * 3600 for product, amount in (found or {CPU: cpus}).items()}
