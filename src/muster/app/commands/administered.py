"""Reads an administrator's directory: policies, and YAML files with objects of the cluster."""

import base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from muster.api.base import Object
from muster.api.kinds import CEDAR_POLICY, SECRET, TRUST_POLICY
from muster.workloads import source
from muster.workloads.findings import JobFileError

if TYPE_CHECKING:  # Cedar and cryptography take 0.3 s to load
    from muster.security.images.trust import TrustPolicy
    from muster.security.policies import Policies

_MOST: Final = 1_000


def objects(directory: Path) -> Iterator[tuple[Path, Object]]:
    """Each object of a directory's `*.yaml` files, with its file; those of a List one by one.

    Raises `JobFileError`.
    """
    files = sorted(directory.glob("*.yaml"))
    for file in files[:_MOST]:
        if not file.is_file():
            raise JobFileError.of(str(file), "is not a file")
        text = source.read(file)
        if not text.strip():
            continue
        for document in source.parse(text, str(file)):
            yield from ((file, each) for each in _listed(document.value))


def policies(directory: Path) -> "Policies":
    """The policies of a directory: its `*.cedar` files, and the CedarPolicies in its `*.yaml` files.

    Raises `InvalidPolicy`, `JobFileError`, and OSError.
    """
    from muster.security.policies import read

    texts: dict[str, str] = {}
    for file, each in objects(directory):
        if each.get("kind") != CEDAR_POLICY.kind:
            continue
        spec, name = each.get("spec"), _name(file, each)
        if not isinstance(spec, dict) or not isinstance(spec.get("policies", ""), str):
            raise JobFileError.of(str(file), f"CedarPolicy {name}: spec.policies: takes text")
        text = spec.get("policies", "")
        if spec.get("enabled") is not False and texts.setdefault(name, text) != text:
            raise JobFileError.of(str(file), f"CedarPolicy {name} occurs twice, with different policies")
    return read(directory, texts)


def trust_policies(directory: Path) -> "list[TrustPolicy]":
    """The TrustPolicies in a directory's `*.yaml` files; their keys may be in Secrets there.

    Raises `trust.InvalidPolicy` and `JobFileError`.
    """
    found = list(objects(directory))
    secrets: dict[str, str] = {}
    for file, each in found:
        if each.get("kind") == SECRET.kind:
            meta = each.get("metadata")
            namespace = meta.get("namespace") if isinstance(meta, dict) else None
            for key, value in _values(each):
                secrets[f"{namespace or 'default'}/{_name(file, each)}/{key}"] = value
    return _trust(found, secrets)


def check_trust_policies(directory: Path) -> None:
    """Checks the form of the TrustPolicies in a directory, whose keys may be elsewhere.

    Raises `trust.InvalidPolicy` and `JobFileError`.
    """
    _trust(objects(directory), None)


def _trust(found: Iterable[tuple[Path, Object]], secrets: Mapping[str, str] | None) -> "list[TrustPolicy]":
    written = [(file, each) for file, each in found if each.get("kind") == TRUST_POLICY.kind]
    if not written:
        return []
    from muster.security.images import trust

    known: list[TrustPolicy] = []
    errors: list[str] = []
    for file, each in written:
        name = _name(file, each)
        try:
            known.append(trust.read(name, each.get("spec"), secrets))
        except trust.InvalidPolicy as error:
            errors.append(f"{file}: TrustPolicy {name}: spec.{error}")
    if errors:
        raise trust.InvalidPolicy("\n".join(errors))
    return known


def _name(file: Path, obj: Object) -> str:
    meta = obj.get("metadata")
    return str((meta if isinstance(meta, dict) else {}).get("name") or file.stem)


def _values(secret: Object) -> Iterator[tuple[str, str]]:
    for field, encoded in (("data", True), ("stringData", False)):
        values = secret.get(field)
        for key, value in (values if isinstance(values, dict) else {}).items():
            try:
                text = base64.b64decode(str(value), validate=True).decode() if encoded else str(value)
            except ValueError:
                continue  # not text, so not a key
            yield str(key), text


def _listed(value: Any) -> Iterator[Object]:  # Any: YAML
    if isinstance(value, dict):
        items = value.get("items")
        if str(value.get("kind", "")).endswith("List") and isinstance(items, list):
            yield from (each for each in items if isinstance(each, dict))
        else:
            yield value
