"""Admission: reads, completes and checks an object between a request and the store.

Every object is read as its kind's struct first, status included, so that readers of the store can rely on
types. Then the rules of its kind complete and check it (`muster.api.rules`).
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from muster import names
from muster.api import kinds, rules
from muster.api.base import Object, Resource, without_nulls
from muster.api.batch_v1 import JobSpec, JobTemplate
from muster.api.core_v1 import PodTemplate
from muster.api.fields import TOO_DEEP, Finding, InvalidObject, Path, convert, too_deep
from muster.api.templates import templates
from muster.embedded.api_errors import AnyKind, invalid
from muster.kube.apply import merge
from muster.kube.errors import BadRequest
from muster.workloads import training
from muster.workloads.kubernetes import services


def read(kind: AnyKind, obj: Any) -> Object:  # Any: whatever the request's body was
    """A copy of `obj` without nulls, which Kubernetes treats as absent."""
    if not isinstance(obj, dict):
        raise BadRequest(f"the body is not an object; send one {kind.kind} as JSON")
    copy, nulls = _copied(obj)
    return _identified(kind, without_nulls(copy) if nulls else copy)


def merged(kind: AnyKind, obj: Object, patch: Object) -> Object:
    """`obj` with a merge patch applied, without nulls. What it leaves alone are the objects of `obj`."""
    copy, nulls = _copied(patch)
    result = merge(obj, copy)
    return _identified(kind, without_nulls(result) if nulls else result)


def _copied(obj: Object) -> tuple[Object, bool]:
    """A copy of JSON that the store can keep, and whether it may have nulls."""
    try:
        raw = msgspec.json.encode(obj)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    copy: Object = msgspec.json.decode(raw)
    if too_deep(raw, copy):
        raise BadRequest(f"the object {TOO_DEEP}")
    try:
        msgspec.msgpack.encode(copy)
    except OverflowError:
        raise BadRequest("a number in the object is larger than 64 bits hold") from None
    return copy, b"null" in raw


def _identified(kind: AnyKind, obj: Object) -> Object:
    """`obj` with its kind, and with metadata. Raises `BadRequest` if it says that it is of another kind."""
    for key, expected in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if obj.get(key) not in (None, "", expected):
            raise BadRequest(f"{key} is {obj[key]!r}, but the request is for {kind.api_version} {kind.kind}")
    named: Object = {"apiVersion": kind.api_version, "kind": kind.kind}
    named |= obj
    named["apiVersion"], named["kind"] = kind.api_version, kind.kind
    if not isinstance(named.setdefault("metadata", {}), dict):
        raise BadRequest("metadata is not an object")
    return named


def complete(kind: AnyKind, name: str, obj: Object, old: Object | None = None) -> Object:
    """`obj` with its kind's defaults, and the environment of its training. The result has the right types.

    A new Service that translates ports is refused, as it is in files. Afterwards each is headless, and what
    its author meant is not known.
    """
    check_structs(kind, name, obj)
    _give_types(kind, name, obj)
    if kind is kinds.SERVICE and old is None and (errors := _translated(obj)):
        raise invalid(kind, name, errors)
    completed = rules.default(kind, obj)
    if kind is not kinds.JOBSET or (old is not None and _jobs(old) == _jobs(completed)):
        return completed
    # On a real cluster muster has no webhook, so there only what it submits gets this environment.
    if why := training.prepare(completed):
        raise invalid(kind, name, [Finding(("metadata", "annotations", names.TRAINING), why)])
    return completed


def _translated(service: Object) -> list[Finding]:
    return list(services.translated(service.get("spec") or {}, {}))


def _jobs(jobset: Object) -> Any:  # Any: JSON
    return (jobset.get("spec") or {}).get("replicatedJobs")


def check(kind: AnyKind, name: str, obj: Object, old: Object | None) -> None:
    """Raises `Invalid`, which lists every invalid field, if `obj` breaks the rules of its kind."""
    if errors := rules.validate(kind, obj, old):
        raise invalid(kind, name, errors)


def earlier(kind: AnyKind, raw: bytes) -> Object:
    """A stored state with today's types: an earlier version of muster may have written others."""
    obj: Object = msgspec.json.decode(raw)
    rules.type_(kind, obj)
    return obj


def check_status(kind: AnyKind, name: str, obj: Object, old: Object) -> Resource:
    """Checks `obj.status`; the other fields have been checked already. Returns the struct.

    Parts of the status that are the very objects of the `old` state have been checked before.
    """
    typed = check_structs(kind, name, obj)
    status, before = obj["status"], old.get("status")
    if isinstance(status, dict) and isinstance(before, dict):
        changed = {key: item for key, item in status.items() if item is not before.get(key)}
        _give_types(kind, name, {"status": changed})
        status |= changed
    else:
        _give_types(kind, name, {"status": status})
    if errors := rules.validate_status(kind, obj, old):
        raise invalid(kind, name, errors)
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
    for path, made, template in templates(obj, kind):
        if made is kinds.JOB:
            yield path, template, JobTemplate
            yield (*path, "spec"), template.get("spec") or {}, JobSpec
        else:
            yield path, template, PodTemplate
