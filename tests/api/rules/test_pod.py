from typing import Any, Final

import pytest

from muster.api.rules.pod import default, validate, validate_spec

IP: Final = {"fieldRef": {"fieldPath": "status.podIP"}}


def spec(**fields: Any) -> Any:
    return {"containers": [{"name": "main"}], **fields}


def container(**fields: Any) -> Any:
    return spec(containers=[{"name": "main", **fields}])


def test_defaults() -> None:
    limits = {"cpu": "2", "memory": "1Gi"}
    obj = {"spec": container(resources={"limits": limits, "requests": {"cpu": "1"}})}
    made = default(obj)["spec"]
    assert made["restartPolicy"] == "Always"
    assert made["dnsPolicy"] == "ClusterFirst"
    assert made["schedulerName"] == "default-scheduler"
    assert made["terminationGracePeriodSeconds"] == 30
    assert made["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}


def test_defaults_keep_the_given_fields_of_a_pod() -> None:
    given = spec(restartPolicy="Never", schedulerName="muster", terminationGracePeriodSeconds=0)
    made = default({"spec": dict(given)})["spec"]
    assert {key: made[key] for key in given} == given


@pytest.mark.parametrize(
    "good",
    [
        spec(),
        container(resources={"limits": {"nvidia.com/gpu": 1, "cpu": "500m"}, "requests": {"cpu": 0.5}}),
        container(env=[{"name": "A", "value": "1"}, {"name": "B", "valueFrom": IP}, {"name": "c.d"}]),
        spec(tolerations=[{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoSchedule"}]),
        spec(
            volumes=[{"name": "v"}],
            initContainers=[{"name": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        ),
        spec(nodeSelector={"nvidia.com/gpu.product": "A100"}, hostname="a", subdomain="b"),
    ],
)
def test_specs_that_are_accepted(good: Any) -> None:
    assert validate_spec(good, ("spec",)) == []


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({}, "spec.containers: Required value"),
        (spec(restartPolicy="Sometimes"), 'spec.restartPolicy: Unsupported value: "Sometimes"'),
        (spec(terminationGracePeriodSeconds=-1), "spec.terminationGracePeriodSeconds: Invalid value: -1"),
        (spec(activeDeadlineSeconds=0), "spec.activeDeadlineSeconds: Invalid value: 0"),
        (spec(hostname="A_b"), 'spec.hostname: Invalid value: "A_b"'),
        (spec(subdomain="x" * 64), "spec.subdomain: Invalid value"),
        (spec(nodeSelector={"a b": "c"}), 'spec.nodeSelector: Invalid value: "a b"'),
        (spec(containers=[{"name": "Main"}]), 'spec.containers[0].name: Invalid value: "Main"'),
        (spec(initContainers=[{"name": "main"}]), 'spec.containers[0].name: Duplicate value: "main"'),
        (spec(volumes=[{"name": "v"}, {"name": "v"}]), 'spec.volumes[1].name: Duplicate value: "v"'),
        (container(volumeMounts=[{"name": "v", "mountPath": "/v"}]), 'volumeMounts[0].name: Not found: "v"'),
        (container(env=[{"value": "x"}]), "spec.containers[0].env[0].name: Invalid value"),
        (
            container(env=[{"name": "A", "value": 5}]),
            'env[0].value: Invalid value: must be a string; write "5"',
        ),
        (container(env=[{"name": "A", "value": "5", "valueFrom": {"a": 1}}]), "env[0].valueFrom"),
        (container(resources={"limits": {"cpu": "a lot"}}), "resources.limits.cpu: Invalid value: 'a lot'"),
        (container(resources={"limits": {"cpu": -1}}), "must be greater than or equal to 0"),
        (
            container(resources={"limits": {"cpu": 1}, "requests": {"cpu": 2}}),
            "requests.cpu: Invalid value: 2: must be less than or equal to cpu limit of 1",
        ),
        (
            container(resources={"limits": {"a.b/c": 2}, "requests": {"a.b/c": 1}}),
            "requests.a.b/c: Invalid value: 1: must be equal to a.b/c limit of 2",
        ),
        (container(resources={"limits": {"nvidia.com/gpu": "500m"}}), "must be an integer"),
        (spec(tolerations=[{"operator": "Maybe", "key": "a"}]), "tolerations[0].operator: Unsupported value"),
        (spec(tolerations=[{"value": "a"}]), "must be Exists when `key` is empty"),
        (spec(tolerations=[{"operator": "Exists", "value": "a"}]), "tolerations[0].value"),
        (spec(tolerations=[{"key": "a", "effect": "Now"}]), 'effect: Unsupported value: "Now"'),
    ],
)
def test_specs_that_are_refused(bad: Any, error: str) -> None:
    errors = [str(found) for found in validate_spec(bad, ("spec",))]
    assert any(error in found for found in errors), errors


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ({}, {"activeDeadlineSeconds": 5}, ""),
        ({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 4}, ""),
        ({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 6}, "less than or equal to 5"),
        ({"activeDeadlineSeconds": 5}, {}, "less than or equal to 5"),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "a"}, {"key": "b"}]}, ""),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, "existing tolerations"),
        ({"schedulingGates": [{"name": "a"}]}, {}, ""),
        ({}, {"schedulingGates": [{"name": "a"}]}, "only removal is allowed"),
        ({}, {"nodeName": "n"}, "may not change fields other than"),
        ({}, {"priority": 5}, "may not change fields other than"),
        ({}, {"containers": [{"name": "main", "image": "new"}]}, ""),
        ({}, {"containers": [{"name": "main", "command": ["x"]}]}, "may not change fields other than"),
    ],
)
def test_an_update_of_a_pod_may_change_few_fields(old: Any, new: Any, error: str) -> None:
    found = [str(e) for e in validate({"spec": spec(**new)}, {"spec": spec(**old)})]
    assert (error in found[0] and len(found) == 1) if error else not found, found
