"""Reads credentials of registries from files of container tools: `config.json`, `.dockerconfigjson`."""

import base64
import binascii
import json
from typing import Final

from muster.security.images.reference import InvalidReference, one_name

#: Most bytes of a file, and most registries that it names.
MOST: Final = 2**20
_REGISTRIES: Final = 1_000


def read(content: bytes) -> dict[str, tuple[str, str]]:
    """Returns registry → (user, password). Entries that cannot be read are ignored."""
    try:
        written = json.loads(content[:MOST])
    except (ValueError, RecursionError):
        return {}
    found: dict[str, tuple[str, str]] = {}
    auths = written.get("auths") if isinstance(written, dict) else None
    for registry, entry in list((auths if isinstance(auths, dict) else {}).items())[:_REGISTRIES]:
        if (login := _login(entry)) is not None and (name := _registry(registry)):
            found[name] = login
    return found


def _registry(written: str) -> str:
    """The registry's one name; "" if the text names none."""
    try:
        return one_name(written.removeprefix("https://").partition("/")[0])
    except InvalidReference:
        return ""


def _login(entry: object) -> tuple[str, str] | None:
    if not isinstance(entry, dict):
        return None
    user, password = entry.get("username"), entry.get("password")
    if isinstance(user, str) and isinstance(password, str) and user:
        return user, password
    try:
        user, colon, password = base64.b64decode(entry["auth"], validate=True).decode().partition(":")
    except (LookupError, TypeError, ValueError, binascii.Error):
        return None
    return (user, password) if colon else None
