"""What a file says is what an object becomes, and what it no longer says goes: as `kubectl apply` has it."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import kinds
from muster.api.base import Object
from muster.embedded.client import LocalClient
from muster.embedded.storage.store import Store
from muster.embedded.verbs.registry import Registry
from muster.kube.apply import (
    LAST_APPLIED,
    MOST_BYTES,
    Outcome,
    apply,
    last_applied,
    merge,
    noted,
    patch,
    undo,
)
from muster.kube.errors import AlreadyExists, Invalid


@pytest.mark.parametrize(  # the table of RFC 7386, appendix A
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(target: Any, patch: Any, result: Any) -> None:
    before = repr(target)
    assert merge(target, patch) == result
    assert repr(target) == before


def named(**content: Any) -> Object:  # Any: JSON
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, **content}


@pytest.mark.parametrize(
    ("was", "others", "wanted", "spec"),
    [
        ({"a": 1, "b": 2}, {}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"b": 2}, {"a": 3}, {"a": 3, "b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"d": 3}}, {"a": {"b": 1}}, {"a": {"b": 1, "d": 3}}),
        ({"a": {"b": 1}}, {"a": {"d": 3}}, {}, {}),
        ({"list": [1, 2]}, {}, {"list": [2]}, {"list": [2]}),
        ({"a": 1}, {"a": 2}, {"a": 1}, {"a": 1}),
        (
            {"containers": [{"name": "a", "args": ["x"]}, {"name": "old"}]},
            {
                "containers": [
                    {"name": "a", "args": ["x"], "tty": True},
                    {"name": "old"},
                    {"name": "injected"},
                ]
            },
            {"containers": [{"name": "a"}, {"name": "new"}]},
            {"containers": [{"name": "a", "tty": True}, {"name": "injected"}, {"name": "new"}]},
        ),
        (
            {"ports": [{"port": 80, "targetPort": 1}]},
            {"ports": [{"port": 80, "targetPort": 1, "nodePort": 30000}]},
            {"ports": [{"port": 80, "targetPort": 2}]},
            {"ports": [{"port": 80, "targetPort": 2, "nodePort": 30000}]},
        ),
        ({"rules": [{"name": "a"}]}, {"rules": [{"name": "a", "b": 1}]}, {"rules": []}, {"rules": []}),
    ],
)
def test_applied_fields_are_set_and_fields_no_longer_applied_are_removed(
    was: Object, others: Object, wanted: Object, spec: Object
) -> None:
    live = merge(noted(named(spec=was), named(spec=was)), {"spec": others})
    applied = merge(live, patch(live, named(spec=wanted)))
    assert applied["spec"] == spec
    assert patch(applied, named(spec=wanted)) == {}, "once is enough"


def test_labels_of_others_stay_though_the_file_has_none_any_more() -> None:
    was = named()
    was["metadata"]["labels"] = {"mine": "1"}
    live = merge(noted(was, was), {"metadata": {"labels": {"theirs": "1"}}, "status": {"a": 1}})
    applied = merge(live, patch(live, named()))
    assert applied["metadata"]["labels"] == {"theirs": "1"}
    assert applied["status"] == {"a": 1}


def test_an_object_of_kubectl_is_applied_to_as_kubectl_would() -> None:
    """The annotation as kubectl 1.37 writes it, with its own line end."""
    text = (
        '{"apiVersion":"v1","kind":"X","metadata":{"annotations":{},"name":"x"},'
        '"spec":{"closed":true,"weight":2}}\n'
    )
    live = named(spec={"closed": True, "weight": 2, "order": "priority"})
    live["metadata"]["annotations"] = {LAST_APPLIED: text}
    assert patch(live, named(spec={"closed": True, "weight": 2})) == {}
    applied = merge(live, patch(live, named(spec={"weight": 2})))
    assert applied["spec"] == {"weight": 2, "order": "priority"}
    stated = applied["metadata"]["annotations"][LAST_APPLIED]
    assert stated == text.replace('"closed":true,', "").strip(), "as kubectl itself would have written it"


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 10_000, '{"spec": 3}', '{"metadata": []}'])
def test_an_annotation_that_says_nothing_takes_nothing_away(text: str) -> None:
    live = named(spec={"a": 1})
    live["metadata"]["annotations"] = {LAST_APPLIED: text}
    applied = merge(live, patch(live, named(spec={"b": 2})))
    assert applied["spec"] == {"a": 1, "b": 2}
    assert patch(applied, named(spec={"b": 2})) == {}


def test_a_last_applied_annotation_that_would_be_too_long_is_left_out() -> None:
    long = named(data={"a": "x" * MOST_BYTES})
    live = noted(long, long)
    assert last_applied(live) is None
    assert patch(live, long) == {}
    short = noted(named(data={"a": "1"}), named(data={"a": "1"}))
    assert LAST_APPLIED not in merge(short, patch(short, long))["metadata"]["annotations"]


_VALUES = st.recursive(
    st.booleans() | st.integers(0, 3) | st.sampled_from("xyz"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
_SPECS = st.dictionaries(
    st.sampled_from("abc"),
    _VALUES,
    max_size=3,
) | st.fixed_dictionaries(
    {
        "env": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from("pqr")}, optional={"value": st.sampled_from("xy")}
            ),
            max_size=3,
        )
    }
)


@given(_SPECS, _SPECS, _SPECS)
def test_applying_is_repeatable_and_can_be_taken_back(was: Object, others: Object, wanted: Object) -> None:
    live = merge(noted(named(spec=was), named(spec=was)), {"spec": others})
    change = patch(live, named(spec=wanted))
    applied = merge(live, change)
    assert patch(applied, named(spec=wanted)) == {}
    assert merge(applied, undo(change, live)) == live
    for key, value in wanted.items():
        if not isinstance(value, dict | list):
            assert applied["spec"][key] == value
    if not others:
        gone = was.keys() - wanted.keys()
        assert not gone & applied["spec"].keys()


@pytest.fixture
def client() -> Iterator[LocalClient]:
    store = Store(":memory:")
    yield LocalClient(Registry(store))
    store.close()


async def test_an_object_is_created_changed_or_left_as_it_is(client: LocalClient) -> None:
    def settings(**data: str) -> Object:
        meta = {"name": "s", "namespace": "default"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}

    kind = kinds.CONFIG_MAP
    assert (await apply(client, kind, settings(a="1", b="2"))).outcome is Outcome.CREATED
    changed = await apply(client, kind, settings(a="1"))
    assert changed.outcome is Outcome.CHANGED
    assert (await client.get(kind, "default", "s")).data == {"a": "1"}
    assert (await apply(client, kind, settings(a="1"))).outcome is Outcome.UNCHANGED
    await client.patch(kind, "default", "s", changed.back)
    assert (await client.get(kind, "default", "s")).data == {"a": "1", "b": "2"}


async def test_an_object_in_deletion_is_not_applied_to(client: LocalClient) -> None:
    pod: Object = {
        "metadata": {"name": "p", "namespace": "default", "finalizers": ["a.b/c"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await apply(client, kinds.POD, pod)
    await client.delete(kinds.POD, "default", "p")
    with pytest.raises(AlreadyExists, match="is being deleted"):
        await apply(client, kinds.POD, pod)


async def test_applying_a_change_of_an_immutable_field_is_refused(client: LocalClient) -> None:
    pod: Object = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "command": ["a"]}]},
    }
    await apply(client, kinds.POD, pod)
    other = {**pod, "spec": {"containers": [{"name": "c", "image": "i", "command": ["b"]}]}}
    with pytest.raises(Invalid, match="may not change"):
        await apply(client, kinds.POD, other)
