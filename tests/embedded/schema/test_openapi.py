"""The OpenAPI documents can be read, refer to nothing that is missing, and know every type of field."""

import json
import re
from typing import Any

import msgspec
import pytest

from muster.api import kinds
from muster.api.kinds import PREEMPTION
from muster.embedded import schema
from muster.embedded.schema import openapi


def read(path: str) -> Any:  # Any: JSON
    body = openapi.document(path)
    assert body is not None
    return json.loads(body)


PATHS = sorted(read(openapi.ROOT)["paths"])


def test_every_group_has_a_document() -> None:
    groups = {f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}" for kind in kinds.ALL}
    assert {*PATHS} == groups
    assert openapi.document(f"{openapi.ROOT}/apis/nothing.example/v1") is None
    assert openapi.document("/elsewhere") is None


@pytest.mark.parametrize("path", PATHS)
def test_all_that_a_document_refers_to_is_in_it(path: str) -> None:
    found = read(f"{openapi.ROOT}/{path}")
    there = found["components"]["schemas"]
    assert {*re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(found))} <= there.keys()


def test_a_number_that_is_no_integer_is_a_number() -> None:
    schemas = read(f"{openapi.ROOT}/apis/{PREEMPTION.api_version}")["components"]["schemas"]
    (field,) = (
        one["properties"]["lostResourceSeconds"]
        for one in schemas.values()
        if "lostResourceSeconds" in one["properties"]
    )
    assert field == {"type": "number", "format": "double"}


def test_every_type_of_field_has_a_code() -> None:
    """And none is added to a kind without this failing, rather than the documents."""

    class Each(msgspec.Struct):
        number: float
        some: dict[str, float] = {}
        perhaps: float | None = None

    found: dict[str, schema.Fields] = {}
    schema._add(Each, found)
    assert found == {schema._name(Each): {"number": "n!", "some": "{n", "perhaps": "n"}}
