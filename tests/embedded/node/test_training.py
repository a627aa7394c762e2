"""A JobSet that anybody creates on the embedded cluster gets the environment of its training."""

import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import Invalid

CONTAINER = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}


def jobset(training: str | None = "PyTorch", pods: int = 1, **container: Any) -> Object:
    pod = {"spec": {"restartPolicy": "Never", "containers": [{**CONTAINER, **container}]}}
    job = {"spec": {"parallelism": pods, "completions": pods, "template": pod}}
    annotations = {"muster.dev/training": training} if training is not None else {}
    groups = [{"name": "w", "replicas": 4, "template": job}]
    return {"metadata": {"name": "train", "annotations": annotations}, "spec": {"replicatedJobs": groups}}


@pytest.fixture
async def client() -> AsyncIterator[LocalClient]:
    store = Store(":memory:")
    yield LocalClient(Registry(store))
    store.close()


async def env(client: LocalClient) -> dict[str, Any]:
    found = await client.get_json(kinds.JOBSET, "default", "train")
    [group] = found["spec"]["replicatedJobs"]
    [container] = group["template"]["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container.get("env", [])}


async def test_the_environment_is_there_without_a_line_in_the_program(client: LocalClient) -> None:
    await client.create(kinds.JOBSET, "default", jobset(env=[{"name": "NNODES", "value": "mine"}]))
    found = await env(client)
    assert found["MASTER_ADDR"] == "train-w-0-0.train"
    assert (found["WORLD_SIZE"], found["NPROC_PER_NODE"]) == ("4", "2")
    assert found["NNODES"] == "mine", "what the author has set stays"
    assert "job-global-index" in found["RANK"]["fieldRef"]["fieldPath"]


async def test_the_same_file_again_changes_nothing(client: LocalClient) -> None:
    """A client that replaces the list of groups, as `kubectl apply` does, leaves the environment out."""
    await client.create(kinds.JOBSET, "default", jobset())
    before = await client.get_json(kinds.JOBSET, "default", "train")
    again = copy.deepcopy(jobset()["spec"])
    await client.patch(kinds.JOBSET, "default", "train", {"spec": again})
    assert await client.get_json(kinds.JOBSET, "default", "train") == before


async def test_a_jobset_without_the_annotation_gets_nothing(client: LocalClient) -> None:
    await client.create(kinds.JOBSET, "default", jobset(None))
    assert await env(client) == {}
    annotated = {"metadata": {"annotations": {"muster.dev/training": "PyTorch"}}}
    await client.patch(kinds.JOBSET, "default", "train", annotated)
    await client.patch(kinds.JOBSET, "default", "train", {"spec": {"suspend": True}})
    assert await env(client) == {}, "its template cannot change any more"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [(jobset("Torch"), "write PyTorch, DeepSpeed or Jax"), (jobset(pods=2), "no label has the rank")],
)
async def test_what_cannot_be_numbered_is_refused(client: LocalClient, wrong: Object, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        await client.create(kinds.JOBSET, "default", wrong)


EMPTY: list[Object] = [
    {"replicatedJobs": [{"name": "w"}]},
    {"replicatedJobs": [{"name": "w", "template": {"spec": {"template": {"spec": {}}}}}]},
]


@pytest.mark.parametrize("spec", EMPTY)
async def test_a_jobset_that_lacks_what_it_needs_is_refused_as_ever(
    client: LocalClient, spec: Object
) -> None:
    with pytest.raises(Invalid):
        await client.create(kinds.JOBSET, "default", {**jobset(), "spec": spec})


async def test_a_jobset_whose_gpus_are_not_a_number_is_refused(client: LocalClient) -> None:
    limits = {"limits": {"nvidia.com/gpu": "two"}}
    with pytest.raises(Invalid, match="gpu"):
        await client.create(kinds.JOBSET, "default", jobset(resources=limits))


async def test_a_jobset_without_groups_is_accepted_as_ever(client: LocalClient) -> None:
    made = await client.create(kinds.JOBSET, "default", {**jobset(), "spec": {}})
    assert made.spec.replicated_jobs == []
