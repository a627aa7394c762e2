"""What an hour of a job costs."""

from typing import Any

import pytest

from muster.api.base import Object
from muster.api.core_v1 import ConfigMap
from muster.api.rates import read
from muster.translate.cost import hourly

PRICES = read(ConfigMap(data={"H100": "3.50", "L4": "0.81", "gpu": "1", "cpu": "0.031", "memory": "0.004"}))
KNOWN = read(ConfigMap(data={"H100": "3.50"}))


def pod(gpus: int = 0, annotations: Object | None = None, more: Object | None = None, **spec: Any) -> Object:
    limits = {"cpu": "4", "memory": "32Gi", **({"nvidia.com/gpu": str(gpus)} if gpus else {}), **(more or {})}
    containers = [{"name": "main", "image": "x", "resources": {"limits": limits}}]
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": containers, **spec}}


SIDECAR = {"name": "logs", "restartPolicy": "Always", "resources": {"limits": {"cpu": "500m"}}}
COSTS: dict[str, tuple[list[tuple[int, Object]], Object | None]] = {
    "no pods": ([], None),
    "CPUs and memory": ([(8, pod())], {"cpu": "0.9920", "memory": "1.0240"}),
    "the most expensive GPU": ([(2, pod(4))], {"cpu": "0.2480", "memory": "0.2560", "gpu": "28.0000"}),
    "the GPU that is requested": (
        [(1, pod(1, nodeSelector={"nvidia.com/gpu.product": "L4"}))],
        {"cpu": "0.1240", "memory": "0.1280", "gpu": "0.8100"},
    ),
    "a GPU without a rate of its own": (
        [(1, pod(1, nodeSelector={"nvidia.com/gpu.product": "T4"}))],
        {"cpu": "0.1240", "memory": "0.1280", "gpu": "1.0000"},
    ),
    "a share of a GPU": (
        [(1, pod(annotations={"muster.dev/gpu-share": "250"}))],
        {"cpu": "0.1240", "memory": "0.1280", "gpu": "0.8750"},
    ),
    "a share as Volcano has it": ([(1, pod(more={"volcano.sh/vgpu-number": "1"}))], None),
    "a sidecar": ([(1, pod(initContainers=[SIDECAR]))], {"cpu": "0.1395", "memory": "0.1280"}),
    "two tasks": (
        [(1, pod(1)), (1, pod(1, nodeSelector={"nvidia.com/gpu.product": "L4"}))],
        {"cpu": "0.2480", "memory": "0.2560", "gpu": "4.3100"},
    ),
}


@pytest.mark.parametrize(("pods", "parts"), COSTS.values(), ids=COSTS)
def test_an_hour(pods: list[tuple[int, Object]], parts: Object | None) -> None:
    found = hourly(pods, PRICES)
    assert (None if found is None else found["breakdown"]) == parts


def test_the_sum_is_that_of_the_parts_as_they_are_shown() -> None:
    thirds = read(ConfigMap(data={"cpu": "0.00006", "memory": "0.00001"}))
    assert hourly([(1, pod())], thirds) == {
        "hourlyCost": "0.0005",
        "breakdown": {"cpu": "0.0002", "memory": "0.0003"},
    }


def test_what_has_no_price_costs_nothing_but_a_gpu_without_one_makes_the_sum_unknown() -> None:
    assert hourly([(2, pod(4))], KNOWN) == {"hourlyCost": "28.0000", "breakdown": {"gpu": "28.0000"}}
    other = pod(1, nodeSelector={"nvidia.com/gpu.product": "L4"})
    assert hourly([(1, pod(1)), (1, other)], KNOWN) is None
    assert hourly([(1, pod())], KNOWN) is None


@pytest.mark.parametrize("spec", [{"containers": "x"}, {"nodeSelector": 7}, {"containers": [{"name": 1}]}])
def test_pods_that_no_server_accepts_have_no_cost(spec: Object) -> None:
    assert hourly([(1, {"spec": spec})], PRICES) is None
