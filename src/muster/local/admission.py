"""Admission: reads, completes and checks an object between a request and the store.

Every object is read as its kind's struct first, status included, so that readers of the store can rely on
types. Then the rules of its kind complete and check it (`muster.api.rules`).
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from muster.api import kinds, rules
from muster.api.base import Object, Resource, without_nulls
from muster.api.batch_v1 import JobSpec, JobTemplate
from muster.api.core_v1 import PodTemplate
from muster.api.fields import TOO_DEEP, InvalidObject, Path, convert, too_deep
from muster.kube.errors import BadRequest
from muster.local.refusals import AnyKind, invalid

_NOTHING: Final[Object] = {}


def read(kind: AnyKind, obj: Any, old: Object = _NOTHING) -> Object:  # Any: whatever the request's body was
    """A copy of `obj` without nulls, which Kubernetes treats as absent.

    Parts that are the very objects of the `old` state have been read before, and are not copied.
    """
    if not isinstance(obj, dict):
        raise BadRequest(f"the body is not an object; send one {kind.kind} as JSON")
    for key, expected in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if obj.get(key) not in (None, "", expected):
            raise BadRequest(f"{key} is {obj[key]!r}, but the request is for {kind.api_version} {kind.kind}")
    changed = {key: item for key, item in obj.items() if item is not old.get(key)} if old else obj
    try:
        raw = msgspec.json.encode(changed)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    copy: Object = {"apiVersion": kind.api_version, "kind": kind.kind}
    copy |= obj if old else {}
    read: Object = msgspec.json.decode(raw)
    if too_deep(raw, read):
        raise BadRequest(f"the object {TOO_DEEP}")
    try:
        msgspec.msgpack.encode(read)
    except OverflowError:
        raise BadRequest("a number in the object is larger than 64 bits hold") from None
    copy |= read
    if b"null" in raw:
        copy = without_nulls(copy)
    copy["apiVersion"], copy["kind"] = kind.api_version, kind.kind
    if not isinstance(copy.setdefault("metadata", {}), dict):
        raise BadRequest("metadata is not an object")
    return copy


def complete(kind: AnyKind, name: str, obj: Object) -> Object:
    """`obj` with its kind's defaults. The result has the right types."""
    check_structs(kind, name, obj)
    _give_types(kind, name, obj)
    return rules.default(kind, obj)


def check(kind: AnyKind, name: str, obj: Object, old: Object | None) -> None:
    """Raises `Invalid`, which lists every invalid field, if `obj` breaks the rules of its kind."""
    if errors := rules.validate(kind, obj, old):
        raise invalid(kind, name, errors)


def earlier(kind: AnyKind, raw: bytes) -> Object:
    """A stored state with today's types: an earlier version of muster may have written others."""
    obj: Object = msgspec.json.decode(raw)
    rules.type_(kind, obj)
    return obj


def check_status(kind: AnyKind, name: str, obj: Object) -> Resource:
    """Checks the types of `obj.status`; the other fields have the right types already. Returns the struct."""
    typed = check_structs(kind, name, obj)
    _give_types(kind, name, {"status": obj["status"]})
    return typed


def check_structs(kind: AnyKind, name: str, obj: Object) -> Resource:
    """`obj` as a struct. Raises `Invalid` for fields that no struct can hold, in templates too."""
    try:
        typed: Resource = convert(obj, kind.type)
        for path, template, type_ in _templates(kind, obj):
            convert(template, type_, path)
    except InvalidObject as error:
        raise invalid(kind, name, error.errors) from None
    return typed


def _give_types(kind: AnyKind, name: str, obj: Object) -> None:
    if errors := rules.type_(kind, obj):
        raise invalid(kind, name, errors)


def _templates(kind: AnyKind, obj: Object) -> Iterator[tuple[Path, Object, type]]:
    """The templates in an object, which structs keep as JSON because they are copied: path, JSON, struct.

    A template is yielded after the part that contains it, which has been checked by then.
    """
    spec = obj.get("spec") or {}
    if kind is kinds.JOB:
        yield ("spec", "template"), spec.get("template") or {}, PodTemplate
    elif kind is kinds.JOBSET:
        for position, replicated in enumerate(spec.get("replicatedJobs") or ()):
            path: Path = ("spec", "replicatedJobs", position, "template")
            template = replicated.get("template") or {}
            yield path, template, JobTemplate
            job = template.get("spec") or {}
            yield (*path, "spec"), job, JobSpec
            yield (*path, "spec", "template"), job.get("template") or {}, PodTemplate
