from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import Object
from muster.embedded.verbs.patches import MAX_OPERATIONS, apply
from muster.kube.errors import BadRequest, Invalid, TooLarge


def test_json_patch() -> None:
    obj = {"a": {"b": [1, 2]}, "c/d": 1}
    patch: list[Object] = [
        {"op": "test", "path": "/a/b/0", "value": 1},
        {"op": "add", "path": "/a/b/-", "value": 3},
        {"op": "remove", "path": "/c~1d"},
        {"op": "replace", "path": "/a/b/0", "value": 0},
    ]
    assert apply(obj, patch) == {"a": {"b": [0, 2, 3]}}
    assert obj == {"a": {"b": [1, 2]}, "c/d": 1}


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        ([{"op": "test", "path": "/a", "value": 2}], Invalid),
        ([{"op": "remove", "path": "/nothing"}], Invalid),
        ([{"op": "replace", "path": "/x/y", "value": 1}], Invalid),
        ([{"op": "add", "path": "no-slash", "value": 1}], Invalid),
        ([{"op": "frobnicate", "path": "/a"}], BadRequest),
        ([{"path": "/a"}], BadRequest),
        ([{"op": "add", "path": "/a"}], BadRequest),
        (["remove"], BadRequest),
        ([{"op": "replace", "path": "", "value": 3}], BadRequest),
        ([{"op": "append", "path": "/a", "value": "x"}], BadRequest),
        ([{"op": "copy", "path": "/b"}], BadRequest),
        ([{"op": "copy", "from": "/b", "path": "/c"}], Invalid),
        ([{"op": "add", "path": "/a/x", "value": 1}], Invalid),
        ([{"op": "add", "path": "/~2", "value": 1}], Invalid),
        ([{"op": 5, "path": "/a"}], BadRequest),
        ([{"op": {}, "path": "/a"}], BadRequest),
        ([None], BadRequest),
        ([[]], BadRequest),
        ("a", BadRequest),
        ([{"op": "test", "path": "/a", "value": 1}] * (MAX_OPERATIONS + 1), TooLarge),
    ],
)
def test_patches_that_do_not_apply(patch: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        apply({"a": 1}, patch)


LIST = {"a": [1, 2, 3]}


@pytest.mark.parametrize(
    "index", ["-", "-1", "01", "1e0", "True", "", " 1", "\u0662", "\u00b2", "9" * 25, "9" * 5000, "x/y"]
)
@pytest.mark.parametrize("op", ["remove", "replace", "test"])
def test_what_is_no_index_of_a_list_is_refused_in_one_line(op: str, index: str) -> None:
    with pytest.raises((Invalid, BadRequest)) as error:
        apply(LIST, [{"op": op, "path": f"/a/{index}", "value": 0}])
    assert "operation 0" in str(error.value)
    assert "class" not in str(error.value)
    assert len(str(error.value)) < 600


@given(st.text(max_size=8), st.text(max_size=8), st.integers(0, 3))
def test_any_key_is_reached_by_its_escaped_path(key: str, other: str, value: int) -> None:
    def pointer(*keys: str) -> str:
        return "".join("/" + each.replace("~", "~0").replace("/", "~1") for each in keys)

    obj = {key: {other: 9}}
    assert apply(obj, [{"op": "replace", "path": pointer(key, other), "value": value}]) == {
        key: {other: value}
    }
    assert obj == {key: {other: 9}}


def test_errors_name_the_operation_and_quote_neither_the_object_nor_a_long_path() -> None:
    obj = {"data": {"secret": "s3cret" * 100}}
    ops: list[Object] = [{"op": "test", "path": "/data/secret", "value": obj["data"]["secret"]}]
    for last in (
        {"op": "add", "path": "/nope/x", "value": 1},
        {"op": "add", "path": "/nope" * 100_000, "value": 1},
        {"op": "test", "path": "/data/secret", "value": "guess"},
        {"op": "test", "path": "/data", "value": "guess"},
        {"op": "replace", "path": "/data/secret/x", "value": "guess"},
        {"op": "copy", "from": "/data/x", "path": "/y"},
        {"op": "move", "from": "/x/y", "path": "/y"},
    ):
        with pytest.raises(Invalid) as error:
            apply(obj, [*ops, last])
        assert f"operation 1 ({last['op']} {str(last['path'])[:20]}" in str(error.value)
        assert "s3cret" not in str(error.value)
        assert len(str(error.value)) < 600


def test_a_patch_copies_no_more_than_kubernetes_lets_it() -> None:
    doubled: list[Object] = [{"op": "copy", "from": "/a", "path": f"/a/{i}"} for i in range(60)]
    with pytest.raises(TooLarge):
        apply({"a": {"k": "v" * 1000}}, doubled)
    assert len(apply({"a": {"k": "v" * 1000}}, doubled[:8])["a"]) == 9


def test_a_patch_is_not_changed_by_its_own_operations() -> None:
    patch: list[Object] = [
        {"op": "add", "path": "/a", "value": {}},
        {"op": "add", "path": "/a/b", "value": 1},
    ]
    assert apply({}, patch) == {"a": {"b": 1}}
    assert patch[0]["value"] == {}
