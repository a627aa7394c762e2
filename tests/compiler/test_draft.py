"""No two inputs write the same object: the second is a problem that names the first."""

from typing import Any

import yaml

from tests.workloads.batch.jobs import compiled, small

KEYS = {"type": "secret", "id": "apps/db", "params": {"keys": ["user"]}}


def tasks(**containers: str) -> str:
    """A job with a task for each of these, whose one container has this name and a variable."""
    job: dict[str, Any] = yaml.safe_load(small({"variables": {"A": "b"}}))
    container = job["spec"]["tasks"]["work"]["workload"]["containers"]["app"]
    job["spec"]["tasks"] = {
        task: {"workload": {"containers": {name: {**container, "variables": {"A": task}}}}}
        for task, name in containers.items()
    }
    return yaml.safe_dump(job)


def test_a_resource_named_like_the_secret_of_a_containers_variables() -> None:
    variables = {"A": "x${resources.db.user}", "B": "${resources.app-env-eso.user}"}
    [problem] = compiled(small({"variables": variables}, **{"db": KEYS, "app-env-eso": KEYS})).problems
    assert "needs a ExternalSecret job-work-app-env-eso, and so does" in problem.message


def test_tasks_and_containers_whose_names_run_together() -> None:
    [problem] = compiled(tasks(**{"a": "b-c", "a-b": "c"})).problems
    assert "ConfigMap job-a-b-c-env" in problem.message
    assert "rename one of them" in problem.message


def test_tasks_of_other_names_have_their_own_objects() -> None:
    result = compiled(tasks(a="c", b="c"))
    assert not result.problems
    assert [each["data"]["A"] for each in result.support if each["kind"] == "ConfigMap"] == ["a", "b"]


def test_a_volume_of_two_tasks_is_one_claim() -> None:
    job: dict[str, Any] = yaml.safe_load(tasks(a="c", b="c"))
    job["spec"]["resources"] = {"data": {"type": "volume", "id": "data", "params": {"size": "1Gi"}}}
    for task in job["spec"]["tasks"].values():
        task["workload"]["containers"]["c"]["volumes"] = {"/data": {"source": "data"}}
    result = compiled(yaml.safe_dump(job))
    assert not result.problems
    assert [each["kind"] for each in result.support].count("PersistentVolumeClaim") == 1
    job["spec"]["tasks"]["b"]["workload"]["resources"] = {"data": {"params": {"size": "2Gi"}}}
    [problem] = compiled(yaml.safe_dump(job)).problems
    assert "PersistentVolumeClaim vol-data" in problem.message
