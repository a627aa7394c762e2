"""Computes what an eviction loses, in work and in money: GPU-seconds by product, and their price."""

from collections.abc import Callable, Iterable
from decimal import Decimal

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.rates import CPU, Rates, gpu_seconds, hours
from muster.core.words.gang import Gang, gpus
from muster.translate.pods import pod_bound

#: GPU-seconds by product ("" = not known), or CPU-seconds under `CPU` if the gang has no GPUs.
Seconds = dict[str, Decimal]


def seconds_lost(gang: Gang, pods: Iterable[Pod], product: Callable[[str], str], now: float) -> Seconds:
    """Returns the resource-seconds that the eviction of these pods loses, to the millisecond.

    `pods` occupy nodes; `product` takes a node's name and returns its GPUs' product.
    """
    found, cpus = Seconds(), Decimal(0)
    for pod in pods:
        bound = pod_bound(pod)
        time = Decimal(round(gang.time_lost(bound.at, now) * 1000)) / 1000
        if number := gpus(bound.requests):
            name = product(pod.spec.node_name)
            name = "" if name == CPU else name
            found[name] = found.get(name, Decimal(0)) + time * Decimal(str(number))
        cpus += time * dict(bound.requests).get("cpu", 0) / 1000
    return found or {CPU: cpus}


def priced(seconds: Seconds, rates: Rates) -> Object:
    """Returns the loss as it is in an entry of `status.preemptions`: `lostResourceSeconds`, hours and cost.

    A gang without GPUs has no GPU-hours. If any part of the loss has no rate, there is no cost.
    """
    told: Object = {"lostResourceSeconds": float(sum(seconds.values()))}
    if CPU not in seconds:
        told["gpuHoursLost"] = hours(gpu_seconds(seconds))
    cost = rates.cost(seconds)
    return told if cost is None else {**told, "costLost": str(cost)}
