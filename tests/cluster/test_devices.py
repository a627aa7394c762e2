"""Devices and claims on a real API server: what it does with them, the embedded cluster does, too."""

import asyncio
import copy
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import pytest

from muster.api import rules
from muster.api.base import Kind, Object
from muster.api.core_v1 import PodStatus
from muster.api.kinds import (
    DEVICE_CLASS,
    EVENT,
    NODE,
    POD,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
)
from muster.api.pod_claims import DELETE_PROTECTION
from muster.api.resource_v1 import ResourceClaim
from muster.controllers.resource_claims import FAILED, Needs, make
from muster.effects import Create, RecordEvent
from muster.kube import config
from muster.kube.errors import Invalid, NotFound
from muster.kube.http import HttpClient
from tests.api.rules.devices import CASES, CLASS, DRIVER, Case
from tests.cluster.control_plane import ControlPlane, start_scheduler
from tests.patience import CLUSTER

T = TypeVar("T")

SPEC: Final[Object] = {"devices": {"requests": [{"name": "gpu", "exactly": CLASS}]}}
RESULT: Final = {"request": "gpu", "driver": DRIVER, "pool": "n0", "device": "gpu-0"}
#: Pods by name, and what each calls its claim; the names of the second are cut.
PODS: Final = {"short": "gpu", "p" * 60: "c" * 38}


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[HttpClient]:
    client = HttpClient(config.load(str(plane.kubeconfig)))
    yield client
    await client.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
async def test_an_object_is_taken_or_refused(client: HttpClient, case: Case) -> None:
    """For the same fields, and completed with the same defaults."""
    refused: list[str] = []
    try:
        stored = await client.dry_create(case.kind, "default" if case.kind.namespaced else "", case.body)
    except Invalid as error:
        refused = [cause["field"] for cause in (error.details or {})["causes"]]
    assert sorted({*refused}) == [*case.refused]
    if not refused:
        ours = copy.deepcopy(case.body)
        assert rules.type_(case.kind, ours) == []
        assert stated(rules.default(case.kind, ours)["spec"]) == stated(stored["spec"])


async def test_claims_are_made_as_ours(client: HttpClient) -> None:
    """kube-controller-manager makes of a template what the embedded cluster's controller makes."""
    template: Object = {
        "metadata": {"name": "gpus"},
        "spec": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"example.com/c": "d"}},
            "spec": SPEC,
        },
    }
    for pod, name in PODS.items():
        await client.create(POD, "default", claimant(pod, name, resourceClaimTemplateName="gpus"))
    try:
        for pod in PODS:
            needs = Needs(await client.get(POD, "default", pod), {}, {}, frozenset())
            [event] = make(needs, datetime.now(UTC))
            assert isinstance(event, RecordEvent)
            found = await within(lambda pod=pod: warning(client, pod))  # type: ignore[misc]
            assert found.startswith(event.message.removesuffix(" not found"))
            assert found.endswith(" not found")
        read = await client.create(RESOURCE_CLAIM_TEMPLATE, "default", template)
        for pod, name in PODS.items():
            made = await within(lambda pod=pod: recorded(client, pod))  # type: ignore[misc]
            found_pod = await client.get(POD, "default", pod)
            assert found_pod.status.resource_claim_statuses == [{"name": name, "resourceClaimName": made}]
            bare = msgspec.structs.replace(found_pod, status=PodStatus())
            [effect] = make(Needs(bare, {}, {"gpus": read}, frozenset()), datetime.now(UTC))
            assert isinstance(effect, Create)
            theirs, ours = await client.get_json(RESOURCE_CLAIM, "default", made), copy.deepcopy(effect.body)
            assert {key: theirs["metadata"][key] for key in ours["metadata"]} == ours["metadata"]
            assert re.fullmatch(ours["metadata"]["generateName"] + "[a-z0-9]{5}", made)
            assert stated(rules.default(RESOURCE_CLAIM, ours)["spec"]) == stated(theirs["spec"])
    finally:
        await clear(client)


async def test_claims_are_freed_as_by_ours(client: HttpClient) -> None:
    """tests/controllers/test_resource_claims.py has the same two ends of a claim, of ours."""
    read = {"metadata": {"name": "gpus"}, "spec": {"spec": SPEC}}
    await client.create(RESOURCE_CLAIM_TEMPLATE, "default", read)
    await client.create(RESOURCE_CLAIM, "default", {"metadata": {"name": "shared"}, "spec": SPEC})
    await client.create(POD, "default", claimant("own", "gpu", resourceClaimTemplateName="gpus"))
    await client.create(POD, "default", claimant("user", "gpu", resourceClaimName="shared"))
    try:
        own = await within(lambda: recorded(client, "own"))
        await allocate(client, own, "own")
        await allocate(client, "shared", "user")
        await client.patch(POD, "default", "own", {"status": {"phase": "Succeeded"}}, subresource="status")
        await within(lambda: gone(client, own))
        await client.delete(POD, "default", "user", grace_period=0)

        async def freed() -> ResourceClaim | None:
            claim = await client.get(RESOURCE_CLAIM, "default", "shared")
            return None if claim.metadata.finalizers else claim

        claim = await within(freed)
        assert (claim.status.allocation, claim.status.reserved_for) == (None, [])
    finally:
        await clear(client)


@pytest.fixture
def devices(plane: ControlPlane, tmp_path: Path) -> Iterator[None]:
    """A simulated node with devices in two cliques, and the default scheduler."""
    spec = f"1 x name=devices,cpu=8,memory=8Gi,device:{DRIVER}=8,device:{DRIVER}/clique=a|b"
    command = [sys.executable, "-m", "muster", "fake-nodes", spec, "--kubeconfig", str(plane.kubeconfig)]
    start_scheduler(plane)
    with (tmp_path / "nodes.log").open("wb") as log:
        nodes = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield
    finally:
        nodes.send_signal(signal.SIGTERM)
        nodes.wait(CLUSTER)
        plane.kill("kube-scheduler")


@pytest.mark.usefixtures("devices")
async def test_kube_scheduler_gives_out_the_devices_of_simulated_nodes(client: HttpClient) -> None:
    """Slices and classes are as a driver's; pods run once their claims are allocated and reserved."""
    asked = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": 3}}
    clique = {"matchAttribute": f"{DRIVER}/clique"}
    template = {"spec": {"devices": {"requests": [asked], "constraints": [clique]}}}
    await client.create(RESOURCE_CLAIM_TEMPLATE, "default", {"metadata": {"name": "gpus"}, "spec": template})
    for name in ("one", "two", "three"):
        pod = claimant(name, "gpu", resourceClaimTemplateName="gpus")
        pod["spec"]["schedulerName"] = "default-scheduler"
        await client.create(POD, "default", pod)

    async def running() -> int:
        return sum(pod.status.phase == "Running" for pod in (await client.list(POD, "default")).items)

    async def two() -> bool:
        return await running() == 2

    async def slices_gone() -> bool:
        return not (await client.list(RESOURCE_SLICE)).items

    try:
        await within(two)
        held = [each.status.allocation for each in (await client.list(RESOURCE_CLAIM, "default")).items]
        found = [[each.device for each in one.devices.results] for one in held if one is not None]
        cliques = [{int(name.removeprefix("gpu-")) // 4 for name in each} for each in found]
        assert sorted(map(sorted, cliques)) == [[0], [1]]
        assert await running() == 2
    finally:
        await clear(client)
        await client.delete(NODE, "", "devices-0")
        await client.delete(DEVICE_CLASS, "", DRIVER)
    await within(slices_gone)


def claimant(name: str, claim: str, **source: str) -> Object:
    """A pod that waits for a node for ever."""
    container = {"name": "c", "image": "none", "resources": {"claims": [{"name": claim}]}}
    spec = {
        "schedulerName": "nobody",
        "containers": [container],
        "resourceClaims": [{"name": claim, **source}],
    }
    return {"metadata": {"name": name}, "spec": spec}


async def allocate(client: HttpClient, name: str, pod: str) -> None:
    """Allocates a claim for a pod, as a scheduler does: the finalizer, then the status."""
    uid = (await client.get(POD, "default", pod)).metadata.uid
    await client.patch(RESOURCE_CLAIM, "default", name, {"metadata": {"finalizers": [DELETE_PROTECTION]}})
    status = {
        "allocation": {"devices": {"results": [RESULT]}},
        "reservedFor": [{"resource": "pods", "name": pod, "uid": uid}],
    }
    await client.patch(RESOURCE_CLAIM, "default", name, {"status": status}, subresource="status")


async def warning(client: HttpClient, pod: str) -> str:
    """What the Event about a missing template says; "" without one."""
    events = await client.list(EVENT, "default", fields=f"involvedObject.name={pod},reason={FAILED}")
    return events.items[0].message if events.items else ""


async def recorded(client: HttpClient, pod: str) -> str:
    """The name of the claim that was made for a pod; "" without one."""
    statuses = (await client.get(POD, "default", pod)).status.resource_claim_statuses
    return str(statuses[0]["resourceClaimName"]) if statuses else ""


async def gone(client: HttpClient, claim: str) -> bool:
    with suppress(NotFound):
        await client.get(RESOURCE_CLAIM, "default", claim)
        return False
    return True


async def clear(client: HttpClient) -> None:
    made: tuple[Kind[Any], ...] = (POD, RESOURCE_CLAIM_TEMPLATE, RESOURCE_CLAIM)  # Any: of several
    for kind in made:
        for each in (await client.list(kind, "default")).items:
            with suppress(NotFound):
                if each.metadata.finalizers:
                    none = {"metadata": {"finalizers": None}}
                    await client.patch(kind, "default", each.metadata.name, none)
                await client.delete(kind, "default", each.metadata.name, grace_period=0)


async def within(look: Callable[[], Awaitable[T | None]]) -> T:
    """What `look` returns, once that is true."""
    until = asyncio.get_running_loop().time() + CLUSTER
    while not (found := await look()):
        assert asyncio.get_running_loop().time() < until
        await asyncio.sleep(0.1)
    return found


def stated(value: Any) -> Any:  # Any: JSON
    """A value without what is empty, and without times, which the server adds to taints."""
    if isinstance(value, dict):
        inner = {key: stated(item) for key, item in value.items() if key != "timeAdded"}
        return {key: item for key, item in inner.items() if item not in (None, [], {})}
    return [stated(item) for item in value] if isinstance(value, list) else value
