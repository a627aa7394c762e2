"""The errors of the embedded API server, in Kubernetes' words."""

from typing import Any

from muster.api.base import Kind, Object
from muster.api.fields import Finding, dotted
from muster.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound

AnyKind = Kind[Any]  # Any: of objects of any type


def resource(kind: AnyKind) -> str:
    """A kind's name in Kubernetes' messages (`pods`, `jobs.batch`), which is also its key in the store."""
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def not_found(kind: AnyKind, name: str) -> NotFound:
    return NotFound(f'{resource(kind)} "{name}" not found', details=_details(kind, name))


def already_exists(kind: AnyKind, name: str) -> AlreadyExists:
    return AlreadyExists(f'{resource(kind)} "{name}" already exists', details=_details(kind, name))


def conflict(kind: AnyKind, name: str, why: str, subresource: str = "") -> Conflict:
    what = f"{resource(kind)}/{subresource}" if subresource else resource(kind)
    return Conflict(f'Operation cannot be fulfilled on {what} "{name}": {why}', details=_details(kind, name))


def modified(kind: AnyKind, name: str) -> Conflict:
    return conflict(
        kind,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def forbidden(kind: AnyKind, name: str, why: str, causes: list[Object] | None = None) -> Forbidden:
    details = _details(kind, name) | ({"causes": causes} if causes else {})
    return Forbidden(f'{resource(kind)} "{name}" is forbidden: {why}', details=details)


def invalid(kind: AnyKind, name: str, errors: list[Finding]) -> Invalid:
    texts = [str(error) for error in errors]
    what = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [
        {"reason": "FieldValueInvalid", "message": error.message, "field": dotted(error.path)}
        for error in errors
    ]
    details = {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes}
    return Invalid(f'{kind.kind} "{name}" is invalid: {what}', details=details)


def _details(kind: AnyKind, name: str) -> Object:
    return {"name": name, "group": kind.group, "kind": kind.plural}
