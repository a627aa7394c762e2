"""New objects need an open namespace; a deleted namespace is removed with its last object."""

from typing import Any

import pytest

from muster.api import kinds
from muster.embedded.storage.store import Store
from muster.embedded.verbs.deletion import DeleteOptions
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import BadRequest, Forbidden, NotFound
from tests.embedded.objects import config, gone, pod, read


def test_the_namespace_must_exist(registry: Registry) -> None:
    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        registry.create(kinds.POD, "nowhere", pod())
    with pytest.raises(BadRequest, match="none is named"):
        registry.create(kinds.POD, "", pod())
    assert read(registry.get(kinds.NAMESPACE, "", "kube-system"))["status"] == {"phase": "Active"}


def test_an_empty_namespace_goes_at_once(registry: Registry) -> None:
    registry.create(kinds.NAMESPACE, "", {"metadata": {"name": "team"}})
    registry.delete(kinds.NAMESPACE, "", "team")
    assert gone(registry, kinds.NAMESPACE, "team")
    registry.create(kinds.NAMESPACE, "", {"metadata": {"name": "team"}})
    registry.create(kinds.CONFIG_MAP, "team", config())


def test_a_namespace_goes_with_the_last_of_what_is_in_it(tmp_path: Any) -> None:
    registry = Registry(Store(tmp_path / "s"))
    registry.create(kinds.NODE, "", {"metadata": {"name": "node-0"}})
    registry.create(kinds.NAMESPACE, "", {"metadata": {"name": "team"}})
    registry.create(kinds.POD, "team", pod("running"))
    registry.bind("team", "running", {"target": {"name": "node-0"}})
    registry.create(kinds.POD, "team", pod("unbound"))
    registry.create(kinds.GANG, "team", {"metadata": {"name": "g", "finalizers": ["muster.dev/gang"]}})
    registry.create(kinds.CONFIG_MAP, "default", config())
    after = read(registry.delete(kinds.NAMESPACE, "", "team"))
    assert after["status"] == {"phase": "Terminating"}
    assert gone(registry, kinds.POD, "unbound", "team")
    with pytest.raises(Forbidden, match="because it is being terminated") as caught:
        registry.create(kinds.CONFIG_MAP, "team", config())
    assert caught.value.details is not None
    assert caught.value.details["causes"][0]["reason"] == "NamespaceTerminating"

    registry.store.close()  # what is left to do is known after a restart
    registry = Registry(Store(tmp_path / "s"))
    registry.delete(kinds.NAMESPACE, "", "team")
    registry.delete(kinds.POD, "team", "running", DeleteOptions(grace_period=0))
    assert not gone(registry, kinds.NAMESPACE, "team")
    registry.patch(kinds.GANG, "team", "g", {"metadata": {"finalizers": None}})
    assert gone(registry, kinds.NAMESPACE, "team")
    assert not gone(registry, kinds.CONFIG_MAP, "c")
    registry.store.close()


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_the_namespaces_of_the_house_stay(registry: Registry, name: str) -> None:
    with pytest.raises(Forbidden, match="may not be deleted"):
        registry.delete(kinds.NAMESPACE, "", name)
