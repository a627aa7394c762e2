"""What a job's metadata asks of others: no key is emitted that the policies have not been asked about."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster import names
from muster.api.base import Object
from muster.compiler import Facts
from muster.security.gates import permit
from muster.security.policies import Policies
from muster.workloads.batch import metadata
from tests.workloads.batch.jobs import changed, compiled, parsed, small

#: Stated again, so that a key is not made harmless by the way.
HARMLESS: Final = {
    *("app", "team", "owner", "description", "kubernetes.io/description"),
    "batch.kubernetes.io/cronjob-scheduled-timestamp",
    *(f"app.kubernetes.io/{each}" for each in ("name", "instance", "version", "component", "part-of")),
    *(f"muster.dev/{each}" for each in ("hold", "deadline", "restart-budget", "on-gpu-anomaly")),
    *("muster.dev/on-job-failure", "muster.dev/matrix"),
    *(f"muster.dev/{each}" for each in ("progress-rules", "progress-file", "checkpoint", "checkpoint-file")),
    "gang.scheduling.koordinator.sh/network-topology-spec",
}
OF_MUSTER: Final = [
    value for value in vars(names).values() if isinstance(value, str) and value.startswith("muster.dev/")
]
FOREIGN: Final = [
    *("kueue.x-k8s.io/queue-name", "volcano.sh/preemptable", "scheduling.volcano.sh/queue-name"),
    *("koordinator.sh/qosClass", "kai.scheduler/queue", "yunikorn.apache.org/task-groups", "queue"),
    *("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "priorityClassName"),
    *("gang.scheduling.koordinator.sh/groups", "alpha.jobset.sigs.k8s.io/exclusive-topology"),
    *("container.apparmor.security.beta.kubernetes.io/app", "seccomp.security.alpha.kubernetes.io/pod"),
    *("sidecar.istio.io/inject", "istio.io/dataplane-mode", "iam.amazonaws.com/role"),
    *("cluster-autoscaler.kubernetes.io/safe-to-evict", "eks.amazonaws.com/role-arn", "applicationId"),
]
KEYS: Final = st.sampled_from([*OF_MUSTER, *FOREIGN, *sorted(HARMLESS)]) | st.from_regex(
    r"([a-z]{1,8}\.[a-z]{2,3}/)?[a-zA-Z]{1,8}", fullmatch=True
)


def with_metadata(**fields: Any) -> str:
    text = yaml.safe_load(small())
    text["metadata"] |= fields
    return yaml.safe_dump(text)


def metadata_of(value: Any) -> Iterator[Object]:
    """Every metadata of an object, of its templates included."""
    if isinstance(value, dict):
        if isinstance(value.get("metadata"), dict):
            yield value["metadata"]
        for each in value.values():
            yield from metadata_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from metadata_of(each)


@pytest.mark.parametrize("target", ["muster", "native", "volcano"])
@given(
    labels=st.dictionaries(KEYS, st.sampled_from(["true", "false", "prod", "10"]), max_size=4),
    annotations=st.dictionaries(KEYS, st.sampled_from(["true", "1h", "rack"]), max_size=4),
    fewer=st.booleans(),
)
def test_every_key_that_is_emitted_has_been_asked_for_or_takes_nothing(
    target: str, labels: dict[str, str], annotations: dict[str, str], fewer: bool
) -> None:
    text = with_metadata(labels=labels, annotations=annotations)
    if fewer:
        text = changed(text, {"spec/tasks/work/replicas": 2, "spec/minAvailable": 1})
    _, findings = parsed(text)
    if findings:
        keys = {each.path[-1] for each in findings}
        assert keys <= {*labels, *annotations}
        return
    result = compiled(text, target=target)
    asked = {request.id for _, request in result.requests if request.action == "SetMetadata"}
    for each in [*result.support, *result.jobs]:
        for found in metadata_of(each):
            for field, given_ in (("labels", labels), ("annotations", annotations)):
                for key, value in (found.get(field) or {}).items():
                    if key in given_ and key not in HARMLESS:
                        assert f"{key}={value}" in asked
    denied = compiled(text, target=target, policies=Policies())
    refused = {each.fix for each in denied.problems}
    assert {permit(who, request) for who, request in result.requests} == refused


@pytest.mark.parametrize(
    ("key", "instead"),
    [
        (names.QUEUE, "spec.queue"),
        ("kueue.x-k8s.io/queue-name", "spec.queue"),
        (names.PRIORITY, "spec.priorityClassName"),
        (names.GANG, "spec.minAvailable"),
        ("scheduling.x-k8s.io/pod-group", "spec.minAvailable"),
        (names.GPU_SHARE, "a resource of type gpu with compute"),
        (names.TRAINING, "spec.training"),
        (names.COMPILED, "only muster writes it"),
        ("container.apparmor.security.beta.kubernetes.io/app", "security.apparmorProfile"),
        ("sidecar.istio.io/inject", "outside of the mesh"),
    ],
)
@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_what_has_a_field_of_its_own_says_which(field: str, key: str, instead: str) -> None:
    _, [finding] = parsed(with_metadata(**{field: {key: "x"}}))
    assert finding.path == ("metadata", field, key)
    assert instead in finding.message


@pytest.mark.parametrize("key", [names.EXCLUSIVE, names.PREEMPTIBLE, names.MIN_RUN_TIME, names.RUN_TIME])
def test_a_mark_that_takes_from_others_needs_a_permit_which_the_denial_prints(key: str) -> None:
    text = with_metadata(annotations={key: "1h"})
    policies = {"images": 'permit (principal, action == Muster::Action::"DeployImage", resource);'}
    [denied] = compiled(text, policies=Policies(policies)).problems
    assert f"metadata denied: '{key}=1h'" in denied.message
    assert denied.path == ("metadata", "annotations", key)
    [job] = compiled(text, policies=Policies(policies | {"one": denied.fix})).jobs
    assert job["metadata"]["annotations"] == {key: "1h"}


def test_a_priority_class_and_a_foreign_scheduler_are_asked_for() -> None:
    text = changed(small(), {"spec/priorityClassName": "high", "spec/schedulerName": "mine"})
    asked = {
        target: {(each.action, each.id) for _, each in compiled(text, target=target).requests}
        for target in ("muster", "native", "volcano")
    }
    assert all(("UsePriorityClass", "high") in each for each in asked.values())
    assert [target for target, each in asked.items() if ("UseScheduler", "mine") in each] == ["volcano"]
    cron = changed(text, {"spec/schedule": "0 2 * * *"})
    assert ("UseScheduler", "mine") in {
        (each.action, each.id) for _, each in compiled(cron, target="volcano").requests
    }


def test_the_queue_of_every_target_is_asked_for() -> None:
    text = changed(small(), {"spec/queue": "prod", "spec/tasks/work/replicas": 2})
    for change in ({}, {"spec/minAvailable": 1}):
        for target in ("muster", "volcano"):
            result = compiled(changed(text, change), target=target, facts=Facts())
            assert "UseQueue" in {each.action for _, each in result.requests}


def test_what_tools_write_about_the_job_stays_on_the_job() -> None:
    notes = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "argocd.argoproj.io/tracking-id": "a"}
    text = with_metadata(annotations=notes, labels={"app.kubernetes.io/managed-by": "Helm", "team": "a"})
    [job] = compiled(text, policies=Policies({"all": "permit (principal, action, resource);"})).jobs
    assert "annotations" not in job["metadata"]
    assert "app.kubernetes.io/managed-by" not in job["metadata"]["labels"]
    assert job["metadata"]["labels"]["team"] == "a"


def test_metadata_is_bounded_and_the_finding_says_the_number_and_the_limit() -> None:
    _, [many] = parsed(with_metadata(labels={f"a.b/k{number}": "x" for number in range(65)}))
    assert many.message == f"has 65 labels and annotations; the most is {metadata.MOST}"
    _, [large] = parsed(with_metadata(annotations={"a.b/c": "x" * 20_000}))
    assert large.message == "has 20,005 bytes of labels and annotations; the most is 16,384"


def test_a_sidecar_with_the_name_of_a_container_is_refused() -> None:
    text = yaml.safe_load(small())
    task = text["spec"]["tasks"]["work"]
    task["sidecars"] = {"app": task["workload"]["containers"]["app"]}
    _, [finding] = parsed(yaml.safe_dump(text))
    assert finding.message == "is also the name of a container; rename one of them"
