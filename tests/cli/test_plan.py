"""`muster plan`: decisions for programs and people, notes on stderr, and one clear error for bad input."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from muster.api.base import Object
from muster.cli import main as cli
from muster.names import GPU
from tests.app.plan.test_plan import job, jobset, node, pod, pod_group

EXAMPLES = Path(__file__).parents[2] / "examples"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process: its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    cluster = [node("n-0"), node("n-1"), pod("old", 3, node="n-0")]
    Path("cluster.yaml").write_text(yaml.safe_dump_all(cluster))
    Path("job.yaml").write_text(yaml.safe_dump(job("j", 3, 3, gang=True)))
    Path("free.yaml").write_text(yaml.safe_dump(job("free", 3, 3, gang=False)))

    def run(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["muster", "plan", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        try:
            cli.main()
            code: object = 0
        except SystemExit as exit:
            code = exit.code
        out, err = capfd.readouterr()
        return int(str(code or 0)), out, err

    return run


def test_decisions_for_programs(run: Run) -> None:
    Path("small.yaml").write_text(yaml.safe_dump_all([pod_group("g", 1), pod("a", 1, group="g")]))
    code, out, err = run("small.yaml", "job.yaml", "--snapshot", "cluster.yaml", "-o", "json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert list(found) == ["decisions"]
    placed, waits = found["decisions"]
    assert placed == {
        "gang": "default/g",
        "outcome": "place",
        "assignments": {"default/a": "n-0"},
        "victims": [],
        "cost": {"gpuSeconds": 0, "gpuHoursLost": "", "costLost": ""},
        "reason": None,
        "delays": [],
    }
    assert list(waits) == list(placed)
    assert (waits["gang"], waits["outcome"]) == ("default/j", "wait")
    assert list(waits["reason"]) == [
        "code",
        "stage",
        "message",
        "podSets",
        "blockers",
        "remedies",
        "expectedStart",
    ]


def test_a_table_for_people(run: Run) -> None:
    code, out, err = run("job.yaml", "free.yaml", "--snapshot", "cluster.yaml")
    assert code == 0
    assert err.startswith("hint: free.yaml:1: 3 pods with GPUs")
    table, why_free, why_gang = out.split("\n\n")
    head, *rows = table.splitlines()
    assert head.split() == ["GANG", "OUTCOME", "PODS", "WHERE,", "OR", "WHY", "NOT"]
    assert [row.split()[:4] for row in rows] == [
        ["default/free/main-0", "place", "1", "n-1"],
        ["default/free/main-1", "…", "2", "wait"],
        ["default/j", "wait", "-", "InsufficientCapacity:"],
    ]
    assert why_free.splitlines()[0] == "default/free/main-1"
    assert why_gang.splitlines() == [
        "default/j",
        f"  main: 0 of 3 fit; {GPU} on 2 nodes",
        "  held by default/free/main-0, default/old",
        "  start time not known   no room was found for it even once all others have ended",
        "  not by preemption      no gang of lower priority runs",
    ]


@pytest.mark.parametrize("example", sorted(each.name for each in EXAMPLES.glob("*.yaml")))
def test_every_file_that_can_be_submitted_can_be_planned(run: Run, example: str) -> None:
    # The one queue that an example names and does not bring along.
    queue = {"apiVersion": "muster.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "ml-training"}}
    Path("cluster.yaml").write_text(yaml.safe_dump_all([node("n-0"), node("n-1"), queue]))
    for mode in ("--gang", "--independent"):
        if (example, mode) == ("12-pods-with-podgroup.yaml", "--independent"):
            continue
        code, out, _ = run(str(EXAMPLES / example), mode, "--snapshot", "cluster.yaml", "-o", "json")
        assert code == 0
        decisions = json.loads(out)["decisions"]
        assert decisions
        assert all(each["outcome"] in ("place", "wait") for each in decisions)


def test_standard_input_is_a_file_or_a_snapshot(run: Run) -> None:
    text = Path("job.yaml").read_bytes()
    first = run("-", "--snapshot", "cluster.yaml", "-o", "json", stdin=text)
    second = run("job.yaml", "--snapshot", "-", "-o", "json", stdin=Path("cluster.yaml").read_bytes())
    assert first == second == run("job.yaml", "--snapshot", "cluster.yaml", "-o", "json")


def test_without_a_snapshot_the_embedded_cluster_is_asked(run: Run) -> None:
    code, out, _ = run("job.yaml", "-o", "json")
    assert code == 0
    (decision,) = json.loads(out)["decisions"]
    assert decision["reason"]["message"] == "there is no node"


def test_objects_of_a_snapshot_that_are_left_out_are_reported(run: Run) -> None:
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    Path("more.yaml").write_text(yaml.safe_dump_all([node("n-0"), other, node("n-0")]))
    code, _, err = run("job.yaml", "--snapshot", "more.yaml")
    assert code == 0
    assert err.splitlines() == [
        "note: left out: 1 object of other kinds in the snapshot: 1 × apps/v1 Deployment",
        "note: objects that occur more than once in the snapshot: 1; the last of each counts",
    ]


def test_kinds_that_are_not_planned_say_what_to_do(run: Run) -> None:
    """Other projects' kinds, and versions that are not read, beside a job and alone; in no version twice."""
    theirs = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "v"}}
    old = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "g"}}
    Path("theirs.yaml").write_text(yaml.safe_dump_all([theirs, {**theirs, "metadata": {"name": "w"}}, old]))
    Path("both.yaml").write_text(yaml.safe_dump_all([theirs, old, job("j", 3, 3, gang=True)]))
    said = [
        "ClusterQueue is a kind of Kueue (kueue.x-k8s.io), which a job file cannot have; write a Queue",
        "PodGroup of scheduling.k8s.io/v1alpha2 is not read; PodGroup is known as scheduling.k8s.io/v1beta1",
    ]
    code, _, err = run("theirs.yaml", "--snapshot", "cluster.yaml")
    assert code == 2
    first, *more = err.splitlines()
    assert first.startswith(
        "theirs.yaml: nothing to plan; found only 2 × kueue.x-k8s.io/v1beta2 ClusterQueue"
    )
    assert [line[: len(want)] for line, want in zip(more, said, strict=True)] == said
    code, _, err = run("both.yaml", "--snapshot", "cluster.yaml")
    assert code == 0
    assert [line for want in said for line in err.splitlines() if line.startswith(f"note: {want}")] == [
        line for line in err.splitlines() if "left out" not in line
    ]


def test_groups_are_read_in_every_version_that_has_their_fields(run: Run) -> None:
    """Also beside objects that a job file cannot have, and in the cluster."""
    group: Object = {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }
    member = pod("a", 1)
    member["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}
    Path("members.yaml").write_text(yaml.safe_dump_all([member, other]))
    Path("whole.yaml").write_text(yaml.safe_dump_all([group, member, other]))
    Path("there.yaml").write_text(yaml.safe_dump_all([node("n-0"), group]))
    for words in ("members.yaml --snapshot there.yaml", "whole.yaml --snapshot cluster.yaml"):
        code, out, _ = run(*words.split(), "-o", "json")
        assert code == 0
        (decision,) = json.loads(out)["decisions"]
        assert (decision["gang"], decision["reason"]["code"]) == ("default/g", "MembersMissing")


def test_nothing_waits(run: Run) -> None:
    Path("edit.yaml").write_text(yaml.safe_dump(pod_group("g", 1)))
    Path("there.yaml").write_text(
        yaml.safe_dump_all([node("n-0"), pod_group("g", 1), pod("a", 1, node="n-0", group="g")])
    )
    code, out, _ = run("edit.yaml", "--snapshot", "there.yaml", "-o", "json")
    assert code == 0
    assert [each["outcome"] for each in json.loads(out)["decisions"]] == ["place"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("nosuch --snapshot cluster.yaml", "nosuch: cannot be read: No such file or directory"),
        ("job.yaml --snapshot nosuch", "nosuch: cannot be read: No such file or directory"),
        ("job.yaml --snapshot broken.yaml", "broken.yaml:2: is not YAML"),
        ("broken.yaml --snapshot cluster.yaml", "broken.yaml:2: is not YAML"),
        ("other.yaml", "other.yaml: nothing to plan; found only 1 × v1 Bread"),
        ("config.yaml", "config.yaml: nothing to plan; found only 1 × v1 ConfigMap"),
        (
            "queue.yaml --snapshot cluster.yaml",
            "queue.yaml:6: spec.guarantee.cpu: Invalid value: 4: is above",
        ),
        ("job.yaml job.yaml --snapshot cluster.yaml", "job.yaml: Job default/j is in another file too"),
        ("job.yaml --snapshot cluster.yaml --now noon", "--now noon: write a time such as"),
        ("job.yaml --snapshot cluster.yaml --now nan", "--now nan: is out of range"),
        ("job.yaml --snapshot cluster.yaml --now -1", "--now -1: is out of range"),
        ("job.yaml --snapshot cluster.yaml --kubeconfig x", "--snapshot replaces the cluster"),
        ("--snapshot cluster.yaml", "Missing argument 'FILE"),
    ],
)
def test_bad_input_is_one_clear_error(run: Run, words: str, said: str) -> None:
    Path("broken.yaml").write_text("a: [1\nb: }")
    Path("other.yaml").write_text("kind: Bread\napiVersion: v1\n")
    Path("config.yaml").write_text("kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\n")
    Path("queue.yaml").write_text(
        "kind: Queue\napiVersion: muster.dev/v1alpha1\nmetadata: {name: q}\nspec:\n  capability: {cpu: 2}\n"
        "  guarantee: {cpu: 4}\n"
    )
    code, out, err = run(*words.split())
    assert (code, out) == (2, "")
    assert said in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


def test_a_staged_jobset_is_as_many_gangs_as_stages(run: Run) -> None:
    order = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
    Path("s.yaml").write_text(yaml.safe_dump(jobset("s", {"a": (1, 1), "b": (1, 1)}, gang=True, **order)))
    code, out, _ = run("s.yaml", "--snapshot", "cluster.yaml", "--now", "2026-01-31T08:00:00Z", "-o", "json")
    assert code == 0
    assert [each["gang"] for each in json.loads(out)["decisions"]] == ["default/s/a", "default/s/b"]


def test_the_work_that_an_eviction_loses_has_the_unit_of_the_rest(run: Run) -> None:
    old = pod("old", 3, node="n-0", priority=0)
    old["status"]["startTime"] = "2026-01-01T00:00:00Z"
    Path("full.yaml").write_text(yaml.safe_dump_all([node("n-0"), old]))
    Path("urgent.yaml").write_text(yaml.safe_dump(pod("urgent", 3, priority=5)))
    code, out, _ = run("urgent.yaml", "--snapshot", "full.yaml", "--now", "2026-01-01T00:10:00Z")
    assert code == 0
    assert "  evicts 1 pod: default/old\n  loses 0.5 GPU-hours of work\n" in out


def test_a_running_pod_has_all_that_it_needs(run: Run) -> None:
    Path("old.yaml").write_text(yaml.safe_dump(pod("old", 3)))
    _, out, err = run("old.yaml", "--snapshot", "cluster.yaml")
    words = " ".join(out.splitlines()[-1].split())
    assert words == "default/old place - has all that it needs"
    assert err == "note: in the cluster already, and planned with the pods they have there: default/old\n"
