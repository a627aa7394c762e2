"""A retry runs exactly what has not succeeded, and its programs see the indexes that they had."""

import subprocess
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster import names
from muster.api.base import Object
from muster.api.indexes import Indexes
from muster.workloads.retry import NothingLeft, Retry, again, next_name, originals


def job(completions: int, **spec: object) -> Object:
    container = {
        "name": "c",
        "command": ["/bin/sh", "-c", 'echo "$1 $JOB_COMPLETION_INDEX"', "sh"],
        "args": ["x"],
    }
    template = {
        "metadata": {"labels": {"job-name": "j", "app": "mine"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    made = {
        "completionMode": "Indexed",
        "completions": completions,
        "parallelism": completions,
        "selector": {"matchLabels": {"job-name": "j"}},
        "template": template,
        **spec,
    }
    meta = {
        "name": "j",
        "namespace": "ns",
        "uid": "1",
        "resourceVersion": "7",
        "annotations": {names.FAILURES: "x"},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": made, "status": {"failed": 1}}


def jobset(*groups: tuple[str, int], gang: bool = False) -> Object:
    show = 'echo "$JOB_INDEX $JOB_GLOBAL_INDEX $GLOBAL_REPLICAS $REPLICATED_JOB_REPLICAS"'
    peers = {"name": "MUSTER_PEERS", "value": "js-w-0-0.js,js-w-1-0.js,other.js"}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": "ns", "uid": "1", "labels": {names.GANG: str(gang).lower()}},
        "spec": {
            "replicatedJobs": [
                {
                    "name": name,
                    "replicas": replicas,
                    "template": {
                        "spec": {
                            "completions": 1,
                            "template": {
                                "spec": {
                                    "containers": [
                                        {"name": "c", "command": ["sh", "-c", show], "env": [peers]}
                                    ]
                                }
                            },
                        }
                    },
                }
                for name, replicas in groups
            ]
        },
    }


def run(spec: Object, env: Mapping[str, object]) -> str:
    """What the first container of a Job prints."""
    (container,) = spec["template"]["spec"]["containers"]
    told = {name: str(value) for name, value in env.items()} | {"PATH": "/usr/bin:/bin"}
    words = [*container["command"], *container.get("args", [])]
    return subprocess.run(words, env=told, capture_output=True, text=True, check=True).stdout.strip()


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_the_missing_indexes_run_as_themselves(case: tuple[int, set[int]]) -> None:
    completions, done = case
    missing = sorted({*range(completions)} - done)
    if not missing:
        with pytest.raises(NothingLeft):
            again(job(completions), {("", 0): Indexes.of(done)}, {})
        return
    made = again(job(completions), {("", 0): Indexes.of(done)}, {})
    spec, last = made.object["spec"], len(missing) - 1
    assert spec["completions"] == spec["parallelism"] == len(missing)
    assert run(spec, {"JOB_COMPLETION_INDEX": last}) == f"x {missing[last]}"


@given(st.sets(st.integers(0, 8), min_size=1, max_size=8), st.data())
def test_a_retry_of_a_retry_knows_the_first_indexes(first: set[int], data: st.DataObject) -> None:
    once = again(job(9), {("", 0): Indexes.of({*range(9)} - first)}, {}).object
    second = data.draw(st.sets(st.sampled_from(range(len(first))), min_size=1))
    once["metadata"]["uid"] = "2"
    twice = again(once, {("", 0): Indexes.of({*range(len(first))} - second)}, {}).object
    retry = Retry.read(twice["metadata"]["annotations"][names.RETRY_OF])
    assert retry is not None
    assert (retry.name, retry.uid, twice["metadata"]["name"]) == ("j-r1", "1", "j-r2")
    for number, position in enumerate(sorted(second)):
        assert originals(retry, len(second))[number] == sorted(first)[position]
        assert run(twice["spec"], {"JOB_COMPLETION_INDEX": number}) == f"x {sorted(first)[position]}"


def test_what_servers_and_controllers_wrote_is_left_out() -> None:
    made = again(job(2), {}, {"MUSTER_CHECKPOINT_DIR": "/saved"}).object
    assert made["metadata"] == {
        "name": "j-r1",
        "namespace": "ns",
        "annotations": {names.RETRY_OF: '{"name":"j","uid":"1"}'},
    }
    assert "selector" not in made["spec"]
    assert "status" not in made
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "mine"}
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "MUSTER_CHECKPOINT_DIR", "value": "/saved"}]


def test_jobs_that_have_not_completed_run_with_their_numbers() -> None:
    one = Indexes.of([0])
    made = again(jobset(("a", 2), ("b", 3)), {("a", 0): one, ("a", 1): one, ("b", 1): one}, {}).object
    (group,) = made["spec"]["replicatedJobs"]
    assert (group["name"], group["replicas"]) == ("b", 2)
    spec = group["template"]["spec"]
    assert run(spec, {"JOB_INDEX": 0, "JOB_GLOBAL_INDEX": 0}) == "0 2 5 3"
    assert run(spec, {"JOB_INDEX": 1, "JOB_GLOBAL_INDEX": 1}) == "2 4 5 3"


def test_a_gang_runs_again_as_a_whole_under_its_new_name() -> None:
    made = again(jobset(("w", 2), gang=True), {("w", 0): Indexes.of([0])}, {}).object
    assert made["spec"]["suspend"] is True
    assert made["metadata"]["labels"] == {names.GANG: "true", names.ADMISSION: "gang"}
    (group,) = made["spec"]["replicatedJobs"]
    assert group["replicas"] == 2
    (container,) = group["template"]["spec"]["template"]["spec"]["containers"]
    assert container["env"][0]["value"] == "js-r1-w-0-0.js-r1,js-r1-w-1-0.js-r1,other.js"


def test_what_cannot_be_told_its_index_is_refused() -> None:
    without = job(3)
    del without["spec"]["template"]["spec"]["containers"][0]["command"]
    with pytest.raises(ValueError, match="container c has no command in its file"):
        again(without, {("", 0): Indexes.of([0])}, {})
    expanded = job(3)
    expanded["spec"]["template"]["spec"]["containers"][0]["args"] = ["$(JOB_COMPLETION_INDEX)"]
    with pytest.raises(ValueError, match="has \\$\\(JOB_…\\) in its command"):
        again(expanded, {("", 0): Indexes.of([0])}, {})
    with pytest.raises(ValueError, match="too many indexes are left"):
        again(job(90_000), {("", 0): Indexes.of([0])}, {})


@pytest.mark.parametrize(
    ("name", "retried", "following"),
    [("train", False, "train-r1"), ("train-r1", True, "train-r2"), ("train-r9", False, "train-r9-r1")],
)
def test_names_follow_each_other(name: str, retried: bool, following: str) -> None:
    assert next_name(name, Retry("train", "1") if retried else None) == following


@pytest.mark.parametrize("text", [None, "", "{", "[" * 90_000, '{"name":1}', '"x"'])
def test_an_annotation_that_anybody_wrote_is_no_retry(text: str | None) -> None:
    assert Retry.read(text) is None
    assert list(originals(Retry("a", "1", "garbage"), 3)) == [0, 1, 2]


def test_the_first_indexes_are_known_however_many_an_annotation_names() -> None:
    assert list(originals(Retry("a", "1", "7,9-999999999"), 3)) == [7, 9, 10]
    assert list(originals(Retry("a", "1", "7"), 3)) == [7, 1, 2]
    assert originals(None, 10**9)[10**8] == 10**8
