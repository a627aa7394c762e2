"""Nodes that reject what is bound to them, and nodes that are deleted under a gang."""

import asyncio
import signal
from datetime import UTC, datetime
from functools import partial

import pytest

from muster.api.base import Object
from muster.api.core_v1 import Pod
from muster.api.kinds import GANG, JOB, LEASE, NAMESPACE, NODE, POD, POD_GROUP_X
from muster.names import ADMISSION, BAD_NODES, RUNTIME
from muster.names import GANG as IS_GANG
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import POD_GROUP_LABEL, done, member

#: So many that one of them is the 5 % that may be avoided.
GOOD = 19


async def test_a_node_that_rejects_gangs_of_several_namespaces_is_avoided_by_all(cluster: Cluster) -> None:
    cluster.muster("fake-nodes", f"{GOOD} x name=good,cpu=2,memory=8Gi,label:test=any")
    await cluster.make(
        NODE, {"metadata": {"name": "bad", "labels": {"test": "any", "only": "bad", RUNTIME: "none"}}}
    )
    await ready(cluster)
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    await cluster.make(NAMESPACE, {"metadata": {"name": "other"}})
    for name, namespace in (("one", "default"), ("two", "default"), ("three", "other")):
        await pinned(cluster, name, namespace)
        await cluster.until(f"{name} is on the node", partial(on_bad, cluster, name, namespace))
        rejected = {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: no cpu is left"}
        await cluster.client.patch(POD, namespace, f"{name}-0", {"status": rejected}, subresource="status")
    await pinned(cluster, "four", "default")

    async def told() -> bool:
        await ready(cluster)
        reason = (await cluster.client.get(GANG, "default", "podgroup-four")).status.reason
        return "node bad is avoided: pods of 3 jobs of 2 namespaces" in str(reason)

    await cluster.until("a gang that fits nowhere else is told of it", told)
    await cluster.make(POD_GROUP_X, {"metadata": {"name": "all"}, "spec": {"minMember": GOOD}})
    for index in range(GOOD):
        await cluster.make(POD, member("all", index, "2", "any"))

    async def used() -> set[str]:
        await ready(cluster)
        pods = (await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}=all")).items
        return {pod.spec.node_name for pod in pods} if all(pod.spec.node_name for pod in pods) else set()

    assert len(await cluster.until("a gang that needs all other nodes starts", used) - {"bad"}) == GOOD
    lease = await cluster.client.get(LEASE, "muster-system", "muster-scheduler")
    assert '"atMost":"5%"' in lease.metadata.annotations[BAD_NODES]


async def pinned(cluster: Cluster, name: str, namespace: str) -> None:
    """A gang of one for the bad node alone."""
    await cluster.make(POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": 1}}, namespace)
    pod = member(name, 0)
    pod["spec"]["nodeSelector"] = {"only": "bad"}
    await cluster.make(POD, pod, namespace)


async def on_bad(cluster: Cluster, name: str, namespace: str) -> bool:
    await ready(cluster)
    return (await cluster.client.get(POD, namespace, f"{name}-0")).spec.node_name == "bad"


async def ready(cluster: Cluster) -> None:
    """What the bad node reports; unless it is repeated, the node becomes NotReady after some seconds."""
    room = {"cpu": "2", "memory": "8Gi", "pods": "110"}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    status = {
        "capacity": room,
        "allocatable": room,
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": now}],
    }
    await cluster.client.patch(NODE, "", "bad", {"status": status}, subresource="status")


@pytest.mark.parametrize("of_muster", [True, False])
async def test_what_ran_on_a_deleted_node_is_lost_at_once(
    cluster: Cluster, plane: ControlPlane, of_muster: bool
) -> None:
    """A gang that muster may suspend starts again as a whole; of another the lost pod is replaced."""
    name = "left-whole" if of_muster else "left-one"
    cluster.muster("fake-nodes", f"1 x name={name}-stays,cpu=1,memory=8Gi,label:test={name}")
    leaving = cluster.muster("fake-nodes", f"1 x name={name}-gone,cpu=1,memory=8Gi,label:test={name}")
    cluster.daemon("scheduler")
    cluster.daemon("controllers")
    await cluster.make(JOB, job(name, of_muster))

    async def running(without: str = "") -> dict[str, Pod] | None:
        """The pods that run, by node, once there are two and none is on that node."""
        pods = (await cluster.client.list(POD, "default", labels=f"of={name}")).items
        live = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        found = {pod.spec.node_name: pod for pod in live if pod.status.phase == "Running"}
        return found if len(found) == len(live) == 2 and without not in found else None

    before = await cluster.until("both run", running)
    (gone,) = (node for node in before if "gone" in node)
    cluster.muster("fake-nodes", f"1 x name={name}-late,cpu=1,memory=8Gi,label:test={name}")
    leaving.send_signal(signal.SIGTERM)
    await asyncio.to_thread(leaving.wait)
    await cluster.client.delete(NODE, "", gone)
    after = await cluster.until("both run elsewhere", partial(running, gone))
    by = cluster.chart.accounts
    lost = before[gone].metadata.name
    assert lost in [pod for pod, code, _ in done(plane, "delete", "pods", by=by) if code == 200]
    kept = {pod.metadata.uid for pod in before.values()} & {pod.metadata.uid for pod in after.values()}
    assert len(kept) == (0 if of_muster else 1)
    assert (await cluster.client.get(JOB, "default", name)).status.failed == 0


def job(name: str, of_muster: bool) -> Object:
    """A Job of two pods, which is one gang."""
    return {
        "metadata": {
            "name": name,
            "annotations": {IS_GANG: "true"} | ({ADMISSION: "gang"} if of_muster else {}),
        },
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "completionMode": "Indexed",
            "suspend": of_muster,
            "backoffLimit": 0,
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
            },
            "template": {"metadata": {"labels": {"of": name}}, "spec": member(name, 0, test=name)["spec"]},
        },
    }
