"""Queues as people see them."""

from collections.abc import Iterator
from typing import Any

import pytest

from muster import names
from muster.api import kinds
from muster.app.views.queues import fetch, resources, summary
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry


@pytest.fixture
def client() -> Iterator[LocalClient]:
    store = Store(":memory:")
    yield LocalClient(Registry(store))
    store.close()


async def queue(client: LocalClient, name: str, **spec: Any) -> None:  # Any: JSON
    await client.create(kinds.QUEUE, "", {"metadata": {"name": name}, "spec": spec})


async def pod(client: LocalClient, name: str, queue: str, node: str = "") -> None:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    body = {"metadata": {"name": name, "labels": {names.QUEUE: queue}}, "spec": {"containers": [container]}}
    await client.create(kinds.POD, "default", body)
    if node:
        await client.bind("default", name, {"target": {"name": node}})


async def test_a_tree_with_what_each_uses(client: LocalClient) -> None:
    await client.create(kinds.NODE, "", {"metadata": {"name": "n"}})
    status = {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(kinds.NODE, "", "n", {"status": status}, subresource="status")
    await queue(client, "org", weight=3, guarantee={"cpu": 1})
    await queue(client, "team", parent="org", reclaimable=False)
    await queue(client, "lost", parent="nowhere")
    await pod(client, "a", "team", "n")
    await pod(client, "b", "team")
    await pod(client, "c", "default", "n")
    await pod(client, "d", "default", "n")
    await pod(client, "e", "default", "n")
    found = await fetch(client, None)
    assert [(view.depth, view.name) for view in found] == [
        (0, "default"),
        (0, "org"),
        (1, "team"),
        (0, "lost"),
    ]
    default, org, team, lost = map(summary, found)
    assert (default["used"]["cpu"], default["entitled"]["cpu"], default["borrowed"]["cpu"]) == ("3", "2", "1")
    assert (org["used"]["cpu"], org["entitled"]["cpu"], org["waiting"], org["standing"]) == ("1", "2", 1, 1)
    assert (team["used"]["cpu"], team["entitled"]["cpu"], team["borrowed"]) == ("1", "2", {})
    assert lost["invalid"] == "its parent nowhere does not exist"
    assert [view.notes for view in found[2:]] == [
        ["not reclaimable"],
        ["invalid: its parent nowhere does not exist"],
    ]
    assert resources(found) == ["cpu"]


async def test_an_empty_cluster_has_the_default_queue(client: LocalClient) -> None:
    (view,) = await fetch(client, None)
    assert (view.name, view.status["used"], view.notes) == ("default", {}, [])
