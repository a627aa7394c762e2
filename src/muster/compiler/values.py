"""Resolves placeholders: each reference becomes literal text, or a key of a secret.

A secret's value is not known here and never will be: it is filled in on the cluster, by the External Secrets
Operator.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from muster.api.fields import Path
from muster.compiler import spelling, substitution
from muster.compiler.draft import Draft
from muster.compiler.substitution import Reference
from muster.compiler.workload import (
    Custom,
    Endpoint,
    External,
    Gpu,
    Resource,
    Secret,
    Service,
    Volume,
    Workload,
)


@dataclass(frozen=True, slots=True)
class SecretKey:
    """One key of a secret resource."""

    resource: Resource
    secret: Secret
    key: str


Value = str | SecretKey


class _Unknown(ValueError):
    pass


def resolve(
    text: str,
    workload: Workload,
    draft: Draft,
    path: Path,
    expand: Literal["all", "none", "escaped"] = "all",
) -> list[Value]:
    """The text with its references resolved, neighbouring literals joined. Problems go to the draft."""
    try:
        parts = substitution.parse(text, expand)
    except substitution.UnknownRoot as error:
        draft.problem(path, str(error))
        return []
    values: list[Value] = []
    for part in parts:
        if draft.full:
            return []
        try:
            value = part if isinstance(part, str) else _value(part, workload)
            if isinstance(value, str) and not draft.expand(len(value), path):
                return []
            values.append(value)
        except _Unknown as error:
            draft.problem(path, f"{part.text if isinstance(part, Reference) else part}: {error}")
    return list(_joined(values))


def _joined(values: Iterable[Value]) -> Iterator[Value]:
    """The values with neighbouring texts joined, and without empty ones."""
    for literal, group in groupby(values, lambda each: isinstance(each, str)):
        if not literal:
            yield from group
        elif text := "".join(each for each in group if isinstance(each, str)):
            yield text


def _value(reference: Reference, workload: Workload) -> Value:
    if reference.root == "metadata":
        return _scalar(_walk(workload.metadata, reference.names, "metadata"))
    name, *rest = reference.names
    if name not in workload.resources:
        known = ", ".join(sorted(workload.resources)) or "none"
        raise _Unknown(f"there is no resource {name}; declared: {known}")
    resource = workload.resources[name]
    match resource.what:
        case Secret(keys=keys) as secret:
            key = ".".join(rest)
            if key and not keys:
                try:
                    spelling.key(key)
                except spelling.Misspelt as error:
                    raise _Unknown(str(error)) from None
            if not key or (keys and key not in keys):
                raise _Unknown(
                    f"secret {name} has no key {key!r}; its keys are {', '.join(keys) or 'not listed'}"
                )
            return SecretKey(resource, secret, key)
        case External(endpoints=endpoints):
            return _endpoint(name, rest, endpoints)
        case Service() as service:
            host = f"{service.name}.{service.namespace}.svc"
            url = f"http://{host}:{service.port}"
            return _endpoint(name, rest, (Endpoint(name, host, service.port, url=url),))
        case Gpu() as gpu:
            return _scalar(_walk({"count": gpu.count, "model": gpu.model}, rest, name))
        case Custom(params=params):
            return _scalar(_walk(params, rest, name))
        case None:
            return ""
        case Volume():
            raise _Unknown(f"{name} has nothing that can be referred to; mount it instead")


def _endpoint(name: str, rest: list[str], endpoints: tuple[Endpoint, ...]) -> str:
    by_name = {endpoint.name: endpoint for endpoint in endpoints}
    if len(rest) == 1 and len(endpoints) == 1:
        rest = [endpoints[0].name, *rest]
    if len(rest) != 2 or rest[0] not in by_name or rest[1] not in ("host", "port", "url"):
        known = ", ".join(f"{each}.{part}" for each in by_name for part in ("host", "port", "url")) or "none"
        raise _Unknown(f"{name} has no output {'.'.join(rest)!r}; available: {known}")
    found = by_name[rest[0]]
    return {"host": found.host, "port": str(found.port), "url": found.url}[rest[1]]


def _walk(value: Any, names: tuple[str, ...] | list[str], of: str) -> Any:  # Any: JSON
    for name in names:
        if not isinstance(value, dict) or name not in value:
            known = ", ".join(sorted(value)) if isinstance(value, dict) else "none"
            raise _Unknown(f"{of} has no field {name!r}; available: {known}")
        value, of = value[name], f"{of}.{name}"
    return value


def _scalar(value: Any) -> str:  # Any: JSON
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            raise _Unknown("is not a single value")
