"""What is said of a job file before it runs."""

import os
from pathlib import Path

import pytest

from muster.api.base import ObjectMeta
from muster.api.kinds import VOLCANO_JOB as KIND
from muster.api.muster_v1alpha1 import Queue, QueueSpec
from muster.app.wiring.cluster import Target
from muster.cli import jobfile, plan, submission
from muster.cli.errors import BAD_INPUT, Failure
from muster.cli.jobfile import _unserved, header, of_jobs, unusable
from muster.workloads.jobfile import Options
from muster.workloads.load import load

VOLCANO_JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  schedulerName: %s
  tasks:
  - {name: w, replicas: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
"""
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: team}}]
current-context: x
"""
JOBSET = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: %s}
spec:
  %s
  replicatedJobs:
  - {name: prepare, template: {spec: {template: {spec: {containers: [{name: c, image: i, command: [x]}]}}}}}
  - {name: work, replicas: 2, %s template: {spec: {parallelism: 2, completions: 2, template: {spec: {
      containers: [
        {name: c, image: i, command: [x], resources: {limits: {nvidia.com/gpu: 2}}}]}}}}}
"""
AFTER = "dependsOn: [{name: prepare, status: Complete}],"
IN_ORDER = "startupPolicy: {startupPolicyOrder: InOrder}"
STAGES = "gang of 1: prepare 1, then gang of 4: work 4 × 2 GPU"


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (JOBSET % ("a", "", ""), "gang", "gang of 5: prepare 1, work 4 × 2 GPU"),
        (JOBSET % ("a", "", ""), "independent", "5 independent pods: prepare 1, work 4 × 2 GPU"),
        (JOBSET % ("a", "", AFTER), "gang", STAGES),
        (JOBSET % ("a", IN_ORDER, ""), "gang", STAGES),
        (JOBSET % ("a", IN_ORDER, "") + "---" + JOBSET % ("b", IN_ORDER, ""), "gang", f"{STAGES}; {STAGES}"),
        (JOBSET % ("a", IN_ORDER, ""), "independent", "5 independent pods: prepare 1, work 4 × 2 GPU"),
        (
            JOBSET % ("a", "", "") + "---" + JOBSET % ("b", "", ""),
            "independent",
            "10 independent pods: a/prepare 1, a/work 4 × 2 GPU, b/prepare 1, b/work 4 × 2 GPU",
        ),
    ],
)
def test_each_stage_of_an_order_is_a_gang(text: str, mode: str, said: str) -> None:
    job = load("f.yaml", Options(suffix="0" * 8, mode="gang" if mode == "gang" else "independent"), text=text)
    assert header(job) == said


GROUP = """
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: %s}
spec: {minMember: 1}
"""
MEMBER = """
---
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {%s}}
spec: {containers: [{name: c, image: i, command: [x]}]}
"""
WAVES = """
---
apiVersion: batch/v1
kind: Job
metadata: {name: %s, labels: {muster.dev/gang: "%s"}}
spec: {parallelism: 2, completions: 10, template: {spec: {restartPolicy: Never, containers: [
  {name: c, image: i, command: [x]}]}}}
"""
LABEL = "scheduling.x-k8s.io/pod-group: "


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            GROUP % "g"
            + MEMBER % ("a", LABEL + "g")
            + MEMBER % ("b", LABEL + "h")
            + MEMBER % ("c", LABEL + "g"),
            "gang of 2: a 1, c 1; gang of 1: b 1",
        ),
        (
            (GROUP % "g").replace("minMember: 1", "minMember: 4") + MEMBER % ("a", LABEL + "g"),
            "gang of at least 4: a 1",
        ),
        (MEMBER % ("a", "") + MEMBER % ("b", LABEL + "g"), "1 independent pod: a 1; gang of 1: b 1"),
        (WAVES % ("w", "false"), "10 independent pods: w 10 (2 at a time)"),
        (WAVES % ("w", "true"), "gang of 2: w 2 (10 in all)"),
        (
            WAVES % ("v", "true") + WAVES % ("w", "true"),
            "gang of 2: v 2 (10 in all); gang of 2: w 2 (10 in all)",
        ),
        (
            "".join(MEMBER % (f"p{n:02}", "") for n in range(14)),
            f"14 independent pods: {', '.join(f'p{n:02} 1' for n in range(12))} and 2 more",
        ),
    ],
)
def test_gangs_and_pods_are_counted_as_they_are(text: str, said: str) -> None:
    assert header(load("f.yaml", text=text)) == said


NO_HALL = "layer Rack names the parent Hall, which is not there"
TOPOLOGY = """
apiVersion: scheduling.koordinator.sh/v1alpha1
kind: ClusterNetworkTopology
metadata: {name: %s}
spec:
  networkTopologySpec:
  - {topologyLayer: Zone, labelKey: [zone]}
  - {topologyLayer: Rack, parentTopologyLayer: %s, labelKey: [rack]}
"""


@pytest.mark.parametrize(
    ("name", "parent", "said"),
    [
        ("default", "Zone", []),
        ("other", "Zone", ["f.yaml:4: metadata.name: only the one named default is used"]),
        (
            "default",
            "Hall",
            [f"f.yaml:6: spec.networkTopologySpec: this topology cannot be used: {NO_HALL}"],
        ),
    ],
)
def test_a_topology_that_no_job_can_use_gets_a_warning(name: str, parent: str, said: list[str]) -> None:
    job = load("f.yaml", Options(suffix="0" * 8, jobs=False), text=TOPOLOGY % (name, parent))
    assert [str(finding) for finding in unusable(job)] == said


QUEUES = """
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: a}
spec: {parent: b, guarantee: {cpu: 2}}
---
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: b}
spec: {parent: %s, capability: {cpu: 1}}
"""
CYCLE = "queues are in a cycle:"
TOO_MUCH = "its guarantee of 2 CPUs is more than is left of the capability of its parent b, 1,"
C = Queue(metadata=ObjectMeta(name="c"), spec=QueueSpec(parent="a"))


@pytest.mark.parametrize(
    ("parent", "there", "said"),
    [
        ("a", None, {5: f"{CYCLE} a is below b is below a", 10: f"{CYCLE} b is below a is below b"}),
        ("root", None, {5: TOO_MUCH}),
        ("c", None, {5: TOO_MUCH}),
        ("c", [C], {5: f"{CYCLE} a is below b is below c", 10: f"{CYCLE} b is below c is below a"}),
        ("c", [], {5: TOO_MUCH, 10: "its parent c does not exist"}),
    ],
)
def test_queues_that_no_job_can_use_get_a_warning(
    parent: str, there: list[Queue] | None, said: dict[int, str]
) -> None:
    job = load("f.yaml", Options(suffix="0" * 8, jobs=False), text=QUEUES % parent)
    found = {finding.line: str(finding) for finding in unusable(job, there)}
    assert found.keys() == said.keys()
    for line, why in said.items():
        assert f"f.yaml:{line}: spec.parent: this queue cannot be used: {why}" in found[line]


def test_a_current_directory_that_is_not_utf8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(directory)
    monkeypatch.chdir(os.fsdecode(directory))
    with pytest.raises(Failure, match="current directory is not UTF-8") as refused:
        submission.caller()
    assert refused.value.exit_code == BAD_INPUT
    str(refused.value).encode()


def test_entries_of_path_that_are_not_utf8_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATH", "HOME", "LANG"):
        monkeypatch.setenv(name, os.fsdecode(b"/usr/bin:/\xff:/bin"))
    caller = submission.caller()
    assert (caller.path, caller.home, caller.lang) == ("/usr/bin:/bin", "", "")
    caller.annotation()


def test_two_snapshots_are_refused() -> None:
    with pytest.raises(Failure, match="takes one file"):
        plan.command(["job.yaml"], ["one.yaml", "two.yaml"])


def test_what_is_wrong_with_a_group_is_told_at_the_group_and_once() -> None:
    head = "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\n"
    text = f"{head}metadata: {{name: g}}\nspec: {{minMember: 1}}\n"
    for name in "ga":
        meta = f"{{name: {name}, labels: {{scheduling.x-k8s.io/pod-group: g}}}}"
        spec = "{containers: [{name: c, image: x, command: [a]}]}"
        text += f"---\napiVersion: v1\nkind: Pod\nmetadata: {meta}\nspec: {spec}\n"
    (found,) = of_jobs(load("f.yaml", text=text), {"g": "cannot start"}, " here")
    assert (found.line, found.field, found.message) == (3, "metadata.name", "cannot start here")


@pytest.mark.parametrize(("served", "kind"), [(True, "Job"), (False, "JobSet")])
def test_a_job_of_volcano_is_handed_in_as_it_is_where_its_controllers_are(
    served: bool, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    (tmp_path / "job.yaml").write_text(VOLCANO_JOB % "volcano")
    asked: list[object] = []

    def serves(target: Target, kind: object) -> bool:
        asked.append(kind)
        return served

    monkeypatch.setattr(jobfile, "serves", serves)
    target = Target(kubeconfig=str(tmp_path / "config"))
    how = {"gang": None, "queue": None, "volumes": None, "target": target}
    found = jobfile.load(str(tmp_path / "job.yaml"), **how)  # type: ignore[arg-type]
    assert [each["kind"] for each in found.primary] == [kind]
    assert found.primary[0]["metadata"]["namespace"] == "team"
    assert asked == [KIND]
    planned = jobfile.load(str(tmp_path / "job.yaml"), **how, runs=False)  # type: ignore[arg-type]
    assert [each["kind"] for each in planned.primary] == ["JobSet"]


def test_a_file_without_volcanos_kinds_asks_no_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(KUBECONFIG)
    (tmp_path / "job.yaml").write_text(JOBSET % ("a", "", ""))
    monkeypatch.setattr(jobfile, "serves", lambda *_: pytest.fail("no cluster is asked"))
    target = Target(kubeconfig=str(tmp_path / "config"))
    jobfile.load(str(tmp_path / "job.yaml"), gang=None, queue=None, volumes=None, target=target)


@pytest.mark.parametrize(
    ("named", "served", "told"),
    [
        ("volcano", {"muster"}, "is volcano, and muster schedules pods of muster there"),
        ("muster", {"muster"}, ""),
        ("volcano", {"muster", "volcano"}, ""),
        ("muster", {"volcano"}, "is muster, and muster schedules pods of volcano there"),
    ],
)
def test_a_job_of_volcano_that_names_another_scheduler_is_told_of(
    named: str, served: set[str], told: str
) -> None:
    job = load("j.yaml", Options(suffix="x", local=False, volcano=True), text=VOLCANO_JOB % named)
    found = [each.message for each in _unserved(job, frozenset(served))]
    assert found == ([told] if told else [])


MANIFEST = """
name: train
spec:
  operator: jobset
  command: cat /mnt/data/file
  storage: {attachExistingPVCs: [{name: data, mountPoint: /mnt/data}]}
  types: {worker: {count: 1, resources: {cpus: 1, memory: 1}}}
"""


def test_paths_of_options_are_those_of_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the job file is; and so is the directory in which its pods run."""
    here = tmp_path / "here"
    for directory in (here / "data", tmp_path / "jobs" / "data"):
        directory.mkdir(parents=True)
    (tmp_path / "jobs" / "job.yaml").write_text(MANIFEST)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(here)
    made = jobfile.load("../jobs/job.yaml", gang=None, queue=None, volumes=["data=data"], target=Target())
    text = str(made.primary[0]["spec"])
    assert str(here / "data") in text
    assert str(tmp_path / "jobs") not in text
    assert submission.caller().cwd == str(here)
    source = submission.record("../jobs/job.yaml")
    assert (source.file, source.cwd) == (str(tmp_path / "jobs" / "job.yaml"), str(here))
