"""Kubernetes objects as plain YAML: order, names, gangs by every route, and what is refused."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from muster import names
from muster.api import foreign_kinds
from muster.api.base import Object
from muster.api.fields import Severity
from muster.workloads.demand import demand
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Caller, JobFile, Options
from muster.workloads.kubernetes.objects import SUPPORTED
from muster.workloads.kubernetes.templates import OFFERED
from muster.workloads.load import load

EXAMPLES = Path(__file__).parents[2] / "examples"
LABEL = "scheduling.x-k8s.io/pod-group"
POD_SPEC = "{restartPolicy: Never, containers: [{name: main, command: [sleep, '1']}]}"
POD_GROUP = (
    "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: g}\nspec: {minMember: 2}\n"
)
POD_AT = "spec.template.spec.containers[0]"
JOBS_AT = "spec.replicatedJobs[0]"
NOT_A_LIST = "{name: w, template: {spec: {template: {spec: {containers: 1}}}}}"
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec:\n"
JOBSET = "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\nspec:\n"


def pod(name: str, more: str = "", spec: str = POD_SPEC) -> str:
    return f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}{more}}}\nspec: {spec}\n"


def job(more: str = "", metadata: str = "name: a") -> str:
    head = f"apiVersion: batch/v1\nkind: Job\nmetadata: {{{metadata}}}\n"
    return f"{head}spec:\n  template: {{spec: {POD_SPEC}}}\n{more}"


def jobset(more: str = "", metadata: str = "name: a") -> str:
    return (
        f"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{{metadata}}}\nspec:\n"
        f"  replicatedJobs:\n    - name: w\n      replicas: 2\n      template:\n        spec:\n"
        f"          parallelism: 2\n          completions: 4\n"
        f"          template: {{spec: {POD_SPEC}}}\n{more}"
    )


@pytest.mark.parametrize(
    ("file", "name", "kinds", "sets", "gang"),
    [
        ("10-jobset", "rendezvous", ["JobSet"], [("driver", 1, 1), ("worker", 4, 4)], False),
        ("11-job", "squares-3f9a1", ["Job"], [("squares-3f9a1", 3, 10)], False),
        (
            "12-pods-with-podgroup",
            "trio-0",
            ["ConfigMap", "PodGroup", "Pod", "Pod", "Pod"],
            [("trio-0", 1, 1), ("trio-1", 1, 1), ("trio-2", 1, 1)],
            True,
        ),
    ],
)
def test_the_examples(file: str, name: str, kinds: list[str], sets: list[Any], gang: bool) -> None:
    loaded = load(EXAMPLES / f"{file}.yaml", Options(suffix="3f9a1c20"))
    assert loaded.name == name
    assert [o["kind"] for o in loaded.objects] == kinds
    assert [(s.name, s.count, s.pods) for s in demand(loaded)] == sets
    assert loaded.gang is gang
    assert {o["metadata"]["namespace"] for o in loaded.objects} == {"default"}


def test_objects_pass_through_as_written() -> None:
    text = pod(
        "p",
        spec="{restartPolicy: Never, dnsPolicy: None, x: [1], containers: [{name: c, command: [a], y: 1}]}",
    )
    (loaded,) = load("f.yaml", text=text).objects
    assert loaded == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "dnsPolicy": "None",
            "x": [1],
            "containers": [{"name": "c", "command": ["a"], "y": 1}],
        },
    }


CLAIM_TEMPLATE: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
"""


def test_objects_that_others_need_are_created_first() -> None:
    text = "---\n".join(
        [
            job(),
            POD_GROUP.replace("x-k8s.io", "sigs.k8s.io"),
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: b}\n",
            "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 5\n",
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: ml}\n",
            CLAIM_TEMPLATE,
            pod("z"),
        ]
    )
    loaded = load("f.yaml", Options(namespace="ml"), text=text)
    assert [o["kind"] for o in loaded.objects] == [
        "Namespace",
        "PriorityClass",
        "Secret",
        "ResourceClaimTemplate",
        "PodGroup",
        "Job",
        "Pod",
    ]
    assert [o["metadata"].get("namespace") for o in loaded.objects] == [None, None, *["ml"] * 5]
    assert [o["kind"] for o in loaded.primary] == ["Job", "Pod"]


def test_a_list_is_its_items() -> None:
    items = {"apiVersion": "v1", "kind": "List", "items": [_object(pod("a")), _object(pod("b"))]}
    assert [o["metadata"]["name"] for o in load("f.yaml", text=json.dumps(items)).objects] == ["a", "b"]


@pytest.mark.parametrize("spec", ["", "spec: null\n", "spec: {}\n", "spec: {replicatedJobs: null}\n"])
def test_a_jobset_may_have_no_jobs(spec: str) -> None:
    text = f"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {{name: a}}\n{spec}"
    assert [o["spec"] for o in load("f.yaml", text=text).primary] == [{}]


def test_generated_names_are_no_longer_than_those_of_an_api_server() -> None:
    text = job(metadata=f"generateName: {'n' * 57}-")
    (made,) = load("f.yaml", Options(suffix="3f9a1c20"), text=text).objects
    assert made["metadata"]["name"] == "n" * 57 + "-3f9a1"


SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: tracker}
spec:
  selector: {app: tracker}
  ports: [{port: 80, targetPort: TARGET}]
"""


@pytest.mark.parametrize(
    ("target", "more", "refused"),
    [
        ("80", "", False),
        ("8080", "", True),
        ("8080", "  clusterIP: None\n", False),
        ("http", "", False),  # of pods that are not in the file
        ("web", "", True),
        ("same", "", False),
    ],
)
def test_a_service_that_translates_ports_is_refused_for_the_embedded_cluster(
    target: str, more: str, refused: bool
) -> None:
    ports = [{"name": "web", "containerPort": 8080}, {"name": "same", "containerPort": 80}]
    owner = yaml.safe_load(job())
    owner["spec"]["template"]["spec"]["containers"][0] |= {"ports": ports, "image": "x"}
    text = f"{yaml.safe_dump(owner)}---{SERVICE.replace('TARGET', target)}{more}"
    if refused:
        with pytest.raises(JobFileError, match="translates no ports"):
            load("f.yaml", text=text)
    else:
        load("f.yaml", text=text)
    load("f.yaml", Options(local=False), text=text)


def test_generated_names_end_in_the_suffix_and_are_unique() -> None:
    text = "---\n".join([job(metadata="generateName: x-")] * 3)
    assert [o["metadata"]["name"] for o in load("f.yaml", Options(suffix="s"), text=text).objects] == [
        "x-s",
        "x-s-2",
        "x-s-3",
    ]
    assert load("f.yaml", text=text).name == load("f.yaml", text=text).name


@pytest.mark.parametrize("text", [job(), jobset()])
def test_gang_suspends_and_marks_what_muster_may_start(text: str) -> None:
    loaded = load("f.yaml", Options(mode="gang"), text=text)
    (owner,) = loaded.objects
    assert owner["metadata"]["labels"] == {names.GANG: "true", names.ADMISSION: "gang"}
    assert owner["spec"]["suspend"] is True
    assert loaded.gang is True


@pytest.mark.parametrize("key", ["labels", "annotations"])
def test_the_objects_own_label_is_the_same_as_the_flag(key: str) -> None:
    text = job(metadata=f'name: a, {key}: {{muster.dev/gang: "true"}}')
    (owner,) = load("f.yaml", text=text).objects
    assert owner["spec"]["suspend"] is True
    (owner,) = load("f.yaml", Options(mode="independent"), text=text).objects
    assert owner["metadata"]["labels"][names.GANG] == "false"
    assert "suspend" not in owner["spec"]


def test_pods_with_scheduling_gates_are_created_so_that_the_gates_can_be_removed() -> None:
    gated = yaml.safe_load(job())
    gated["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "x/y"}]
    (owner,) = load("f.yaml", Options(mode="gang"), text=json.dumps(gated)).objects
    assert owner["metadata"]["labels"] == {names.GANG: "true"}
    assert "suspend" not in owner["spec"]


def test_a_job_that_its_author_suspended_stays_the_authors_to_resume() -> None:
    loaded = load("f.yaml", Options(mode="gang"), text=job("  suspend: true\n"))
    (owner,) = loaded.objects
    assert owner["metadata"]["labels"] == {names.GANG: "true"}
    assert loaded.gang is True


def test_independent_is_written_down_since_the_namespace_may_say_otherwise() -> None:
    (owner,) = load("f.yaml", Options(mode="independent"), text=jobset()).objects
    assert owner["metadata"]["labels"] == {names.GANG: "false"}
    assert "suspend" not in owner["spec"]


def test_bare_pods_become_a_gang_in_a_group_of_their_own() -> None:
    text = "---\n".join(
        [pod("a"), pod("b"), pod("c", ", namespace: other"), pod("d", f", labels: {{{LABEL}: g}}")]
    )
    loaded = load("f.yaml", Options(suffix="s", mode="gang"), text=text)
    group, *pods = loaded.objects
    assert group == {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "a-s", "namespace": "default"},
        "spec": {"minMember": 2},
    }
    assert [p["metadata"].get("labels", {}).get(LABEL) for p in pods] == ["a-s", "a-s", None, "g"]


def test_a_job_in_a_pod_group_is_a_gang_already() -> None:
    text = (
        f"{JOB}  parallelism: 2\n  template:\n    metadata: {{labels: {{{LABEL}: g}}}}\n"
        f"    spec: {POD_SPEC}\n---\n{POD_GROUP}"
    )
    for mode in ("gang", None):
        loaded = load("f.yaml", Options(mode=mode), text=text)
        assert "suspend" not in loaded.objects[1]["spec"]
        assert loaded.gang is True
    with pytest.raises(JobFileError, match=r"f\.yaml:7: .*names a PodGroup"):
        load("f.yaml", Options(mode="independent"), text=text)
    with pytest.raises(JobFileError, match="names a PodGroup"):
        load("f.yaml", Options(mode="independent"), text=pod("d", f", labels: {{{LABEL}: g}}"))


def test_a_file_with_gangs_and_independent_jobs_has_no_single_mode() -> None:
    text = job(metadata='name: a, labels: {muster.dev/gang: "true"}') + "---\n" + job(metadata="name: b")
    assert load("f.yaml", text=text).gang is None


@pytest.mark.parametrize("text", [pod("a"), job(), jobset()])
def test_the_caller_is_noted_on_every_pod_template(text: str) -> None:
    (owner,) = load("f.yaml", Options(caller=Caller("/w", path="/bin")), text=text).objects
    (pod_set,) = demand(load("f.yaml", Options(caller=Caller("/w", path="/bin")), text=text))
    annotation = pod_set.template["metadata"]["annotations"][names.CALLER]
    assert json.loads(annotation) == {"cwd": "/w", "PATH": "/bin", "HOME": "", "LANG": ""}
    assert names.CALLER not in owner["metadata"].get("annotations", {}) or owner["kind"] == "Pod"


def test_a_directory_stands_for_a_claim() -> None:
    spec = (
        "{restartPolicy: Never, containers: [{name: c, command: [a]}], "
        "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}"
    )
    (loaded,) = load("f.yaml", Options(volumes={"data": "/srv"}), text=pod("a", spec=spec)).objects
    assert loaded["spec"]["volumes"] == [{"name": "v", "hostPath": {"path": "/srv", "type": "Directory"}}]
    with pytest.raises(JobFileError, match="--volume data=DIR"):
        load("f.yaml", text=pod("a", spec=spec))
    (loaded,) = load(
        "f.yaml", Options(local=False), text=pod("a", spec=spec.replace("command", "image: x, command"))
    ).objects
    assert loaded["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "data"}


VOLUMES = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers: [{name: c, command: [x], image: i}]
  volumes:
  - {name: data, nfs: {server: s, path: /p}}
  - name: token
    projected: {sources: [{configMap: {name: a}}, {serviceAccountToken: {path: t}}]}
"""


def test_volumes_that_the_embedded_cluster_cannot_make_are_refused_there() -> None:
    offered, advice = ", ".join(OFFERED), "name a directory to use instead: --volume data=DIR"
    with pytest.raises(JobFileError) as caught:
        load("f.yaml", text=VOLUMES)
    assert [(each.line, each.field, each.message) for each in caught.value.findings] == [
        (
            8,
            "spec.volumes[0].nfs",
            f"the embedded cluster offers {offered} only; {advice}",
        ),
        (
            10,
            "spec.volumes[1].projected.sources[1].serviceAccountToken",
            "the embedded cluster projects configMap, downwardAPI, secret only; remove it",
        ),
    ]
    text = VOLUMES.replace(", {serviceAccountToken: {path: t}}", "")
    (pod,) = load("f.yaml", Options(volumes={"data": "/mnt"}), text=text).objects
    assert pod["spec"]["volumes"][0] == {"name": "data", "hostPath": {"path": "/mnt", "type": "Directory"}}
    assert load("f.yaml", Options(local=False), text=VOLUMES).objects[0]["spec"]["volumes"][0]["nfs"]


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("value", "told"),
    [
        ('["a/m", "a/w"]', 'takes text, not a list; put it in quotes: \'["a/m", "a/w"]\''),
        ("{a: it's}", "takes text, not a mapping; put it in quotes: '{\"a\": \"it''s\"}'"),
        ("5", 'takes text, not a number; put it in quotes: "5"'),
        ("true", 'takes text, not true or false; put it in quotes: "true"'),
        (f"[{'x' * 300}]", "takes text, not a list"),
    ],
)
def test_a_label_or_annotation_that_is_no_text_is_named(field: str, value: str, told: str) -> None:
    head = "apiVersion: scheduling.sigs.k8s.io/v1alpha1\nkind: PodGroup\nmetadata:\n  name: a\n"
    text = f"{head}  {field}:\n    x/fine: y\n    x/groups: {value}\n    x/other: 1\nspec: {{minMember: 1}}\n"
    with pytest.raises(JobFileError) as error:
        load("f.yaml", Options(jobs=False), text=text)
    found, other = error.value.findings
    assert (found.line, found.field, found.message) == (7, f"metadata.{field}.x/groups", told)
    assert (other.line, other.field) == (8, f"metadata.{field}.x/other")


_PROJECTS = {
    group: project
    for group, project in foreign_kinds.PROJECTS.items()
    if group not in {kind.group for kind in SUPPORTED}
}
_OF_OTHERS = [(group, row.kind, row.instead) for row in foreign_kinds.TABLE for group in row.groups]


@pytest.mark.parametrize(
    ("group", "kind", "told"),
    [
        *_OF_OTHERS,
        *((group, "Jobb", f"Jobb is a kind of {project}") for group, project in _PROJECTS.items()),
        ("jobs.example.org", "Job", "apply it with kubectl"),
        ("jobs.example.org", "Jobb", "apply it with kubectl"),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v2alpha7"])
def test_a_kind_of_another_project_is_called_so(group: str, version: str, kind: str, told: str) -> None:
    """It is no misspelt kind of Kubernetes' or muster's, and no wrong version of one."""
    text = f"apiVersion: {group}/{version}\nkind: {kind}\nmetadata: {{name: a}}\n"
    with pytest.raises(JobFileError) as error:
        load("f.yaml", text=text)
    (found,) = error.value.findings
    assert told in found.message
    assert (found.line, found.field) == (2, "kind")
    assert "did you mean" not in found.message
    assert "is known as" not in found.message


def test_no_kind_that_muster_reads_is_one_of_others() -> None:
    """A kind that muster learns to read goes from the table."""
    read = {(kind.group, kind.kind) for kind in SUPPORTED}
    assert read.isdisjoint((group, kind) for group, kind, _ in _OF_OTHERS)
    assert len(set(_OF_OTHERS)) == len(_OF_OTHERS)


@pytest.mark.parametrize(
    ("text", "line", "field", "words"),
    [
        ("kind: Foo\napiVersion: v1", 1, "kind", "Foo is not supported"),
        ("apiVersion: batch/v1\nkind: Jobb", 2, "kind", "did you mean Job?"),
        ("apiVersion: batch/v1", 1, "kind", "is missing"),
        ("apiVersion: batch/v2\nkind: Job", 1, "apiVersion", "Job is known as batch/v1"),
        ("kind: Job", 1, "apiVersion", "is missing; Job is known as batch/v1"),
        ("apiVersion: muster.dev/v1alpha1\nkind: Batchjob", 2, "kind", "did you mean BatchJob?"),
        ("kind: BatchJob", 1, "apiVersion", "is missing; BatchJob is known as muster.dev/v1alpha1"),
        (
            "apiVersion: muster.dev/v1alpha1\nkind: LatticeJob",
            1,
            "apiVersion",
            "is 'muster.dev/v1alpha1'; LatticeJob is known as lattice.dev/v1alpha1",
        ),
        (
            pod("a") + "---\napiVersion: muster.dev/v1alpha1\nkind: BatchJob\nmetadata: {name: b}\n",
            6,
            "",
            "a BatchJob must be the only document of its file",
        ),
        ("apiVersion: kubeflow.org/v1\nkind: PyTorchJob", 2, "kind", "scheduling: {training: PyTorch}"),
        ("kind: PyTorchJob", 1, "kind", "scheduling: {training: PyTorch}"),
        ("kind: CronJob", 1, "kind", "its runs are Jobs"),
        ("apiVersion: batch/v2\nkind: CronJob", 2, "kind", "its runs are Jobs"),
        ("apiVersion: bacth/v1\nkind: Job", 1, "apiVersion", "Job is known as batch/v1"),
        ("apiVersion: scheduling.x-k8s.io/v2\nkind: PodGroup", 1, "apiVersion", "as scheduling.x-k8s.io/v1"),
        ("apiVersion: kubeflow.org/v1\nkind: TFJob", 2, "kind", "write a manifest"),
        ("apiVersion: batch/v1\nkind: CronJob", 2, "kind", "start it with kubectl apply"),
        (
            pod("a", spec="{containers: [{name: c, command: [sleep, 1]}]}"),
            4,
            "spec.containers[0].command[1]",
            'takes text, not a whole number; put it in quotes: "1"',
        ),
        (
            pod("a", spec="{containers: [{name: c, command: [echo, true]}]}"),
            4,
            "spec.containers[0].command[1]",
            'put it in quotes: "true"',
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata: x", 3, "metadata", "takes a mapping"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}", 3, "metadata.name", "is missing"),
        (pod("A_b"), 3, "metadata.name", "such as a-b"),
        (pod("a", ", namespace: Ü"), 3, "metadata.namespace", "lowercase"),
        (pod("a" * 254), 3, "metadata.name", "1 more than 253"),
        (pod("a") + "---\n" + pod("a"), 8, "metadata.name", "is already in line 1"),
        (JOB + "  parallelism: '3'", 5, "spec.parallelism", "takes a whole number, not text"),
        (JOB + "  parallelism: -1", 5, "spec.parallelism", "the least is 0"),
        (JOB + "  completions: 99999999999", 5, "spec.completions", "the most is 2147483647"),
        (JOB + "  template: 5", 5, "spec.template", "takes a mapping, not a whole number"),
        (JOB + "  template: {spec: {containers: []}}", 5, "spec.template.spec.containers", "at least one"),
        (
            JOB + "  template:\n    spec:\n      containers:\n        - name: a\n          command: sleep 1",
            9,
            f"{POD_AT}.command",
            "takes a list, not text",
        ),
        (
            JOB + "  template: {spec: {containers: [{name: c, image: x}]}}",
            5,
            f"{POD_AT}.command",
            "images are not pulled",
        ),
        (JOBSET + "  replicatedJobs: 5", 5, "spec.replicatedJobs", "takes a list, not a whole number"),
        (JOBSET + "  replicatedJobs: [{name: w, replicas: -1}]", 5, f"{JOBS_AT}.replicas", "the least is 0"),
        (
            JOBSET + "  replicatedJobs: [{name: w, template: {spec: []}}]",
            5,
            f"{JOBS_AT}.template.spec",
            "takes a mapping, not a list",
        ),
        (
            JOBSET + f"  replicatedJobs: [{NOT_A_LIST}]",
            5,
            f"{JOBS_AT}.template.spec.template.spec.containers",
            "takes a list",
        ),
        (jobset(metadata="name: " + "a" * 56), 6, "spec.replicatedJobs[0].name", "too many"),
        (
            jobset("  successPolicy: {operator: Most}\n"),
            13,
            "spec.successPolicy.operator",
            "Unsupported value",
        ),
        (jobset("  volumeClaimPolicies: [{}]\n"), 13, "spec.volumeClaimPolicies", "Forbidden"),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", 1, "", "nothing to run"),
        (job("  parallelism: 200000\n"), 1, "", "more than 100,000 pods at a time"),
        (job("  completions: 2000000\n"), 1, "", "more than 1,000,000 pods in all"),
        (pod("a") + "---\n- 1\n", 6, "", "is not an object"),
    ],
)
def test_errors_name_line_and_field(text: str, line: int, field: str, words: str) -> None:
    with pytest.raises(JobFileError) as caught:
        load("f.yaml", text=text)
    matching = [f for f in caught.value.findings if f.field == field]
    assert matching, f"no error about {field!r} in: {caught.value}"
    assert (matching[0].line, words in matching[0].message) == (line, True), str(caught.value)


def test_names_that_just_fit() -> None:
    load("f.yaml", text=job(metadata="name: " + "a" * 63))
    load("f.yaml", text=job("  completions: 100\n  completionMode: Indexed\n", "name: " + "a" * 60))


def test_the_jobs_of_a_jobset_are_checked_too() -> None:
    text = jobset().replace("parallelism: 2", "backoffLimit: 0\n          podReplacementPolicy: Maybe")
    with pytest.raises(JobFileError, match=r"f\.yaml:11: .*template\.spec\.podReplacementPolicy"):
        load("f.yaml", text=text)


def test_an_error_within_a_list_is_placed_in_it() -> None:
    items = f"- {json.dumps(_object(pod('a')))}\n- {{apiVersion: v1, kind: Pood}}\n"
    text = f"apiVersion: v1\nkind: List\nitems:\n{items}"
    with pytest.raises(JobFileError, match=r"f\.yaml:5: items\[1\]\.kind: .*did you mean Pod\?"):
        load("f.yaml", text=text)


def test_an_image_is_needed_on_a_real_cluster_only() -> None:
    load("f.yaml", text=job())
    with pytest.raises(JobFileError, match="name an image"):
        load("f.yaml", Options(local=False), text=job())


@pytest.mark.parametrize(
    ("text", "field", "meant"),
    [
        (jobset().replace("replicas", "replica"), "spec.replicatedJobs[0].replica", "replicas"),
        (job("  completion: 5\n"), "spec.completion", "completions"),
        (job("  backofLimit: 5\n"), "spec.backofLimit", "backoffLimit"),
        (
            pod("a", spec=POD_SPEC.replace("name: main", "name: m, resource: {}")),
            "spec.containers[0].resource",
            "resources",
        ),
    ],
)
def test_slips_of_the_pen_are_warned_of(text: str, field: str, meant: str) -> None:
    (warning,) = [n for n in load("f.yaml", text=text).notes if n.severity is Severity.WARNING]
    assert (warning.field, warning.message) == (field, f"unknown field; did you mean {meant}?")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("wieght: 3", "unknown field; did you mean weight?"),
        (
            "share: 3",
            "unknown field; known: allow, capability, closed, deserved, guarantee, maxExclusiveLayer, ",
        ),
    ],
)
def test_of_our_own_kinds_every_field_is_known(spec: str, said: str) -> None:
    text = f"apiVersion: muster.dev/v1alpha1\nkind: Queue\nmetadata: {{name: q}}\nspec: {{{spec}}}\n"
    (warning,) = load("f.yaml", Options(jobs=False), text=text).notes
    assert f"f.yaml:4: spec.{spec.partition(':')[0]}: {said}" in str(warning)


def test_real_fields_that_look_alike_are_no_slips() -> None:
    spec = POD_SPEC.replace(
        "restartPolicy", "serviceAccount: x, dnsPolicy: Default, dnsConfig: {}, restartPolicy"
    )
    assert not load("f.yaml", text=pod("a", spec=spec)).notes


def test_the_queue_of_the_command_line_beats_that_of_the_file() -> None:
    (made,) = load("f.yaml", Options(queue="research"), text=job()).objects
    assert made["metadata"]["labels"][names.QUEUE] == "research"
    text = job(metadata=f"name: a, annotations: {{{names.QUEUE}: old}}")
    (made,) = load("f.yaml", Options(queue="research"), text=text).objects
    assert made["metadata"]["annotations"].get(names.QUEUE) is None
    assert made["metadata"]["labels"][names.QUEUE] == "research"


@pytest.mark.parametrize(
    ("text", "hinted"),
    [
        (job("  parallelism: 2\n").replace("sleep", "torchrun"), True),
        (job().replace("sleep", "torchrun"), False),  # one pod has no other to wait for
        (job("  parallelism: 2\n"), False),
        (pod("a") + "---\n" + pod("b"), False),
    ],
)
def test_hints(text: str, hinted: bool) -> None:
    assert any(n.severity is Severity.HINT for n in load("f.yaml", text=text).notes) is hinted


def _object(text: str) -> Object:
    loaded: JobFile = load("f.yaml", text=text)
    return loaded.objects[0]


def test_all_errors_of_a_jobset_are_reported_together() -> None:
    text = """apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: js}
spec:
  replicatedJobs:
  - name: a
    replicas: x
    template: {spec: {backoffLimit: y, template: {spec: {
      restartPolicy: 3, containers: [{name: c, args: x}]}}}}
  - name: b
    template: {spec: {parallelism: z, template: {spec: {containers: [{name: c, command: [x]}]}}}}
  - 7
"""
    with pytest.raises(JobFileError) as caught:
        load("f.yaml", text=text)
    template = "template.spec.template.spec"
    assert {
        (each.line, each.field.removeprefix("spec.replicatedJobs")) for each in caught.value.findings
    } == {
        (7, "[0].replicas"),
        (8, "[0].template.spec.backoffLimit"),
        (9, f"[0].{template}.restartPolicy"),
        (9, f"[0].{template}.containers[0].args"),
        (11, "[1].template.spec.parallelism"),
        (12, "[2]"),
    }


def test_missing_fields_of_pods_and_violated_rules_are_reported_together() -> None:
    text = jobset("  successPolicy: {operator: Most}\n").replace("command:", "args:")
    with pytest.raises(JobFileError) as caught:
        load("f.yaml", text=text)
    fields = {each.field.rpartition(".")[2] for each in caught.value.findings}
    assert {"operator", "command"} <= fields


def test_errors_of_one_object_hide_neither_wrong_keys_nor_the_other_objects() -> None:
    text = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: a
  labels: {muster.dev/queu: q, muster.dev/gang: "yes"}
spec:
  template:
    metadata: {annotations: {muster.dev/run-time: soon}}
    spec: {restartPolicy: Never, containers: [{name: c, image: i}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: b, labels: {muster.dev/prority: "1"}}
spec: {parallelism: many, template: {spec: {restartPolicy: Never, containers: [{name: c, command: [x]}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: C}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c}]}}}
"""
    with pytest.raises(JobFileError) as refused:
        load("f.yaml", text=text)
    assert [
        (each.line, each.field.rpartition("/")[2].rpartition(".")[2]) for each in refused.value.findings
    ] == [
        (5, "queu"),
        (5, "gang"),
        (8, "run-time"),
        (9, "command"),
        (13, "prority"),
        (14, "parallelism"),
        (18, "name"),
    ]


def test_a_jobs_name_that_is_too_long_is_reported_where_it_is_written() -> None:
    with pytest.raises(JobFileError) as caught:
        load("f.yaml", text=job(metadata="name: " + "a" * 64))
    (finding,) = caught.value.findings
    assert (finding.line, finding.field) == (3, "metadata.name")
    assert finding.message == "has 64 characters; the Job's pods have it as a label, so at most 63"


@pytest.mark.parametrize(("text", "line"), [("kind: Pod\nmetadata:\n\tname: a\n", 3), ("a: b\n\t- c", 2)])
def test_a_tab_is_called_a_tab(text: str, line: int) -> None:
    with pytest.raises(JobFileError) as caught:
        load("f.yaml", text=text)
    (finding,) = caught.value.findings
    assert (finding.line, finding.message) == (
        line,
        "is not YAML: a tab is not allowed here; indent YAML with spaces",
    )


def test_two_jobsets_of_one_group_each_are_not_said_to_be_a_gang_of_both() -> None:
    """`--gang` would make each a gang of its own."""
    text = f"{jobset()}---\n{jobset(metadata='name: b')}"
    assert not [note for note in load("f.yaml", text=text).notes if note.severity is Severity.HINT]
