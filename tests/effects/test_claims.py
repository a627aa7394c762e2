"""The writes of claims of devices: their order, and what of a claim they leave as it was."""

from collections.abc import Coroutine
from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.api.pod_claims import DELETE_PROTECTION
from muster.core.words.gang import Place
from muster.effects import Allocate, Deallocate, Effect
from muster.effects.execute import execute
from muster.kube.errors import Conflict
from muster.names import PLAN
from tests.runtime.server import Server, ServerClient

RESULT: Object = {"request": "r", "driver": "d", "pool": "p", "device": "gpu-0"}
ALLOCATION: Object = {"devices": {"results": [RESULT]}}
KEY = "ns/c"


def cluster(*pods: str) -> Server:
    server = Server()
    metadata = {"name": "c", "finalizers": ["of.others/f"]}
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "k"}}]}}
    server.create(kinds.RESOURCE_CLAIM, "ns", {"metadata": metadata, "spec": spec})
    for name in pods:
        server.create(kinds.POD, "ns", {"metadata": {"name": name}, "spec": {"containers": []}})
    return server


def do(server: Server, effect: Effect) -> None:
    with pytest.raises(StopIteration):
        to_the_end(execute(ServerClient(server), effect, server.now()))


def to_the_end(run: Coroutine[Any, Any, int]) -> None:
    while True:
        run.send(None)


def allocate(server: Server, *pods: str, allocation: Object | None = ALLOCATION) -> Allocate:
    users = tuple((Place("w", 0), server.read(kinds.POD, f"ns/{name}")) for name in pods)
    return Allocate(server.read(kinds.RESOURCE_CLAIM, KEY), users, "1.1/w/0", allocation)


def free(server: Server, *pods: str) -> Deallocate:
    uids = frozenset(server.read(kinds.POD, f"ns/{name}").metadata.uid for name in pods)
    return Deallocate(server.read(kinds.RESOURCE_CLAIM, KEY), uids)


def reserved(server: Server) -> list[str]:
    return [each["name"] for each in server.json(kinds.RESOURCE_CLAIM, KEY)["status"]["reservedFor"]]


def test_a_claim_is_allocated_reserved_for_more_and_freed_when_the_last_goes() -> None:
    server = cluster("a", "b")
    do(server, allocate(server, "a"))
    _, marked, _ = [obj for kind, _, obj in server.log if kind is kinds.RESOURCE_CLAIM]
    assert marked is not None
    assert marked.metadata.finalizers == ["of.others/f", DELETE_PROTECTION]
    assert marked.metadata.annotations == {PLAN: "1.1/w/0"}
    assert reserved(server) == ["a"]
    do(server, allocate(server, "b", allocation=None))
    assert reserved(server) == ["a", "b"]
    do(server, free(server, "a"))
    assert reserved(server) == ["b"]
    assert server.read(kinds.RESOURCE_CLAIM, KEY).status.allocation is not None
    do(server, free(server, "b"))
    claim = server.json(kinds.RESOURCE_CLAIM, KEY)
    assert claim["metadata"]["finalizers"] == ["of.others/f"]
    assert not claim["metadata"]["annotations"]
    assert claim["status"] == {}


@pytest.mark.parametrize("first", [0, 1])
def test_a_late_allocation_is_refused_before_or_between_its_writes(first: int) -> None:
    server = cluster("a")
    run = execute(ServerClient(server), allocate(server, "a"), server.now())
    for _ in range(first):
        run.send(None)
    server.patch(kinds.RESOURCE_CLAIM, KEY, {"metadata": {"annotations": {"muster.dev/epoch": "2"}}})
    with pytest.raises(Conflict):
        to_the_end(run)
    assert "status" not in server.json(kinds.RESOURCE_CLAIM, KEY)


def test_a_claim_that_muster_has_not_allocated_keeps_its_devices() -> None:
    server = cluster("a")
    users = [{"resource": "pods", "name": "a", "uid": server.read(kinds.POD, "ns/a").metadata.uid}]
    status = {"allocation": ALLOCATION, "reservedFor": users}
    server.patch(kinds.RESOURCE_CLAIM, KEY, {"status": status}, "status")
    do(server, free(server, "a"))
    assert server.json(kinds.RESOURCE_CLAIM, KEY)["status"] == {"allocation": ALLOCATION}
