from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import ApiError, BadRequest, Conflict, Invalid, NotFound, ServerError, TooManyRequests
from tests.embedded.objects import bound, pod, read

LABELS = {"app": "x"}


def running(registry: Registry, name: str, *, ready: bool = True) -> None:
    bound(registry, name, labels=LABELS)
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"status": {"phase": "Running", "conditions": conditions}}
    registry.patch(kinds.POD, "default", name, status, subresource="status")


def budget(registry: Registry, name: str = "b", **spec: Any) -> None:
    obj = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": LABELS}, **spec}}
    registry.create(kinds.PDB, "default", obj)


def evict(registry: Registry, name: str = "p0", obj: Object | None = None) -> Any:
    return read(registry.evict("default", name, obj or {"metadata": {"name": name}}))


def test_an_evicted_pod_carries_the_reason_and_gets_its_grace_period(registry: Registry) -> None:
    running(registry, "p0")
    before = registry.store.revision
    after = evict(registry)
    assert registry.store.revision == before + 1
    assert after["metadata"]["deletionGracePeriodSeconds"] == 30
    condition = after["status"]["conditions"][-1]
    assert (condition["type"], condition["status"]) == ("DisruptionTarget", "True")
    assert condition["reason"] == "EvictionByEvictionAPI"


def test_an_earlier_reason_for_a_disruption_is_kept(registry: Registry) -> None:
    running(registry, "p0")
    given = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    registry.patch(kinds.POD, "default", "p0", {"status": {"conditions": given}}, subresource="status")
    assert [c["reason"] for c in evict(registry)["status"]["conditions"]] == ["PreemptionByScheduler"]


def test_an_unbound_pod_goes_at_once_and_its_last_state_says_why(registry: Registry) -> None:
    registry.create(kinds.POD, "default", pod("p0"))
    assert evict(registry)["status"]["conditions"][0]["reason"] == "EvictionByEvictionAPI"
    with pytest.raises(NotFound):
        registry.get(kinds.POD, "default", "p0")


@pytest.mark.parametrize(
    ("spec", "pods", "unready", "allowed"),
    [
        ({"minAvailable": 2}, 3, 0, 1),
        ({"minAvailable": 3}, 3, 0, 0),
        ({"minAvailable": "50%"}, 3, 0, 1),
        ({"minAvailable": "50%"}, 4, 0, 2),
        ({"maxUnavailable": 1}, 3, 0, 1),
        ({"maxUnavailable": 1}, 3, 1, 0),
        ({"maxUnavailable": "100%"}, 3, 0, 3),
        ({"minAvailable": 0}, 2, 0, 2),
        ({"minAvailable": "²%"}, 2, 0, 0),  # a digit to Unicode, but no number
    ],
)
def test_evictions_stop_at_what_a_budget_allows(
    registry: Registry, spec: Object, pods: int, unready: int, allowed: int
) -> None:
    for number in range(pods):
        running(registry, f"p{number}", ready=number < pods - unready)
    budget(registry, **spec)
    evicted = 0
    for number in range(pods - unready):
        try:
            evict(registry, f"p{number}")
        except TooManyRequests:
            continue
        evicted += 1
    assert evicted == allowed


@pytest.mark.parametrize(
    ("policy", "healthy", "evicted"), [("", 2, True), ("", 1, False), ("AlwaysAllow", 1, True)]
)
def test_a_pod_that_is_not_ready(registry: Registry, policy: str, healthy: int, evicted: bool) -> None:
    running(registry, "p0", ready=False)
    for number in range(healthy):
        running(registry, f"p{number + 1}")
    budget(registry, minAvailable=2, **({"unhealthyPodEvictionPolicy": policy} if policy else {}))
    if evicted:
        evict(registry)
    else:
        with pytest.raises(TooManyRequests):
            evict(registry)


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_a_pod_that_does_not_run_needs_no_budget(registry: Registry, phase: str) -> None:
    bound(registry, "p0", phase, labels=LABELS)
    budget(registry, minAvailable=1)
    evict(registry)


def test_the_refusal_names_the_budget(registry: Registry) -> None:
    running(registry, "p0")
    budget(registry, minAvailable=1)
    with pytest.raises(TooManyRequests, match="violate the pod's disruption budget") as caught:
        evict(registry)
    assert caught.value.details is not None
    cause = caught.value.details["causes"][0]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget b needs 1 healthy pods and has 1 currently"


def test_two_budgets_for_one_pod(registry: Registry) -> None:
    running(registry, "p0")
    budget(registry, "a", minAvailable=0)
    budget(registry, "b", minAvailable=0)
    with pytest.raises(ServerError, match="more than one PodDisruptionBudget"):
        evict(registry)


@pytest.mark.parametrize(
    ("eviction", "error"),
    [
        ({"metadata": {"name": "q"}}, BadRequest),
        ({"metadata": "x"}, BadRequest),
        ({"deleteOptions": []}, BadRequest),
        ({"deleteOptions": {"preconditions": {"uid": "other"}}}, Conflict),
        ({"deleteOptions": {"preconditions": {"resourceVersion": "1"}}}, Conflict),
    ],
)
def test_evictions_that_are_refused(registry: Registry, eviction: Object, error: type[ApiError]) -> None:
    running(registry, "p0")
    with pytest.raises(error):
        evict(registry, obj=eviction)


def test_the_grace_may_be_given(registry: Registry) -> None:
    running(registry, "p0")
    after = evict(registry, obj={"deleteOptions": {"gracePeriodSeconds": 3}})
    assert after["metadata"]["deletionGracePeriodSeconds"] == 3


def test_a_budget_whose_selector_means_nothing_is_refused(registry: Registry) -> None:
    rule = {"key": "a", "operator": "Near"}
    with pytest.raises(Invalid, match=r'matchExpressions\[0\].operator: Unsupported value: "Near"'):
        budget(registry, selector={"matchExpressions": [rule]})
