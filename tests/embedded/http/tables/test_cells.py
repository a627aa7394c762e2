"""The columns of `kubectl get` for kinds that definitions describe."""

from datetime import UTC, datetime
from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Kind, Object
from muster.api.crd import definition
from muster.embedded.http.tables.cells import columns


@pytest.mark.parametrize("kind", kinds.DEFINED, ids=lambda kind: kind.kind)
def test_the_columns_of_a_kind_are_those_of_its_definition(kind: Kind[Any]) -> None:
    (version,) = definition(kind)["spec"]["versions"]
    defined = [(each["name"], each.get("priority", 0)) for each in version["additionalPrinterColumns"]]
    name, *others = columns(kind)
    assert (name.name, name.priority) == ("Name", 0)
    assert [(column.name, column.priority) for column in others] == defined


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (kinds.POD_GROUP_X, ["Name", "Phase", "MinMember", "Running", "Succeeded", "Failed", "Age"]),
        (kinds.POD_GROUP_SIGS, ["Name", "Phase", "MinMember", "Running", "Succeeded", "Failed", "Age"]),
        (kinds.POD_GROUP_VOLCANO, ["Name", "STATUS", "minMember", "RUNNINGS", "AGE"]),
        (kinds.QUEUE_VOLCANO, ["Name", "PARENT"]),
    ],
)
def test_groups_of_other_schedulers_have_the_columns_that_their_users_know(
    kind: Kind[Any], expected: list[str]
) -> None:
    assert [column.name for column in columns(kind) if not column.priority] == expected


@pytest.mark.parametrize(
    ("meta", "status", "expected"),
    [
        ({}, {}, "pending"),
        ({}, {"allocation": {"devices": {}}}, "allocated"),
        ({}, {"allocation": {"devices": {}}, "reservedFor": [{"name": "p"}]}, "allocated,reserved"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {}, "deleted"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, {"allocation": {"devices": {}}}, "deleted,allocated"),
    ],
)
def test_the_state_of_a_claim(meta: Object, status: Object, expected: str) -> None:
    state = columns(kinds.RESOURCE_CLAIM)[1]
    claim = {"metadata": {"name": "c", **meta}, "status": status}
    assert (state.name, state.read(claim, datetime.now(UTC))) == ("State", expected)
