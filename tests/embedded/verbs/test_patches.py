from typing import Any

import pytest

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
        ("a", BadRequest),
        ([{"op": "test", "path": "/a", "value": 1}] * (MAX_OPERATIONS + 1), TooLarge),
    ],
)
def test_patches_that_do_not_apply(patch: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        apply({"a": 1}, patch)
