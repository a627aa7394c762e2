"""What jobs have used and waited for, and what preemptions have cost them, by week, queue, user and job.

A pod counts from the moment at which it was bound until its end: it holds its GPUs while it starts, too. If
it ran in several weeks, it counts in each for the time that it ran there. Weeks are those of ISO 8601 in UTC,
such as `2026-W48`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from muster.api import kinds
from muster.api.base import Object
from muster.api.muster_v1alpha1 import Preemption
from muster.api.rates import CPU, MEMORY, Rates, amount
from muster.api.times import FIRST, LAST
from muster.kube.client import Client
from muster.kube.listing import list_all

#: What usage can be added up by, in the order of the columns.
BY: Final = ("week", "queue", "namespace", "user", "job")
USUAL: Final = BY[:3]
_MILLI: Final = Decimal("0.001")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose job it is; "" where that is not known."""

    queue: str
    namespace: str
    user: str
    job: str
    #: of the job's object: several jobs may have had one name
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """What one pod held, from `begin` to `end`, in seconds since 1970."""

    owner: Owner
    begin: float
    end: float
    gpus: float = 0.0
    cpus: float = 0.0
    memory: float = 0.0
    #: of the GPUs; "" = not known
    product: str = ""


@dataclass(frozen=True, slots=True)
class Waited:
    """How long one job waited for its first pod to be bound, from `begin` on; both in seconds."""

    owner: Owner
    begin: float
    seconds: float


@dataclass(slots=True)
class Usage:
    """One line of an account. What it is not added up by is ""."""

    week: str = ""
    queue: str = ""
    namespace: str = ""
    user: str = ""
    job: str = ""
    #: jobs that used or waited for something
    jobs: set[Owner] = field(default_factory=set)
    used_gpu_hours: Decimal = Decimal(0)
    used_cpu_hours: Decimal = Decimal(0)
    used_cost: Decimal = Decimal(0)
    #: whether something that was used has no price
    unpriced_use: bool = False
    waited: float = 0.0
    preemptions: int = 0
    #: lost to preemptions, as is `cost`
    gpu_hours: Decimal = Decimal(0)
    cost: Decimal = Decimal(0)
    #: how many of the preemptions have no cost, because no rate was known
    unpriced: int = 0


async def fetch(client: Client, namespace: str = "") -> Sequence[Preemption]:
    return (await list_all(client, kinds.PREEMPTION, namespace=namespace, missing_ok=True)).items


def added_up(
    records: Iterable[Preemption],
    uses: Iterable[Use] = (),
    waits: Iterable[Waited] = (),
    rates: Rates | None = None,
    by: Sequence[str] = USUAL,
) -> list[Usage]:
    """The sums, the newest week first, then by queue, namespace, user and job. `by`: of `BY`."""
    rates, sums = rates or Rates(), dict[tuple[str, ...], Usage]()
    users = dict[tuple[str, str], str]()

    def line(week: str, owner: Owner) -> Usage:
        every = {"week": week, **{name: getattr(owner, name) for name in BY[1:]}}
        key = {name: every[name] for name in by}
        return sums.setdefault(tuple(key.values()), Usage(**key))

    for use in uses:
        users[use.owner.namespace, use.owner.job] = use.owner.user
        for week, seconds in weeks(use.begin, use.end):
            found = line(week, use.owner)
            found.jobs.add(use.owner)
            _use(found, use, Decimal(str(round(seconds, 3))), rates)
    for wait in waits:
        for week, seconds in weeks(wait.begin, wait.begin + wait.seconds):
            found = line(week, wait.owner)
            found.jobs.add(wait.owner)
            found.waited += seconds
    for record in records:
        spec = record.spec
        if spec.at is None or not FIRST < spec.at < LAST:
            continue  # one that was written by hand may have a time without a week
        namespace, job = record.metadata.namespace, spec.job.rpartition(" ")[2]
        found = line(_week(spec.at), Owner(spec.queue, namespace, users.get((namespace, job), ""), job))
        found.preemptions += 1
        found.gpu_hours += amount(spec.gpu_hours_lost) or 0
        cost = amount(spec.cost_lost)
        found.cost += cost or 0
        found.unpriced += cost is None
    ordered = sorted(sums.values(), key=lambda each: (each.queue, each.namespace, each.user, each.job))
    return sorted(ordered, key=lambda each: each.week, reverse=True)


def _use(line: Usage, use: Use, seconds: Decimal, rates: Rates) -> None:
    gpus, cpus, memory = (Decimal(str(each)) * seconds for each in (use.gpus, use.cpus, use.memory))
    line.used_gpu_hours += gpus / 3600
    line.used_cpu_hours += cpus / 3600
    price = rates.price(use.product or rates.product(None)) if gpus else None
    if gpus and price is None:
        line.unpriced_use = True
    for held, each in ((gpus, price), (cpus, rates.price(CPU)), (memory, rates.price(MEMORY))):
        line.used_cost += held * (each or 0) / 3600


def weeks(begin: float, end: float) -> Iterator[tuple[str, float]]:
    """The weeks of a time, each with its seconds; nothing of what is no time."""
    first, last = FIRST.timestamp(), LAST.timestamp()
    while first < begin < end < last:
        moment = datetime.fromtimestamp(begin, UTC)
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        following = (day + timedelta(days=7 - day.weekday())).timestamp()
        yield _week(moment), min(end, following) - begin
        begin = following


def _week(moment: datetime) -> str:
    year, week, _ = moment.astimezone(UTC).isocalendar()
    return f"{year}-W{week:02}"


def priced(usage: Usage, rates: Rates) -> Decimal | None:
    """What was used, in money; None if it has no price, or not all of it."""
    return None if usage.unpriced_use or not rates.prices else usage.used_cost.quantize(Decimal("0.01"))


def hours(amount: Decimal) -> str:
    """Hours with three decimals at most: `20`, `0.5`."""
    return f"{amount.quantize(_MILLI, ROUND_HALF_UP).normalize():f}"


def summary(usage: Usage, rates: Rates | None = None, by: Sequence[str] = USUAL) -> Object:
    """A line as JSON; amounts are decimal numbers as text."""
    cost = priced(usage, rates or Rates())
    return {
        **{name: getattr(usage, name) for name in by},
        "jobs": len(usage.jobs),
        "gpuHours": hours(usage.used_gpu_hours),
        "cpuHours": hours(usage.used_cpu_hours),
        "cost": str(cost) if cost is not None else None,
        "waitedSeconds": round(usage.waited, 3),
        "preemptions": usage.preemptions,
        "gpuHoursLost": str(usage.gpu_hours),
        "costLost": str(usage.cost) if usage.unpriced < usage.preemptions else None,
        "unpriced": usage.unpriced,
    }
