"""AIchor manifests: the ten of the public page by table, every field, and what is refused."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from muster import names
from muster.api import quantity
from muster.api.base import Object
from muster.api.fields import Severity, convert
from muster.api.jobset_v1alpha2 import JobSet
from muster.workloads.demand import demand
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Caller, JobFile, Options
from muster.workloads.load import load

EXAMPLES = Path(__file__).parents[2] / "examples"

#: (file, {type: (jobs, pods per job, pods of a job at a time)}) as the page shows them
PAGE: list[tuple[str, dict[str, tuple[int, int, int]]]] = [
    ("00-how-to-use", {"master": (1, 1, 1), "worker": (5, 1, 1), "worker-2": (1, 1, 1)}),
    ("01-one-group-one-job", {"worker": (1, 1, 1)}),
    ("02-one-group-multiple-jobs", {"worker": (4, 1, 1)}),
    ("03-two-groups", {"master": (1, 1, 1), "worker": (4, 1, 1)}),
    ("04-two-groups-concurrent-pods", {"master": (1, 1, 1), "worker": (4, 2, 2)}),
    ("05-two-groups-sequential-pods", {"master": (1, 1, 1), "worker": (4, 4, 1)}),
    ("06-hyperparameter-sweep", {"trial": (16, 1, 1)}),
    ("07-heterogeneous-pools", {"coordinator": (1, 1, 1), "gpu-worker": (4, 1, 1), "cpu-worker": (8, 1, 1)}),
    ("08-sequential-batches", {"processor": (1, 100, 4)}),
    ("09-mixed-concurrency", {"preprocessor": (4, 4, 4), "evaluator": (4, 4, 1)}),
]
TOTALS = {"04": (9, 9), "05": (17, 5), "07": (13, 13), "08": (100, 4), "09": (32, 20)}


@pytest.mark.parametrize(("file", "types"), PAGE)
@pytest.mark.parametrize("mode", ["gang", "independent", None])
def test_the_pages_manifests_give_its_jobs_pods_and_waves(
    file: str, types: dict[str, tuple[int, int, int]], mode: Any
) -> None:
    job = load(EXAMPLES / f"{file}.yaml", Options(suffix="3f9a1c20", mode=mode))
    (jobset,) = job.objects
    assert job.name == jobset["metadata"]["name"] == "experiment-3f9a1c20"
    replicated = jobset["spec"]["replicatedJobs"]
    assert [r["name"] for r in replicated] == list(types)  # YAML's order
    for r, (jobs, completions, width) in zip(replicated, types.values(), strict=True):
        spec = r["template"]["spec"]
        assert (r["replicas"], spec["completions"], spec["parallelism"]) == (jobs, completions, width)
        assert spec["completionMode"] == "Indexed"
        pod = spec["template"]["spec"]
        assert pod["restartPolicy"] == "Never"
        assert [c["name"] for c in pod["containers"]] == [r["name"]]
    sets = {s.name: s for s in demand(job)}
    assert {n: (s.count, s.pods) for n, s in sets.items()} == {
        n: (jobs * width, jobs * completions) for n, (jobs, completions, width) in types.items()
    }
    if file[:2] in TOTALS:
        assert (sum(s.pods for s in sets.values()), sum(s.count for s in sets.values())) == TOTALS[file[:2]]
    convert(jobset, JobSet)


@pytest.mark.parametrize(
    ("file", "peers"),
    [("13-coordinator", ["coordinator-0", "worker-0", "worker-1", "worker-2"]), ("14-peers", ["worker-0"])],
)
def test_the_manifests_of_the_pages_scripts_are_gangs(file: str, peers: list[str]) -> None:
    job = load(EXAMPLES / f"{file}.yaml", Options(suffix="0" * 8))
    script = pod_spec(job)["containers"][0]["command"][2].split()[-1]
    assert (EXAMPLES.parent / script).is_file()
    assert job.gang
    hosts = [f"{job.name}-{peer}-0.{job.name}" for peer in peers]
    assert variables(job, 0)["MUSTER_PEERS"].split(",")[: len(hosts)] == hosts
    requests = pod_spec(job)["containers"][0]["resources"]["requests"]
    assert requests == {"cpu": "0.1", "memory": "103Mi"}


def test_names_of_pods_are_those_the_page_lists() -> None:
    env = variables(load(EXAMPLES / "04-two-groups-concurrent-pods.yaml", Options(suffix="0" * 8)), 0)
    pods = [
        peer.split(".")[0].removeprefix("experiment-00000000-") for peer in env["MUSTER_PEERS"].split(",")
    ]
    workers = [f"worker-{job}-{index}" for job in range(4) for index in range(2)]
    assert pods == ["master-0-0", *workers]


def test_peers_are_the_first_wave_and_the_coordinator_is_its_first() -> None:
    env = variables(load(EXAMPLES / "05-two-groups-sequential-pods.yaml", Options(suffix="0" * 8)), 1)
    js = "experiment-00000000"
    hosts = [f"{js}-{h}.{js}" for h in ("master-0-0", *(f"worker-{i}-0" for i in range(4)))]
    assert env["MUSTER_PEERS"].split(",") == hosts
    assert env["MUSTER_COORDINATOR"] == hosts[0]


def test_the_variables_are_read_from_jobsets_labels() -> None:
    (jobset,) = load(EXAMPLES / "00-how-to-use.yaml").objects
    for r in jobset["spec"]["replicatedJobs"]:
        env = r["template"]["spec"]["template"]["spec"]["containers"][0]["env"]
        paths = {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in env if "valueFrom" in e}
        assert paths == {
            "JOB_INDEX": "metadata.labels['jobset.sigs.k8s.io/job-index']",
            "GLOBAL_REPLICAS": "metadata.labels['jobset.sigs.k8s.io/global-replicas']",
            "JOB_GLOBAL_INDEX": "metadata.labels['jobset.sigs.k8s.io/job-global-index']",
            "REPLICATED_JOB_NAME": "metadata.labels['jobset.sigs.k8s.io/replicatedjob-name']",
            "REPLICATED_JOB_REPLICAS": "metadata.labels['jobset.sigs.k8s.io/replicatedjob-replicas']",
        }
        assert "JOB_COMPLETION_INDEX" not in {e["name"] for e in env}  # the Job controller's own


def test_resources_selectors_and_volumes() -> None:
    job = load(
        "f.yaml",
        Options(suffix="01234567", volumes={"data": "/srv/data"}, home="/home/ada/.muster"),
        text=manifest(
            """
      resources:
        cpus: 1.5
        ramRatio: 2.5
        cpuLimitRatio: 1.5
        shmSizeGB: 4
        accelerators: {gpu: {count: 2, type: gpu, product: NVIDIA-A100-SXM4-80GB-MIG-3g.40gb}}
        ephemeralStorageRequest: 10Gi
        ephemeralStorageLimit: 20Gi
        extraSelectors: {cloud.google.com/gke-spot: "true"}
        extraTolerations:
          - {key: cloud.google.com/gke-spot, operator: Equal, value: "true", effect: NoSchedule}
""",
            spec="""
  storage:
    sharedVolume: {mountPoint: /mnt/shared, sizeGB: 10, storageClass: fast, accessMode: ReadWriteMany}
    attachExistingPVCs: [{name: data, mountPoint: /data}]
""",
        ),
    )
    pod = pod_spec(job)
    (container,) = pod["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "1.5", "memory": "3840Mi", names.GPU: "2", "ephemeral-storage": "10Gi"},
        "limits": {"cpu": "2.25", "memory": "3840Mi", names.GPU: "2", "ephemeral-storage": "20Gi"},
    }
    assert pod["nodeSelector"] == {
        "cloud.google.com/gke-spot": "true",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-3g.40gb",
    }
    assert pod["tolerations"] == [
        {"key": "cloud.google.com/gke-spot", "value": "true", "operator": "Equal", "effect": "NoSchedule"}
    ]
    shared = "/home/ada/.muster/shared/default/experiment-01234567"
    sources = {v["name"]: {k: s for k, s in v.items() if k != "name"} for v in pod["volumes"]}
    mounts = {m["mountPath"]: sources[m["name"]] for m in container["volumeMounts"]}
    assert mounts == {
        "/mnt/shared": {"hostPath": {"path": shared, "type": "DirectoryOrCreate"}},
        "/data": {"hostPath": {"path": "/srv/data", "type": "Directory"}},
        "/dev/shm": {"emptyDir": {"medium": "Memory", "sizeLimit": "4Gi"}},
    }
    assert job.objects[0]["metadata"]["annotations"][names.SHARED_VOLUME] == "true"


def test_memory_is_gib() -> None:
    pod = pod_spec(load("f.yaml", text=manifest("      resources: {cpus: 2, memory: 7}")))
    requests = pod["containers"][0]["resources"]["requests"]
    assert quantity.parse(requests["memory"]) == Fraction(7 * 2**30)
    assert requests["cpu"] == "2"


def test_a_gang_restarts_as_a_whole() -> None:
    text = manifest("", spec="  restartPolicy: {backoffLimit: 5}")
    (jobset,) = load("f.yaml", Options(mode="gang"), text=text).objects
    assert jobset["spec"]["suspend"] is True
    assert jobset["metadata"]["labels"] == {names.GANG: "true", names.ADMISSION: "gang"}
    assert jobset["spec"]["failurePolicy"] == {"maxRestarts": 5}
    assert job_spec(jobset)["backoffLimit"] == 0
    assert names.RESTART_BUDGET not in jobset["metadata"]["annotations"]


@pytest.mark.parametrize("mode", ["independent", None])
def test_independent_jobs_retry_the_failed_index_within_one_budget(mode: Any) -> None:
    text = manifest("", spec="  restartPolicy: {backoffLimit: 5}")
    (jobset,) = load("f.yaml", Options(mode=mode), text=text).objects
    assert "suspend" not in jobset["spec"]
    assert jobset["metadata"].get("labels", {}) == ({names.GANG: "false"} if mode else {})
    assert jobset["spec"]["failurePolicy"] == {"maxRestarts": 0}
    assert job_spec(jobset)["backoffLimit"] == 5
    assert jobset["metadata"]["annotations"][names.RESTART_BUDGET] == "5"


@pytest.mark.parametrize("mode", ["gang", "independent"])
def test_evicted_pods_never_count_as_failures(mode: Any) -> None:
    (jobset,) = load("f.yaml", Options(mode=mode), text=manifest("")).objects
    rule = {"action": "Ignore", "onPodConditions": [{"type": "muster.dev/Preempted", "status": "True"}]}
    assert job_spec(jobset)["podFailurePolicy"] == {"rules": [rule]}


@pytest.mark.parametrize(
    ("spec", "deadline"),
    [
        ("  timeout: 6h", "6h"),
        ("  timeout: 1d", "1d"),
        ("  timeout: 4m\n  activeDeadlineSeconds: 5", "4m"),
        ("  activeDeadlineSeconds: 5400", "1h30m"),
        ("", None),
    ],
)
def test_the_deadline_is_the_whole_experiments(spec: str, deadline: str | None) -> None:
    (jobset,) = load("f.yaml", text=manifest("", spec=spec)).objects
    assert jobset["metadata"]["annotations"].get(names.DEADLINE) == deadline


def test_the_command_reaches_the_shell_as_written() -> None:
    text = manifest("", spec="  env: {GREETING: hello}", command="'echo $$ $((1+1)) $GREETING'")
    (container,) = pod_spec(load("f.yaml", text=text))["containers"]
    # Kubernetes turns $$ into $ and leaves $((…)) alone
    assert container["command"] == ["/bin/sh", "-c", "echo $$$$ $((1+1)) $GREETING"]
    assert {"name": "GREETING", "value": "hello"} in container["env"]
    assert "image" not in container


def test_the_mode_of_the_file_yields_to_the_command_line() -> None:
    text = manifest("", spec="  scheduling: {mode: gang, priorityClassName: high}")
    job = load("f.yaml", text=text)
    assert job.gang
    assert pod_spec(job)["priorityClassName"] == "high"
    assert not load("f.yaml", Options(mode="independent"), text=text).gang


def test_the_topology_of_a_gang_is_written_as_koordinator_has_it() -> None:
    rules = "[{layer: Spine}, {layer: Block, strategy: PreferGather, podCountMultiple: 4}]"
    text = manifest("", spec=f"  scheduling: {{mode: gang, topology: {rules}, exclusive: Block}}")
    annotations = load("f.yaml", text=text).objects[0]["metadata"]["annotations"]
    assert json.loads(annotations["gang.scheduling.koordinator.sh/network-topology-spec"]) == {
        "gatherStrategy": [
            {"layer": "Spine", "strategy": "MustGather"},
            {"layer": "Block", "strategy": "PreferGather", "podCountMultiple": 4},
        ]
    }
    assert annotations[names.EXCLUSIVE] == "Block"


def test_the_caller_is_noted_on_the_pod_template() -> None:
    job = load(
        "f.yaml",
        Options(caller=Caller("/home/ada/x", path="/bin", home="/home/ada", lang="C")),
        text=manifest(""),
    )
    template = job_spec(job.objects[0])["template"]
    assert json.loads(template["metadata"]["annotations"][names.CALLER]) == {
        "cwd": "/home/ada/x",
        "PATH": "/bin",
        "HOME": "/home/ada",
        "LANG": "C",
    }


def test_fields_without_meaning_here_are_named_once() -> None:
    job = load(
        "f.yaml",
        text="""
kind: AIchorManifest
apiVersion: 0.2.2
builder: {image: x, dockerfile: Dockerfile, buildArgs: {A: true}, skipBuild: {enabled: true}}
clone: {depth: 3, includeDotGit: true, submodules: recursive}
spec:
  operator: jobset
  image: x
  command: "true"
  engineName: here
  tensorboard: {enabled: true}
  debug: {vscode: {enabled: true}}
  types:
    w: {resources: {cpus: 1, ramRatio: 2, rdma: {devices: [sriov_a]}}}
""",
    )
    (note,) = [n for n in job.notes if n.severity is Severity.NOTE]
    assert note.line == 4
    for field in ("builder", "clone", "spec.engineName", "spec.tensorboard", "spec.debug", "resources.rdma"):
        assert field in f"{note.path} {note.message}"


#: (what is written, line, field, words of the message)
WRONG: list[tuple[str, int, str, str]] = [
    ("kind: AichorManifest\nspec: {operator: jobset, command: x, types: {w: }}", 1, "kind", "AIchorManifest"),
    ("apiVersion: 0.1.9\nspec: {operator: jobset, command: x, types: {w: }}", 1, "apiVersion", "0.2.3"),
    ("a: 1", 1, "spec", "missing"),
    ("a: 1", 1, "a", "unknown field"),
    (
        "spec:\n  operator: kuberay\n  types: {}",
        2,
        "spec.operator",
        "not supported yet: kuberay; supported: jobset",
    ),
    ("spec:\n  operator: pytorch", 2, "spec.operator", "not supported yet: pytorch; supported: jobset"),
    ("spec:\n  operator: jobste\n  command: x", 2, "spec.operator", "supported: jobset"),
    ("spec:\n  operator: jobset\n  comand: x", 3, "spec.comand", "did you mean command?"),
    (
        "spec:\n  operator: jobset\n  command: [a, b c, 1, true]",
        3,
        "spec.command",
        "takes one shell line, not a list; write \"a 'b c' 1 true\"",
    ),
    ("spec:\n  operator: jobset\n  command: []", 3, "spec.command", 'write "python3 main.py"'),
    ("spec:\n  operator: jobset\n  command: x\n  types: {}", 4, "spec.types", "name at least one"),
    ("spec:\n  operator: jobset\n  command: x\n  types: [w]", 4, "spec.types", "takes a mapping, not a list"),
]
WRONG_SPEC: list[tuple[str, int, str, str]] = [
    ("  timeout: soon", 5, "spec.timeout", "is not a duration"),
    ("  activeDeadlineSeconds: 0", 5, "spec.activeDeadlineSeconds", "the least is 1"),
    ("  restartPolicy: {backoffLimit: -1}", 5, "spec.restartPolicy.backoffLimit", "the least is 0"),
    ("  restartPolicy: {backofLimit: 1}", 5, "spec.restartPolicy.backofLimit", "did you mean backoffLimit?"),
    ("  env: {JOB_INDEX: a}", 5, "spec.env.JOB_INDEX", "set for every pod"),
    ("  env: {AICHOR_OUTPUT_PATH: a}", 5, "spec.env.AICHOR_OUTPUT_PATH", "set for every pod"),
    ("  env: {MUSTER_PEERS: a}", 5, "spec.env.MUSTER_PEERS", "set for every pod"),
    ("  env: {LIMIT: 3}", 5, "spec.env.LIMIT", 'put it in quotes: "3"'),
    ("  env: {DEBUG: yes}", 5, "spec.env.DEBUG", 'put it in quotes: "true"'),
    ("  env: {A=B: x}", 5, "spec.env.A=B", "not a name for a variable"),
    ("  scheduling: {queue: 7}", 5, "spec.scheduling.queue", "text"),
    (
        "  scheduling: {topology: [{layer: rack}]}",
        5,
        "spec.scheduling.topology",
        "write mode: gang beside it",
    ),
    ("  scheduling: {exclusive: rack}", 5, "spec.scheduling.exclusive", "write mode: gang beside it"),
    ("  scheduling: {topology: [{strategy: Must}]}", 5, "spec.scheduling.topology[0].strategy", "MustGather"),
    ("  scheduling: {topology: [{strategy: MustGather}]}", 5, "spec.scheduling.topology[0].layer", "missing"),
    ("  scheduling: {mode: gangs}", 5, "spec.scheduling.mode", "independent, gang"),
    ("  storage: {sharedVolume: {mountPoint: here}}", 5, "spec.storage.sharedVolume.mountPoint", "absolute"),
    (
        "  storage: {attachExistingPVCs: [{name: d, mountPoint: /d}]}",
        5,
        "spec.storage.attachExistingPVCs[0]",
        "--volume d=DIR",
    ),
    ("  debug: {jupiter: true}", 5, "spec.debug.jupiter", "did you mean jupyter?"),
]
WRONG_TYPE: list[tuple[str, int, str, str]] = [
    ("      count: -1", 6, "count", "is -1; the least is 0"),
    ("      count: 99999999999", 6, "count", "the most is 2147483647"),
    ("      count: 2.5", 6, "count", "takes a whole number, not the number 2.5"),
    ("      count: '2'", 6, "count", 'takes a whole number, not the text "2"'),
    ("      completions: 0", 6, "completions", "is 0; the least is 1"),
    ("      parallelisms: true", 6, "parallelisms", "takes a whole number, not true"),
    ("      resources: {memory: 16Gi}", 6, "resources.memory", "write 16 (GiB)"),
    ("      resources: {memory: 512Mi}", 6, "resources.memory", "write 0.5 (GiB)"),
    ("      resources: {memory: '16'}", 6, "resources.memory", 'not the text "16"'),
    ("      resources: {memory: 1, shmSizeGB: 8Gi}", 6, "resources.shmSizeGB", "write 8 (GiB)"),
    (
        "      resources: {memory: 1, accelerators: {gpu: 8}}",
        6,
        "resources.accelerators.gpu",
        "not the number 8; write gpu: {count: 8}",
    ),
    ("      cout: 2", 6, "cout", "did you mean count?"),
    ("      scheduling: {topology: [{layer: rack}]}", 6, "scheduling.topology", "no topology of its own"),
    ("      resources: {ramRatio: 2, memory: 3}", 6, "resources.memory", "keep one"),
    ("      resources: {cpus: 2}", 6, "resources", "neither ramRatio"),
    ("      resources: {cpus: 0, ramRatio: 2}", 6, "resources.cpus", "more than 0"),
    ("      resources: {cpus: two, ramRatio: 2}", 6, "resources.cpus", 'takes a number, not the text "two"'),
    ("      resources: {memory: 1, cpuLimitRatio: 0.5}", 6, "resources.cpuLimitRatio", "the least is 1"),
    (
        "      resources: {memory: 1, accelerators: {gpu: {count: -2}}}",
        6,
        "resources.accelerators.gpu.count",
        "the least is 0",
    ),
    (
        "      resources: {memory: 1, accelerators: {gpu: {type: tpu}}}",
        6,
        "resources.accelerators.gpu.type",
        "is not one of gpu",
    ),
    (
        "      resources: {memory: 1, accelerators: {tpu: {count: 1}}}",
        6,
        "resources.accelerators.tpu",
        "kuberay",
    ),
    (
        "      resources: {memory: 1, ephemeralStorageRequest: 2Gi, ephemeralStorageLimit: 1Gi}",
        6,
        "resources.ephemeralStorageLimit",
        "less than the request",
    ),
    (
        "      resources: {memory: 1, ephemeralStorageRequest: lots}",
        6,
        "resources.ephemeralStorageRequest",
        "not a quantity",
    ),
    (
        "      resources: {memory: 1, extraTolerations: [{operator: Equal}]}",
        6,
        "resources.extraTolerations[0].key",
        "name the taint",
    ),
    (
        "      resources: {memory: 1, extraSelectors: {spot: true}}",
        6,
        "resources.extraSelectors.spot",
        "in quotes",
    ),
]


@pytest.mark.parametrize(("text", "line", "field", "words"), WRONG)
def test_errors_name_line_and_field(text: str, line: int, field: str, words: str) -> None:
    assert_error(text, line, field, words)


@pytest.mark.parametrize(("spec", "line", "field", "words"), WRONG_SPEC)
def test_errors_in_spec(spec: str, line: int, field: str, words: str) -> None:
    text = f"spec:\n  operator: jobset\n  command: x\n  types: {{w: }}\n{spec}\n"
    assert_error(text, line, field, words)


@pytest.mark.parametrize(("entry", "line", "field", "words"), WRONG_TYPE)
def test_errors_in_a_type(entry: str, line: int, field: str, words: str) -> None:
    text = f"spec:\n  operator: jobset\n  command: x\n  types:\n    w:\n{entry}\n"
    assert_error(text, line, f"spec.types.w.{field}", words)


@pytest.mark.parametrize("name", ["Worker", "2nd", "-w", "w-", "w_1", "wörker", "w.x"])
def test_impossible_names_of_types(name: str) -> None:
    text = f"spec:\n  operator: jobset\n  command: x\n  types:\n    {name}: {{count: 1}}\n"
    assert_error(text, 5, f"spec.types.{name}", "begin with a letter")


@pytest.mark.parametrize(
    ("name", "advice"), [("My Run", "such as my-run"), ("9lives", "such as lives"), ("é", "")]
)
def test_impossible_names_of_experiments(name: str, advice: str) -> None:
    assert_error(f"name: {name}\nspec: {{operator: jobset, command: x, types: {{w: }}}}", 1, "name", advice)


def test_two_types_of_one_name() -> None:
    text = "spec:\n  operator: jobset\n  command: x\n  types:\n    w: {count: 1}\n    w: {count: 2}\n"
    assert_error(text, 6, "", "w is given twice, here and in line 5")


def test_a_name_too_long_for_dns_says_by_how_much() -> None:
    # experiment-xxxxxxxx-<type>-0-0-xxxxx leaves 33 characters for the type
    good = "w" * 33
    load("f.yaml", text=f"spec: {{operator: jobset, command: x, types: {{{good}: }}}}")
    assert_error(
        f"spec: {{operator: jobset, command: x, types: {{{good}ww: }}}}",
        1,
        f"spec.types.{good}ww",
        "2 more than the 63",
    )


@pytest.mark.parametrize(
    "counts",
    [
        "count: 2000000",
        "count: 1000, completions: 1001",
        "count: 2, completions: 100000, parallelisms: 60000",
    ],
)
def test_counts_beyond_any_cluster_are_refused(counts: str) -> None:
    text = f"spec:\n  operator: jobset\n  command: x\n  types:\n    w: {{{counts}}}\n"
    assert_error(text, 4, "spec.types", "lower count")


def test_a_second_document_is_refused() -> None:
    assert_error(
        "spec: {operator: jobset, command: x, types: {w: }}\n---\na: 1", 3, "", "must be the only document"
    )


def test_all_errors_are_reported_together_in_the_order_of_the_file() -> None:
    with pytest.raises(JobFileError) as caught:
        load(
            "f.yaml",
            text="spec:\n  operator: jobset\n  comand: x\n  types:\n    W: {count: -1}\n    v: {cout: 1}\n",
        )
    assert [f.line for f in caught.value.findings] == [1, 3, 5, 5, 6]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "  command: [python3, train.py]\n  types: {worker: {count: 1}}\n",
            'f.yaml:3: spec.command: takes one shell line, not a list; write "python3 train.py"',
        ),
        (
            "  command: 5\n  types: {worker: {count: 1}}\n",
            'f.yaml:3: spec.command: takes text, not the number 5; put it in quotes: "5"',
        ),
        (
            "  command: x\n  types:\n    worker:\n    count: 4\n    resources: {cpus: 1, memory: 1}\n",
            "f.yaml:5: spec.types.worker: is empty; are count and resources meant to be indented below it?",
        ),
        (
            "  command: x\n  types:\n    worker:\n    count: 4\n",
            "f.yaml:5: spec.types.worker: is empty; is count meant to be indented below it?",
        ),
    ],
)
def test_one_slip_is_one_error(text: str, told: str) -> None:
    with pytest.raises(JobFileError) as caught:
        load("f.yaml", text=f"spec:\n  operator: jobset\n{text}")
    assert str(caught.value) == told


def test_a_type_may_have_the_name_of_a_field() -> None:
    text = "spec:\n  operator: jobset\n  command: x\n  types: {worker: , count: {count: 2}, resources: }\n"
    (jobset,) = load("f.yaml", text=text).objects
    assert [each["name"] for each in jobset["spec"]["replicatedJobs"]] == ["worker", "count", "resources"]


@pytest.mark.parametrize("what", ["image", "sharedVolume"])
def test_a_manifest_for_a_real_cluster_needs_an_image_and_pvcs(what: str) -> None:
    text = manifest("", spec="  storage: {sharedVolume: {mountPoint: /s}}")
    with pytest.raises(JobFileError, match=what):
        load("f.yaml", Options(local=False), text=text)


def test_existing_volumes_stay_claims_on_a_real_cluster() -> None:
    text = manifest("", spec="  image: x\n  storage: {attachExistingPVCs: [{name: data, mountPoint: /data}]}")
    (volume,) = pod_spec(load("f.yaml", Options(local=False), text=text))["volumes"]
    assert volume["persistentVolumeClaim"] == {"claimName": "data"}


@pytest.mark.parametrize(
    ("file", "hinted"),
    [("01", False), ("02", False), ("03", True), ("06", True), ("08", False), ("09", True)],
)
def test_a_hint_when_pods_may_wait_for_each_other(file: str, hinted: bool) -> None:
    (path,) = EXAMPLES.glob(f"{file}-*.yaml")
    assert any(n.severity is Severity.HINT for n in load(path).notes) is hinted
    assert not any(n.severity is Severity.HINT for n in load(path, Options(mode="gang")).notes)
    assert not any(n.severity is Severity.HINT for n in load(path, Options(mode="independent")).notes)


@pytest.mark.parametrize(
    "command", ["torchrun main.py", "MASTER_ADDR=x python main.py", "echo $MUSTER_PEERS"]
)
def test_a_rendezvous_in_the_command_is_a_hint(command: str) -> None:
    text = f"spec: {{operator: jobset, command: '{command}', types: {{w: {{count: 2}}}}}}"
    (hint,) = [n for n in load("f.yaml", text=text).notes if n.severity is Severity.HINT]
    assert "--gang" in hint.message


def test_a_list_of_peers_that_is_too_long_for_a_variable_is_omitted_with_a_note() -> None:
    job = load(
        "f.yaml",
        Options(suffix="0" * 8),
        text="spec: {operator: jobset, command: x, types: {w: {count: 10000}}}",
    )
    env = variables(job, 0)
    assert "MUSTER_PEERS" not in env
    assert env["MUSTER_COORDINATOR"] == "experiment-00000000-w-0-0.experiment-00000000"
    assert any("MUSTER_PEERS is not set" in n.message for n in job.notes)


def manifest(type_: str, spec: str = "", command: str = "python3 main.py") -> str:
    """A manifest of one type `w`, with more fields of the type and of spec."""
    head = f"spec:\n  operator: jobset\n  command: {command}\n{spec}\n"
    return f"{head}  types:\n    w:\n      count: 1\n{type_}\n"


def job_spec(jobset: Object) -> Object:
    spec: Object = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    return spec


def pod_spec(job: JobFile) -> Object:
    spec: Object = job_spec(job.objects[0])["template"]["spec"]
    return spec


def variables(job: JobFile, index: int) -> dict[str, str]:
    """The plain variables of a type's pods."""
    template = job.objects[0]["spec"]["replicatedJobs"][index]["template"]["spec"]["template"]
    return {e["name"]: e["value"] for e in template["spec"]["containers"][0]["env"] if "value" in e}


def assert_error(text: str, line: int, field: str, words: str) -> None:
    with pytest.raises(JobFileError) as caught:
        load("f.yaml", text=text)
    matching = [f for f in caught.value.findings if f.field == field]
    assert matching, f"no error about {field!r} in: {caught.value}"
    assert matching[0].line == line
    assert words in matching[0].message
    assert str(matching[0]).startswith(f"f.yaml:{line}: {field}")
