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
