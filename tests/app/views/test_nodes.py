"""Nodes as people see them."""

from collections.abc import Iterator
from typing import Any

import pytest

from muster.api import kinds
from muster.app.views.nodes import fetch, quantities, summary
from muster.controllers.gpu_health import TAINT, UNHEALTHY
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry


@pytest.fixture
def client() -> Iterator[LocalClient]:
    store = Store(":memory:")
    yield LocalClient(Registry(store))
    store.close()


async def node(client: LocalClient, name: str, ready: str = "True", **spec: Any) -> None:
    labels = {"nvidia.com/gpu.product": "A100"} if name == "gpu" else {}
    await client.create(kinds.NODE, "", {"metadata": {"name": name, "labels": labels}, "spec": spec})
    status = {
        "allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": ready}],
    }
    await client.patch(kinds.NODE, "", name, {"status": status}, subresource="status")


async def pod(client: LocalClient, name: str, phase: str, cpu: str = "500m") -> None:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    await client.create(
        kinds.POD, "default", {"metadata": {"name": name}, "spec": {"containers": [container]}}
    )
    await client.bind("default", name, {"target": {"name": "gpu"}})
    await client.patch(kinds.POD, "default", name, {"status": {"phase": phase}}, subresource="status")


async def test_nodes_that_take_no_pods_say_why(client: LocalClient) -> None:
    own = {"key": "own", "value": "ml", "effect": "NoSchedule"}
    await node(client, "own", taints=[own])
    await node(client, "rather", taints=[{**own, "effect": "PreferNoSchedule"}])
    await node(client, "sick", taints=[own, {"key": TAINT, "effect": "NoSchedule"}])
    ill = {"type": UNHEALTHY, "status": "True", "reason": "Xid", "message": "XID 79"}
    conditions = [{"type": "Ready", "status": "True"}, ill]
    await client.patch(kinds.NODE, "", "sick", {"status": {"conditions": conditions}}, subresource="status")
    assert [(view.name, view.state, view.taints) for view in await fetch(client)] == [
        ("own", "tainted", ("own=ml:NoSchedule",)),
        ("rather", "ready", ()),
        ("sick", "quarantined", ("own=ml:NoSchedule", f"{TAINT}:NoSchedule (XID 79)")),
    ]


async def test_capacity_and_usage_of_nodes(client: LocalClient) -> None:
    await node(client, "gpu")
    await node(client, "away", ready="False")
    await node(client, "closed", unschedulable=True)
    await pod(client, "a", "Running")
    await pod(client, "b", "Pending")
    await pod(client, "done", "Succeeded")
    away, closed, gpu = await fetch(client)
    assert [view.state for view in (away, closed, gpu)] == ["not ready", "cordoned", "ready"]
    assert (gpu.capacity["cpu"], gpu.capacity["memory"], gpu.product) == (2000, 2**30, "A100")
    assert gpu.used == {"cpu": 1000, "memory": 2**27, "pods": 2}, "what has ended takes nothing"
    assert summary(gpu)["capacity"] == {"cpu": "2", "memory": "1Gi", "pods": "10"}
    assert summary(gpu)["used"] == {"cpu": "1", "memory": "128Mi", "pods": "2"}
    assert away.used == {}


async def test_shares_of_gpus_are_shown_in_thousandths(client: LocalClient) -> None:
    await node(client, "gpu")
    meta = {"name": "share", "labels": {"muster.dev/gpu-share": "250"}}
    containers = [{"name": "main", "image": "x"}]
    await client.create(kinds.POD, "default", {"metadata": meta, "spec": {"containers": containers}})
    await client.bind("default", "share", {"target": {"name": "gpu"}})
    (view,) = await fetch(client)
    assert view.used == {"muster.dev/gpu-share": 250, "pods": 1}
    assert summary(view)["used"] == {"nvidia.com/gpu": "0.25", "pods": "1"}
    assert quantities({"nvidia.com/gpu": 2, "muster.dev/gpu-share": 1250}) == {"nvidia.com/gpu": "3.25"}


async def test_nodes_on_which_pods_of_several_namespaces_fail_are_shown_as_such(client: LocalClient) -> None:
    await node(client, "gpu")
    for number, namespace in enumerate(("default", "one", "two")):
        if number:
            await client.create(kinds.NAMESPACE, "", {"metadata": {"name": namespace}})
        body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}}
        await client.create(kinds.POD, namespace, body)
        await client.bind(namespace, "a", {"target": {"name": "gpu"}})
        status = {
            "phase": "Failed",
            "message": "Pod was rejected: no room",
            "startTime": "1970-01-01T00:00:00Z",
        }
        await client.patch(kinds.POD, namespace, "a", {"status": status}, subresource="status")
        (view,) = await fetch(client, None, 0.0)
        assert (view.state == "used last") == (number == 2), "1 of 1 node is more than 5 %"
    assert view.note == ("node gpu is used last: pods of 3 jobs of 3 namespaces failed there at their start")
    assert summary(view)["note"] == view.note
    for number in range(19):
        await node(client, f"other-{number}")
    found = await fetch(client, None, 0.0)
    assert found[0].state == "avoided"
    assert (await fetch(client, None, 600.0))[0].state == "ready"


@pytest.mark.parametrize(
    ("where", "setting", "state"),
    [
        ("muster-system", '{"jobs": 1, "namespaces": 1, "atMost": "50%"}', "avoided"),
        ("muster-system", '{"jobs": 1, "namespaces": 1, "atMost": "0%"}', "used last"),
        ("muster-system", '{"jobs": 1, "namespaces": 1, "failures": []}', "ready"),
        ("muster-system", '{"jobs": 1, "namespaces": 1, "atMost": "99%"}', "ready"),
        ("default", '{"jobs": 1, "namespaces": 1, "atMost": "50%"}', "ready"),
    ],
)
async def test_nodes_are_shown_by_the_rules_that_the_leading_scheduler_has(
    client: LocalClient, where: str, setting: str, state: str
) -> None:
    await node(client, "gpu")
    await node(client, "other")
    await pod(client, "a", "Failed")
    status = {"message": "Pod was rejected: no room", "startTime": "1970-01-01T00:00:00Z"}
    await client.patch(kinds.POD, "default", "a", {"status": status}, subresource="status")
    await client.create(kinds.NAMESPACE, "", {"metadata": {"name": "muster-system"}})
    meta = {"name": "muster-scheduler", "annotations": {"muster.dev/bad-nodes": setting}}
    await client.create(kinds.LEASE, where, {"metadata": meta})
    schedulers = frozenset({"muster", "default-scheduler"})
    assert (await fetch(client, schedulers, 0.0))[0].state == state
