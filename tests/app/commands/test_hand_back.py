"""What muster holds on a cluster, once it is uninstalled."""

import asyncio
from collections.abc import Iterator
from contextlib import closing

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.app.commands.change import Refused
from muster.app.commands.hand_back import HandedBack, hand_back
from muster.core.words.gang import GangId, PodId
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.names import ADMISSION, GANG_FINALIZER
from muster.runtime.plan_record import RecordedPod, RecreationPlan, encode
from tests.runtime.test_loop import LoopClock

LEASE = ("muster-system", "muster-scheduler")

pytestmark = pytest.mark.looptime


@pytest.fixture
def client() -> Iterator[LocalClient]:
    with closing(Store(":memory:")) as store:
        yield LocalClient(Registry(store))


async def gang(client: LocalClient, name: str, bound: int, phase: str, *more: str) -> None:
    finalizers = [GANG_FINALIZER, *more]
    body = {"metadata": {"name": name, "finalizers": finalizers}, "spec": {"minCount": 3}}
    await client.create(kinds.GANG, "default", body)
    status: Object = {"status": {"bound": bound, "phase": phase}}
    await client.patch(kinds.GANG, "default", name, status)


async def job(client: LocalClient, name: str, suspended: bool, admission: str = "gang") -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    meta = {"name": name, "labels": {ADMISSION: admission}}
    await client.create(
        kinds.JOB, "default", {"metadata": meta, "spec": {"suspend": suspended, "template": template}}
    )


async def lease(client: LocalClient, holder: str) -> None:
    await client.create(kinds.NAMESPACE, "", {"metadata": {"name": LEASE[0]}})
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 15,
        "renewTime": "2026-06-01T00:00:00.000000Z",
    }
    await client.create(kinds.LEASE, LEASE[0], {"metadata": {"name": LEASE[1]}, "spec": spec})


async def test_records_are_gone_and_what_only_a_scheduler_could_finish_is_named(client: LocalClient) -> None:
    await gang(client, "standing", 1, "Standing")
    await gang(client, "starting", 2, "Starting", "others/finalizer")
    await gang(client, "waiting", 0, "Waiting")
    await client.create(
        kinds.GANG_PLAN,
        "default",
        {"metadata": {"name": "starting-1"}, "spec": {"gang": "starting", "blob": "x"}},
    )
    await job(client, "waits", True)
    await job(client, "runs", False)
    await job(client, "the-users", True, "pod")
    await lease(client, "killed")
    assert await hand_back(client, LoopClock(), LEASE) == HandedBack(
        ["default/standing", "default/starting", "default/waiting"],
        [("default/starting", 2, 3)],
        [("job", "default/waits")],
        [],
        [],
    )
    (left,) = (await client.list(kinds.GANG)).items
    assert (left.metadata.name, left.metadata.finalizers) == ("starting", ["others/finalizer"])
    assert (await client.list(kinds.GANG_PLAN)).items == []
    assert (await client.get(kinds.JOB, "default", "waits")).spec.suspend
    again = await hand_back(client, LoopClock(), LEASE)
    assert (again.gangs, again.suspended) == (["default/starting"], [("job", "default/waits")])


async def test_the_history_of_preemptions_stays_and_what_a_definition_would_take_is_named(
    client: LocalClient,
) -> None:
    await gang(client, "evicted", 0, "Waiting")
    at = LoopClock().now().isoformat()
    entry = {"by": "ml/urgent", "kind": "preempt", "at": at, "gpuHoursLost": "20", "costLost": "70.00"}
    await client.patch(kinds.GANG, "default", "evicted", {"status": {"preemptions": [entry]}})
    await client.create(kinds.BATCH_JOB, "default", {"metadata": {"name": "train"}, "spec": {}})
    found = await hand_back(client, LoopClock(), LEASE)
    [record] = (await client.list(kinds.PREEMPTION)).items
    assert (record.spec.gang, record.spec.by, record.spec.cost_lost) == ("evicted", "ml/urgent", "70.00")
    assert (found.batch_jobs, found.preemptions) == (["default/train"], [record.key])
    assert await hand_back(client, LoopClock(), LEASE) == HandedBack(
        [], [], [], ["default/train"], [record.key]
    )


async def test_nothing_is_touched_while_a_scheduler_leads(client: LocalClient) -> None:
    await gang(client, "waiting", 0, "Waiting")
    await lease(client, "node_7_abc")

    async def renew() -> None:
        await asyncio.sleep(9)
        await client.patch(kinds.LEASE, *LEASE, {"spec": {"renewTime": "2026-06-01T00:00:09.000000Z"}})

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(renew())
        with pytest.raises(Refused, match="node_7_abc leads"):
            await hand_back(client, LoopClock(), LEASE)
    assert len((await client.list(kinds.GANG)).items) == 1


async def test_a_plan_that_holds_the_only_copy_of_a_pod_stays(client: LocalClient) -> None:
    await gang(client, "remade", 0, "Degraded")
    body = {"metadata": {"name": "p", "namespace": "default"}, "spec": {}}
    plan = RecreationPlan(
        GangId("default/remade"), "remade", "default", 1, 1, (RecordedPod(PodId("u"), body),), "late"
    )
    await client.create(kinds.GANG_PLAN, "default", encode(plan))
    with pytest.raises(Refused, match="holds pods that are being re-created"):
        await hand_back(client, LoopClock(), LEASE)
    assert len((await client.list(kinds.GANG_PLAN)).items) == 1
