"""What a pod takes from its node: containers, init containers, sidecars, overhead, pod-level resources."""

from fractions import Fraction
from math import ceil
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.core_v1 import Container, Pod, PodSpec
from muster.api.quantity import billionths, parse
from muster.api.requests import as_it_runs, gpus, gpus_of_container, requests, whole_gpus
from muster.core.words.gang import PodId
from muster.core.words.gang import gpus as counted
from muster.names import GPU_SHARE
from muster.translate.pods import pod_bound
from tests.translate.cluster import pod, spec


def container(requests: Object | None = None, limits: Object | None = None, **fields: Any) -> Object:
    return {"name": "c", "resources": {"requests": requests or {}, "limits": limits or {}}, **fields}


def sidecar(cpu: str) -> Object:
    return container({"cpu": cpu}, restartPolicy="Always")


CASES: dict[str, tuple[Object, dict[str, int]]] = {
    "nothing": ({"containers": [container()]}, {}),
    "containers add up": (
        {"containers": [container({"cpu": "500m", "memory": "1Gi"}), container({"cpu": 1})]},
        {"cpu": 1500, "memory": 2**30},
    ),
    "a sum is rounded up once": (
        {"containers": [container({"memory": "600m"}), container({"memory": "400m"})]},
        {"memory": 1},
    ),
    "limits stand for absent requests": (
        {"containers": [container({"cpu": "100m"}, {"cpu": 1, "memory": "64Mi", "nvidia.com/gpu": 2})]},
        {"cpu": 100, "memory": 64 * 2**20, "nvidia.com/gpu": 2},
    ),
    "the largest init container counts if it is larger": (
        {
            "containers": [container({"cpu": 1, "memory": "2Gi"})],
            "initContainers": [container({"cpu": 3}), container({"cpu": 2})],
        },
        {"cpu": 3000, "memory": 2**31},
    ),
    "sidecars run beside the containers": (
        {"containers": [container({"cpu": 1})], "initContainers": [sidecar("500m"), sidecar("250m")]},
        {"cpu": 1750},
    ),
    "an init container runs beside the sidecars before it, not after it": (
        {
            "containers": [container({"cpu": 1})],
            "initContainers": [sidecar("500m"), container({"cpu": 2}), sidecar("250m")],
        },
        {"cpu": 2500},
    ),
    "overhead is added to whatever is the most": (
        {
            "containers": [container({"cpu": 1})],
            "initContainers": [container({"cpu": 2})],
            "overhead": {"cpu": "50m", "memory": "16Mi"},
        },
        {"cpu": 2050, "memory": 2**24},
    ),
    "pod-level requests replace the sum": (
        {
            "containers": [container({"cpu": 1, "nvidia.com/gpu": 1}), container({"cpu": 1})],
            "resources": {"requests": {"cpu": "1500m"}},
            "overhead": {"cpu": "50m"},
        },
        {"cpu": 1550, "nvidia.com/gpu": 1},
    ),
    "a pod-level limit stands in only where no container asks": (
        {
            "containers": [container({"cpu": 1})],
            "resources": {"limits": {"cpu": 4, "memory": "1Gi", "hugepages-2Mi": "4Mi"}},
        },
        {"cpu": 1000, "memory": 2**30, "hugepages-2Mi": 2**22},
    ),
    "zeros are left out": ({"containers": [container({"cpu": 0, "nvidia.com/gpu": "0"})]}, {}),
}


@pytest.mark.parametrize(("pod", "expected"), CASES.values(), ids=CASES.keys())
def test_requests(pod: Object, expected: dict[str, int]) -> None:
    assert requests(spec(pod)) == tuple(sorted(expected.items()))


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "e/x"]), st.integers(0, 9).map(str))
INITS = st.lists(st.tuples(AMOUNTS, st.sampled_from(["", "Always"])), max_size=5)


@given(INITS, st.lists(AMOUNTS, max_size=4))
def test_the_peak_is_that_of_any_moment(
    inits: list[tuple[dict[str, str], str]], main: list[dict[str, str]]
) -> None:
    """Each init container runs with the sidecars before it, and all sidecars run with the containers."""
    started: list[dict[str, str]] = []
    moments: list[list[dict[str, str]]] = []
    for amounts, policy in inits:
        moments.append([*started, amounts])
        if policy:
            started.append(amounts)
    moments.append([*started, *main])
    found = requests(
        spec(
            {
                "initContainers": [
                    {"name": "i", "restartPolicy": policy, "resources": {"requests": amounts}}
                    for amounts, policy in inits
                ],
                "containers": [{"name": "c", "resources": {"requests": amounts}} for amounts in main],
            }
        )
    )
    for resource, unit in (("cpu", 1000), ("memory", 1), ("e/x", 1)):
        at = [sum(int(amounts.get(resource, 0)) for amounts in moment) for moment in moments]
        assert dict(found).get(resource, 0) == max(at) * unit


GPUS = {
    "containers add up": ([], [1, 2], 3),
    "an init container runs alone": ([(4, False), (2, False)], [1], 4),
    "a sidecar runs beside the others": ([(1, True), (2, False)], [3], 4),
    "and beside later init containers": ([(2, True), (4, False)], [1], 6),
}


@pytest.mark.parametrize(("inits", "mains", "most"), GPUS.values(), ids=GPUS)
def test_gpus_are_counted_as_kubernetes_counts_them(
    inits: list[tuple[int, bool]], mains: list[int], most: int
) -> None:
    def asking(count: int, sidecar: bool = False) -> Object:
        return container({}, {"nvidia.com/gpu": count}, **({"restartPolicy": "Always"} if sidecar else {}))

    found = {"initContainers": [asking(*each) for each in inits], "containers": list(map(asking, mains))}
    assert gpus(pod(spec=found)) == whole_gpus(spec(found)) == most


VENDORS = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu", "amd.com/gpu", "cpu", "x.com/gpus"]), st.integers(0, 3).map(str)
)
SHARES = st.sampled_from(["", "1", "250", "1000", "0", "1001", "half"])


@given(st.lists(st.tuples(VENDORS, VENDORS, st.sampled_from(["", "Always"])), min_size=1, max_size=5), SHARES)
def test_gpus_of_a_pod_are_those_of_its_requests_and_its_share(
    containers: list[tuple[dict[str, str], dict[str, str], str]], share: str
) -> None:
    made = [container(asked, limit, restartPolicy=policy) for asked, limit, policy in containers]
    found = pod(annotations={GPU_SHARE: share}, spec={"initContainers": made[1:], "containers": made[:1]})
    amounts = requests(found.spec)
    whole = sum(amount for resource, amount in amounts if resource in ("nvidia.com/gpu", "amd.com/gpu"))
    assert whole_gpus(found.spec) == whole
    assert gpus(found) == whole + (int(share) / 1000 if share in ("1", "250", "1000") else 0)
    alone = Container(name="c", resources=found.spec.containers[0].resources)
    assert gpus_of_container(alone) == whole_gpus(PodSpec(containers=[alone]))
    shared = ((GPU_SHARE, int(share)),) if share in ("1", "250", "1000") else ()
    assert gpus(found) == counted((*amounts, *shared)), "as the core counts them"


QUANTITIES = ["1m", "0.1m", "0.3", "1n", "0.4n", "1e-10", "2", "1.5Ki", 0.7, 3]


@given(st.lists(st.sampled_from(QUANTITIES), min_size=1, max_size=30))
def test_the_sum_is_exact_and_rounded_up_once(quantities: list[str | float]) -> None:
    asked = [container({"cpu": each, "example.com/a": each}) for each in quantities]
    total = sum(map(parse, quantities))
    found = requests(spec({"containers": asked}))
    assert found == (("cpu", ceil(1000 * total)), ("example.com/a", ceil(total)))


def test_equal_containers_in_a_row_are_read_once_and_each_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str | int | float] = []

    def noted(quantity: str | int | float) -> int | Fraction:
        read.append(quantity)
        return billionths(quantity)

    monkeypatch.setattr("muster.api.requests.billionths", noted)
    asked = [container({"cpu": each}) for each in ["1m"] * 5 + ["2m"] * 6 + ["1m"] * 7]
    assert requests(spec({"containers": asked})) == (("cpu", 5 + 12 + 7),)
    assert read == ["1m", "2m", "1m"]


def test_a_request_that_is_not_a_quantity_is_an_error_that_shows_it() -> None:
    with pytest.raises(ValueError, match="'lots' is not a quantity"):
        requests(spec({"containers": [container({"cpu": "lots"})]}))


def resized(
    asked: Object, allocated: Object, has: Object | None = None, *, reason: str = "", field: str = "container"
) -> Pod:
    """A pod on a node: what its spec asks for, what its node has set aside, and what it has."""
    told = {"allocatedResources": allocated} | ({"resources": {"requests": has}} if has is not None else {})
    policy = "Always" if field == "initContainer" else ""
    spec: Object = {"nodeName": "n", f"{field}s": [container(asked, restartPolicy=policy)]}
    status: Object = {f"{field}Statuses": [{"name": "c", **told}]}
    if field == "pod":
        spec = {"nodeName": "n", "resources": {"requests": asked}, "containers": [container()]}
        status = told
    if reason:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    return msgspec.convert({"metadata": {"uid": "u"}, "spec": spec, "status": status}, Pod)


@pytest.mark.parametrize("field", ["container", "initContainer", "pod"])
@pytest.mark.parametrize(
    ("asked", "allocated", "has", "reason", "taken"),
    [
        ({"cpu": 2}, {"cpu": 1}, {"cpu": 1}, "", {"cpu": 2000}),
        ({"cpu": 1}, {"cpu": 2}, None, "", {"cpu": 2000}),
        ({"cpu": 1}, {"cpu": 1}, {"cpu": 2}, "", {"cpu": 2000}),
        ({"cpu": 1, "memory": "2Gi"}, {"cpu": 2, "memory": "1Gi"}, None, "", {"cpu": 2000, "memory": 2**31}),
        ({"cpu": 9}, {"cpu": 1}, {"cpu": 2}, "Deferred", {"cpu": 9000}),
        ({"cpu": 9}, {"cpu": 1}, {"cpu": 2}, "Infeasible", {"cpu": 2000}),
        ({"cpu": 9}, {}, None, "Infeasible", {"cpu": 9000}),
        ({"cpu": 1}, {"cpu": "many"}, None, "", {"cpu": 1000}),
    ],
)
def test_a_pod_that_is_resized_takes_the_most_of_what_it_asks_for_and_has(
    asked: Object, allocated: Object, has: Object | None, reason: str, taken: dict[str, int], field: str
) -> None:
    one = resized(asked, allocated, has, reason=reason, field=field)
    bound = pod_bound(one)
    assert (dict(bound.requests), list(bound.pods)) == (taken, [PodId("u")])


def test_a_pod_that_is_not_resized_is_as_its_spec_says() -> None:
    as_asked = resized({"cpu": 1}, {"cpu": 1}, {"cpu": 1})
    assert as_it_runs(as_asked) is as_asked
    assert as_it_runs(plain := pod()) is plain
