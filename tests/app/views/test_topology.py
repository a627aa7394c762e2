"""The network topology as people see it, from objects alone."""

from collections.abc import Iterator

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.app.views.topology import fetch, summary
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry


@pytest.fixture
def client() -> Iterator[LocalClient]:
    store = Store(":memory:")
    yield LocalClient(Registry(store))
    store.close()


async def node(client: LocalClient, name: str, ready: str = "True", **labels: str) -> None:
    await client.create(kinds.NODE, "", {"metadata": {"name": name, "labels": labels}})
    status = {
        "allocatable": {"cpu": "2", "nvidia.com/gpu": "4"},
        "conditions": [{"type": "Ready", "status": ready}],
    }
    await client.patch(kinds.NODE, "", name, {"status": status}, subresource="status")


def layer(name: str, parent: str, key: str) -> Object:
    return {"topologyLayer": name, "parentTopologyLayer": parent, "labelKey": [key]}


async def test_domains_with_what_is_free(client: LocalClient) -> None:
    spec = {"networkTopologySpec": [layer("Spine", "", "spine"), layer("Block", "Spine", "block")]}
    await client.create(kinds.CLUSTER_NETWORK_TOPOLOGY, "", {"metadata": {"name": "default"}, "spec": spec})
    await node(client, "a", spine="s1", block="b1")
    await node(client, "b", spine="s1", block="b1", ready="False")
    await node(client, "c", spine="s1")
    await node(client, "d", spine="s2", block="b1")
    container = {"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "3"}}}
    await client.create(
        kinds.POD, "default", {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    )
    await client.bind("default", "p", {"target": {"name": "a"}})
    found = await fetch(client)
    assert [(d.path, d.labelled, d.nodes, d.ready, d.free["nvidia.com/gpu"]) for d in found.domains] == [
        ((), True, ("a", "b", "c", "d"), 3, 9),
        (("s1",), True, ("a", "b", "c"), 2, 5),
        (("s1", ""), False, ("c",), 1, 4),
        (("s1", "b1"), True, ("a", "b"), 1, 1),
        (("s2",), True, ("d",), 1, 4),
        (("s2", "b1"), True, ("d",), 1, 4),
    ]
    assert found.domains[3].capacity["nvidia.com/gpu"] == 8
    assert found.layers == ("Spine", "Block")
    told = summary(found)
    assert told["domains"][3] | {"nodes": ()} == {
        "layer": "Block",
        "path": ("s1", "b1"),
        "labelled": True,
        "nodes": (),
        "ready": 1,
        "capacity": {"cpu": "4", "nvidia.com/gpu": "8"},
        "free": {"cpu": "2", "nvidia.com/gpu": "1"},
    }
    assert (told["defined"], told["error"]) == (True, None)


async def test_without_a_topology_and_with_one_that_is_none(client: LocalClient) -> None:
    await node(client, "a", spine="s1")
    nothing = await fetch(client)
    assert not nothing.defined
    assert [domain.nodes for domain in nothing.domains] == [("a",)]
    spec = {"networkTopologySpec": [layer("Spine", "Hall", "spine")]}
    await client.create(kinds.CLUSTER_NETWORK_TOPOLOGY, "", {"metadata": {"name": "default"}, "spec": spec})
    assert (await fetch(client)).error == "layer Spine names the parent Hall, which is not there"
