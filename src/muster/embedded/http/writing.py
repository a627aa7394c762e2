"""The writes of the HTTP API: from a request's body and parameters to the registry, and back.

A body is JSON or protobuf. `fieldValidation` says what happens to fields that the kind does not have: they
are kept (`Ignore`, the default), named in a header (`Warn`), or refused (`Strict`, which kubectl asks for).
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from muster.api import kinds
from muster.api.base import Object
from muster.embedded.api_errors import AnyKind
from muster.embedded.http import protobuf
from muster.embedded.http.answer import JSON, Answer, Headers, success, warning
from muster.embedded.http.request import Request, Target
from muster.embedded.schema.unknown import message, unknown
from muster.embedded.verbs import options, patches, strategic
from muster.embedded.verbs.registry import Registry
from muster.kube.errors import BadRequest, MethodNotAllowed, NotFound, UnsupportedMediaType

#: Server-side apply. The body is YAML by its name; JSON is YAML, and what kubectl sends.
APPLY: Final = "application/apply-patch+yaml"
#: By media type: whether a patch is a map or a list, and how it changes an object of a kind.
_PATCHES: Final[dict[str, tuple[type, Callable[[AnyKind, Object, Any], Object]]]] = {  # Any: JSON
    "application/merge-patch+json": (dict, lambda kind, obj, patch: patches.apply(obj, patch)),
    "application/json-patch+json": (list, lambda kind, obj, patch: patches.apply(obj, patch)),
    "application/strategic-merge-patch+json": (dict, strategic.apply),
}


async def create(registry: Registry, target: Target, request: Request) -> Answer:
    body = await request.json()
    warnings = _validated(target.kind, request, unknown(target.kind, body) if _asks(request) else [])
    with registry.dry_run(request.dry_run):
        return Answer(201, registry.create(target.kind, target.namespace, body), warnings)


async def subcreate(registry: Registry, target: Target, request: Request) -> Answer:
    body = await request.json()
    with registry.dry_run(request.dry_run):
        if target.kind is kinds.POD and target.subresource == "binding":
            registry.bind(target.namespace, target.name, body)
        elif target.kind is kinds.POD and target.subresource == "eviction":
            registry.evict(target.namespace, target.name, body)
        else:
            raise MethodNotAllowed(f"POST is not possible on {request.path}")
    return Answer(201, success())


async def update(registry: Registry, target: Target, request: Request) -> Answer:
    kind, namespace, name, subresource = target
    body = await request.json()
    warnings = _validated(kind, request, unknown(kind, body) if _asks(request) else [])
    with registry.dry_run(request.dry_run):
        return Answer(
            200,
            registry.update(kind, namespace, name, body, subresource=subresource, manager=_manager(request)),
            warnings,
        )


async def patch(registry: Registry, target: Target, request: Request) -> Answer:
    kind, namespace, name, subresource = target
    if request.media_type == APPLY:
        return await _apply(registry, target, request)
    known = _PATCHES.get(request.media_type)
    if known is None:
        raise UnsupportedMediaType(
            f"patches of type {request.media_type} are not supported; send {' or '.join((*_PATCHES, APPLY))}"
        )
    type_, change = known
    body = await request.json(type_)
    added: list[str] = []

    def changed(current: Object) -> Object:
        new = change(kind, current, body)
        if _asks(request):  # what the object had before is not the patch's fault
            added.extend(sorted(set(unknown(kind, new)) - set(unknown(kind, current))))
            _validated(kind, request, added)
        return new

    with registry.dry_run(request.dry_run):
        result = registry.change(
            kind, namespace, name, changed, subresource=subresource, manager=_manager(request)
        )
        return Answer(200, result, _validated(kind, request, added))


async def _apply(registry: Registry, target: Target, request: Request) -> Answer:
    kind, namespace, name, subresource = target
    manager = request.query("fieldManager")
    if not manager or len(manager) > 128 or not manager.isprintable():
        raise BadRequest("fieldManager is required for apply patch: at most 128 printable characters")
    if subresource:
        raise MethodNotAllowed(f"{subresource} cannot be applied; send a merge patch")
    config = await request.json()
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and any(metadata.get(field) for field in ("managedFields", "uid")):
        raise BadRequest("metadata.managedFields and metadata.uid must not be in a configuration to apply")
    warnings = _validated(kind, request, unknown(kind, config) if _asks(request) else [])
    with registry.dry_run(request.dry_run):
        body = registry.apply(kind, namespace, name, config, manager=manager, force=request.flag("force"))
        return Answer(200, body, warnings)


def _manager(request: Request) -> str:
    """The writer's name: the one that it gives, or the program in its User-Agent."""
    agent = str(request.header(b"user-agent"), "latin-1").partition("/")[0]
    return (request.query("fieldManager") or agent or "unknown")[:128]


async def delete(registry: Registry, target: Target, request: Request) -> Answer:
    given = await _deletion(request)
    if target.subresource:
        raise MethodNotAllowed(f"DELETE is not possible on {request.path}")
    with registry.dry_run(given.is_dry):
        body = registry.delete(target.kind, target.namespace, target.name, given.meant())
        if target.kind is not kinds.POD and _is_gone(registry, target):
            return Answer(200, success({"kind": target.kind.plural, "name": target.name}))
        return Answer(200, body)


async def delete_all(registry: Registry, target: Target, request: Request) -> Answer:
    given = await _deletion(request)
    if target.kind is kinds.NAMESPACE or (target.kind.namespaced and not target.namespace):
        raise MethodNotAllowed(f"DELETE is not possible on {request.path}: delete within one namespace")
    labels, fields = request.query("labelSelector"), request.query("fieldSelector")
    with registry.dry_run(given.is_dry):
        deleted = registry.delete_collection(
            target.kind, target.namespace, given.meant(), labels=labels, fields=fields
        )
        return Answer(200, deleted.encode(target.kind))


async def _deletion(request: Request) -> options.Options:
    body = await request.body()
    if request.is_protobuf and body:
        body = msgspec.json.encode(protobuf.decode(body))
    return options.of_deletion(body, request.parameters)


def _is_gone(registry: Registry, target: Target) -> bool:
    try:
        registry.get(target.kind, target.namespace, target.name)
    except NotFound:
        return True
    return False


def _asks(request: Request) -> bool:
    """Whether the request wants to know of unknown fields."""
    return request.query("fieldValidation") in ("Strict", "Warn")


def _validated(kind: AnyKind, request: Request, paths: list[str]) -> Headers:
    """The headers of an answer to an object with these unknown fields. Raises BadRequest if it is strict."""
    if not paths:
        return (JSON,)
    if request.query("fieldValidation") == "Strict":
        raise BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: '
            f"strict decoding error: {message(paths)}"
        )
    return (JSON, *((b"warning", warning(message([path]))) for path in paths))
