"""Reading a real API server. Nodes and pods are plain objects here: no kubelet runs them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Kind, Object
from muster.app.plan.decisions import Outcome
from muster.app.snapshot import Snapshot
from muster.kube import config, listing
from muster.kube.errors import Invalid, NotFound
from muster.kube.http import HttpClient
from muster.names import GPU, SCHEDULER
from muster.workloads import snapshot
from tests.api.rules.test_resources import pods
from tests.app.plan.test_plan import job, objects
from tests.cluster.control_plane import ControlPlane

NODES, PODS = 3, 5
PREFIX = "muster-test"


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[HttpClient]:
    client = HttpClient(config.load(str(plane.kubeconfig)))
    made: list[tuple[Kind[Any], str]] = []  # Any: of many kinds

    async def make(kind: Kind[Any], name: str, value: Object) -> None:
        await client.create(kind, "default" if kind.namespaced else "", {"metadata": {"name": name}, **value})
        made.append((kind, name))

    try:
        room = {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: "4"}
        ready = [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}]
        status = {"capacity": room, "allocatable": room, "conditions": ready}
        for i in range(NODES):
            await make(kinds.NODE, f"{PREFIX}-{i}", {"status": status})
            # a new node is tainted until a controller removes the taint; here there is none
            await client.patch(kinds.NODE, "", f"{PREFIX}-{i}", {"spec": {"taints": None}})
        for i in range(PODS):
            asked = {"requests": {"cpu": "1"}, "limits": {GPU: "2"}}
            container = {"name": "main", "image": "none", "resources": asked}
            spec = {"containers": [container], "schedulerName": SCHEDULER, "nodeName": f"{PREFIX}-{i // 2}"}
            await make(kinds.POD, f"{PREFIX}-{i}", {"spec": spec})
        yield client
    finally:
        for kind, name in reversed(made):
            await client.delete(kind, "default" if kind.namespaced else "", name, grace_period=0)
        await client.close()


async def test_a_live_plan_equals_the_plan_on_a_dump(
    client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "PAGE", 2)
    live = await Snapshot.observe(client)
    asked = objects(job("j", 1, 2, gang=True))
    (found,) = live.plan(asked).decisions
    assert (found.outcome, found.assignments) == (
        Outcome.PLACE,
        {"default/j/main-0": f"{PREFIX}-2"},
    )
    dumped = [
        {"apiVersion": kind.api_version, "kind": kind.kind, **await client.get_json(kind, *key)}
        for kind, *key in live.objects.items
    ]
    read = snapshot.typed(dumped, {name[0] for name in live.objects.items})
    assert Snapshot(read).plan(asked).decisions == [found]


async def test_the_real_server_accepts_the_resource_requests_that_muster_accepts(client: HttpClient) -> None:
    for number, (spec, said) in enumerate(pods()):
        name = f"{PREFIX}-asks-{number}"
        try:
            await client.create(kinds.POD, "default", {"metadata": {"name": name}, "spec": spec})
            refused = False
            await client.delete(kinds.POD, "default", name, grace_period=0)
        except Invalid:
            refused = True
        assert refused == bool(said), spec


async def test_unknown_kinds_are_distinguished_from_none(client: HttpClient) -> None:
    nobodys = Kind("nobody.example.com", "v1", "Nobody", "nobodies", True, kinds.POD.type)
    assert (await listing.list_all(client, nobodys, missing_ok=True)).items == []
    with pytest.raises(NotFound):
        await listing.list_all(client, nobodys)
