"""Muster beside others on a real API server: what ran before it, other schedulers' pods, autoscalers."""

import asyncio
import json
import subprocess
import sys
from functools import partial
from typing import Any

from muster.api.base import Kind, Object, condition
from muster.api.groups import INCUBATOR, KOORDINATOR, VOLCANO, Dialect
from muster.api.kinds import EVENT, GANG, NODE, POD, POD_GROUP_INCUBATOR, POD_GROUP_SIGS, POD_GROUP_X
from muster.names import SCHEDULER
from tests.cluster.conftest import CRD, Cluster, open_definition
from tests.cluster.gangs import POD_GROUP_LABEL, bound, gang, member


async def nodes_are(cluster: Cluster, test: str, count: int) -> None:
    async def there() -> bool:
        return len((await cluster.client.list(NODE, labels=f"test={test}")).items) == count

    await cluster.until(f"{count} nodes", there)


async def told(cluster: Cluster, name: str, dialect: str = "podgroup") -> tuple[str, str]:
    """The phase and the reason of a gang."""
    record = await cluster.client.get(GANG, "default", f"{dialect}-{name}")
    return record.status.phase, record.status.reason.code if record.status.reason is not None else ""


async def reasons(cluster: Cluster, name: str) -> list[str]:
    """Why the pods of a gang are not scheduled, each."""
    pods = await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}={name}")
    found = (condition(pod.status.conditions, "PodScheduled") for pod in pods.items)
    return [each.reason for each in found if each is not None and each.status == "False"]


async def test_gangs_that_run_already_are_adopted_and_pods_of_other_schedulers_count(
    cluster: Cluster,
) -> None:
    """Two of the four places of each node are taken before muster comes: by a gang, and by a foreign pod."""
    cluster.muster("fake-nodes", "2 x name=adopt,cpu=4,memory=8Gi,label:test=adopt")
    await nodes_are(cluster, "adopt", 2)
    await gang(cluster, "before", 3, test="adopt")
    foreign = member("foreign", 0, "3", "adopt")
    foreign["metadata"]["labels"] = {}
    foreign["spec"]["schedulerName"] = "somebody-elses"
    await cluster.make(POD, foreign)
    uids = {}
    for name, node in (("before-0", 0), ("before-1", 0), ("before-2", 0), ("foreign-0", 1)):
        target = {"apiVersion": "v1", "kind": "Node", "name": f"adopt-{node}"}
        binding: Object = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": target,
        }
        await cluster.client.bind("default", name, binding)
        uids[name] = (await cluster.client.get(POD, "default", name)).metadata.uid
    await gang(cluster, "after", 3, test="adopt")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")

    async def waits() -> bool:
        return await told(cluster, "after") == ("Waiting", "InsufficientCapacity")

    await cluster.until("the gang that finds 2 places waits", waits)
    for name, uid in uids.items():
        assert (await cluster.client.get(POD, "default", name)).metadata.uid == uid
    await cluster.client.delete(POD, "default", "before-1", grace_period=0)
    await cluster.make(POD, member("before", 1, test="adopt"))

    async def replaced() -> bool:
        return await bound(cluster, "before") == 3

    await cluster.until("the lost member has its place again, before the other gang", replaced)

    async def stands() -> bool:
        return (await told(cluster, "before"))[0] == "Standing"

    await cluster.until("the gang that was there before stands", stands)
    await cluster.client.delete(POD, "default", "foreign-0", grace_period=0)

    async def follows() -> bool:
        return await bound(cluster, "after") == 3

    await cluster.until("the room that the foreign pod leaves is used", follows)


async def test_pods_of_a_gang_are_unschedulable_for_autoscalers_and_a_new_node_is_used_at_once(
    cluster: Cluster,
) -> None:
    cluster.muster("fake-nodes", "1 x name=small,cpu=4,memory=8Gi,label:test=scaled")
    await nodes_are(cluster, "scaled", 1)
    cluster.daemon("scheduler")
    await gang(cluster, "grows", 6, test="scaled")
    await cluster.make(POD_GROUP_X, {"metadata": {"name": "lacks"}, "spec": {"minMember": 3}})
    for index in range(2):
        await cluster.make(POD, member("lacks", index, test="scaled"))

    async def asks() -> bool:
        return await reasons(cluster, "grows") == ["Unschedulable"] * 6

    await cluster.until("all six pods are Unschedulable", asks)
    assert "Unschedulable" not in await reasons(cluster, "lacks"), "its third pod is missing"
    waits = "its group has an Event of why it waits"
    await cluster.until(waits, lambda: says(cluster, "grows", "InsufficientCapacity"))
    cluster.muster("fake-nodes", "1 x name=added,cpu=4,memory=8Gi,label:test=scaled")

    async def starts() -> bool:
        return await bound(cluster, "grows") == 6

    await cluster.until("the gang has the new node", starts)

    await cluster.until("its group has an Event of its start", lambda: says(cluster, "grows", "Started"))


async def says(cluster: Cluster, group: str, reason: str) -> bool:
    """Whether the PodGroup has one Event of this reason, which counts once."""
    found = []
    for event in (await cluster.client.list(EVENT, "default")).items:
        whole = await cluster.client.get_json(EVENT, "default", event.metadata.name)
        about = whole["involvedObject"]
        if (about["kind"], about["name"], whole["reason"]) == ("PodGroup", group, reason):
            found.append(whole["count"])
    return found == [1]


async def test_a_kind_whose_definition_comes_later_is_read_then(cluster: Cluster) -> None:
    cluster.muster("fake-nodes", "1 x name=later,cpu=5,memory=8Gi,label:test=later")
    await nodes_are(cluster, "later", 1)
    cluster.daemon("scheduler")
    await gang(cluster, "first", 2, test="later")

    async def first() -> bool:
        return await bound(cluster, "first") == 2

    await cluster.until("muster schedules without the kind", first)
    try:
        for kind in (POD_GROUP_SIGS, POD_GROUP_INCUBATOR):
            await cluster.make(CRD, open_definition(kind))
        for row, named in (
            (KOORDINATOR, {"labels": {KOORDINATOR.label: "late"}}),
            (INCUBATOR, {"annotations": {VOLCANO.annotations[0]: "late"}, "labels": {}}),
        ):
            for index in range(2):
                late = member("late", index, test="later")
                late["metadata"] |= {"name": f"{row.name}-{index}", **named}
                await cluster.make(POD, late)
            group = {"metadata": {"name": "late"}, "spec": {"minMember": 3}}
            await cluster.until("the kind is served", partial(made, cluster, row.kind, group))

            async def read(row: Dialect = row.naming) -> bool:
                return await told(cluster, "late", row.name) == ("Waiting", "MembersMissing")

            await cluster.until(f"the group of two of three pods of {row} is read", read)
        cluster.daemon("controllers")
        third = member("late", 2, test="later")
        third["metadata"] |= {"name": "kube-batch-2", **named}
        await cluster.make(POD, third)

        async def runs() -> bool:
            status = (await cluster.client.get(POD_GROUP_INCUBATOR, "default", "late")).status
            return (status.phase, status.admitted, status.running) == ("Running", 3, 3)

        await cluster.until("the group of kube-batch counts its pods", runs)
    finally:
        for kind in (POD_GROUP_SIGS, POD_GROUP_INCUBATOR):
            await cluster.client.delete(CRD, "", f"{kind.plural}.{kind.group}")


async def made(cluster: Cluster, kind: Kind[Any], body: Object) -> bool:
    await cluster.make(kind, body)
    return True


async def test_a_scheduler_with_a_selector_uses_its_own_nodes_only_until_the_selector_changes(
    cluster: Cluster,
) -> None:
    cluster.muster(
        "fake-nodes",
        "1 x name=mine,cpu=2,memory=8Gi,label:pool=batch,label:test=pools; "
        "1 x name=theirs,cpu=8,memory=8Gi,label:test=pools",
    )
    await nodes_are(cluster, "pools", 2)
    settings = cluster.logs / "settings.yaml"
    names = {"schedulerNames": [SCHEDULER, "awaited"], "awaitPodGroups": ["awaited"]}
    settings.write_text(json.dumps({"nodeSelector": "pool=batch", **names}))
    cluster.daemon("scheduler", 0, f"--config={settings}")
    await gang(cluster, "bounded", 4, test="pools")

    async def waits() -> bool:
        return await told(cluster, "bounded") == ("Waiting", "InsufficientCapacity")

    await cluster.until("the gang does not fit on the selected node", waits)
    alone = member("alone", 0, by="awaited")
    assert "(awaitPodGroups)" in await asyncio.to_thread(planned, cluster, alone)
    settings.write_text(json.dumps({"nodeSelector": "", **names}))

    async def starts() -> bool:
        return await bound(cluster, "bounded") == 4

    await cluster.until("the gang fits once all nodes are used", starts)


def planned(cluster: Cluster, pod: Object) -> str:
    """What `muster plan` says of a pod without a group, by the settings in the scheduler's Lease."""
    file = cluster.logs / "planned.yaml"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **pod, "metadata": {"name": "planned"}}))
    command = [sys.executable, "-m", "muster", "plan", str(file), f"--kubeconfig={cluster.kubeconfig}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
