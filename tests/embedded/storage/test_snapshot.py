"""Lists in pages: all pages show the objects as they were when the first was read."""

from typing import Any

import pytest

from muster.api import kinds
from muster.embedded.storage.store import Store
from muster.embedded.verbs.pages import Listing
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import BadRequest, Expired
from tests.embedded.objects import config, read


def names(listing: Listing) -> list[str]:
    return [read(body)["metadata"]["name"] for body in listing.items]


def fill(registry: Registry, *wanted: str, namespace: str = "default") -> None:
    for name in wanted:
        registry.create(kinds.CONFIG_MAP, namespace, config(name, value="first"))


def page(registry: Registry, limit: int = 2, token: str = "", **selectors: Any) -> Listing:
    return registry.list(kinds.CONFIG_MAP, limit=limit, token=token, **selectors)


def test_pages_in_order_with_what_remains(registry: Registry) -> None:
    fill(registry, "c", "a", "e", "b", "d")
    fill(registry, "a", namespace="kube-system")
    first = page(registry)
    assert (names(first), first.remaining) == (["a", "b"], 4)
    second = page(registry, token=first.token)
    assert (names(second), second.remaining) == (["c", "d"], 2)
    third = page(registry, token=second.token)
    assert (names(third), third.token) == (["e", "a"], "")


def test_a_full_last_page_has_no_token(registry: Registry) -> None:
    fill(registry, "a", "b")
    assert page(registry).token == ""


@pytest.mark.parametrize("buffered", [1000, 2])
def test_later_pages_show_what_was(buffered: int) -> None:
    registry = Registry(Store(":memory:", buffered_events=buffered))
    fill(registry, "a", "b", "c", "d", "f", "g")
    first = page(registry)
    registry.patch(kinds.CONFIG_MAP, "default", "c", {"data": {"value": "second"}})
    registry.patch(kinds.CONFIG_MAP, "default", "c", {"data": {"value": "third"}})
    registry.delete(kinds.CONFIG_MAP, "default", "d")
    registry.delete(kinds.CONFIG_MAP, "default", "g")
    fill(registry, "e", "h")
    registry.delete(kinds.CONFIG_MAP, "default", "f")
    fill(registry, "f")
    rest = page(registry, limit=9, token=first.token)
    assert names(rest) == ["c", "d", "f", "g"]
    assert {read(body)["data"]["value"] for body in rest.items} == {"first"}
    assert rest.revision == first.revision
    assert names(page(registry, limit=0)) == ["a", "b", "c", "e", "f", "h"]
    assert names(registry.list(kinds.CONFIG_MAP, revision=first.revision)) == ["a", "b", "c", "d", "f", "g"]


def test_selectors_apply_to_what_was(registry: Registry) -> None:
    for name in "abcd":
        labels = {"app": "x" if name in "abd" else "y"}
        registry.create(kinds.CONFIG_MAP, "default", {"metadata": {"name": name, "labels": labels}})
    first = page(registry, limit=1, labels="app=x")
    assert (names(first), first.remaining) == (["a"], None)
    registry.patch(kinds.CONFIG_MAP, "default", "d", {"metadata": {"labels": {"app": "y"}}})
    registry.patch(kinds.CONFIG_MAP, "default", "c", {"metadata": {"labels": {"app": "x"}}})
    assert names(page(registry, limit=9, token=first.token, labels="app=x")) == ["b", "d"]


def test_a_token_whose_time_is_forgotten() -> None:
    registry = Registry(Store(":memory:", history_events=20, buffered_events=20))
    fill(registry, *"abcd")
    token = page(registry).token
    for number in range(60):
        registry.patch(kinds.CONFIG_MAP, "default", "a", {"data": {"value": str(number)}})
    with pytest.raises(Expired):
        page(registry, token=token)


@pytest.mark.parametrize("token", ["nonsense", "e30=", "WzEsMl0=", "\N{SNOWMAN}"])
def test_a_token_that_is_none(registry: Registry, token: str) -> None:
    with pytest.raises(BadRequest, match="continue key is not valid"):
        page(registry, token=token)


def test_the_list_that_goes_over_the_wire(registry: Registry) -> None:
    fill(registry, "a", "b", "c")
    listing = page(registry)
    sent = read(listing.encode(kinds.CONFIG_MAP))
    assert (sent["kind"], sent["apiVersion"]) == ("ConfigMapList", "v1")
    assert sent["metadata"] == {
        "resourceVersion": str(registry.store.revision),
        "continue": listing.token,
        "remainingItemCount": 1,
    }
    assert [item["metadata"]["name"] for item in sent["items"]] == ["a", "b"]
    assert read(Listing([], 3).encode(kinds.JOB))["items"] == []
