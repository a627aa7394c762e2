"""Every lint, on a file that sets it off and on one that does not."""

from pathlib import Path
from typing import Any

import pytest

from muster import names
from muster.api.fields import Severity
from muster.workloads.check import check
from muster.workloads.demand import demand
from muster.workloads.jobfile import Options
from muster.workloads.load import load
from tests.workloads.batch.jobs import TRAINING, changed

EXAMPLES = Path(__file__).parents[2] / "examples"
POD = "{restartPolicy: Never, containers: [{name: c, command: [a], resources: {requests: {cpu: 1}}}]}"
GPU_POD = POD.replace("requests: {cpu: 1}", "limits: {nvidia.com/gpu: 1}")


def job(name: str = "a", spec: str = "", pod: str = POD) -> str:
    head = f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: {name}}}\n"
    return f"{head}spec: {{{spec}template: {{spec: {pod}}}}}\n"


def jobset(more: str = "", job_spec: str = "", annotations: str = "", replicas: int = 2) -> str:
    template = f"{{spec: {{{job_spec}template: {{spec: {POD}}}}}}}"
    return f"""apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: a, annotations: {{{annotations}}}}}
spec:
  {more}
  replicatedJobs: [{{name: w, replicas: {replicas}, template: {template}}}]
"""


def manifest(more: str, type_: str = "count: 2") -> str:
    return f"spec:\n  operator: jobset\n  command: x\n  {more}\n  types: {{w: {{{type_}}}}}\n"


def group(members: int, pods: int, name: str = "g", label: str = "g") -> str:
    head = "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\n"
    text = f"{head}metadata: {{name: {name}}}\nspec: {{minMember: {members}}}\n"
    for i in range(pods):
        meta = f"{{name: p{i}, labels: {{scheduling.x-k8s.io/pod-group: {label}}}}}"
        text += f"---\napiVersion: v1\nkind: Pod\nmetadata: {meta}\nspec: {POD}\n"
    return text


def described(least: str, pods: int) -> str:
    """A gang without a PodGroup."""
    prefix, text = "gang.scheduling.koordinator.sh", ""
    for i in range(pods):
        meta = f"  name: p{i}\n  annotations:\n    {prefix}/name: g\n"
        meta += f"    {prefix}/min-available: '{least}'\n" if least else ""
        text += f"---\napiVersion: v1\nkind: Pod\nmetadata:\n{meta}spec: {POD}\n"
    return text


RULE = "failurePolicy: {maxRestarts: 1, rules: [{name: r, action: RestartJob}]}"


@pytest.mark.parametrize(
    ("text", "mode", "severity", "line", "words"),
    [
        (job("a", pod=GPU_POD), None, "warning", 4, "nodeSelector: {nvidia.com/gpu.product: …}"),
        (job("a", pod=GPU_POD[:-1] + ", nodeSelector: {nvidia.com/gpu.product: A}}"), None, None, 0, ""),
        (job("a", pod=POD.replace("requests: {cpu: 1}", "")), None, "warning", 4, "requests no resources"),
        (jobset(), "gang", "warning", 6, "retried alone up to 6 times"),
        (jobset(job_spec="backoffLimit: 0, "), "gang", None, 0, ""),
        (jobset(), "independent", None, 0, ""),
        (jobset(RULE), None, "warning", 5, "feature gate RestartJob"),
        (jobset(annotations="muster.dev/deadline: 6h"), None, "warning", 3, "limit of 6h"),
        (jobset(annotations="muster.dev/deadline: 0s"), None, "error", 3, "is zero: "),
        (jobset(annotations="}, labels: {muster.dev/deadline: 0s"), None, "error", 3, "is zero: "),
        (
            manifest("restartPolicy: {backoffLimit: 5}"),
            "independent",
            "warning",
            4,
            "upstream's would permit 5 to each Job",
        ),
        (manifest("restartPolicy: {backoffLimit: 5}", "count: 1"), None, None, 0, ""),
        (manifest("restartPolicy: {backoffLimit: 5}"), "gang", None, 0, ""),
        (manifest("timeout: 6h"), None, "warning", 4, "limit of 6h"),
        (
            manifest("", "resources: {memory: 1, accelerators: {gpu: {count: 1}}}"),
            None,
            "warning",
            5,
            "accelerators.gpu.product",
        ),
        (
            job("a", pod=POD[:-1] + ", schedulingGroup: {podGroupName: x}}"),
            None,
            "warning",
            4,
            "there is no PodGroup x in this file",
        ),
        (job("a", spec="scheduling: {schedulingPolicy: {gang: {}}}, "), None, None, 0, ""),
        (group(3, 2), None, "warning", 4, "is 3, but the file has 2 pods"),
        (group(4, 1), None, "warning", 4, "is 4, but the file has 1 pod of this group at a time"),
        (group(2, 2), None, None, 0, ""),
        (group(0, 1, label="h"), None, "warning", 8, "there is no PodGroup h in this file"),
        (described("2", 2), None, None, 0, ""),
        (described("3", 2), None, "warning", 8, "is 3, but the file has 2 pods of this gang at a time"),
        (
            described("few", 1),
            None,
            "warning",
            8,
            "needs gang.scheduling.koordinator.sh/min-available: how many",
        ),
        (
            described("", 1),
            None,
            "warning",
            7,
            "needs gang.scheduling.koordinator.sh/min-available: how many",
        ),
    ],
)
def test_lints(text: str, mode: Any, severity: str | None, line: int, words: str) -> None:
    found = [
        f
        for f in check(load("f.yaml", Options(mode=mode), text=text))
        if f.severity in (Severity.ERROR, Severity.WARNING)
    ]
    if severity is None:
        assert not found
    else:
        matching = [f for f in found if words in f.message]
        assert matching, f"no {words!r} in {[str(f) for f in found]}"
        assert (matching[0].severity.value, matching[0].line) == (severity, line)


def test_a_pods_name_longer_than_a_hostname() -> None:
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {'a' * 64}}}\nspec: {POD}\n"
    (finding,) = check(load("f.yaml", text=text))
    assert "the pod's hostname is its first 63" in finding.message


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_the_examples_have_no_errors(file: Path) -> None:
    assert not [f for f in check(load(file)) if f.severity is Severity.ERROR]


def test_findings_are_in_the_order_of_the_file_and_include_the_notes_of_load() -> None:
    text = manifest("timeout: 6h\n  engineName: x")
    lines = [(f.severity.value, f.line) for f in check(load("f.yaml", text=text))]
    assert lines == [("warning", 4), ("note", 5), ("note", 6)]


def test_demand_counts_places_and_pods() -> None:
    text = manifest("", "count: 3, completions: 4, parallelisms: 2")
    (pod_set,) = demand(load("f.yaml", Options(suffix="0" * 8), text=text))
    assert (pod_set.owner, pod_set.name) == (("JobSet", "experiment-00000000"), "w")
    assert (pod_set.count, pod_set.pods, pod_set.gpus) == (6, 12, 0)
    assert pod_set.template["spec"]["containers"][0]["name"] == "w"


@pytest.mark.parametrize(
    ("asked", "warned"),
    [("nvidia.com/gpu: 1", True), ("nvidia.com/gpu: 0", False), ("amd.com/gpu: 1", False)],
)
def test_a_product_is_advised_for_gpus_whose_nodes_name_one(asked: str, warned: bool) -> None:
    text = job(pod=POD.replace("requests: {cpu: 1}", f"limits: {{{asked}}}"))
    assert any("names no product" in f.message for f in check(load("f.yaml", text=text))) == warned


def marked(kind: str, key: str, text: str, *, on_template: bool = False) -> list[tuple[str, str, str]]:
    """What is said of one mark: severity, field and message."""
    mark = f"annotations: {{{key}: '{text}'}}"
    file = job() if kind == "Job" else jobset()
    if on_template:
        file = file.replace(
            "template: {spec: {restartPolicy", f"template: {{metadata: {{{mark}}}, spec: {{restartPolicy"
        )
    else:
        file = file.replace("metadata: {name: a", f"metadata: {{name: a, {mark}", 1).replace(
            ", annotations: {}", ""
        )
    findings = check(load("f.yaml", text=file))
    return [(f.severity.value, f.field, f.message) for f in findings if "annotations" in f.field]


@pytest.mark.parametrize(
    ("key", "right", "wrong", "advice"),
    [
        (names.GANG, ["true", "false"], ["True", "maybe", ""], 'write "true" or "false"'),
        (names.HOLD, ["true"], ["yes"], 'write "true" or "false"'),
        (names.PREEMPTIBLE, ["false"], ["no"], 'write "true" or "false"'),
        (
            names.PRIORITY,
            ["10", "-3", "gold"],
            ["High", "a_b", ""],
            "the name of a PriorityClass",
        ),
        (names.QUEUE, ["ml", "ml.a-b"], ["ML", ""], "write the name of a queue"),
        (names.RUN_TIME, ["4h", "90", "1h30m"], ["soon", "-1"], "is not a duration; write for example"),
        (names.MIN_RUN_TIME, ["1h"], ["1 hour"], "is not a duration"),
        (names.RESTART_COST, ["5m"], ["cheap"], "is not a duration"),
        (names.CHECKPOINT, ["30m", "2026-01-31T12:00:00Z"], ["often"], "write an interval (30m), or when"),
    ],
)
def test_values_of_our_own_marks_are_checked(
    key: str, right: list[str], wrong: list[str], advice: str
) -> None:
    for text in right:
        assert marked("Job", key, text) == []
    for text in wrong:
        ((severity, field, message),) = marked("Job", key, text)
        assert (severity, field) == ("error", f"metadata.annotations.{key}")
        assert advice in message


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        (names.GPU_SHARE, "250", ""),
        (names.GPU_SHARE, "1000", ""),
        (names.GPU_SHARE, "0", "write thousandths of one GPU"),
        (names.GPU_SHARE, "1001", "write thousandths of one GPU"),
        (names.ON_PARTIAL, "recreate", ""),
        (names.ON_PARTIAL, "later", "write keep or recreate"),
        (names.RUN_TIME, "later", "is not a duration"),
    ],
)
@pytest.mark.parametrize("kind", ["Job", "JobSet"])
def test_templates_bear_marks_too(kind: str, key: str, text: str, said: str) -> None:
    found = marked(kind, key, text, on_template=True)
    assert len(found) == bool(said)
    for severity, field, message in found:
        assert severity == "error"
        assert field.endswith(f"template.metadata.annotations.{key}")
        assert said in message


@pytest.mark.parametrize(
    ("kind", "key", "said"),
    [
        ("Job", "muster.dev/prioritty", "is unknown; did you mean muster.dev/priority?"),
        ("Job", "muster.dev/Gang", "is unknown; did you mean muster.dev/gang?"),
        ("Job", "muster.io/queue", "is unknown; did you mean muster.dev/queue?"),
        (
            "Job",
            "muster.dev/colour",
            "is unknown to muster; known under muster.dev/: below-minimum, checkpoint, checkpoint-grace,",
        ),
        ("Job", "example.com/queue", ""),
        ("Job", names.DEADLINE, "is read on a JobSet only, and this is a Job"),
        ("JobSet", names.GPU_SHARE, "is read on a pod or its template only, and this is a JobSet"),
        (
            "JobSet",
            names.ON_PARTIAL,
            "is read on a PodGroup or pod or its template only, and this is a JobSet",
        ),
        ("Job", names.TRAINERS, "is read on a JobSet only, and this is a Job"),
        ("Job", names.SECRET_STORE, "is read on a Namespace only, and this is a Job"),
    ],
)
def test_keys_that_muster_does_not_know_there_are_warned_of(kind: str, key: str, said: str) -> None:
    found = marked(kind, key, "1h")
    assert [(severity, message.startswith(said)) for severity, _, message in found] == [
        ("warning", True)
    ] * bool(said)


QUEUE = """apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: q}
spec: {%s: {%s: 1}}
"""


@pytest.mark.parametrize("field", ["guarantee", "deserved", "capability"])
@pytest.mark.parametrize(
    ("resource", "said"),
    [
        ("cpu", ""),
        ("nvidia.com/gpu", ""),
        ("muster.dev/gpu-share", ""),
        ("hugepages-2Mi", ""),
        ("example.com/fpga", ""),
        ("cpus", "no pod requests it; did you mean cpu?"),
        ("nvidia.com/gpus", "no pod requests it; did you mean nvidia.com/gpu?"),
        ("gpu", "no pod requests it; write cpu, memory, pods, ephemeral-storage, nvidia.com/gpu,"),
    ],
)
def test_resources_of_queues_that_no_pod_asks_for(field: str, resource: str, said: str) -> None:
    found = check(load("f.yaml", Options(jobs=False), text=QUEUE % (field, resource)))
    assert [(each.line, each.field, each.message.startswith(said)) for each in found] == [
        (4, f"spec.{field}.{resource}", True)
    ] * bool(said)


def test_keys_of_a_batch_job_are_taken_to_where_they_are_read() -> None:
    noted = changed(TRAINING, {"metadata/annotations": {names.CHECKPOINT_FILE: "/tmp/saved"}})
    found = check(load("job.yaml", Options(local=False), text=noted))
    assert [each.message for each in found if "annotations" in each.field] == []


def test_advice_about_a_batch_job_is_written_as_in_its_file_and_what_it_says_helps() -> None:
    def told(change: dict[str, Any]) -> list[str]:
        found = check(load("job.yaml", Options(local=False), text=changed(TRAINING, change)))
        return [each.message.partition("; ")[2] for each in found if each.severity is Severity.WARNING]

    chooses, restarts = (
        "a resource {type: gpu, params: {model: …}} chooses one",
        "the gang restarts as a whole",
    )
    never = "restartPolicy: Never and the policy {event: PodFailed, action: RestartJob}"
    assert told({}) == [chooses, f"with {never} {restarts}"]
    model = {"spec/resources/gpu": {"type": "gpu", "params": {"model": "H100"}}}
    policy = {
        "spec/tasks/workers/restartPolicy": "Never",
        "spec/policies": [{"event": "PodFailed", "action": "RestartJob"}],
    }
    assert told(model | policy) == []
