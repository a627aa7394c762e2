"""Volcano's own controllers, with muster as the scheduler of its Jobs."""

from muster.api.kinds import POD
from muster.names import SCHEDULER
from tests.cluster.conftest import Cluster
from tests.upstream import volcano as vc


async def test_its_controller_makes_a_podgroup_and_once_that_is_in_the_queue_the_pods(
    volcano: Cluster,
) -> None:
    """What a scheduler has to do for it: pods come only after a phase other than Pending."""
    await volcano.make(vc.JOB, vc.job("train", minimum=3, master=1, worker=2))

    async def grouped() -> vc.Loose | None:
        found = (await volcano.client.list(vc.POD_GROUP, "default")).items
        return found[0] if found else None

    group = await volcano.until("its controller has made a PodGroup", grouped)
    assert group.spec["minMember"] == 3
    assert group.spec["queue"] == "default"
    name = group.metadata.name
    assert (await volcano.client.list(POD, "default")).items == []
    await volcano.client.patch(vc.POD_GROUP, "default", name, {"status": {"phase": "Inqueue"}})

    async def whole() -> list[tuple[str, str, str]] | None:
        pods = (await volcano.client.list(POD, "default")).items
        made = [
            (
                each.metadata.name,
                each.spec.scheduler_name,
                each.metadata.annotations["scheduling.k8s.io/group-name"],
            )
            for each in pods
        ]
        return sorted(made) if len(made) == 3 else None

    assert await volcano.until("it has made the pods", whole) == [
        (pod, SCHEDULER, name) for pod in ("train-master-0", "train-worker-0", "train-worker-1")
    ]


async def test_a_job_starts_whole_and_another_that_does_not_fit_starts_no_pod(volcano: Cluster) -> None:
    volcano.muster("fake-nodes", "4 x cpu=8,memory=64Gi")
    volcano.daemon("scheduler")
    volcano.daemon("controllers")
    await volcano.make(vc.JOB, vc.job("first", "8", minimum=3, master=1, worker=2))
    await _phase(volcano, "first", "Running")
    await volcano.make(vc.JOB, vc.job("second", "8", minimum=2, worker=2))

    async def waits() -> vc.Loose | None:
        found = [each for each in await _groups(volcano) if each.metadata.name.startswith("second")]
        return found[0] if found and found[0].status.get("conditions") else None

    group = await volcano.until("its PodGroup says why it waits", waits)
    assert group.status["phase"] == "Inqueue"
    unschedulable = next(c for c in group.status["conditions"] if c["type"] == "Unschedulable")
    assert (unschedulable["status"], unschedulable["reason"]) == ("True", "NotEnoughResources")
    pods = (await volcano.client.list(POD, "default")).items
    bound = [pod.metadata.name for pod in pods if pod.spec.node_name]
    assert sorted(bound) == ["first-master-0", "first-worker-0", "first-worker-1"]


async def _groups(cluster: Cluster) -> list[vc.Loose]:
    return list((await cluster.client.list(vc.POD_GROUP, "default")).items)


async def _phase(cluster: Cluster, name: str, phase: str) -> vc.Loose:
    """Waits until a Job has this phase."""

    async def reached() -> vc.Loose | None:
        job = await cluster.client.get(vc.JOB, "default", name)
        return job if (job.status.get("state") or {}).get("phase") == phase else None

    return await cluster.until(f"Job {name} is {phase}", reached)
