"""Changes of a job that exists: what its owner is told of them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import replace

import pytest

from muster.api import groups, kinds
from muster.api.base import Object, mark
from muster.api.muster_v1alpha1 import Gang
from muster.app.commands.cancel import cancel_all
from muster.app.commands.change import Refused, hold, move, release, requeue
from muster.app.views.find import with_run
from muster.app.views.jobs import views
from muster.app.views.objects import fetch
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.clock import SystemClock

TEMPLATE: Object = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
BY_CLASS = "the most that PriorityClasses allow in namespace default"
BY_QUEUE = "maxPriority of queue bounded"


@pytest.mark.parametrize(
    ("before", "priority", "queue", "told"),
    [
        (None, "5000", None, f"muster.dev/priority: its priority 5000 is lowered to 1000, {BY_CLASS}"),
        (None, "1000", None, ""),
        (None, "high", None, ""),
        (None, "high", "bounded", f"muster.dev/priority: its priority 1000 is lowered to 7, {BY_QUEUE}"),
        ("900", None, "bounded", f"muster.dev/priority: its priority 900 is lowered to 7, {BY_QUEUE}"),
        ("7", None, "bounded", ""),
    ],
)
def test_set_tells_how_a_priority_is_lowered(
    before: str | None, priority: str | None, queue: str | None, told: str
) -> None:
    store = Store(":memory:")
    registry = Registry(store)
    registry.create(kinds.PRIORITY_CLASS, "", {"metadata": {"name": "high"}, "value": 1000})
    registry.create(kinds.QUEUE, "", {"metadata": {"name": "bounded"}, "spec": {"maxPriority": 7}})
    marks = {} if before is None else {"muster.dev/priority": before}
    job = {"metadata": {"name": "j", "annotations": marks}, "spec": {"template": TEMPLATE}}
    registry.create(kinds.JOB, "default", job)
    client = LocalClient(registry)

    async def change() -> str:
        return await move(client, (await with_run(client, "j", "")).view, priority, queue)

    assert asyncio.run(change()) == told
    store.close()


@pytest.mark.parametrize("act", ["hold", "release", "set", "requeue", "requeue of pods"])
async def test_a_job_submitted_again_meanwhile_is_not_changed(act: str) -> None:
    """It has the name of the job that was seen."""
    with closing(Store(":memory:")) as store:
        registry = Registry(store)
        client = LocalClient(registry)
        registry.create(kinds.NODE, "", {"metadata": {"name": "n"}})

        async def submit() -> Object:
            marks = {"muster.dev/hold": "true"} if act == "release" else {}
            body = {"metadata": {"name": "j", "labels": marks}, "spec": {"template": TEMPLATE}}
            made = await client.create(kinds.JOB, "default", body)
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": made.metadata.uid}
            meta = {"name": "p", "ownerReferences": [{**owner, "controller": True}]}
            spec = {**TEMPLATE["spec"], "nodeName": "n"}
            await client.create(kinds.POD, "default", {"metadata": meta, "spec": spec})
            return await client.get_json(kinds.JOB, "default", "j")

        await submit()
        seen = (await with_run(client, "j", "")).view
        if act == "requeue":
            seen = replace(seen, gangs=(Gang(),))
        await client.delete(kinds.POD, "default", "p", grace_period=0)
        await client.delete(kinds.JOB, "default", "j", propagation="Background")
        again = await submit()
        acts: dict[str, Callable[[], Awaitable[object]]] = {
            "hold": lambda: hold(client, seen),
            "release": lambda: release(client, seen),
            "set": lambda: move(client, seen, "7", None),
        }
        with pytest.raises(Refused, match=r"^j is gone; the Job j that is there was submitted since"):
            await acts.get(act, lambda: requeue(client, seen, SystemClock()))()
        assert await client.get_json(kinds.JOB, "default", "j") == again
        (pod,) = (await client.list(kinds.POD)).items
        assert pod.metadata.deletion_timestamp is None


async def test_a_job_with_several_pod_groups_is_changed_and_cancelled_with_all_of_them() -> None:
    with closing(Store(":memory:")) as store:
        client = LocalClient(Registry(store))
        label, kind = groups.POD_GROUP.label, groups.POD_GROUP.kind
        stages = [
            {
                "name": name,
                "template": {"spec": {"template": {**TEMPLATE, "metadata": {"labels": {label: name}}}}},
            }
            for name in ("g", "h")
        ]
        body = {"metadata": {"name": "j"}, "spec": {"replicatedJobs": stages}}
        await client.create(kinds.JOBSET, "default", body)
        for name in ("g", "h"):
            await client.create(kind, "default", {"metadata": {"name": name}, "spec": {"minMember": 1}})
        (view,) = views(await fetch(client))

        async def held() -> list[str | None]:
            return [mark(each.metadata, "muster.dev/hold") for each in (await client.list(kind)).items]

        await hold(client, view)
        assert await held() == ["true", "true"]
        (view,) = views(await fetch(client))
        assert await release(client, view)
        assert await held() == [None, None]
        assert [each.name async for each in cancel_all(client, [view])] == ["j"]
        assert views(await fetch(client)) == []


@pytest.mark.parametrize("act", ["hold", "set", "requeue"])
async def test_a_job_whose_pods_are_in_a_pod_group_is_changed_there(act: str) -> None:
    """The scheduler reads the gang's marks there. Nothing would resume the Job."""
    with closing(Store(":memory:")) as store:
        registry = Registry(store)
        client = LocalClient(registry)
        registry.create(kinds.NODE, "", {"metadata": {"name": "n"}})
        labels = {groups.POD_GROUP.label: "g"}
        template = {**TEMPLATE, "metadata": {"labels": labels}}
        made = await client.create(
            kinds.JOB, "default", {"metadata": {"name": "j"}, "spec": {"template": template}}
        )
        group = await client.create(groups.POD_GROUP.kind, "default", {"metadata": {"name": "g"}})
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": made.metadata.uid}
        meta = {"name": "p", "labels": labels, "ownerReferences": [{**owner, "controller": True}]}
        await client.create(
            kinds.POD, "default", {"metadata": meta, "spec": {**TEMPLATE["spec"], "nodeName": "n"}}
        )
        view = replace((await with_run(client, "j", "")).view, gangs=(Gang(),))
        if act == "requeue":
            assert await requeue(client, view, SystemClock())
            assert not (await client.get(kinds.JOB, "default", "j")).spec.suspend
            pod = await client.get(kinds.POD, "default", "p")
            assert pod.metadata.deletion_timestamp is not None
            return
        await (hold(client, view) if act == "hold" else move(client, view, "5", None))
        key, value = ("muster.dev/hold", "true") if act == "hold" else ("muster.dev/priority", "5")
        now = await client.get(groups.POD_GROUP.kind, "default", "g")
        assert mark(now.metadata, key) == value
        assert group.metadata.uid == now.metadata.uid
        assert mark((await client.get(kinds.JOB, "default", "j")).metadata, key) is None
