from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.embedded.storage.store import Store
from muster.embedded.verbs.deletion import DeleteOptions
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import ApiError, BadRequest, Conflict, Invalid, NotFound, ServerError
from tests.embedded.objects import bound, pod, read

TO_NODE = {"target": {"kind": "Node", "name": "node-0"}}


def bind(registry: Registry, binding: Any, name: str = "p") -> Any:
    return read(registry.bind("default", name, binding))


def test_node_address_condition_and_annotations_come_in_one_write(registry: Registry) -> None:
    made = read(registry.create(kinds.POD, "default", pod(annotations={"a": "1", "b": "1"})))["metadata"]
    before = registry.store.revision
    meta = {"name": "p", "uid": made["uid"], "resourceVersion": made["resourceVersion"]}
    after = bind(registry, {"metadata": meta | {"annotations": {"b": "2", "c": "3"}}, **TO_NODE})
    assert registry.store.revision == before + 1
    assert after["spec"]["nodeName"] == "node-0"
    assert after["metadata"]["annotations"] == {"a": "1", "b": "2", "c": "3"}
    assert after["status"] == {
        "phase": "Pending",
        "podIP": "127.1.0.1",
        "podIPs": [{"ip": "127.1.0.1"}],
        "hostIP": "127.0.0.1",
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00.250000Z"}
        ],
    }


def test_an_earlier_condition_of_the_scheduler_is_replaced(registry: Registry) -> None:
    registry.create(kinds.POD, "default", pod())
    waiting = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        {"type": "X", "status": "True"},
    ]
    registry.patch(kinds.POD, "default", "p", {"status": {"conditions": waiting}}, subresource="status")
    conditions = bind(registry, TO_NODE)["status"]["conditions"]
    assert [(c["type"], c["status"]) for c in conditions] == [("X", "True"), ("PodScheduled", "True")]


def test_a_node_that_reports_its_address_is_the_host(registry: Registry) -> None:
    addresses = [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.7"}]
    node = {"metadata": {"name": "far"}, "status": {"addresses": addresses}}
    registry.create(kinds.NODE, "", node)
    registry.create(kinds.POD, "default", pod())
    assert bind(registry, {"target": {"name": "far"}})["status"]["hostIP"] == "10.0.0.7"


def test_a_pod_that_is_made_on_a_node_has_its_address_too(registry: Registry) -> None:
    obj = pod()
    obj["spec"]["nodeName"] = "node-0"
    made = read(registry.create(kinds.POD, "default", obj))
    assert made["status"]["podIP"] == "127.1.0.1"


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("bound", 'pod p is already assigned to node "node-0"'),
        ("leaving", "pod p is being deleted"),
        ("gated", "has non-empty .spec.schedulingGates"),
        ("ended", "has ended already"),
    ],
)
def test_a_pod_that_cannot_be_bound(registry: Registry, state: str, message: str) -> None:
    obj = pod(finalizers=["a.b/c"])
    if state == "gated":
        obj["spec"]["schedulingGates"] = [{"name": "a.b/wait"}]
    registry.create(kinds.POD, "default", obj)
    if state == "bound":
        bind(registry, TO_NODE)
    elif state == "leaving":
        registry.delete(kinds.POD, "default", "p")
    elif state == "ended":
        registry.patch(kinds.POD, "default", "p", {"status": {"phase": "Failed"}}, subresource="status")
    with pytest.raises(Conflict, match=f'pods/binding "p": {message}|{message}'):
        bind(registry, TO_NODE)


@pytest.mark.parametrize(
    ("binding", "error"),
    [
        ({"metadata": {"uid": "other"}, **TO_NODE}, Conflict),
        ({"metadata": {"resourceVersion": "1"}, **TO_NODE}, Conflict),
        ({"target": {"name": "nowhere"}}, Conflict),
        ({"metadata": {"name": "q"}, **TO_NODE}, BadRequest),
        ({}, Invalid),
        ({"target": "node-0"}, Invalid),
        ({"target": {"kind": "Shelf", "name": "node-0"}}, Invalid),
        ({"metadata": {"annotations": {"a": 1}}, **TO_NODE}, Invalid),
    ],
)
def test_bindings_that_are_refused(registry: Registry, binding: Object, error: type[ApiError]) -> None:
    registry.create(kinds.POD, "default", pod())
    before = registry.store.revision
    with pytest.raises(error):
        bind(registry, binding)
    assert registry.store.revision == before


def test_a_pod_that_is_not_there(registry: Registry) -> None:
    with pytest.raises(NotFound, match='pods "x" not found'):
        bind(registry, TO_NODE, "x")


def test_an_address_is_free_again_when_the_pod_is_gone_not_when_it_ends(registry: Registry) -> None:
    addresses = [bound(registry, f"p{number}", "Succeeded")["status"]["podIP"] for number in range(3)]
    assert addresses == ["127.1.0.1", "127.1.0.2", "127.1.0.3"]
    registry.delete(kinds.POD, "default", "p0", DeleteOptions(grace_period=0))
    assert bound(registry, "p4")["status"]["podIP"] == "127.1.0.4"


def test_addresses_in_use_are_known_after_a_restart(tmp_path: Any) -> None:
    registry = Registry(Store(tmp_path / "s"))
    registry.create(kinds.NODE, "", {"metadata": {"name": "node-0"}})
    for number in range(3):
        bound(registry, f"p{number}")
    registry.store.close()
    registry = Registry(Store(tmp_path / "s"))
    assert bound(registry, "p3")["status"]["podIP"] == "127.1.0.4"
    registry.store.close()


def test_a_write_that_fails_at_the_end_leaves_no_address_behind(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: the transaction is undone when it should be committed."""
    monkeypatch.setattr("muster.embedded.verbs.addresses._END", (1 << 16) + 5)  # there are four addresses
    first = bound(registry, "first")["status"]["podIP"]
    for number in range(3):
        registry.create(kinds.POD, "default", pod(f"p{number}"))
    with monkeypatch.context() as full:
        full.setattr(registry.store, "_trim", _refuse)
        with pytest.raises(ServerError):
            registry.bind("default", "p0", {"target": {"name": "node-0"}})
        with pytest.raises(ServerError):
            registry.delete(kinds.POD, "default", "first", DeleteOptions(grace_period=0))
    given = {
        read(registry.bind("default", f"p{number}", {"target": {"name": "node-0"}}))["status"]["podIP"]
        for number in range(3)
    }
    assert len(given) == 3
    assert first not in given, "the pod that has it is still there"


def test_a_namespace_whose_deletion_failed_is_open(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.create(kinds.NAMESPACE, "", {"metadata": {"name": "ns"}})
    registry.create(kinds.CONFIG_MAP, "ns", {"metadata": {"name": "c", "finalizers": ["a/b"]}})
    with monkeypatch.context() as full:
        full.setattr(registry.store, "_trim", _refuse)
        with pytest.raises(ServerError):
            registry.delete(kinds.NAMESPACE, "", "ns")
    registry.create(kinds.CONFIG_MAP, "ns", {"metadata": {"name": "d"}})


def _refuse() -> None:
    raise ServerError("the store failed: database or disk is full")
