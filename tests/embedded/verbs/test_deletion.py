"""Deleting: grace, finalizers, propagation, preconditions, collections."""

from typing import Any

import pytest

from muster.api import kinds
from muster.embedded.verbs.deletion import DeleteOptions
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import Conflict, Invalid
from tests.embedded.conftest import StillClock
from tests.embedded.objects import bound, config, gone, pod, read


def test_an_object_goes_at_once(registry: Registry) -> None:
    registry.create(kinds.CONFIG_MAP, "default", config())
    last = read(registry.delete(kinds.CONFIG_MAP, "default", "c"))
    assert last["metadata"]["resourceVersion"] == str(registry.store.revision)
    assert gone(registry, kinds.CONFIG_MAP, "c")


@pytest.mark.parametrize(
    ("on_node", "phase", "grace", "marked"),
    [
        (False, "", None, None),
        (False, "", 5, None),
        (True, "", None, 30),
        (True, "Running", None, 30),
        (True, "Running", 5, 5),
        (True, "Running", 0, None),
        (True, "Running", -1, 1),
        (True, "Succeeded", None, None),
        (True, "Failed", 60, None),
    ],
)
def test_a_pods_grace(
    registry: Registry, on_node: bool, phase: str, grace: int | None, marked: int | None
) -> None:
    if on_node:
        bound(registry, phase=phase)
    else:
        registry.create(kinds.POD, "default", pod())
    after = read(registry.delete(kinds.POD, "default", "p", DeleteOptions(grace_period=grace)))
    assert gone(registry, kinds.POD, "p") is (marked is None)
    if marked is not None:
        assert after["metadata"]["deletionGracePeriodSeconds"] == marked
        assert after["metadata"]["deletionTimestamp"] == f"2026-03-01T12:00:{marked:02}.250000Z"
        assert after["metadata"]["generation"] == 3  # created, bound, being deleted


def test_the_agent_ends_the_grace(registry: Registry) -> None:
    bound(registry)
    registry.delete(kinds.POD, "default", "p")
    registry.delete(kinds.POD, "default", "p", DeleteOptions(grace_period=0))
    assert gone(registry, kinds.POD, "p")


def test_a_grace_may_be_shortened_but_not_extended(registry: Registry, clock: StillClock) -> None:
    bound(registry)
    registry.delete(kinds.POD, "default", "p")
    clock.advance(3)
    before = registry.store.revision
    registry.delete(kinds.POD, "default", "p", DeleteOptions(grace_period=40))
    registry.delete(kinds.POD, "default", "p")
    assert registry.store.revision == before
    after = read(registry.delete(kinds.POD, "default", "p", DeleteOptions(grace_period=10)))
    assert after["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:10.250000Z"


def test_finalizers_are_waited_for(registry: Registry) -> None:
    obj = config()
    obj["metadata"]["finalizers"] = ["a.b/c", "d.e/f"]
    registry.create(kinds.CONFIG_MAP, "default", obj)
    after = read(registry.delete(kinds.CONFIG_MAP, "default", "c"))
    assert after["metadata"]["deletionTimestamp"]
    registry.patch(kinds.CONFIG_MAP, "default", "c", {"metadata": {"finalizers": ["d.e/f"]}})
    assert not gone(registry, kinds.CONFIG_MAP, "c")
    with pytest.raises(Invalid, match=r"no new finalizers can be added .*\['x.y/z'\]"):
        registry.patch(kinds.CONFIG_MAP, "default", "c", {"metadata": {"finalizers": ["d.e/f", "x.y/z"]}})
    registry.patch(kinds.CONFIG_MAP, "default", "c", {"metadata": {"finalizers": None}})
    assert gone(registry, kinds.CONFIG_MAP, "c")


def test_a_pod_waits_for_its_grace_and_its_finalizers(registry: Registry) -> None:
    bound(registry, finalizers=["a.b/c"])
    registry.delete(kinds.POD, "default", "p")
    registry.patch(kinds.POD, "default", "p", {"metadata": {"finalizers": []}})
    assert not gone(registry, kinds.POD, "p")
    registry.delete(kinds.POD, "default", "p", DeleteOptions(grace_period=0))
    assert gone(registry, kinds.POD, "p")

    bound(registry, "q", finalizers=["a.b/c"])
    registry.delete(kinds.POD, "default", "q", DeleteOptions(grace_period=0))
    assert not gone(registry, kinds.POD, "q")
    registry.patch(kinds.POD, "default", "q", {"metadata": {"finalizers": []}})
    assert gone(registry, kinds.POD, "q")


def test_deletion_marks_cannot_be_written_or_removed(registry: Registry) -> None:
    bound(registry)
    registry.patch(kinds.POD, "default", "p", {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert "deletionTimestamp" not in read(registry.get(kinds.POD, "default", "p"))["metadata"]
    registry.delete(kinds.POD, "default", "p")
    registry.patch(kinds.POD, "default", "p", {"metadata": {"deletionTimestamp": None}})
    assert "deletionTimestamp" in read(registry.get(kinds.POD, "default", "p"))["metadata"]


@pytest.mark.parametrize(
    ("propagation", "finalizers"),
    [
        ("Foreground", ["a.b/c", "foregroundDeletion"]),
        ("Orphan", ["a.b/c", "orphan"]),
        ("Background", ["a.b/c"]),
        (None, ["a.b/c", "orphan"]),
    ],
)
def test_propagation_is_written_down_for_the_garbage_collector(
    registry: Registry, propagation: Any, finalizers: list[str]
) -> None:
    obj = config()
    obj["metadata"]["finalizers"] = ["a.b/c", "orphan"]
    registry.create(kinds.CONFIG_MAP, "default", obj)
    after = read(registry.delete(kinds.CONFIG_MAP, "default", "c", DeleteOptions(propagation=propagation)))
    assert after["metadata"]["finalizers"] == finalizers


@pytest.mark.parametrize("wrong", [{"uid": "other"}, {"resource_version": "1"}])
def test_preconditions(registry: Registry, wrong: dict[str, str]) -> None:
    made = read(registry.create(kinds.CONFIG_MAP, "default", config()))["metadata"]
    with pytest.raises(Conflict):
        registry.delete(kinds.CONFIG_MAP, "default", "c", DeleteOptions(**wrong))  # type: ignore[arg-type]
    registry.delete(kinds.CONFIG_MAP, "default", "c", DeleteOptions(made["uid"], made["resourceVersion"]))
    assert gone(registry, kinds.CONFIG_MAP, "c")


def test_a_collection_goes_as_far_as_it_matches(registry: Registry) -> None:
    for name, labels in (("a", {"app": "x"}), ("b", {"app": "y"}), ("c", {"app": "x"})):
        obj = config(name)
        obj["metadata"]["labels"] = labels
        registry.create(kinds.CONFIG_MAP, "default", obj)
    deleted = registry.delete_collection(kinds.CONFIG_MAP, "default", labels="app=x")
    assert [read(body)["metadata"]["name"] for body in deleted.items] == ["a", "c"]
    assert [read(body)["metadata"]["name"] for body in registry.list(kinds.CONFIG_MAP).items] == ["b"]
