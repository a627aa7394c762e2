"""ConfigMaps and Secrets: keys that can be file names, base64, and those declared immutable."""

import base64
import binascii
import re
from typing import Final

from muster.api.base import Object
from muster.api.fields import Finding
from muster.api.rules.metadata import shown

_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")
MAX_BYTES: Final = 2**20


def default_secret(obj: Object) -> Object:
    """`stringData`, which is for writing only, becomes part of `data`."""
    obj.setdefault("type", "Opaque")
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict) and plain:
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}
    return obj


def validate_secret(obj: Object, old: Object | None) -> list[Finding]:
    errors = _keys(obj, "data") + _immutable(obj, old)
    errors += _base64(obj, "data")
    if old is not None and obj.get("type") != old.get("type"):
        errors.append(Finding(("type",), "Invalid value: field is immutable"))
    return errors


def validate_config_map(obj: Object, old: Object | None) -> list[Finding]:
    errors = _keys(obj, "data") + _keys(obj, "binaryData") + _base64(obj, "binaryData")
    for key in set(obj.get("data") or {}) & set(obj.get("binaryData") or {}):
        errors.append(Finding(("binaryData", key), "Invalid value: the key is in `data` too"))
    return errors + _immutable(obj, old)


def _keys(obj: Object, field: str) -> list[Finding]:
    values = obj.get(field) or {}
    errors = [
        Finding(
            (field, key), f"Invalid value: {shown(key)}: a key consists of letters, digits, '-', '_' or '.'"
        )
        for key in values
        if not _KEY.fullmatch(key) or key in (".", "..")
    ]
    size = sum(len(value) for value in values.values())
    if size > MAX_BYTES:
        errors.append(Finding((field,), f"Too long: {size} bytes, may not be more than {MAX_BYTES}"))
    return errors


def _base64(obj: Object, field: str) -> list[Finding]:
    errors = []
    for key, value in (obj.get(field) or {}).items():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            errors.append(
                Finding((field, key), "Invalid value: not base64; plain text goes into `stringData`")
            )
    return errors


def _immutable(obj: Object, old: Object | None) -> list[Finding]:
    if old is None or not old.get("immutable"):
        return []
    if not obj.get("immutable"):
        return [Finding(("immutable",), "Forbidden: field is immutable when `immutable` is set")]
    return [
        Finding((field,), "Forbidden: field is immutable when `immutable` is set")
        for field in ("data", "binaryData")
        if obj.get(field) != old.get(field)
    ]
