"""Kubernetes' own gangs, beside its own Job controller, which makes PodGroups (gate WorkloadWithJob)."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from muster.api.base import Object, is_true
from muster.api.groups import NATIVE
from muster.api.kinds import GANG, JOB, POD, POD_GROUP_K8S
from muster.api.scheduling_v1beta1 import INITIALLY_SCHEDULED, UNSCHEDULABLE
from muster.names import GANG as MARK
from muster.names import SCHEDULER
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane, start_scheduler


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


def pod(name: str, group: str, scheduler: str) -> Object:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "schedulerName": scheduler,
        "schedulingGroup": {"podGroupName": group},
        "nodeSelector": {"test": group},
        "containers": [container],
    }
    return {"metadata": {"name": name}, "spec": spec}


async def test_a_group_that_is_written_in_another_version_is_a_gang_and_shows_its_status_there(
    cluster: Cluster,
) -> None:
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    cluster.muster("fake-nodes", "2 x name=older,cpu=1,memory=8Gi,label:test=older")
    (version,) = POD_GROUP_K8S.others
    older = msgspec.structs.replace(POD_GROUP_K8S, version=version, others=())
    await cluster.make(
        older, {"metadata": {"name": "older"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    )
    await cluster.make(POD, pod("older-0", "older", SCHEDULER))

    async def counted() -> bool:
        record = await cluster.client.get(GANG, "default", f"{NATIVE.name}-older")
        return record.status.reason is not None and record.status.reason.code == "MembersMissing"

    await cluster.until("it waits for its second pod", counted)
    await cluster.make(POD, pod("older-1", "older", SCHEDULER))

    async def scheduled() -> bool:
        group = await cluster.client.get(older, "default", "older")
        return is_true(group.status.conditions, INITIALLY_SCHEDULED)

    await cluster.until("it says in that version that it is scheduled", scheduled)
    await cluster.client.delete(older, "default", "older")


async def test_kube_scheduler_starts_the_gangs_of_its_own_name_beside_muster(
    cluster: Cluster, plane: ControlPlane
) -> None:
    if plane.home == Path():
        pytest.skip("this cluster has a scheduler of its own")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    start_scheduler(plane)
    try:
        for name, scheduler in (("theirs", "default-scheduler"), ("ours", SCHEDULER)):
            cluster.muster("fake-nodes", f"2 x name={name},cpu=1,memory=8Gi,label:test={name}")
            policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
            await cluster.make(POD_GROUP_K8S, {"metadata": {"name": name}, "spec": policy})
            for number in range(2):
                await cluster.make(POD, pod(f"{name}-{number}", name, scheduler))

        async def both() -> bool:
            found = (await cluster.client.list(POD_GROUP_K8S, "default")).items
            groups = [each for each in found if each.metadata.name in ("theirs", "ours")]
            return [is_true(each.status.conditions, INITIALLY_SCHEDULED) for each in groups] == [True, True]

        async def whole() -> bool:  # kube-scheduler says so before it binds the last pod
            pods = (await cluster.client.list(POD, "default")).items
            return sum(bool(each.spec.node_name) for each in pods) == 4

        await cluster.until("both gangs say that they are scheduled", both)
        await cluster.until("the pods of both are bound", whole)
        records = {each.metadata.name for each in (await cluster.client.list(GANG, "default")).items}
        assert records == {f"{NATIVE.name}-ours"}, "a gang of another scheduler has no record of muster"
    finally:
        plane.kill("kube-scheduler")
        for name in ("theirs", "ours"):
            await cluster.client.delete(POD_GROUP_K8S, "default", name)
