from typing import Any

import pytest

from muster.api.rules.stored import default_secret, validate_config_map, validate_secret


def test_string_data_becomes_data_and_wins() -> None:
    made = default_secret({"data": {"a": "b2xk", "b": "Yg=="}, "stringData": {"a": "new"}})
    assert made == {"type": "Opaque", "data": {"a": "bmV3", "b": "Yg=="}}


@pytest.mark.parametrize(
    ("obj", "old", "error"),
    [
        ({"data": {"a": "YQ=="}}, None, ""),
        ({"data": {"a": "not base64"}}, None, "data.a: Invalid value: not base64"),
        ({"data": {"a b": "YQ=="}}, None, 'Invalid value: "a b"'),
        ({"data": {"..": "YQ=="}}, None, 'Invalid value: ".."'),
        ({"data": {"a": "YWFh" * 300_000}}, None, "Too long: 1200000 bytes"),
        ({"type": "x"}, {"type": "y"}, "type: Invalid value: field is immutable"),
        ({"immutable": True, "data": {"a": "YQ=="}}, {"immutable": True, "data": {}}, "data: Forbidden"),
        ({"data": {}}, {"immutable": True, "data": {}}, "immutable: Forbidden"),
        ({"immutable": True, "data": {}}, {"immutable": True, "data": {}}, ""),
    ],
)
def test_secrets(obj: Any, old: Any, error: str) -> None:
    found = [str(e) for e in validate_secret(obj, old)]
    assert (error in found[0] and len(found) == 1) if error else not found, found


def test_config_maps_have_each_key_once() -> None:
    assert validate_config_map({"data": {"a": "x"}, "binaryData": {"b": "YQ=="}}, None) == []
    (error,) = validate_config_map({"data": {"a": "x"}, "binaryData": {"a": "YQ=="}}, None)
    assert str(error) == "binaryData.a: Invalid value: the key is in `data` too"
