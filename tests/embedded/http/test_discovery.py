"""What a client is told there is, and what is there: the same."""

from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Kind
from muster.embedded.http.discovery import document


@pytest.mark.parametrize("kind", kinds.ALL, ids=lambda kind: kind.api_version + "/" + kind.plural)
def test_every_kind_is_found_from_the_root(kind: Kind[Any]) -> None:  # Any: of each type
    if kind.group:
        groups = document("/apis")
        assert groups is not None
        (group,) = [each for each in groups["groups"] if each["name"] == kind.group]
        assert {"groupVersion": kind.api_version, "version": kind.version} in group["versions"]
        assert document(f"/apis/{kind.group}") == {"kind": "APIGroup", "apiVersion": "v1", **group}
    else:
        core = document("/api")
        assert core is not None
        assert core["versions"] == [kind.version]
    served = document(kind.path().rpartition("/")[0])
    assert served is not None
    assert served["groupVersion"] == kind.api_version
    by_name = {resource["name"]: resource for resource in served["resources"]}
    assert (by_name[kind.plural]["kind"], by_name[kind.plural]["namespaced"]) == (kind.kind, kind.namespaced)
    assert (f"{kind.plural}/status" in by_name) == kind.status


def test_nothing_else_is_a_document() -> None:
    assert [document(path) for path in ("/", "/apis/nosuch.example.com", "/api/v2", "/api/v1/pods")] == [
        None
    ] * 4


@pytest.mark.parametrize(
    ("path", "plural", "short"),
    [
        ("scheduling.x-k8s.io/v1alpha1", "podgroups", ["pg"]),
        ("scheduling.sigs.k8s.io/v1alpha1", "podgroups", ["pg"]),
        ("scheduling.volcano.sh/v1beta1", "podgroups", ["pg"]),
        ("scheduling.sigs.k8s.io/v1alpha1", "elasticquotas", ["eq", "eqs"]),
    ],
)
def test_short_names_of_other_schedulers(path: str, plural: str, short: list[str]) -> None:
    found = document(f"/apis/{path}")
    assert found is not None
    assert [r.get("shortNames") for r in found["resources"] if r["name"] == plural] == [short]
