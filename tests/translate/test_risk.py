"""What preemption may cost a gang, in words and money, before it happens."""

from dataclasses import replace

import pytest

from muster import names
from muster.api.base import ObjectMeta
from muster.api.core_v1 import ConfigMap
from muster.api.rates import Rates, read
from muster.api.scheduling import PriorityClass
from muster.core.words.gang import Gang, GangId, PodSet, Queue, Shape
from muster.translate.risk import risk

RATES = read(ConfigMap(data={"H100": "3.50", "A10": "1.10"}))
SHAPE = Shape(requests=(("cpu", 1000), (names.GPU, 1)))
GANG = Gang(GangId("ns/g"), (PodSet("main", SHAPE, 4, 4),), 4, 0.0)
CPUS = replace(GANG, pod_sets=(PodSet("main", Shape(requests=(("cpu", 2000),)), 4, 4),))
A10 = replace(GANG, pod_sets=(PodSet("main", replace(SHAPE, selector=((names.GPU_PRODUCT, "A10"),)), 4, 4),))


def priority_class(name: str, value: int, policy: str = "PreemptLowerPriority") -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=value, preemption_policy=policy)


URGENT = [priority_class("urgent", 1000)]
WHO = "PreemptionRisk: its priority is 0; 1 higher class can preempt it (urgent); "
TOLD = {
    "no checkpoint": (GANG, RATES, f"{WHO}up to $14.00 of work is at risk each hour (4 GPUs, no checkpoint)"),
    "an interval": (
        replace(GANG, checkpoint_every=1800.0),
        RATES,
        f"{WHO}up to $7.00 of work is at risk (4 GPUs, a checkpoint every 30m)",
    ),
    "the product that is asked for": (
        A10,
        RATES,
        f"{WHO}up to $4.40 of work is at risk each hour (4 GPUs, no checkpoint)",
    ),
    "no prices": (
        GANG,
        Rates(),
        f"{WHO}up to 4 GPU-hours of work is at risk each hour (4 GPUs, no checkpoint)",
    ),
    "priced CPUs": (
        CPUS,
        read(ConfigMap(data={"cpu": "0.05"})),
        f"{WHO}up to $0.40 of work is at risk each hour (CPUs, no checkpoint)",
    ),
}


@pytest.mark.parametrize(("gang", "prices", "message"), TOLD.values(), ids=TOLD)
def test_the_risk_in_words_and_money(gang: Gang, prices: Rates, message: str) -> None:
    found = risk(gang, URGENT, prices)
    assert found is not None
    assert (found.message, found.warning) == (message, "")


SAFE = {
    "no class is higher": (GANG, [priority_class("low", -5), priority_class("equal", 0)]),
    "it never preempts": (GANG, [priority_class("polite", 1000, "Never")]),
    "Kubernetes' own": (GANG, [priority_class("system-node-critical", 2_000_001_000)]),
    "it opts out": (replace(GANG, preemptible=False), URGENT),
    "CPUs without a price": (CPUS, URGENT),
    "nothing is asked for": (replace(GANG, pod_sets=()), URGENT),
}


@pytest.mark.parametrize(("gang", "classes"), SAFE.values(), ids=SAFE)
def test_a_gang_without_a_risk_gets_no_message(gang: Gang, classes: list[PriorityClass]) -> None:
    assert risk(gang, classes, RATES) is None


def test_many_classes_are_counted_and_few_are_named() -> None:
    found = risk(GANG, [priority_class(f"c{i}", i) for i in range(1, 9)], RATES)
    assert found is not None
    assert "8 higher classes can preempt it (c1, c2, c3 and others)" in found.message


LONG = {
    "short": (replace(GANG, estimate=3599.0), False),
    "long": (replace(GANG, estimate=18_000.0), True),
    "long with an interval": (replace(GANG, estimate=18_000.0, checkpoint_every=1800.0), False),
    "long with a time": (replace(GANG, estimate=18_000.0, checkpointed=5.0), False),
    "not known": (GANG, False),
}


@pytest.mark.parametrize(("gang", "warned"), LONG.values(), ids=LONG)
def test_a_long_job_without_a_checkpoint_is_warned(gang: Gang, warned: bool) -> None:
    found = risk(gang, URGENT, RATES)
    assert found is not None
    assert bool(found.warning) == warned
    if warned:
        assert found.warning.startswith("it is expected to run for 5h without a checkpoint")


QUEUES = {"default": Queue("default"), "b": Queue("b")}
RECLAIM = (
    "queue default is entitled to 2 GPUs if all queues use their shares, and the gang requests 4; "
    "queue b can reclaim the rest"
)
STAKE = "up to $14.00 of work is at risk each hour (4 GPUs, no checkpoint)"


def test_queues_that_can_reclaim_it_are_a_risk_too() -> None:
    capacity = {names.GPU: 4, "cpu": 64_000}
    found = risk(GANG, [], RATES, QUEUES, capacity)
    assert found is not None
    assert found.message == f"PreemptionRisk: {RECLAIM}; {STAKE}"
    both = risk(GANG, URGENT, RATES, QUEUES, capacity)
    assert both is not None
    assert both.message == f"{WHO}{RECLAIM}; {STAKE}"
    assert risk(replace(GANG, preemptible=False), URGENT, RATES, QUEUES, capacity) == found
    keeps = {name: replace(each, protect_borrowed=True) for name, each in QUEUES.items()}
    assert risk(replace(GANG, preemptible=False), URGENT, RATES, keeps, capacity) is None
    assert risk(GANG, [], RATES, QUEUES, {names.GPU: 8, "cpu": 64_000}) is None
