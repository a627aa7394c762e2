"""Server-side apply: which fields belong to which manager afterwards, and what is refused."""

import json

import pytest

from muster.api import kinds
from muster.api.base import Object
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import Conflict

A: Object = {"name": "a", "image": "one"}


def apply(registry: Registry, manager: str, spec: Object, *, force: bool = False, **meta: object) -> Object:
    config = {"metadata": meta, "spec": spec}
    body = registry.apply(kinds.POD, "default", "p", config, manager=manager, force=force)
    found: Object = json.loads(body)
    return found


def owners(obj: Object) -> dict[str, Object]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"]["managedFields"]}


def test_a_manager_owns_what_it_applies_and_lists_merge_by_their_keys(registry: Registry) -> None:
    made = apply(registry, "one", {"containers": [A]}, labels={"x": "1"})
    container: Object = {".": {}, "f:image": {}, "f:name": {}}
    assert owners(made) == {
        "one": {
            "f:metadata": {"f:labels": {"f:x": {}}},
            "f:spec": {"f:containers": {'k:{"name":"a"}': container}},
        }
    }
    again = apply(registry, "one", {"containers": [A]}, labels={"x": "1"})
    assert again == made, "nothing changes, not even the revision"


def test_a_field_that_its_only_owner_leaves_out_is_removed(registry: Registry) -> None:
    apply(registry, "one", {"containers": [A]}, labels={"x": "1", "y": "2"}, finalizers=["e/a", "e/b"])
    apply(registry, "two", {"containers": [A]}, labels={"y": "2"}, finalizers=["e/c"])
    found = apply(registry, "one", {"containers": [A]}, finalizers=["e/b"])
    assert found["metadata"]["labels"] == {"y": "2"}
    assert found["metadata"]["finalizers"] == ["e/b", "e/c"]


def test_two_managers_of_one_field_conflict_unless_they_agree_or_one_forces(registry: Registry) -> None:
    apply(registry, "one", {"containers": [A]})
    apply(registry, "two", {"containers": [A]})
    changed = {"containers": [A | {"image": "new"}]}
    with pytest.raises(Conflict) as refused:
        apply(registry, "two", changed)
    assert str(refused.value) == (
        'Apply failed with 1 conflict: conflict with "one": .spec.containers[name="a"].image'
    )
    found = apply(registry, "two", changed, force=True)
    assert found["spec"]["containers"][0]["image"] == "new"
    assert "f:image" not in owners(found)["one"]["f:spec"]["f:containers"]['k:{"name":"a"}']
    apply(registry, "one", {"containers": [{"name": "a"}]})  # what it has lost, it may leave out


def test_an_ordinary_write_takes_over_the_fields_that_it_changes(registry: Registry) -> None:
    apply(registry, "one", {"containers": [A]}, labels={"x": "1"})
    patch = {"metadata": {"labels": {"x": "2"}}}
    found = json.loads(registry.patch(kinds.POD, "default", "p", patch))
    assert owners(found)["muster"] == {"f:metadata": {"f:labels": {"f:x": {}}}}
    with pytest.raises(Conflict, match='conflict with "muster"'):
        apply(registry, "one", {"containers": [A]}, labels={"x": "1"})


def test_fields_older_than_the_first_apply_are_not_taken_silently(registry: Registry) -> None:
    registry.create(kinds.POD, "default", {"metadata": {"name": "p"}, "spec": {"containers": [A]}})
    with pytest.raises(Conflict, match='conflict with "before-first-apply"'):
        apply(registry, "one", {"containers": [A | {"image": "new"}]})
    found = apply(registry, "one", {"containers": [A]}, labels={"x": "1"})
    assert set(owners(found)) == {"before-first-apply", "one"}


def test_objects_that_were_never_applied_have_no_managed_fields(registry: Registry) -> None:
    obj: Object = {
        "metadata": {"name": "p", "managedFields": [{"manager": "x"}]},
        "spec": {"containers": [A]},
    }
    made = json.loads(registry.create(kinds.POD, "default", obj))
    patched = json.loads(registry.patch(kinds.POD, "default", "p", {"metadata": {"labels": {"x": "1"}}}))
    assert "managedFields" not in made["metadata"] | patched["metadata"]
