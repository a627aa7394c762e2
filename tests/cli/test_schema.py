"""`muster schema KIND` prints the schema as JSON, for each kind."""

import json

import jsonschema
import pytest

from muster.cli.schema import Of, command


@pytest.mark.parametrize("kind", Of)
def test_each_kind_has_a_schema(kind: Of, capsys: pytest.CaptureFixture[str]) -> None:
    command(kind)
    found = json.loads(capsys.readouterr().out)
    jsonschema.Draft7Validator.check_schema(found)
    assert found["additionalProperties"] is False
    assert "spec" in found["properties"]
