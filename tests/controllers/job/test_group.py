"""The PodGroup and the Workload of a Job with `spec.scheduling`."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from muster.api import rules
from muster.api.base import Object
from muster.api.batch_v1 import Job
from muster.api.kinds import POD_GROUP_K8S, WORKLOAD
from muster.api.scheduling_v1beta1 import PodGroup
from muster.controllers.job.group import ensure
from muster.controllers.job.pods import group_name, plain_pods
from muster.effects import Create, Effect, Patch

GANG: Object = {"schedulingPolicy": {"gang": {}}}


def job(owners: Sequence[Object] = (), pods: Object | None = None, **spec: Any) -> Job:
    """A Job of four pods at once. Any: its spec, as JSON."""
    meta = {"name": "j", "namespace": "ns", "uid": "uid-j", "ownerReferences": [*owners]}
    body = {"parallelism": 4, "completions": 8, "template": {"spec": pods or {}}, **spec}
    return msgspec.convert({"metadata": meta, "spec": body}, Job)


def created(effects: list[Effect]) -> dict[str, Object]:
    """The bodies by kind, each as the API server would accept it."""
    found: dict[str, Object] = {}
    for effect in effects:
        assert isinstance(effect, Create)
        assert rules.validate(effect.kind, effect.body, None) == []
        found[effect.kind.kind] = effect.body
    return found


@pytest.mark.parametrize(
    ("scheduling", "policy"),
    [
        (GANG, {"gang": {"minCount": 4}}),
        ({"schedulingPolicy": {"gang": {"minCount": 2}}}, {"gang": {"minCount": 2}}),
        ({"schedulingPolicy": {"basic": {}}}, {"basic": {}}),
        ({"disruptionMode": {"all": {}}}, {"basic": {}}),
    ],
)
def test_a_job_with_the_field_gets_a_group_that_its_pods_name(scheduling: Object, policy: Object) -> None:
    one = job(scheduling=scheduling, pods={"priorityClassName": "high"})
    made = created(ensure(one, None))
    assert made.keys() == {"Workload", "PodGroup"}
    spec = made["PodGroup"]["spec"]
    assert spec["schedulingPolicy"] == policy
    assert spec["priorityClassName"] == "high"
    assert spec.get("disruptionMode") == scheduling.get("disruptionMode")
    (template,) = made["Workload"]["spec"]["podGroupTemplates"]
    assert spec["workloadRef"] == {"workloadName": group_name(one), "templateName": template["name"]}
    (owner,) = made["PodGroup"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Job", "uid-j", True)
    assert plain_pods(one)(0)["spec"]["schedulingGroup"] == {"podGroupName": group_name(one)}


def test_a_group_of_another_object_is_left_alone() -> None:
    one = job(scheduling=GANG)
    body = created(ensure(one, None))["PodGroup"]
    body["metadata"]["ownerReferences"][0]["uid"] = "another"
    group = msgspec.convert(body, PodGroup)
    assert ensure(job(scheduling=GANG, parallelism=3), group) == []


def test_a_group_that_exists_follows_the_minimum_of_the_job() -> None:
    one = job(scheduling=GANG)
    group = msgspec.convert(created(ensure(one, None))["PodGroup"], PodGroup)
    assert ensure(one, group) == []
    patches = ensure(job(scheduling=GANG, parallelism=3), group)
    assert [each.kind for each in patches if isinstance(each, Patch)] == [WORKLOAD, POD_GROUP_K8S]
    assert isinstance(patches[1], Patch)
    assert patches[1].body == {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}


@pytest.mark.parametrize(
    "other",
    [
        job(),
        job(scheduling=GANG, pods={"schedulingGroup": {"podGroupName": "own"}}),
        job(
            [
                {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s", "uid": "u"}
                | {"controller": True}
            ],
            scheduling=GANG,
        ),
    ],
    ids=["no field", "a group of its own", "a controller"],
)
def test_other_jobs_get_none(other: Job) -> None:
    assert ensure(other, None) == []
    assert plain_pods(other)(0)["spec"].get("schedulingGroup") in (None, {"podGroupName": "own"})
