"""Rules for `metadata`, which hold for objects of every kind.

Source: kubernetes/apimachinery, pkg/api/validation/objectmeta.go and pkg/util/validation.
"""

import re
from typing import Final

from muster.api.base import Object, is_label_key, is_subdomain
from muster.api.fields import Finding, Path

LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?)?")
_MAX_ANNOTATIONS: Final = 256 * 1024

#: Kinds whose names must be one DNS label, since they become part of a host name.
_LABEL_KINDS: Final = ("Namespace",)
_DNS_1035_KINDS: Final = ("Service",)


def validate(obj: Object, old: Object | None) -> list[Finding]:
    """`obj` has been read as its struct before, so that types are right."""
    meta = obj["metadata"]
    errors: list[Finding] = []
    if old is None:
        errors += _name(obj["kind"], meta["name"])
    errors += labels(meta.get("labels") or {}, ("metadata", "labels"))
    annotations = meta.get("annotations") or {}
    for key in annotations:
        errors += qualified(key.lower(), ("metadata", "annotations"))
    size = sum(len(key) + len(value) for key, value in annotations.items())
    if size > _MAX_ANNOTATIONS:
        errors.append(
            Finding(
                ("metadata", "annotations"),
                f"Too long: {size} bytes, may not be more than {_MAX_ANNOTATIONS}",
            )
        )
    for finalizer in meta.get("finalizers") or []:
        if finalizer not in ("orphan", "foregroundDeletion"):
            errors += qualified(finalizer, ("metadata", "finalizers"))
    errors += _owners(meta.get("ownerReferences") or [])
    return errors


def labels(values: dict[str, str], path: Path) -> list[Finding]:
    errors: list[Finding] = []
    for key, value in values.items():
        errors += qualified(key, path)
        if len(value) > 63 or not _VALUE.fullmatch(value):
            errors.append(
                Finding(
                    (*path, key),
                    f"Invalid value: {shown(value)}: a label's value has at most 63 letters, digits, "
                    "'-', '_' or '.', and starts and ends with a letter or digit",
                )
            )
    return errors


def qualified(key: str, path: Path) -> list[Finding]:
    """A name with an optional prefix: `example.com/name`."""
    if is_label_key(key):
        return []
    return [
        Finding(
            path,
            f"Invalid value: {shown(key)}: write a name of at most 63 letters, digits, '-', '_' or '.', "
            "with an optional DNS prefix as in 'example.com/name'",
        )
    ]


def subdomain(name: str, path: Path) -> list[Finding]:
    if is_subdomain(name):
        return []
    return [
        Finding(
            path,
            f"Invalid value: {shown(name)}: a lowercase RFC 1123 subdomain must consist of at most 253 "
            "lower case letters, digits, '-' or '.', and start and end with a letter or digit",
        )
    ]


def label(name: str, path: Path) -> list[Finding]:
    if len(name) <= 63 and LABEL.fullmatch(name):
        return []
    return [
        Finding(
            path,
            f"Invalid value: {shown(name)}: a lowercase RFC 1123 label must consist of at most 63 lower "
            "case letters, digits or '-', and start and end with a letter or digit",
        )
    ]


def shown(value: str) -> str:
    """A value as errors quote it: in one line that is not long, with escapes for what does not print."""
    if len(value) > 80:
        return f'{shown(value[:77])[:-1]}..." ({len(value)} characters)'
    return '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in value) + '"'


def _name(kind: str, name: str) -> list[Finding]:
    path = ("metadata", "name")
    if kind in _LABEL_KINDS:
        return label(name, path)
    if kind in _DNS_1035_KINDS:
        if len(name) <= 63 and DNS_1035.fullmatch(name):
            return []
        return [
            Finding(
                path,
                f"Invalid value: {shown(name)}: a DNS-1035 label must consist of at most 63 lower case "
                "letters, digits or '-', start with a letter, and end with a letter or digit",
            )
        ]
    return subdomain(name, path)


def _owners(references: list[Object]) -> list[Finding]:
    errors = [
        Finding(("metadata", "ownerReferences", position, field), "Required value: must not be empty")
        for position, reference in enumerate(references)
        for field in ("apiVersion", "kind", "name", "uid")
        if not reference.get(field)
    ]
    if sum(bool(reference.get("controller")) for reference in references) > 1:
        errors.append(
            Finding(
                ("metadata", "ownerReferences"), "Invalid value: only one owner may have controller: true"
            )
        )
    return errors
