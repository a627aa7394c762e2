"""What preemptions have cost, per week, queue and namespace, from records that outlive the jobs."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal

from muster.api import kinds
from muster.api.base import Object
from muster.api.muster_v1alpha1 import Preemption
from muster.api.rates import amount
from muster.api.times import FIRST, LAST
from muster.kube.client import Client
from muster.kube.listing import list_all

#: Times outside of these are ignored: a record that was written by hand may have a time without a week.


@dataclass(slots=True)
class Usage:
    """The preemptions of one queue's gangs in one namespace and one week."""

    #: of ISO 8601, in UTC: `2026-W48`
    week: str
    queue: str
    namespace: str
    preemptions: int = 0
    gpu_hours: Decimal = Decimal(0)
    cost: Decimal = Decimal(0)
    #: how many of the preemptions have no cost, because no rate was known
    unpriced: int = 0


async def fetch(client: Client, namespace: str = "") -> list[Usage]:
    found = await list_all(client, kinds.PREEMPTION, namespace=namespace, missing_ok=True)
    return added_up(found.items)


def added_up(records: Iterable[Preemption]) -> list[Usage]:
    """The sums, the newest week first, then by queue and namespace."""
    sums: dict[tuple[str, str, str], Usage] = {}
    for record in records:
        spec = record.spec
        if spec.at is None or not FIRST < spec.at < LAST:
            continue
        year, week, _ = spec.at.astimezone(UTC).isocalendar()
        key = f"{year}-W{week:02}", spec.queue, record.metadata.namespace
        found = sums.setdefault(key, Usage(*key))
        found.preemptions += 1
        found.gpu_hours += amount(spec.gpu_hours_lost) or 0
        cost = amount(spec.cost_lost)
        found.cost += cost or 0
        found.unpriced += cost is None
    ordered = sorted(sums.values(), key=lambda each: (each.queue, each.namespace))
    return sorted(ordered, key=lambda each: each.week, reverse=True)


def summary(usage: Usage) -> Object:
    """A line as JSON; amounts are decimal numbers as text."""
    return {
        "week": usage.week,
        "queue": usage.queue,
        "namespace": usage.namespace,
        "preemptions": usage.preemptions,
        "gpuHoursLost": str(usage.gpu_hours),
        "costLost": str(usage.cost) if usage.unpriced < usage.preemptions else None,
        "unpriced": usage.unpriced,
    }
