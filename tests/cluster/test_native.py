"""Kubernetes' own gangs, beside its own Job controller, which makes PodGroups (gate WorkloadWithJob)."""

from typing import Any

from muster.api.base import Object, is_true
from muster.api.groups import NATIVE
from muster.api.kinds import GANG, JOB, POD, POD_GROUP_K8S
from muster.api.scheduling_v1beta1 import INITIALLY_SCHEDULED, UNSCHEDULABLE
from muster.names import GANG as MARK
from muster.names import SCHEDULER
from tests.cluster.conftest import Cluster


def job(name: str, size: int, test: str, **more: Any) -> Object:
    """A Job of so many pods at once, each with one CPU of nodes with this label. Any: its spec, as JSON."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "schedulerName": SCHEDULER,
        "restartPolicy": "Never",
        "containers": [container],
        "nodeSelector": {"test": test},
    }
    return {
        "metadata": {"name": name},
        "spec": {"parallelism": size, "completions": size, "template": {"spec": spec}, **more},
    }


async def bound(cluster: Cluster, name: str) -> int:
    pods = await cluster.client.list(POD, "default", labels=f"job-name={name}")
    return sum(bool(pod.spec.node_name) for pod in pods.items)


async def test_a_gang_that_the_job_controller_makes_starts_as_a_whole(cluster: Cluster) -> None:
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    cluster.muster("fake-nodes", "2 x name=native,cpu=1,memory=8Gi,label:test=native")
    scheduling: Object = {"schedulingPolicy": {"gang": {}}}
    await cluster.make(JOB, job("whole", 3, "native", scheduling=scheduling))

    async def the_group() -> Any:  # Any: a PodGroup
        found = (await cluster.client.list(POD_GROUP_K8S, "default")).items
        return next((one for one in found if one.metadata.name.startswith("whole-")), None)

    async def waits() -> bool:
        group = await the_group()
        told = group.status.conditions if group is not None else ()
        return any((one.type, one.reason) == (INITIALLY_SCHEDULED, UNSCHEDULABLE) for one in told)

    await cluster.until("the PodGroup says that it waits", waits)
    assert await bound(cluster, "whole") == 0
    group = await the_group()
    record = await cluster.client.get(GANG, "default", f"{NATIVE.name}-{group.metadata.name}")
    assert record.spec.min_count == 3
    cluster.muster("fake-nodes", "1 x name=native-more,cpu=1,memory=8Gi,label:test=native")

    async def scheduled() -> bool:
        return is_true((await the_group()).status.conditions, INITIALLY_SCHEDULED)

    await cluster.until("the PodGroup says that it is scheduled", scheduled)
    assert await bound(cluster, "whole") == 3


async def test_the_basic_groups_of_other_jobs_change_nothing(cluster: Cluster) -> None:
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    cluster.muster("fake-nodes", "4 x name=basic,cpu=1,memory=8Gi,label:test=basic")
    await cluster.make(JOB, job("plain", 2, "basic"))
    gang = job("marked", 2, "basic")
    gang["metadata"]["labels"] = {MARK: "true"}
    await cluster.make(JOB, gang)

    async def all_bound() -> bool:
        return await bound(cluster, "plain") == await bound(cluster, "marked") == 2

    await cluster.until("the pods of both Jobs are bound", all_bound)
    pods = (await cluster.client.list(POD, "default", labels="job-name in (plain,marked)")).items
    assert all(pod.spec.scheduling_group for pod in pods), "Kubernetes has put each into a PodGroup"
    records = {each.metadata.name for each in (await cluster.client.list(GANG, "default")).items}
    assert records == {"job-marked"}
