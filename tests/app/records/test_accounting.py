"""What the records of the embedded cluster say of jobs that exist, and of those that are gone."""

from muster.api import kinds
from muster.api.base import Object, owner
from muster.app.records.accounting import account
from muster.app.views.usage import added_up
from muster.app.wiring.cluster import Target
from muster.embedded.client import LocalClient
from muster.names import QUEUE, SUBMITTED_FROM
from muster.workloads.jobfile import Source
from tests.app.records.test_past import job
from tests.app.records.test_runs import START, client

__all__ = ["client"]  # a fixture

REQUESTS = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "4"}


async def ran(client: LocalClient, name: str, *, gone: bool) -> None:
    """A Job of ann's in the queue q whose pod has ended. The clock moves on by a second at each reading."""
    source = Source("/train.yaml", "ann@pc").annotation()
    meta: Object = {"name": name, "labels": {QUEUE: "q"}, "annotations": {SUBMITTED_FROM: source}}
    made = await client.create(kinds.JOB, "default", {**job(name), "metadata": meta})
    containers = [{"name": "c", "image": "i", "resources": {"requests": REQUESTS, "limits": REQUESTS}}]
    pod = {
        "metadata": {
            "name": f"{name}-0",
            "labels": {"batch.kubernetes.io/job-name": name},
            "ownerReferences": [owner(made, kinds.JOB)],
        },
        "spec": {"restartPolicy": "Never", "nodeName": "n", "containers": containers},
    }
    await client.create(kinds.POD, "default", pod)
    await client.patch(
        kinds.POD, "default", f"{name}-0", {"status": {"phase": "Succeeded"}}, subresource="status"
    )
    if gone:
        await client.delete(kinds.POD, "default", f"{name}-0")
        await client.delete(kinds.JOB, "default", name, propagation="Background")


async def test_the_account_has_existing_and_deleted_jobs(client: LocalClient) -> None:
    await ran(client, "old", gone=True)
    await ran(client, "new", gone=False)
    found = await account(client, Target(), START.timestamp() + 1000)
    lines = {each.job: each for each in added_up((), found.uses, found.waits, by=["queue", "user", "job"])}
    assert set(lines) == {"old", "new"}
    for each in lines.values():
        assert (each.queue, each.user) == ("q", "ann@pc")
        assert each.used_gpu_hours == 2 * each.used_cpu_hours > 0
        assert 0 < each.waited < 5
    old, new = (lines[name].used_gpu_hours for name in ("old", "new"))
    assert old == new, "one that is gone counts as one that is there"


async def test_jobs_of_one_name_are_told_apart(client: LocalClient) -> None:
    await ran(client, "j", gone=True)
    await ran(client, "j", gone=False)
    found = await account(client, Target(), START.timestamp() + 1000)
    uids = {each.owner.uid for each in found.uses}
    assert len(uids) == 2
    assert all(found.of(uid).used_gpu_hours > 0 for uid in uids)
    assert found.of("nosuch").used_gpu_hours == 0
