"""Volcano's own controllers, with muster as the scheduler of its Jobs."""

from muster.api.core_v1 import Pod
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


async def test_jobs_complete_restart_are_aborted_and_wait_for_each_other(volcano: Cluster) -> None:
    """Volcano's life cycle of Jobs, which rests on the phases that muster writes."""
    volcano.muster("fake-nodes", "4 x cpu=8,memory=64Gi")
    volcano.daemon("scheduler")
    volcano.daemon("controllers")
    short = vc.job("short", "1", "run=2s,exit=0", minimum=3, master=1, worker=2)
    short["spec"]["ttlSecondsAfterFinished"] = 5
    await volcano.make(vc.JOB, short)
    chained = vc.job("chained", "1", "run=2s,exit=0", minimum=1, first=1, second=2)
    chained["spec"]["tasks"][1]["dependsOn"] = {"name": ["first"]}
    await volcano.make(vc.JOB, chained)
    again = vc.job("again", "1", "", minimum=2, worker=2)
    again["spec"]["policies"] = [{"event": "PodEvicted", "action": "RestartJob"}]
    again["spec"]["maxRetry"] = 3
    await volcano.make(vc.JOB, again)
    await volcano.make(vc.JOB, vc.job("ended", "1", "", minimum=2, worker=2))

    await _phase(volcano, "again", "Running")
    before = {pod.metadata.uid for pod in await _pods(volcano, "again")}
    await volcano.client.delete(POD, "default", "again-worker-0")

    async def restarted() -> bool:
        pods = await _pods(volcano, "again")
        return len(pods) == 2 and all(
            pod.metadata.uid not in before and pod.status.phase == "Running" for pod in pods
        )

    await volcano.until("both pods of the Job are new and run", restarted)
    await _phase(volcano, "again", "Running")

    await _phase(volcano, "ended", "Running")
    job = await volcano.client.get(vc.JOB, "default", "ended")
    await volcano.make(vc.COMMAND, vc.command("AbortJob", job))
    await _phase(volcano, "ended", "Aborted")

    async def gone() -> bool:
        jobs = (await volcano.client.list(vc.JOB, "default")).items
        return "short" not in {each.metadata.name for each in jobs}

    await _phase(volcano, "chained", "Completed")
    await volcano.until("the Job is deleted some time after it has completed", gone)


async def _pods(cluster: Cluster, job: str) -> list[Pod]:
    pods = (await cluster.client.list(POD, "default")).items
    return [pod for pod in pods if pod.metadata.labels.get("volcano.sh/job-name") == job]
