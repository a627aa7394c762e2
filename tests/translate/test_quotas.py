"""ResourceQuotas as the core is told of them: what they charge to which pods, and what they have left."""

from typing import Any

import msgspec
import pytest

from muster import names
from muster.api import groups
from muster.api.base import Object
from muster.api.core_v1 import ResourceQuota
from muster.api.kinds import RESOURCE_QUOTA
from muster.core.words.gang import Code
from muster.translate.identity import GroupKey
from muster.translate.quotas import charged, counts_itself, refusal, room
from muster.translate.touched import keys_touched
from tests.translate.cluster import job, pod, pod_spec, read, spec, world

KEY = GroupKey(groups.JOB, "ns", "j")


def quota(hard: Object, used: Object | None = None, **fields: Any) -> ResourceQuota:  # Any: JSON
    body = {
        "metadata": {"name": "q", "namespace": "ns"},
        "spec": {"hard": hard, **fields},
        "status": {"used": used or {}},
    }
    return msgspec.convert(body, ResourceQuota)


def containers(requests: Object, limits: Object | None = None, **fields: Any) -> Object:  # Any: JSON
    return {
        "containers": [{"name": "c", "resources": {"requests": requests, "limits": limits or {}}}],
        **fields,
    }


@pytest.mark.parametrize(
    ("hard", "pod_spec", "expected"),
    [
        ({"pods": 4}, containers({}), {"pods": 1}),
        ({"count/pods": 4, "services": 1, "count/jobs.batch": 2}, containers({}), {"count/pods": 1}),
        (
            {"cpu": 4, "requests.memory": "1Gi"},
            containers({"cpu": "500m", "memory": "1Gi"}),
            {
                "cpu": 500,
                "requests.memory": 2**30,
            },
        ),
        ({"limits.cpu": 4}, containers({"cpu": 1}, {"cpu": 2}), {"limits.cpu": 2000}),
        ({"requests.nvidia.com/gpu": 8}, containers({"nvidia.com/gpu": 2}), {"requests.nvidia.com/gpu": 2}),
        ({"requests.storage": "1Gi", "persistentvolumeclaims": 3}, containers({}), None),
    ],
)
def test_a_quota_charges_the_resources_that_it_limits(
    hard: Object, pod_spec: Object, expected: dict[str, int] | None
) -> None:
    found = charged([quota(hard)], spec(pod_spec))
    assert {name: dict(amounts) for name, amounts in found} == ({"q": expected} if expected else {})


ACROSS = "CrossNamespacePodAffinity"


def apart(**fields: Any) -> Object:  # Any: fields of a term, as JSON
    term = {"topologyKey": "zone", **fields}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@pytest.mark.parametrize(
    ("fields", "pod_spec", "counts"),
    [
        ({"scopes": ["BestEffort"]}, containers({}), True),
        ({"scopes": ["BestEffort"]}, containers({"cpu": 1}), False),
        ({"scopes": ["NotBestEffort"]}, containers({}, {"memory": 1}), True),
        ({"scopes": ["Terminating"]}, containers({}, activeDeadlineSeconds=5), True),
        ({"scopes": ["Terminating"]}, containers({}), False),
        ({"scopes": ["NotTerminating", "BestEffort"]}, containers({}), True),
        ({"scopes": ["PriorityClass"]}, containers({}, priorityClassName="high"), True),
        ({"scopes": ["PriorityClass"]}, containers({}), False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, containers({}, affinity=apart()), False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, containers({}, affinity=apart(namespaces=["x"])), True),
        (
            {"scopes": ["CrossNamespacePodAffinity"]},
            containers({}, affinity=apart(namespaceSelector={})),
            True,
        ),
    ],
)
def test_scopes(fields: Object, pod_spec: Object, counts: bool) -> None:
    assert bool(charged([quota({"pods": 4}, **fields)], spec(pod_spec))) is counts


@pytest.mark.parametrize(
    ("operator", "values", "name", "counts"),
    [
        ("In", ["high"], "high", True),
        ("In", ["high"], "low", False),
        ("NotIn", ["high"], "low", True),
        ("Exists", [], "low", True),
        ("Exists", [], "", False),
        ("DoesNotExist", [], "", True),
    ],
)
def test_scopes_of_priority(operator: str, values: list[str], name: str, counts: bool) -> None:
    match = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    one = quota({"pods": 4}, scopeSelector={"matchExpressions": [match]})
    assert bool(charged([one], spec(containers({}, priorityClassName=name)))) is counts


def test_an_unknown_scope_is_refused_by_name() -> None:
    gate = refusal([quota({"pods": 4}, scopes=["Unheard"])], spec(containers({})))
    assert gate is not None
    assert gate.code is Code.INVALID
    assert "has the scope Unheard, which muster does not support" in gate.message


def test_pods_must_state_what_is_counted() -> None:
    gate = refusal([quota({"limits.memory": "1Gi"})], spec(containers({"memory": "1Mi"})))
    assert gate is not None
    assert gate.code is Code.QUOTA_EXCEEDED
    assert gate.message == "ResourceQuota q counts limits.memory; its pods must state resources.limits.memory"
    assert refusal([quota({"requests.nvidia.com/gpu": 1})], spec(containers({}))) is None


def test_the_room_of_a_quota_is_hard_minus_used() -> None:
    kept = quota({"pods": 4, "requests.cpu": "2500m"}, {"pods": 1, "requests.cpu": "1"})
    assert counts_itself(kept)
    assert room(kept, [])[0] == (("pods", 3), ("requests.cpu", 1500))
    assert room(quota({"pods": "many"}), []) == ((("pods", 0),), (("pods", 0),)), "nothing is made up"


def test_where_no_controller_counts_pods_are_counted() -> None:
    own = quota({"pods": 4, "requests.cpu": 8})
    pods = [pod("a", spec=pod_spec(2)), pod("b", spec=pod_spec(3)), pod("c", phase="Succeeded")]
    assert not counts_itself(own)
    assert room(own, pods)[0] == (("pods", 2), ("requests.cpu", 3000))


def test_a_suspended_jobs_pods_are_uncreated() -> None:
    suspended = job(gang="true", parallelism=3, completions=3, suspend=True, labels={names.ADMISSION: "gang"})
    group = read(KEY, world(suspended, quota({"pods": 2})))
    assert group is not None
    (pods,) = group.gang.pod_sets
    assert (pods.uncreated, pods.quotas) == (3, (("q", (("pods", 1),)),))
    made = read(KEY, world(suspended, quota({"pods": 2}), pod(owner=suspended, index=0)))
    assert made is not None
    assert made.gang.pod_sets[0].uncreated == 2
    free = read(KEY, world(suspended))
    assert free is not None
    assert (free.gang.pod_sets[0].uncreated, free.gang.pod_sets[0].quotas) == (0, ())


def test_groups_are_read_again_when_a_quotas_rules_change() -> None:
    one = job(gang="true")
    seen = world(one, quota({"pods": 2}))
    assert KEY in keys_touched(RESOURCE_QUOTA, None, quota({"pods": 2}), seen)
    assert not keys_touched(RESOURCE_QUOTA, quota({"pods": 2}, {"pods": 1}), quota({"pods": 2}), seen)
