"""Plays the External Secrets Operator where there is none: ExternalSecrets become Secrets.

It renders the templates that `secrets` emits, and nothing else of Go's template language. A value goes into
its Secret and nowhere else: problems name keys, never values. Credentials of registries may be absent, since
nothing is pulled.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from muster.api.base import Object
from muster.api.fields import Finding, Path
from muster.compiler import secrets

#: store → path → key → value
Values = Mapping[str, Mapping[str, Mapping[str, str]]]

_ACTION: Final = re.compile(r'{{ (index \. )?"([^"]*)" }}')


def fulfil(
    objects: Iterable[Object], values: Values, origins: Mapping[tuple[str, str], Path], file: str
) -> tuple[list[Object], list[Finding]]:
    """The objects with each ExternalSecret replaced by its Secret, and what the stores lack.

    `file`: where values of store `{store}` are written, for messages.
    """
    made: list[Object] = []
    missing: dict[tuple[str, str], list[str]] = {}
    for each in objects:
        if each["kind"] != "ExternalSecret":
            made.append(each)
            continue
        store = str(each["spec"]["secretStoreRef"]["name"])
        pulls = each["spec"]["target"].get("template", {}).get("type") == secrets.DOCKER
        data: dict[str, str] = {}
        for remote, key, name in _wanted(each["spec"]):
            found = values.get(store, {}).get(remote, {})
            if key in found:
                data[name] = found[key]
            elif not key and found:
                data.update(found)
            elif not pulls:
                missing.setdefault((store, remote), []).append(key or "KEY")
        if data or not pulls:
            made.append(_secret(each, data))
    return made, [_missing(*where, keys, origins, file) for where, keys in sorted(missing.items())]


def _wanted(spec: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:  # Any: JSON
    """(path, key, name in the Secret); an empty key means all keys."""
    for entry in spec.get("data", []):
        yield entry["remoteRef"]["key"], entry["remoteRef"]["property"], entry["secretKey"]
    for entry in spec.get("dataFrom", []):
        yield entry["extract"]["key"], "", ""


def _secret(external: Object, data: dict[str, str]) -> Object:
    template = external["spec"]["target"].get("template", {})
    if "data" in template:
        data = {
            key: _ACTION.sub(lambda match: data.get(match[2], "") if match[1] else match[2], text)
            for key, text in template["data"].items()
        }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {**external["metadata"], "name": external["spec"]["target"]["name"]},
        "type": template.get("type", "Opaque"),
        "stringData": dict(sorted(data.items())),
    }


def _missing(
    store: str, remote: str, keys: list[str], origins: Mapping[tuple[str, str], Path], file: str
) -> Finding:
    path = origins.get((secrets.QUESTION, f"{store}:{remote}"), ())
    lines = "".join(f"\n  {key}: VALUE" for key in dict.fromkeys(keys))
    where = file.format(store=store)
    return Finding(
        path,
        f"the store {store} lacks values at {remote}; on a laptop they are in {where}",
        fix=f"{remote}:{lines}",
    )
