import copy
from typing import Any

import pytest

from muster.api.base import Object
from muster.api.fields import InvalidObject
from muster.api.rules.job import default, validate

UID = "0b1e"


def job(*, labels: Object | None = None, pod: Object | None = None, **spec: Any) -> Object:  # Any: JSON
    """A Job as it was sent."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main"}], **(pod or {})}}
    if labels is not None:
        template["metadata"] = {"labels": labels}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml", "uid": UID},
        "spec": {"template": template, **spec},
    }


def errors(obj: Object) -> list[str]:
    return [str(error) for error in validate(default(obj), None)]


def changes(change: Any, **spec: Any) -> list[str]:  # Any: a function that edits JSON
    old = default(job(**spec))
    new = copy.deepcopy(old)
    change(new)
    return [str(error) for error in validate(default(new), old)]


def indexed(**spec: Any) -> Object:
    return job(**{"completionMode": "Indexed", "completions": 5, **spec})


def test_numbers_have_kubernetes_types() -> None:
    with pytest.raises(InvalidObject, match=r"spec.completions: Expected `int` <= 2147483647"):
        errors(job(completions=2**31))


def test_defaults() -> None:
    obj = default(job(labels={"app": "x"}))
    template = obj["spec"].pop("template")
    assert obj["metadata"]["labels"] == {"app": "x"}
    assert obj["spec"] == {
        "completions": 1,
        "parallelism": 1,
        "completionMode": "NonIndexed",
        "backoffLimit": 6,
        "suspend": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}},
    }
    assert template["metadata"]["labels"] == {
        "app": "x",
        "batch.kubernetes.io/job-name": "train",
        "batch.kubernetes.io/controller-uid": UID,
        "job-name": "train",
        "controller-uid": UID,
    }
    assert errors(job()) == []


@pytest.mark.parametrize(
    ("given", "completions", "parallelism"),
    [({}, 1, 1), ({"parallelism": 3}, None, 3), ({"completions": 3}, 3, 1), ({"completions": 0}, 0, 1)],
)
def test_default_counts(given: Object, completions: int | None, parallelism: int) -> None:
    spec = default(job(**given))["spec"]
    assert (spec.get("completions"), spec["parallelism"]) == (completions, parallelism)


def test_defaults_that_follow_from_others() -> None:
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    spec = default(indexed(backoffLimitPerIndex=1, podFailurePolicy={"rules": rules}))["spec"]
    assert spec["backoffLimit"] == 2**31 - 1
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] == "True"


def test_defaulting_twice_changes_nothing() -> None:
    once = default(job(labels={"app": "x"}))
    assert default(copy.deepcopy(once)) == once


def exit_codes(*values: int, action: str = "FailJob", operator: str = "In", **more: Any) -> Object:
    return {
        "rules": [{"action": action, "onExitCodes": {"operator": operator, "values": list(values), **more}}]
    }


ON_CONDITION = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}


@pytest.mark.parametrize(
    ("obj", "error"),
    [
        (job(parallelism=-1), "spec.parallelism: Invalid value: -1"),
        (job(completions=-1), "spec.completions: Invalid value: -1"),
        (job(activeDeadlineSeconds=2**31), "spec.activeDeadlineSeconds: Invalid value: 2147483648"),
        (job(backoffLimit=-1), "spec.backoffLimit: Invalid value: -1"),
        (job(activeDeadlineSeconds=-1), "spec.activeDeadlineSeconds: Invalid value: -1"),
        (job(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished: Invalid value: -1"),
        (job(pod={"restartPolicy": "Always"}), 'restartPolicy: Unsupported value: "Always"'),
        (job(pod={"containers": []}), "spec.template.spec.containers: Required value"),
        (job(pod={"containers": "main"}), "spec.template.spec.containers: Expected `array`"),
        (job(labels={"a": "b c"}), 'spec.template.metadata.labels.a: Invalid value: "b c"'),
        (job(completionMode="Other"), 'spec.completionMode: Unsupported value: "Other"'),
        (job(completionMode="Indexed", parallelism=2), "spec.completions: Required value"),
        (indexed(parallelism=100_001), "spec.parallelism: Invalid value: 100001"),
        (indexed(podReplacementPolicy="Never"), 'spec.podReplacementPolicy: Unsupported value: "Never"'),
        (job(managedBy="me"), 'spec.managedBy: Invalid value: "me"'),
        (job(backoffLimitPerIndex=1), "spec.backoffLimitPerIndex: Forbidden"),
        (job(maxFailedIndexes=1), "spec.maxFailedIndexes: Forbidden"),
        (job(successPolicy={"rules": [{"succeededCount": 1}]}), "spec.successPolicy: Forbidden"),
        (indexed(maxFailedIndexes=1), "spec.backoffLimitPerIndex: Required value"),
        (indexed(backoffLimitPerIndex=-1), "spec.backoffLimitPerIndex: Invalid value: -1"),
        (
            indexed(backoffLimitPerIndex=1, maxFailedIndexes=6),
            "spec.maxFailedIndexes: Invalid value: 6: must be at most 5",
        ),
        (
            indexed(backoffLimitPerIndex=1, pod={"restartPolicy": "OnFailure"}),
            "spec.template.spec.restartPolicy: Invalid value: backoffLimitPerIndex",
        ),
        (
            indexed(backoffLimitPerIndex=1, completions=100_001),
            "spec.maxFailedIndexes: Required value",
        ),
        (
            indexed(backoffLimitPerIndex=1, completions=100_001, maxFailedIndexes=10_001),
            "spec.maxFailedIndexes: Invalid value: 10001: must be at most 10000",
        ),
        (
            indexed(backoffLimitPerIndex=1, completions=100_001, maxFailedIndexes=1, parallelism=10_001),
            "spec.parallelism: Invalid value: 10001: must be at most 10000",
        ),
        (job(selector={"matchLabels": {"app": "x"}}), "spec.selector: Invalid value"),
        (job(manualSelector=True), "spec.selector: Required value"),
        (
            job(manualSelector=True, selector={"matchLabels": {"app": "x"}}),
            "spec.template.metadata.labels: Invalid value",
        ),
        (
            job(podFailurePolicy=exit_codes(1), pod={"restartPolicy": "OnFailure"}),
            "spec.podFailurePolicy: Invalid value: only for restartPolicy Never",
        ),
        (
            job(podFailurePolicy=exit_codes(1), podReplacementPolicy="TerminatingOrFailed"),
            'spec.podReplacementPolicy: Invalid value: "TerminatingOrFailed"',
        ),
        (job(podFailurePolicy=exit_codes()), "values: Invalid value: at least one"),
        (job(podFailurePolicy=exit_codes(2, 1)), "values: Invalid value: write each exit code once"),
        (job(podFailurePolicy=exit_codes(1, 1)), "values: Invalid value: write each exit code once"),
        (job(podFailurePolicy=exit_codes(0, 1)), "values: Invalid value: 0 is success"),
        (job(podFailurePolicy=exit_codes(*range(1, 257))), "values: Too many: 256, at most 255"),
        (job(podFailurePolicy=exit_codes(1, operator="Is")), 'operator: Unsupported value: "Is"'),
        (job(podFailurePolicy=exit_codes(1, containerName="x")), 'containerName: Invalid value: "x"'),
        (job(podFailurePolicy=exit_codes(1, action="Stop")), 'action: Unsupported value: "Stop"'),
        (job(podFailurePolicy=exit_codes(1, action="FailIndex")), "FailIndex needs backoffLimitPerIndex"),
        (job(podFailurePolicy={"rules": [{"action": "Count"}]}), "rules[0]: Invalid value: write either"),
        (job(podFailurePolicy={"rules": [ON_CONDITION] * 21}), "rules: Too many: 21, at most 20"),
        (
            job(podFailurePolicy={"rules": [{"action": "Ignore", "onPodConditions": [{"type": "a b"}]}]}),
            'onPodConditions[0].type: Invalid value: "a b"',
        ),
        (indexed(successPolicy={"rules": []}), "spec.successPolicy.rules: Required value"),
        (indexed(successPolicy={"rules": [{}]}), "rules[0]: Required value: write succeededIndexes"),
        (indexed(successPolicy={"rules": [{"succeededIndexes": "3-5"}]}), "index 5 is beyond the last, 4"),
        (indexed(successPolicy={"rules": [{"succeededIndexes": "3,1"}]}), "indexes must ascend"),
        (indexed(successPolicy={"rules": [{"succeededIndexes": ""}]}), "at least one index is needed"),
        (indexed(successPolicy={"rules": [{"succeededCount": 0}]}), "succeededCount: Invalid value: 0"),
        (indexed(successPolicy={"rules": [{"succeededCount": 6}]}), "must be from 1 to 5 (the completions)"),
        (
            indexed(successPolicy={"rules": [{"succeededIndexes": "0,1", "succeededCount": 3}]}),
            "must be from 1 to 2 (the number of succeededIndexes)",
        ),
    ],
)
def test_refused(obj: Object, error: str) -> None:
    assert error in "\n".join(errors(obj))


@pytest.mark.parametrize(
    "obj",
    [
        job(pod={"restartPolicy": "OnFailure"}),
        indexed(backoffLimitPerIndex=1, maxFailedIndexes=5),
        indexed(podFailurePolicy=exit_codes(0, 1, operator="NotIn", containerName="main")),
        indexed(podFailurePolicy={"rules": [ON_CONDITION]}),
        indexed(successPolicy={"rules": [{"succeededIndexes": "0,2-4", "succeededCount": 4}]}),
        job(managedBy="example.com/controller"),
        job(manualSelector=True, selector={"matchLabels": {"app": "x"}}, labels={"app": "x"}),
    ],
)
def test_accepted(obj: Object) -> None:
    assert errors(obj) == []


def test_host_names_that_are_too_long() -> None:
    obj = indexed(completions=101)
    obj["metadata"]["name"] = "j" * 60
    (error,) = errors(obj)
    assert error.startswith("metadata.name: Invalid value")
    assert error.endswith("shorten it by 1")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("completionMode", "Indexed"),
        ("selector", {"matchLabels": {}}),
        ("podFailurePolicy", {"rules": [ON_CONDITION]}),
        ("backoffLimitPerIndex", 1),
        ("successPolicy", {"rules": [{"succeededCount": 1}]}),
        ("managedBy", "example.com/x"),
        ("completions", 2),
    ],
)
def test_fixed_fields(field: str, value: object) -> None:
    found = changes(lambda new: new["spec"].update({field: value}))
    assert any(error.startswith(f"spec.{field}: Invalid value: field is immutable") for error in found)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("parallelism", 4),
        ("suspend", True),
        ("activeDeadlineSeconds", 5),
        ("ttlSecondsAfterFinished", 5),
        ("backoffLimit", 1),
    ],
)
def test_fields_that_may_change(field: str, value: object) -> None:
    assert changes(lambda new: new["spec"].update({field: value})) == []


def test_elastic_indexed_jobs() -> None:
    shape = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}
    assert changes(lambda new: new["spec"].update(completions=2, parallelism=2), **shape) == []
    assert changes(lambda new: new["spec"].update(completions=2), **shape) != []


def move(new: Object) -> None:
    template = new["spec"]["template"]
    template["metadata"]["labels"]["zone"] = "a"
    template["spec"] |= {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"operator": "Exists"}],
        "schedulingGates": [],
        "affinity": {"nodeAffinity": {}},
    }


@pytest.mark.parametrize(
    ("suspend", "status", "accepted"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"startTime": "2030-01-01T00:00:00Z"}, False),
        (True, {"startTime": "x", "conditions": [{"type": "Suspended", "status": "True"}]}, True),
        (
            True,
            {"startTime": "x", "active": 1, "conditions": [{"type": "Suspended", "status": "True"}]},
            False,
        ),
    ],
)
def test_where_pods_run_may_change_while_there_are_none(
    suspend: bool, status: Object, accepted: bool
) -> None:
    old = default(job(suspend=suspend)) | {"status": status}
    new = copy.deepcopy(old)
    move(new)
    new["spec"]["suspend"] = False
    assert (validate(new, old) == []) is accepted


def test_a_running_job_may_not_change_even_then() -> None:
    def image(new: Object) -> None:
        new["spec"]["template"]["spec"]["containers"][0]["image"] = "other"

    (error,) = changes(image, suspend=True)
    assert error.startswith("spec.template: Invalid value: field is immutable, except for labels")


@pytest.mark.parametrize("template", [{"metadata": []}, {"metadata": {"labels": []}}, {"spec": []}])
def test_types_of_the_template_are_reported(template: Object) -> None:
    obj = job()
    obj["spec"]["template"] = template
    assert any("spec.template" in error for error in errors(obj))
