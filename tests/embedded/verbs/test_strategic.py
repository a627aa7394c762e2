"""Strategic merge patches: what each directive does, and that nothing given is changed."""

import copy
from typing import Any

import pytest

from muster.api.base import Object
from muster.api.kinds import NODE, PDB, POD, QUEUE
from muster.embedded.verbs.strategic import apply
from muster.kube.errors import BadRequest, UnsupportedMediaType

A, B, C = ({"name": name, "image": name} for name in "abc")
TAINTS = [{"key": "a", "effect": "NoSchedule"}, {"key": "b", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        # maps merge, null removes
        (
            {"nodeName": "n", "hostname": "h"},
            {"hostname": None, "subdomain": "s"},
            {"nodeName": "n", "subdomain": "s"},
        ),
        ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"b": "2"}}, {"nodeSelector": {"a": "1", "b": "2"}}),
        (
            {"nodeSelector": {"a": "1"}},
            {"nodeSelector": {"$patch": "replace", "b": "2"}},
            {"nodeSelector": {"b": "2"}},
        ),
        ({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"$patch": "delete"}}, {"nodeSelector": {}}),
        # lists merge by their keys
        (
            {"containers": [A, B]},
            {"containers": [{"name": "b", "image": "x"}]},
            {"containers": [A, B | {"image": "x"}]},
        ),
        ({"containers": [A]}, {"containers": [C]}, {"containers": [A, C]}),
        ({"containers": [A, B]}, {"containers": [{"name": "a", "$patch": "delete"}]}, {"containers": [B]}),
        ({"containers": [A, B]}, {"containers": [C, {"$patch": "replace"}]}, {"containers": [C]}),
        (
            {"containers": [A, B]},
            {"$setElementOrder/containers": [{"name": "c"}, {"name": "b"}], "containers": [C]},
            {"containers": [A, C, B]},
        ),
        # a list without a key, and one of no strategy, is replaced
        ({"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]}),
        # retainKeys: a volume has one source
        (
            {"volumes": [{"name": "v", "emptyDir": {}}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]},
            {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        ),
        # an unknown field merges as in a merge patch
        ({"x": {"a": [1]}}, {"x": {"a": [2], "b": 1}}, {"x": {"a": [2], "b": 1}}),
        ({"x": 1}, {"x": {"a": {"b": None}}}, {"x": {"a": {}}}),
    ],
)
def test_a_patch_of_a_pods_spec(old: Object, patch: Object, new: Object) -> None:
    given: tuple[Any, Any] = {"spec": old}, {"spec": patch}
    before = copy.deepcopy(given)
    assert apply(POD, *given) == {"spec": new}
    assert given == before


def test_sets_of_texts_are_joined_and_shortened() -> None:
    old = {"metadata": {"finalizers": ["a", "b"]}}
    assert apply(POD, old, {"metadata": {"finalizers": ["b", "c"]}}) == {
        "metadata": {"finalizers": ["a", "b", "c"]}
    }
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert apply(POD, old, patch) == {"metadata": {"finalizers": ["b"]}}


def test_taints_are_replaced_and_a_budgets_selector_too() -> None:
    assert (
        apply(NODE, {"spec": {"taints": TAINTS}}, {"spec": {"taints": TAINTS[:1]}})["spec"]["taints"]
        == TAINTS[:1]
    )
    old = {"spec": {"selector": {"matchLabels": {"a": "b"}}}}
    patch = {"spec": {"selector": {"matchLabels": {"c": "d"}}}}
    assert apply(PDB, old, patch) == patch


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"$patch": "maybe"}},
        {"spec": {"containers": [{"image": "x"}]}},
        {"spec": {"containers": ["c"]}},
        {"spec": {"$retainKeys": "containers"}},
        {"spec": {"$setElementOrder/containers": "a"}},
    ],
)
def test_a_patch_that_says_nothing_sensible_is_refused(patch: Object) -> None:
    with pytest.raises(BadRequest):
        apply(POD, {"spec": {"containers": [A]}}, patch)


def test_custom_kinds_have_no_strategy() -> None:
    with pytest.raises(UnsupportedMediaType, match="merge patch"):
        apply(QUEUE, {}, {})
