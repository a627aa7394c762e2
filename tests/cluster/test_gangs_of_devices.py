"""Gangs whose pods claim devices, on a real API server: allocated, bound, freed; and a leader that dies.

The scheduler has the chart's rights, and is confined by the chart's policies. The cluster's own controller
makes the claims from their template, and frees them.
"""

from muster.api.base import Object
from muster.api.kinds import GANG, POD, POD_GROUP_X, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from muster.api.resource_v1 import ResourceClaim
from muster.names import PLAN
from tests.cluster.conftest import Cluster
from tests.cluster.control_plane import ControlPlane
from tests.cluster.gangs import POD_GROUP_LABEL, bound, bound_at, member

DRIVER = "gang.example.com"
NODES = f"2 x name=gang-devices,cpu=8,memory=8Gi,label:test=gang-devices,device:{DRIVER}=2"


async def gang(cluster: Cluster, name: str, size: int) -> None:
    """Each pod has a claim of one device."""
    asked = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    template: Object = {
        "metadata": {"name": "gang-gpus"},
        "spec": {"spec": {"devices": {"requests": [asked]}}},
    }
    await cluster.make(RESOURCE_CLAIM_TEMPLATE, template)
    await cluster.make(POD_GROUP_X, {"metadata": {"name": name}, "spec": {"minMember": size}})
    for index in range(size):
        pod = member(name, index, test="gang-devices")
        pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gang-gpus"}]
        await cluster.make(POD, pod)


async def held(cluster: Cluster, name: str) -> dict[str, str]:
    """By pod of a gang that reserves it, the device that its claim has, with the pool."""
    found: dict[str, str] = {}
    claims: list[ResourceClaim] = (await cluster.client.list(RESOURCE_CLAIM, "default")).items
    for claim in claims:
        if claim.status.allocation is not None:
            assert PLAN in claim.metadata.annotations
            [result] = claim.status.allocation.devices.results
            [pod] = claim.status.reserved_for
            found[pod.name] = f"{result.pool}/{result.device}"
    return {pod: device for pod, device in found.items() if pod.rpartition("-")[0] == name}


async def whole(cluster: Cluster, name: str, size: int) -> bool:
    gangs = {each.metadata.name: each for each in (await cluster.client.list(GANG, "default")).items}
    record = gangs.get(f"podgroup-{name}")
    return await bound(cluster, name) == size and record is not None and record.plan is None


async def check(cluster: Cluster, name: str, size: int) -> None:
    """Each pod has a device of its own, of its own node."""
    devices = await held(cluster, name)
    assert len({*devices.values()}) == size
    pods = await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}={name}")
    nodes = {pod.metadata.name: pod.spec.node_name for pod in pods.items}
    assert {pod: device.partition("/")[0] for pod, device in devices.items()} == nodes


async def remove(cluster: Cluster, name: str) -> None:
    await cluster.client.delete(POD_GROUP_X, "default", name)
    for pod in (await cluster.client.list(POD, "default", labels=f"{POD_GROUP_LABEL}={name}")).items:
        await cluster.client.delete(POD, "default", pod.metadata.name, grace_period=0)


async def test_a_gang_has_devices_before_it_is_bound_and_others_after_it(
    cluster: Cluster, plane: ControlPlane
) -> None:
    """The next gang waits for all of them. A leader is killed while it binds: nothing is left half done."""
    cluster.muster("fake-nodes", NODES)
    first = cluster.daemon("scheduler", holds="second=1")
    await gang(cluster, "first", 4)
    await cluster.until("the gang is whole", lambda: whole(cluster, "first", 4))
    await check(cluster, "first", 4)

    await gang(cluster, "second", 4)

    async def waits() -> bool:
        gangs = (await cluster.client.list(GANG, "default")).items
        return any(each.metadata.name == "podgroup-second" and each.status.reason for each in gangs)

    await cluster.until("the next gang says that it waits", waits)
    assert not await held(cluster, "second")
    await remove(cluster, "first")

    async def half() -> bool:
        return await bound(cluster, "second") == 1

    await cluster.until("one pod of the next gang is bound", half)
    assert len(await held(cluster, "second")) == 4
    first.kill()
    first.wait()
    cluster.daemon("scheduler")
    await cluster.until("the next leader completes it", lambda: whole(cluster, "second", 4))
    await check(cluster, "second", 4)
    binds = [name for name, _ in bound_at(plane, "second-")]
    assert sorted(binds) == [f"second-{index}" for index in range(4)]
    await remove(cluster, "second")

    async def free() -> bool:
        return not (await cluster.client.list(RESOURCE_CLAIM, "default")).items

    await cluster.until("no claim is left", free)
