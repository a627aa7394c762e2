"""Jobs that are too much: one clear error each, and nothing that takes long."""

from typing import Any

import pytest
import yaml

from muster.workloads.batch.size import MAX_TASKS
from tests.workloads.batch.jobs import compiled, parsed, small


def many(tasks: int, arguments: str = "") -> str:
    job: dict[str, Any] = yaml.safe_load(small({"args": [arguments]}))
    task = job["spec"]["tasks"].pop("work")
    job["spec"]["tasks"] = {f"t{number}": task for number in range(tasks)}
    return yaml.safe_dump(job)


def test_a_job_of_ten_thousand_tasks_is_one_error() -> None:
    _, [finding] = parsed(many(10_000))
    assert finding.field == "spec.tasks"
    assert "has 10,000 tasks" in finding.message
    assert "replicas" in finding.message


def test_the_most_tasks_are_compiled() -> None:
    assert len(compiled(many(MAX_TASKS)).jobs[0]["spec"]["replicatedJobs"]) == MAX_TASKS


@pytest.mark.parametrize("target", ["muster", "volcano", "native"])
def test_a_job_that_no_api_server_stores_is_one_error(target: str) -> None:
    result = compiled(many(300, "x" * 6_000), target=target)
    [problem] = result.problems
    assert "of which an API server stores 1.5" in problem.message
    assert not result.jobs


NESTED = [
    "${resources.${metadata.name}.key}",
    "${resources.db.${resources.db.key}}",
    "${${metadata.name}}",
    "${" * 1_000 + "x" + "}" * 1_000,
]


@pytest.mark.parametrize("text", NESTED, ids=lambda text: text[:20])
def test_placeholders_in_placeholders_are_one_error(text: str) -> None:
    db = {"type": "secret", "params": {"keys": ["key"]}}
    result = compiled(small({"variables": {"A": text}}, db=db))
    [problem] = result.problems
    assert problem.path[-1] == "A"


def test_a_value_is_expanded_once() -> None:
    custom = {"type": "settings", "params": {"a": "${metadata.name}", "b": "$"}}
    result = compiled(
        small({"variables": {"A": "${resources.s.a}", "B": "${resources.s.b}{metadata.name}"}}, s=custom)
    )
    [config] = [each for each in result.support if each["kind"] == "ConfigMap"]
    assert config["data"] == {"A": "${metadata.name}", "B": "${metadata.name}"}
