"""The columns of `kubectl get` for kinds that definitions describe."""

from typing import Any

import pytest

from muster.api import kinds
from muster.api.base import Kind
from muster.api.crd import definition
from muster.embedded.http.tables.cells import columns


@pytest.mark.parametrize("kind", kinds.DEFINED, ids=lambda kind: kind.kind)
def test_the_columns_of_a_kind_are_those_of_its_definition(kind: Kind[Any]) -> None:
    (version,) = definition(kind)["spec"]["versions"]
    defined = [(each["name"], each.get("priority", 0)) for each in version["additionalPrinterColumns"]]
    name, *others = columns(kind)
    assert (name.name, name.priority) == ("Name", 0)
    assert [(column.name, column.priority) for column in others] == defined
