"""`spec.scheduling` of a manifest: marks by their short names, retries, and the trials of a sweep."""

import re
import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from muster import names
from muster.api.base import Object
from muster.embedded.node.environment import expand
from muster.workloads.aichor.scheduling import FILES, MARKED
from muster.workloads.check import check
from muster.workloads.findings import JobFileError
from muster.workloads.jobfile import Options
from muster.workloads.load import load

OPTIONS = Options(suffix="0" * 8)


def jobset(scheduling: Object, *, command: str = "x", mode: Any = None, **spec: Any) -> Object:
    types = spec.pop("types", {"trial": {"resources": {"cpus": 1, "memory": 1}}})
    text = yaml.safe_dump(
        {
            "spec": {
                "operator": "jobset",
                "command": command,
                "scheduling": scheduling,
                "types": types,
                **spec,
            }
        },
        sort_keys=False,
    )
    (made,) = load("f", Options(suffix="0" * 8, mode=mode), text=text).objects
    return made


def job(made: Object) -> Object:
    spec: Object = made["spec"]["replicatedJobs"][0]["template"]["spec"]
    return spec


#: A value for each field, as people write it, and as the mark says it.
VALUES: dict[str, tuple[Any, str]] = {
    "runTime": ("4h", "4h"),
    "checkpoint": (1800, "1800"),
    "checkpointGrace": ("5m", "5m"),
    "restartCost": ("5m", "5m"),
    "minRunTime": ("1h", "1h"),
    "preemptible": (False, "false"),
    "onGpuAnomaly": ("checkpointAndMove", "checkpointAndMove"),
    "progressRules": ({"stalledAfter": "15m", "lossFinite": True}, "stalledAfter=15m lossFinite=true"),
    "onJobFailure": ("continue", "continue"),
}


@pytest.mark.parametrize("field", MARKED)
def test_each_mark_can_be_declared_in_the_manifest(field: str) -> None:
    written, said = VALUES[field]
    assert jobset({field: written})["metadata"]["annotations"][MARKED[field].key] == said


@pytest.mark.parametrize("field", MARKED)
@pytest.mark.parametrize("value", ["nonsense!", [1], {"a": {"b": 1}}])
def test_a_wrong_value_is_an_error_of_its_line(field: str, value: Any) -> None:
    with pytest.raises(JobFileError) as error:
        jobset({field: value})
    assert f"spec.scheduling.{field}" in str(error.value)


@pytest.mark.parametrize("field", FILES)
def test_files_are_marks_of_the_pods(field: str) -> None:
    template = job(jobset({field: "saved"}))["template"]
    assert template["metadata"]["annotations"][FILES[field]] == "saved"


@pytest.mark.parametrize(
    ("scheduling", "spec", "limits", "budget"),
    [
        ({}, {}, {"backoffLimit": 0}, "0"),
        ({"retries": 2}, {}, {"backoffLimit": 2}, None),
        ({"retries": 2}, {"restartPolicy": {"backoffLimit": 9}}, {"backoffLimit": 2}, "9"),
        ({"matrix": {"A": [1, 2]}}, {}, {"backoffLimitPerIndex": 0}, None),
        ({"matrix": {"A": [1, 2]}, "retries": 3}, {}, {"backoffLimitPerIndex": 3}, None),
        ({"onJobFailure": "continue"}, {}, {"backoffLimit": 0}, None),
    ],
)
def test_each_pod_is_tried_again_by_itself(
    scheduling: Object, spec: Object, limits: Object, budget: str | None
) -> None:
    made = jobset(scheduling, **spec)
    assert {key: value for key, value in job(made).items() if key.startswith("backoff")} == limits
    assert made["metadata"]["annotations"].get(names.RESTART_BUDGET) == budget


VALUE = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=8)


@given(st.lists(VALUE, min_size=1, max_size=3), st.lists(VALUE, min_size=1, max_size=3))
def test_a_trial_has_its_parameters_in_its_environment(first: list[str], second: list[str]) -> None:
    """Whatever the values: neither Kubernetes nor the shell reads anything into them."""
    made = jobset({"matrix": {"A": first, "B": second}}, command='printf "%s\\n" "$A" "$B"')
    assert job(made)["completions"] == job(made)["parallelism"] == len(first) * len(second)
    command = job(made)["template"]["spec"]["containers"][0]["command"]
    index = len(first) * len(second) - 1
    env = {"JOB_COMPLETION_INDEX": str(index), "PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    done = subprocess.run([expand(word, env) for word in command], env=env, capture_output=True, text=True)
    assert done.stdout == f"{first[-1]}\n{second[-1]}\n", done.stderr


@pytest.mark.parametrize(
    ("scheduling", "spec", "said"),
    [
        (
            {"matrix": {f"V{n}": [*range(10)] for n in range(9)}},
            {},
            "matrix: has 1,000,000,000 trials; the most is",
        ),
        ({"matrix": {"A": ["x" * 40_000]}}, {}, "matrix: has more than 32 KiB"),
        ({"matrix": {}}, {}, "matrix: is empty"),
        ({"matrix": {"A": []}}, {}, "matrix.A: takes a list of values, such as A: [0.1, 0.01]"),
        ({"matrix": {"A": 1}}, {}, "matrix.A: takes a list"),
        ({"matrix": {"A": [[1]]}}, {}, "matrix.A[0]: takes text or a number"),
        ({"matrix": {"a-b": [1]}}, {}, "matrix.a-b: is not a name for a variable"),
        ({"matrix": {"JOB_INDEX": [1]}}, {}, "JOB_INDEX is set for every pod"),
        (
            {"matrix": {"A": [1]}},
            {"env": {"A": "1"}},
            "spec.env.A: is a list in scheduling.matrix, too; keep one",
        ),
        ({"matrix": {"A": [1]}}, {"types": {"a": {}, "b": {}}}, "a sweep (scheduling.matrix) has one type"),
        ({"matrix": {"A": [1, 2]}}, {"types": {"a": {"count": 3}}}, "has 2 trials in one Job; omit count"),
        (
            {"matrix": {"A": [1]}, "mode": "gang"},
            {},
            "scheduling.matrix: is for pods that start by themselves",
        ),
        ({"retries": 1, "mode": "gang"}, {}, "scheduling.retries: is for pods that start by themselves"),
        ({}, {"types": {"a": {"replicas": 3}}}, "replicas: unknown field; did you mean count?"),
        (
            {},
            {"types": {"a": {"resources": {"cpus": 1, "memory": "64GB"}}}},
            'memory: takes a number, not the text "64GB"; write 64 (GiB)',
        ),
        (
            {},
            {"types": {"a": {"resources": {"cpus": 1, "memory": 1, "gpus": 1}}}},
            "gpus: unknown field; did you mean accelerators: {gpu: {count: …}}?",
        ),
    ],
)
def test_what_cannot_be_is_answered_with_what_to_write(scheduling: Object, spec: Object, said: str) -> None:
    with pytest.raises(JobFileError, match=re.escape(said)):
        jobset(scheduling, **spec)


def test_what_upstream_does_not_know_is_told() -> None:
    text = yaml.safe_dump(
        {
            "spec": {
                "operator": "jobset",
                "command": "x",
                "scheduling": {"onJobFailure": "continue"},
                "types": {"a": {"count": 2, "resources": {"cpus": 1, "memory": 1}}},
            }
        }
    )
    told = [finding.message for finding in check(load("f", OPTIONS, text=text))]
    assert any("upstream's ends the JobSet" in each for each in told)
