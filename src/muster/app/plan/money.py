"""What a plan costs: the work that its evictions lose, and GPUs that pods would hold while they wait."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import groupby

import msgspec

from muster.api import kinds
from muster.api.rates import CPU, Rates, money
from muster.app.plan.decisions import Cost, Decision
from muster.app.plan.mirror import SnapshotMirror
from muster.core.words.gang import GangId, gpus
from muster.names import GANG, GPU_PRODUCT
from muster.translate.losses import priced, seconds_lost


def with_losses(decision: Decision, snapshot: SnapshotMirror, rates: Rates) -> Decision:
    """The decision with what its victims lose, in GPU-hours and money."""
    if not decision.victims:
        return decision
    victims, lost = set(decision.victims), dict[str, Decimal]()
    for group in snapshot.mirror.groups.values():
        pods = [each.pod for each in group.members.values() if each.pod.key in victims]
        if pods:
            found = seconds_lost(group.gang, pods, lambda node: _product(snapshot, node), snapshot.now)
            for product, seconds in found.items():
                lost[product] = lost.get(product, Decimal(0)) + seconds
    if any(product != CPU for product in lost):  # CPUs do not count if any victim has GPUs
        lost.pop(CPU, None)
    told = priced(lost, rates)
    cost = Cost(decision.cost.gpu_seconds, told.get("gpuHoursLost", ""), told.get("costLost", ""))
    return msgspec.structs.replace(decision, cost=cost)


def idle(decisions: Sequence[Decision], snapshot: SnapshotMirror, rates: Rates) -> Iterator[str]:
    """Yields a note for each job that, pod by pod, would start only in part and hold GPUs."""
    single = [each for each in decisions if each.gang.count("/") == 2]
    for stem, alike in groupby(single, key=lambda each: each.gang.rpartition("-")[0]):
        pods = list(alike)
        hourly = dict[str, Decimal]()
        for each in pods:
            group = snapshot.mirror.groups.get(GangId(each.gang))
            for node in each.assignments.values() if group is not None and not group.source.kind else ():
                [pod_set] = group.gang.pod_sets if group is not None else ()
                if number := gpus(pod_set.shape.requests):
                    product = _product(snapshot, node)
                    hourly[product] = hourly.get(product, Decimal(0)) + Decimal(str(number)) * 3600
        placed = sum(bool(each.assignments) for each in pods)
        if hourly and placed < len(pods):
            held = f"{(sum(hourly.values(), Decimal(0)) / 3600).normalize():f}"
            cost = rates.cost(hourly)
            price = f" at {money(cost)} an hour" if cost is not None else ""
            job = stem.rpartition("/")[0]
            yield (
                f"{job}: pod by pod, {placed} of {len(pods)} pods start; if they wait for each other, "
                f'{held} GPUs idle{price}. As a gang ({GANG}: "true") no pod starts before all can'
            )


def _product(snapshot: SnapshotMirror, node: str) -> str:
    found = snapshot.known.get((kinds.NODE, "", node))
    return found.metadata.labels.get(GPU_PRODUCT, "") if found is not None else ""
