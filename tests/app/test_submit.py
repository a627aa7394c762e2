"""A file is submitted whole or not at all, and what can never start is known beforehand."""

from collections.abc import Iterator

import pytest

from muster.api import kinds
from muster.app.cancel import cancel
from muster.app.follow import Followed
from muster.app.submit import jobs, never, submit
from muster.kube.errors import AlreadyExists, NotFound
from muster.local.client import LocalClient
from muster.local.registry import Registry
from muster.local.store import Store
from muster.workloads.jobfile import JobFile
from muster.workloads.load import load

FILE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {rate: "1"}
---
apiVersion: v1
kind: Pod
metadata: {name: one}
spec: {restartPolicy: Never, containers: [{name: main, command: ["true"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: two}
spec: {restartPolicy: Never, containers: [{name: main, command: ["true"]}]}
"""
GROUP = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: pair}
spec: {minMember: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {scheduling.x-k8s.io/pod-group: pair}}
spec: {containers: [{name: main, command: ["true"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: b, labels: {scheduling.x-k8s.io/pod-group: pair}}
spec: {containers: [{name: main, command: ["true"]}]}
"""


def read(text: str, **options: object) -> JobFile:
    return load("job.yaml", text=text, suffix="0123abcd", **options)  # type: ignore[arg-type]  # a test's own


def manifest(resources: str, count: int = 2, mode: str = "independent") -> JobFile:
    types = f"types: {{worker: {{count: {count}, resources: {{{resources}}}}}}}"
    scheduling = f"scheduling: {{mode: {mode}}}"
    return read(f"name: job\nspec: {{operator: jobset, command: x, {scheduling}, {types}}}")


@pytest.fixture
def client() -> Iterator[LocalClient]:
    store = Store(":memory:")
    yield LocalClient(Registry(store))
    store.close()


async def node(client: LocalClient, name: str = "n", **resources: str) -> None:
    await client.create(kinds.NODE, "", {"metadata": {"name": name}})
    status = {"status": {"allocatable": resources, "conditions": [{"type": "Ready", "status": "True"}]}}
    await client.patch(kinds.NODE, "", name, status, subresource="status")


async def names(client: LocalClient) -> list[str]:
    found = [*(await client.list(kinds.POD)).items, *(await client.list(kinds.CONFIG_MAP)).items]
    return sorted(each.metadata.name for each in found if each.metadata.name != "kube-root-ca.crt")


async def test_the_jobs_of_a_file_are_what_is_followed(client: LocalClient) -> None:
    followed = await submit(client, read(FILE))
    assert [(job.kind.kind, job.namespace, job.name) for job in followed] == [
        ("Pod", "default", "one"),
        ("Pod", "default", "two"),
    ]
    assert await names(client) == ["one", "settings", "two"]


async def test_what_is_refused_takes_the_rest_back(client: LocalClient) -> None:
    await submit(client, read(FILE.rpartition("---")[2]))  # `two` is there already
    with pytest.raises(AlreadyExists):
        await submit(client, read(FILE))
    assert await names(client) == ["two"]


async def test_what_a_job_needs_is_brought_up_to_date_and_stays(client: LocalClient) -> None:
    first, one, _ = FILE.split("---")
    await submit(client, read(f"{first}---{one}"))
    with pytest.raises(AlreadyExists):  # of the pod
        await submit(client, read(f"{first}---{one}".replace('rate: "1"', 'rate: "2"')))
    settings = await client.get(kinds.CONFIG_MAP, "default", "settings")
    assert settings.data == {"rate": "2"}


async def test_pods_of_a_group_are_one_job_and_are_cancelled_with_it(client: LocalClient) -> None:
    (group,) = await submit(client, read(GROUP))
    assert group == Followed(kinds.POD_GROUP_X, "default", "pair") == jobs(read(GROUP))[0]
    await cancel(client, group, (await client.list(kinds.POD)).items)
    assert await names(client) == []
    with pytest.raises(NotFound):
        await client.get(kinds.POD_GROUP_X, "default", "pair")
    await cancel(client, group, ())  # somebody else was quicker


async def test_what_fits_is_submitted_and_what_never_can_is_explained(client: LocalClient) -> None:
    await node(client, cpu="4", memory="8Gi", pods="110")
    assert await never(client, manifest("cpus: 3, memory: 1")) == [], "one after the other"
    await client.patch(kinds.NODE, "", "n", {"spec": {"unschedulable": True}})
    assert await never(client, manifest("cpus: 3, memory: 1")) == [], "a cordon is not for ever"
    (gang,) = await never(client, manifest("cpus: 3, memory: 1", mode="gang"))
    assert "can never start here" in gang
    (large,) = await never(client, manifest("cpus: 5, memory: 1"))
    assert "NothingMatches" in large
    gpu = manifest("cpus: 1, memory: 1, accelerators: {gpu: {count: 1}}")
    *_, missing = await never(client, gpu)
    assert "there are no GPUs here" in missing
    assert "--nodes" in missing
    await node(client, "g", **{"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "1"})
    assert await never(client, gpu) == []
