"""What a batch job's file may say, and what each mistake is called."""

import json
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Caller, Options
from muster.workloads.load import load
from tests.workloads.batch.jobs import TRAINING, changed, good, parsed, small

TASK = "spec/tasks/workers"
CONTAINER = f"{TASK}/workload/containers/trainer"
MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    ({"spec/defaults": 1}, "spec.defaults", "takes a mapping, not the number 1"),
    ({"spec/defaults/resources": 1}, "spec.defaults.resources", "takes a mapping, not the number 1"),
    ({"spec/resources": []}, "spec.resources", "takes a mapping, not a list"),
    ({f"{TASK}/resources": 1}, f"{TASK}/resources", "takes a mapping, not the number 1"),
    ({f"{TASK}/entryRuntime": "a"}, f"{TASK}/entryRuntime", "takes a mapping, not the text"),
    ({f"{TASK}/replikas": 3}, "spec.tasks.workers.replikas", "did you mean replicas?"),
    ({f"{CONTAINER}/image": "a b"}, f"{CONTAINER}/image", "not an image reference"),
    ({f"{CONTAINER}/image": "x:${metadata.name}"}, f"{CONTAINER}/image", "placeholders are not expanded"),
    ({f"{CONTAINER}/command": ["python"]}, f"{CONTAINER}/command", "absolute path"),
    ({f"{CONTAINER}/resources/limits": {"cpu": "1"}}, f"{CONTAINER}/resources/limits/memory", "is missing"),
    ({f"{CONTAINER}/resources/limits": {"memory": "1Gi"}}, f"{CONTAINER}/resources/limits/cpu", "is missing"),
    ({f"{CONTAINER}/image": "a;b"}, f"{CONTAINER}/image", "not an image reference"),
    ({f"{CONTAINER}/image": "a$(b)"}, f"{CONTAINER}/image", "not an image reference"),
    ({f"{CONTAINER}/livenessProbe": {"exec": {"command": ["cat"]}}}, "exec.command", "an absolute path"),
    ({f"{CONTAINER}/volumes": {"tmp": {}}}, f"{CONTAINER}/volumes/tmp", "absolute"),
    ({f"{CONTAINER}/volumes": {"/tmp": {"medium": "Disk"}}}, "medium", "not one of Memory"),
    ({f"{CONTAINER}/files": {"/a": {}}}, f"{CONTAINER}/files//a", "exactly one of"),
    ({f"{CONTAINER}/files": {"/a": {"content": "", "source": "a"}}}, f"{CONTAINER}/files//a", "exactly one"),
    ({f"{CONTAINER}/files": {"a": {"content": ""}}}, f"{CONTAINER}/files/a", "absolute"),
    ({f"{CONTAINER}/files": {"/a": {"content": "", "mode": "0666"}}}, "mode", "lets every user write"),
    ({f"{CONTAINER}/files": {"/a": {"content": "", "mode": "4755"}}}, "mode", "without setuid"),
    ({f"{CONTAINER}/files": {"/a": {"binaryContent": "%"}}}, "binaryContent", "not base64"),
    ({f"{CONTAINER}/security/apparmorProfile": "Localhost"}, "apparmorLocalhostProfile", "if, and only if"),
    ({f"{CONTAINER}/security/seccompProfile": "Localhost"}, "seccompLocalhostProfile", "if, and only if"),
    ({f"{CONTAINER}/security/seccompLocalhostProfile": "a"}, "seccompLocalhostProfile", "if, and only if"),
    ({f"{CONTAINER}/security/allowedBinaries": ["sh"]}, "allowedBinaries", "/usr/bin/sh"),
    ({f"{TASK}/restartPolicy": "Sometimes"}, "restartPolicy", "not one of"),
    ({f"{TASK}/restartPolicy": "onfailure"}, "restartPolicy", "did you mean OnFailure?"),
    (
        {"spec/policies": [{"event": "PodFailed", "action": "RestrtJob"}]},
        "action",
        "did you mean RestartJob?",
    ),
    ({"spec/policies": [{"event": "PodFailed"}]}, "action", "is missing; one of RestartJob"),
    ({"spec/minAvailable": 9}, "spec.minAvailable", "all tasks together have 8"),
    ({"spec/tasks": {}}, "spec.tasks", "at least one task"),
    ({"spec/topology": {"mode": "Hard"}}, "spec.topology.maxTier", "needs it"),
    ({"spec/policies": [{"event": "PodFaild", "action": "RestartJob"}]}, "event", "PodFailed"),
    ({"spec/concurrencyPolicy": "Forbid"}, "concurrencyPolicy", "jobs with a schedule"),
    ({"spec/schedule": "0 0 30 2 *"}, "spec.schedule", "day"),
    ({"spec/schedule": "* * * * * *"}, "spec.schedule", "has 6 fields"),
    ({"spec/schedule": ""}, "spec.schedule", "is empty"),
    (
        {"spec/schedule": "@daily", "spec/timeZone": "Mars/Olympus"},
        "spec.timeZone",
        "'Mars/Olympus' is unknown",
    ),
    ({"spec/schedule": "@dayly", "spec/timeZone": "Europe/Berlin"}, "spec.schedule", "@dayly is not one of"),
    ({f"{CONTAINER}/image": "user:password@ghcr.io/x"}, "image", "not an image reference"),
    ({f"{CONTAINER}/image": "https://ghcr.io/x"}, "image", "not an image reference"),
    ({f"{CONTAINER}/image": "REGISTRY/x"}, "image", "not an image reference"),
    ({f"{CONTAINER}/variables/a\x1b[2J": "x"}, r"variables.'a\x1b[2J'", "not a name for a variable"),
    ({"spec/training": {"framework": "PyTorch", "coordinatorTask": "x"}}, "coordinatorTask", "workers"),
    ({"spec/resources/s3-endpoint/params/endpoints/s3": "https://"}, "endpoints.s3", "names no host"),
    ({"spec/resources/s3-endpoint/params/endpoints/s3": "db.example.com"}, "endpoints.s3", "names no port"),
    ({"spec/resources/s3-endpoint/params/endpoints/s3": "ftp://a.b"}, "endpoints.s3", "is not known"),
    ({"spec/resources/training-data/params/keys": ["a b"]}, "keys[0]", "not a key of a Secret"),
    ({"spec/resources/training-data/id": "a b"}, "training-data.id", "the path in the store"),
    ({"spec/resources/s3-endpoint/params/resolution": "static"}, "endpoints.s3", "is not an address"),
    ({"spec/resources/s3-endpoint/direction": "sideways"}, "direction", "not one of outbound, inbound, both"),
    ({"spec/training": {"framework": "Torch"}}, "training.framework", "not one of PyTorch, DeepSpeed, Jax"),
    ({"spec/topology": {"mode": "hard"}}, "topology.mode", "did you mean Hard?"),
    ({"spec/schedulerName": 1}, "spec.schedulerName", "takes text"),
    ({f"{TASK}/replicas": -1}, "replicas", "the least is 0"),
    ({f"{TASK}/workload/service": {"ports": {"a": {"port": 0}}}}, "ports.a.port", "the least is 1"),
    ({"spec/resources/training-data/type": None}, "training-data.type", "is missing"),
    ({"metadata/name": "Upper"}, "metadata.name", "lowercase"),
    ({f"{TASK}/workload/containers": None}, "workload.containers", "at least one container"),
]


@pytest.mark.parametrize(("change", "field", "message"), MISTAKES)
def test_a_mistake_is_named_with_its_field(change: dict[str, Any], field: str, message: str) -> None:
    _, findings = parsed(changed(TRAINING, change))
    told = [(each.field, each.message) for each in findings]
    assert any(field.replace("/", ".").replace("..", "./") in at and message in said for at, said in told), (
        told
    )
    assert all(each.line for each in findings)


def test_all_mistakes_are_reported_together() -> None:
    changes = {"spec/minAvailable": 9, f"{TASK}/replikas": 3, f"{CONTAINER}/command": ["python"]}
    _, findings = parsed(changed(TRAINING, changes))
    assert len(findings) == 3


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"variables/A": "${resources.nope.x}"}, "${resources.nope.x}: there is no resource nope; declared:"),
        (
            {"variables/A": "${resources.training-data.buket}"},
            "secret training-data has no key 'buket'; its keys",
        ),
        ({"variables/A": "${nothing.x}"}, "${nothing.x} is unknown"),
        ({"files": {"/f": {"content": "${resources.nope.x}"}}}, "there is no resource nope"),
        ({"files": {"/f": {"content": "${resources.nope.x}", "noExpand": True}}}, ""),
        ({"envFrom": [{"secretResource": "nope"}]}, "nope is not a declared secret resource"),
        ({"volumes": {"/v": {"source": "${resources.nope}"}}}, "nope is not a declared volume"),
    ],
)
def test_references_to_nothing_are_reported_beside_mistakes_of_the_format(
    change: dict[str, Any], told: str
) -> None:
    wrong = {f"{CONTAINER}/{field}": value for field, value in change.items()}
    _, findings = parsed(changed(TRAINING, wrong | {f"{TASK}/replikas": 3}))
    (mistake, *references) = [each.message for each in findings]
    assert mistake == "unknown field; did you mean replicas?"
    assert [told in each for each in references] == ([True] if told else [])
    assert all(each.line > 1 for each in findings)


@pytest.mark.parametrize(
    ("resource", "mistakes"),
    [
        ({"type": "external-service", "params": {"endpoints": {"s3": "ftp://x"}}}, 1),
        ({"type": "secret", "params": {"keys": ["a", 3]}}, 1),
        ({"params": {"keys": ["a"]}}, 1),
    ],
)
def test_a_reference_to_a_resource_that_cannot_be_read_is_no_further_mistake(
    resource: dict[str, Any], mistakes: int
) -> None:
    uses = {
        f"{CONTAINER}/variables/A": "${resources.data.x.host}",
        f"{CONTAINER}/envFrom": [{"secretResource": "data"}],
        f"{CONTAINER}/volumes": {"/v": {"source": "data"}},
    }
    _, findings = parsed(changed(TRAINING, uses | {"spec/resources/data": resource}))
    assert len(findings) == mistakes, findings


def test_a_mistake_that_tasks_share_is_reported_once() -> None:
    shared = {"spec/defaults/wrong": 1, "spec/resources/data": {"type": "gpu", "params": {"count": "x"}}}
    _, findings = parsed(changed(TRAINING, shared | {"spec/tasks/b": {"replicas": 1}}))
    told = [each.field for each in findings if "tasks" not in each.field]
    assert sorted(told) == ["spec.defaults.wrong", "spec.resources.data.params.count"]


def test_fields_that_are_read_only_if_they_are_given_are_known() -> None:
    _, findings = parsed(changed(TRAINING, {"spec/minAvailable": None, "spec/minAvailabel": 3}))
    assert [each.message for each in findings] == ["unknown field; did you mean minAvailable?"]
    _, findings = parsed(changed(TRAINING, {"spec/topology": {}}).replace("topology: {}", "topology:"))
    assert not findings


@pytest.mark.parametrize(
    "where", ["spec/resources", "spec/defaults/resources", f"{TASK}/resources", f"{TASK}/workload/resources"]
)
def test_resources_may_be_written_in_four_places(where: str) -> None:
    moved = {"spec/resources": None, where: {"data": {"type": "secret", "params": {"keys": ["bucket"]}}}}
    change = dict(moved) if where != "spec/resources" else {where: moved[where]}
    text = changed(TRAINING, change | {f"{CONTAINER}/variables": {}})
    assert set(good(text).tasks[0].workload.resources) == {"data"}


@pytest.mark.parametrize("where", ["spec/defaults", "spec/defaults/entryRuntime", TASK])
def test_pull_secrets_may_be_written_in_three_places(where: str) -> None:
    text = changed(TRAINING, {"spec/defaults": None, f"{where}/imagePullSecrets": ["mine"]})
    assert good(text).tasks[0].workload.pull_secrets == ("mine",)


def test_lists_of_a_task_replace_those_of_the_defaults_and_maps_are_merged() -> None:
    text = changed(
        TRAINING,
        {
            "spec/defaults/imagePullSecrets": ["a", "b"],
            "spec/defaults/entryRuntime": None,
            f"{TASK}/imagePullSecrets": ["c"],
            "spec/defaults/workload/containers/trainer/variables": {"S3_BUCKET": "lost", "MORE": "kept"},
        },
    )
    workload = good(text).tasks[0].workload
    assert workload.pull_secrets == ("c",)
    assert workload.containers[0].variables == {
        "S3_BUCKET": "${resources.training-data.bucket}",
        "MORE": "kept",
    }


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    "metadata",
    "spec",
    "spec/queue",
    "spec/tasks",
    TASK,
    f"{TASK}/workload",
    CONTAINER,
    *(
        f"{CONTAINER}/{name}"
        for name in ("variables", "files", "volumes", "resources", "security", "envFrom")
    ),
    *(f"{CONTAINER}/{name}" for name in ("command", "livenessProbe", "image")),
    "spec/defaults",
    "spec/resources",
    "spec/resources/training-data",
    "spec/resources/training-data/params",
    "spec/resources/s3-endpoint/params/endpoints",
    "spec/policies",
    "spec/topology",
    "spec/training",
    "spec/schedule",
]


@given(field=st.sampled_from(FIELDS), value=JSON)
def test_no_value_of_any_field_is_more_than_a_finding(field: str, value: object) -> None:
    job = yaml.safe_load(TRAINING)
    *parents, last = field.split("/")
    parent = job
    for name in parents:
        parent = parent[name]
    parent[last] = value
    with suppress(JobFileError):
        parsed(json.dumps(job))


def test_a_small_job_has_no_findings() -> None:
    assert good(small()).pods == 1


def test_its_programs_run_where_it_was_submitted() -> None:
    job = load("f.yaml", Options(caller=Caller("/w", path="/bin")), text=small())
    [jobset] = [each for each in job.objects if each["kind"] == "JobSet"]
    template = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert json.loads(template["metadata"]["annotations"]["muster.dev/caller"])["cwd"] == "/w"
