"""Admission of JobSets: each rule once, on the smallest JobSet that breaks it."""

import copy
from typing import Any

import pytest

from muster.api.base import Object
from muster.api.rules import jobset as rules


def jobset(*replicated: Object, **spec: Any) -> Object:
    """A JobSet that is right but for what is given."""
    return rules.default(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "js", "namespace": "ns"},
            "spec": {"replicatedJobs": list(replicated) or [group("w")], **spec},
        }
    )


def group(name: str, *, job: Object | None = None, **fields: Any) -> Object:
    spec: Object = {"template": {"spec": {"containers": [{"name": "c"}]}}, **(job or {})}
    return {"name": name, "template": {"spec": spec}, **fields}


def errors(obj: Object, old: Object | None = None) -> list[str]:
    return [str(error) for error in rules.validate(obj, old)]


def test_defaults() -> None:
    spec = jobset(failurePolicy={"rules": [{"action": "FailJobSet"}, {"name": "mine"}, {}]})["spec"]
    assert spec["successPolicy"] == {"operator": "All"}
    assert spec["startupPolicy"] == {"startupPolicyOrder": "AnyOrder"}
    assert spec["network"] == {
        "enableDNSHostnames": True,
        "publishNotReadyAddresses": True,
        "subdomain": "js",
    }
    assert spec["failurePolicy"]["restartStrategy"] == "Recreate"
    assert [rule["name"] for rule in spec["failurePolicy"]["rules"]] == [
        "failurePolicyRule0",
        "mine",
        "failurePolicyRule2",
    ]
    (replicated,) = spec["replicatedJobs"]
    assert (replicated["replicas"], replicated["groupName"]) == (1, "default")
    assert replicated["template"]["spec"]["completionMode"] == "Indexed"
    assert replicated["template"]["spec"]["template"]["spec"]["restartPolicy"] == "OnFailure"


def test_defaults_keep_given_fields_and_a_second_pass_changes_nothing() -> None:
    said = jobset(
        group("w", replicas=0, groupName="g", job={"completionMode": "NonIndexed"}),
        network={"enableDNSHostnames": False, "subdomain": "other", "publishNotReadyAddresses": False},
    )
    assert rules.default(copy.deepcopy(said)) == said
    assert said["spec"]["network"]["subdomain"] == "other"
    assert said["spec"]["replicatedJobs"][0]["replicas"] == 0


@pytest.mark.parametrize(
    "obj",
    [
        jobset(),
        {**jobset(), "spec": rules.default({"metadata": {"name": "js"}, "spec": {}})["spec"]},
        jobset(group("a"), group("b", dependsOn=[{"name": "a", "status": "Ready"}])),
        jobset(group("a", replicas=0), startupPolicy={"startupPolicyOrder": "InOrder"}),
        jobset(managedBy="kueue.x-k8s.io/multikueue"),
        jobset(failurePolicy={"maxRestarts": 0, "rules": [{"action": "RestartJob", "name": "A:b,c_1"}]}),
        jobset(
            group("w", replicas=2, job={"completions": 3}),
            coordinator={"replicatedJob": "w", "jobIndex": 1, "podIndex": 2},
        ),
    ],
)
def test_right_ones_are_accepted(obj: Object) -> None:
    assert errors(obj) == []


RULES: list[tuple[Object, str, str]] = [
    (jobset(group("w"), group("w")), "spec.replicatedJobs[1].name", "Duplicate"),
    (jobset(group("W")), "spec.replicatedJobs[0].name", '"js-W-0", and a DNS-1035 label'),
    (jobset(group("w" * 59)), "spec.replicatedJobs[0].name", "at most 63 characters: 1 too many"),
    (
        jobset(group("w" * 50, replicas=11, job={"completions": 100})),
        "spec.replicatedJobs[0].name",
        f'its pods would be called "js-{"w" * 50}-10-99-abcde", and a DNS label has at most 63',
    ),
    (jobset(group("w", replicas=-1)), "spec.replicatedJobs[0].replicas", "must not be negative"),
    (
        jobset(group("w", replicas=2**16, job={"parallelism": 2**15, "completions": 1})),
        "spec.replicatedJobs[0].replicas",
        "2147483647",
    ),
    (jobset(group("w", groupName="G")), "spec.replicatedJobs[0].groupName", "DNS-1035"),
    (
        jobset(group("a", dependsOn=[{"name": "a", "status": "Ready"}])),
        "spec.replicatedJobs[0].dependsOn",
        "first",
    ),
    (
        jobset(group("a"), group("b", dependsOn=[{"name": "b", "status": "Ready"}])),
        "spec.replicatedJobs[1].dependsOn[0].name",
        "before this one",
    ),
    (
        jobset(group("a"), group("b", dependsOn=[{"name": "a", "status": "Done"}])),
        "spec.replicatedJobs[1].dependsOn[0].status",
        'supported values: "Ready", "Complete"',
    ),
    (
        jobset(group("a"), group("b", dependsOn=[{"name": "a", "status": "Ready"}] * 6)),
        "spec.replicatedJobs[1].dependsOn",
        "at most 5",
    ),
    (
        jobset(
            group("a"),
            group("b", dependsOn=[{"name": "a", "status": "Ready"}]),
            startupPolicy={"startupPolicyOrder": "InOrder"},
        ),
        "spec.replicatedJobs[1].dependsOn",
        "exclude each other",
    ),
    (jobset(network={"subdomain": "a.b"}), "spec.network.subdomain", "DNS-1035"),
    (jobset(network={"subdomain": "1a"}), "spec.network.subdomain", "DNS-1035"),
    (jobset(managedBy="nobody"), "spec.managedBy", "domain"),
    (jobset(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished", "negative"),
    (jobset(successPolicy={"operator": "Most"}), "spec.successPolicy.operator", '"All", "Any"'),
    (
        jobset(successPolicy={"operator": "All", "targetReplicatedJobs": ["x"]}),
        "spec.successPolicy.targetReplicatedJobs[0]",
        "no replicatedJob",
    ),
    (
        jobset(startupPolicy={"startupPolicyOrder": "Backwards"}),
        "spec.startupPolicy.startupPolicyOrder",
        "InOrder",
    ),
    (
        jobset(failurePolicy={"restartStrategy": "InPlaceRestart"}),
        "spec.failurePolicy.restartStrategy",
        'muster restarts by "Recreate"',
    ),
    (jobset(failurePolicy={"restartStrategy": "No"}), "spec.failurePolicy.restartStrategy", "Unsupported"),
    (jobset(failurePolicy={"maxRestarts": -1}), "spec.failurePolicy.maxRestarts", "negative"),
    (
        jobset(failurePolicy={"rules": [{"action": "Explode"}]}),
        "spec.failurePolicy.rules[0].action",
        "FailJobSet",
    ),
    (
        jobset(failurePolicy={"rules": [{"action": "FailJobSet", "name": "a-b"}]}),
        "spec.failurePolicy.rules[0].name",
        "1 to 128",
    ),
    (
        jobset(failurePolicy={"rules": [{"action": "FailJobSet", "name": "a"}] * 2}),
        "spec.failurePolicy.rules[1].name",
        "Duplicate",
    ),
    (
        jobset(failurePolicy={"rules": [{"action": "FailJobSet", "onJobFailureReasons": ["Bad"]}]}),
        "spec.failurePolicy.rules[0].onJobFailureReasons[0]",
        "BackoffLimitExceeded",
    ),
    (
        jobset(failurePolicy={"rules": [{"action": "FailJobSet", "targetReplicatedJobs": ["x"]}]}),
        "spec.failurePolicy.rules[0].targetReplicatedJobs[0]",
        "no replicatedJob",
    ),
    (
        jobset(group("w", replicas=1025), failurePolicy={"rules": [{"action": "RestartJob"}]}),
        "spec.failurePolicy.rules[0].action",
        "w has 1025",
    ),
    (jobset(coordinator={"replicatedJob": "x"}), "spec.coordinator.replicatedJob", "no replicatedJob"),
    (
        jobset(group("w", job={"completions": 1}), coordinator={"replicatedJob": "w", "jobIndex": 1}),
        "spec.coordinator.jobIndex",
        "w has 1 Jobs",
    ),
    (
        jobset(group("w", job={"completions": 1}), coordinator={"replicatedJob": "w", "podIndex": 1}),
        "spec.coordinator.podIndex",
        "counted from 0",
    ),
    (jobset(coordinator={"replicatedJob": "w"}), "spec.coordinator.replicatedJob", "completions"),
    (
        jobset(
            group("w", job={"completions": 1}),
            network={"subdomain": "s" * 60},
            coordinator={"replicatedJob": "w"},
        ),
        "spec.coordinator",
        "6 more than 63",
    ),
    (jobset(volumeClaimPolicies=[{}]), "spec.volumeClaimPolicies", "makes no volume claims"),
    (
        jobset(group("w", job={"backoffLimit": -1})),
        "spec.replicatedJobs[0].template.spec.backoffLimit",
        "greater than or equal to 0",
    ),
    (
        jobset(group("w", job={"parallelism": 2})),
        "spec.replicatedJobs[0].template.spec.completions",
        "has one index for each completion",
    ),
    (
        jobset(group("w", job={"template": {"spec": {"restartPolicy": "Never"}}})),
        "spec.replicatedJobs[0].template.spec.template.spec.containers",
        "at least one container",
    ),
    (
        jobset(group("w", job={"template": {"spec": []}})),
        "spec.replicatedJobs[0].template.spec.template.spec",
        "array",
    ),
    (
        jobset({"name": "w", "template": {"metadata": [], "spec": {}}}),
        "spec.replicatedJobs[0].template.metadata",
        "array",
    ),
    (
        jobset({"name": "w", "template": {"spec": 5}}),
        "spec.replicatedJobs[0].template.spec",
        "int",
    ),
    (
        jobset(group("w", job={"parallelism": "two"})),
        "spec.replicatedJobs[0].template.spec.parallelism",
        "int",
    ),
]


@pytest.mark.parametrize(("obj", "field", "part"), RULES, ids=[f"{field}-{part}" for _, field, part in RULES])
def test_invalid_rules_are_refused_with_their_field(obj: Object, field: str, part: str) -> None:
    (error,) = errors(obj)
    assert error.startswith(f"{field}: ")
    assert part in error


@pytest.mark.parametrize(
    ("annotation", "value", "part"),
    [
        ("muster.dev/deadline", "soon", "write for example"),
        ("muster.dev/restart-budget", "-1", 'such as "5"'),
        ("alpha.jobset.sigs.k8s.io/exclusive-topology", "rack", "exclusive placement"),
    ],
)
def test_annotations(annotation: str, value: str, part: str) -> None:
    obj = jobset()
    obj["metadata"]["annotations"] = {annotation: value}
    (error,) = errors(obj)
    assert error.startswith("metadata.annotations.")
    assert part in error


def test_a_mark_may_be_a_label() -> None:
    obj = jobset()
    obj["metadata"]["labels"] = {"muster.dev/deadline": "soon", "muster.dev/restart-budget": "few"}
    assert [error.partition(": ")[0] for error in errors(obj)] == [
        "metadata.labels.muster.dev/deadline",
        "metadata.labels.muster.dev/restart-budget",
    ]


def test_exclusive_placement_of_one_group() -> None:
    obj = jobset()
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    obj["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"annotations": {key: "rack"}}
    (error,) = errors(obj)
    assert error.startswith("spec.replicatedJobs[0].template.metadata.annotations")


def test_generated_names_are_measured_with_what_is_appended() -> None:
    obj = jobset(group("w" * 53))
    obj["metadata"] = {"generateName": "js-", "namespace": "ns"}
    (error,) = errors(obj)
    assert f'"js-abcde-{"w" * 53}-0"' in error


def test_all_errors_of_a_jobset_are_reported_at_once() -> None:
    obj = jobset(group("W", replicas=-1), ttlSecondsAfterFinished=-1, managedBy="x")
    assert len(errors(obj)) == 4


def changed(path: str, value: Any, **spec: Any) -> tuple[Object, Object]:
    old = jobset(failurePolicy={"maxRestarts": 1}, **spec)
    new = copy.deepcopy(old)
    *steps, last = path.split(".")
    parent = new["spec"]
    for step in steps:
        parent = parent[0] if step == "0" else parent.setdefault(step, {})
    parent[last] = value
    return new, old


POD_TEMPLATE = "replicatedJobs.0.template.spec.template"


@pytest.mark.parametrize(
    ("path", "value", "running", "suspended"),
    [
        ("suspend", True, True, True),
        ("ttlSecondsAfterFinished", 5, True, True),
        ("coordinator", None, True, True),
        ("managedBy", "kueue.x-k8s.io/multikueue", False, False),
        ("network.subdomain", "other", False, False),
        ("successPolicy.operator", "Any", False, False),
        ("failurePolicy.maxRestarts", 2, False, False),
        ("startupPolicy.startupPolicyOrder", "InOrder", False, False),
        ("replicatedJobs.0.replicas", 2, False, False),
        ("replicatedJobs.0.template.spec.parallelism", 2, False, False),
        (f"{POD_TEMPLATE}.spec.containers", [{"name": "c", "image": "i"}], False, False),
        (f"{POD_TEMPLATE}.metadata.labels", {"a": "b"}, False, True),
        (f"{POD_TEMPLATE}.metadata.annotations", {"a": "b"}, False, True),
        (f"{POD_TEMPLATE}.spec.nodeSelector", {"a": "b"}, False, True),
        (f"{POD_TEMPLATE}.spec.tolerations", [{"operator": "Exists"}], False, True),
        (f"{POD_TEMPLATE}.spec.schedulingGates", [{"name": "g"}], False, True),
    ],
)
def test_changes(path: str, value: Any, running: bool, suspended: bool) -> None:
    assert (not errors(*changed(path, value))) is running
    assert (not errors(*changed(path, value, suspend=True))) is suspended


def test_resuming_may_bring_directives_in_the_same_write() -> None:
    new, old = changed(f"{POD_TEMPLATE}.spec.nodeSelector", {"a": "b"}, suspend=True)
    new["spec"]["suspend"] = False
    assert errors(new, old) == []


def test_a_policy_may_be_added_later() -> None:
    old = jobset()
    new = copy.deepcopy(old)
    new["spec"]["failurePolicy"] = {"maxRestarts": 1, "restartStrategy": "Recreate"}
    assert errors(new, old) == []
