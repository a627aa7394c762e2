"""What happens to an object between a request and the store: read, completed, checked.

Every write is read as its kind's struct first, status included, so that whoever reads the store can rely
on types. Then the rules of its kind complete and check it: one line per kind in the table below.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from muster.api import kinds
from muster.api.base import Object
from muster.api.batch_v1 import JobSpec, JobTemplate
from muster.api.core_v1 import PodTemplate
from muster.api.fields import FieldError, InvalidObject, Path, convert
from muster.api.rules import cluster, job, jobset, metadata, pod, scheduling, stored
from muster.kube.errors import BadRequest
from muster.local.refusals import AnyKind, invalid


class Rules(NamedTuple):
    default: Callable[[Object], Object] = lambda obj: obj
    validate: Callable[[Object, Object | None], list[FieldError]] = lambda obj, old: []


_RULES: Final[dict[AnyKind, Rules]] = {
    kinds.NAMESPACE: Rules(cluster.default_namespace),
    kinds.NODE: Rules(cluster.default_node, cluster.validate_node),
    kinds.POD: Rules(pod.default, pod.validate),
    kinds.SERVICE: Rules(cluster.default_service, cluster.validate_service),
    kinds.CONFIG_MAP: Rules(validate=stored.validate_config_map),
    kinds.SECRET: Rules(stored.default_secret, stored.validate_secret),
    kinds.PRIORITY_CLASS: Rules(scheduling.default_priority_class, scheduling.validate_priority_class),
    kinds.PDB: Rules(validate=scheduling.validate_budget),
    kinds.JOB: Rules(job.default, job.validate),
    kinds.JOBSET: Rules(jobset.default, jobset.validate),
    kinds.POD_GROUP_X: Rules(validate=scheduling.validate_pod_group),
    kinds.POD_GROUP_SIGS: Rules(validate=scheduling.validate_pod_group),
    kinds.GANG_PLAN: Rules(validate=scheduling.validate_plan),
}


def read(kind: AnyKind, obj: Any) -> Object:  # Any: whatever the request's body was
    """A copy of `obj` of its own, without nulls, which Kubernetes treats as absent."""
    if not isinstance(obj, dict):
        raise BadRequest(f"the body is not an object; send one {kind.kind} as JSON")
    for key, expected in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if obj.get(key) not in (None, "", expected):
            raise BadRequest(f"{key} is {obj[key]!r}, but the request is for {kind.api_version} {kind.kind}")
    try:
        raw = msgspec.json.encode(obj)
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    copy: Object = {"apiVersion": kind.api_version, "kind": kind.kind}
    copy |= msgspec.json.decode(raw)
    if b"null" in raw:
        copy = _without_nulls(copy)
    copy["apiVersion"], copy["kind"] = kind.api_version, kind.kind
    if not isinstance(copy.setdefault("metadata", {}), dict):
        raise BadRequest("metadata is not an object")
    return copy


def complete(kind: AnyKind, name: str, obj: Object) -> Object:
    """`obj` with its kind's defaults; types are right from here on."""
    _check_types(kind, name, obj)
    return _RULES[kind].default(obj) if kind in _RULES else obj


def check(kind: AnyKind, name: str, obj: Object, old: Object | None) -> None:
    """Raises `Invalid` with every field at fault."""
    errors = metadata.validate(obj, old)
    if kind in _RULES:
        errors += _RULES[kind].validate(obj, old)
    if errors:
        raise invalid(kind, name, errors)


def check_status(kind: AnyKind, name: str, obj: Object) -> None:
    _check_types(kind, name, obj)


def _check_types(kind: AnyKind, name: str, obj: Object) -> None:
    try:
        convert(obj, kind.type)
        for path, template, type_ in _templates(kind, obj):
            convert(template, type_, path)
    except InvalidObject as error:
        raise invalid(kind, name, error.errors) from None


def _templates(kind: AnyKind, obj: Object) -> Iterator[tuple[Path, Object, type]]:
    """The parts that structs leave as JSON because they are copied as they are: each is read once its
    surroundings have been."""
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


def _without_nulls(value: Any) -> Any:  # Any: JSON
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
