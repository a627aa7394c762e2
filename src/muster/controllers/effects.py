"""The effects that a reconcile function may return. `muster.controllers.driver` carries them out in order."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from muster.api.base import Kind, Object
from muster.kube.client import Patch as Document
from muster.kube.client import Propagation

AnyKind = Kind[Any]  # Any: effects are lists over many kinds


@dataclass(frozen=True, slots=True)
class Record:
    """An Event about an object, recorded once the effects before it have succeeded."""

    about: Object = field(repr=False)  # {apiVersion, kind, namespace, name, uid}
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Create:
    """An object to create; it is success if the object exists already, with the same controller.

    `refused` is recorded, with the server's message added, if the server refuses the object.
    """

    kind: AnyKind
    namespace: str
    body: Object
    refused: Record | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch to apply; it is success if the object is gone. Make it conditional by `resourceVersion`."""

    kind: AnyKind
    namespace: str
    name: str
    body: Document
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """An object to delete; `uid` protects a successor of the same name."""

    kind: AnyKind
    namespace: str
    name: str
    uid: str
    propagation: Propagation = "Background"
    grace_period: int | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """A check at the server itself: continue only if no object of this uid exists; otherwise start over."""

    kind: AnyKind
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Requeue:
    """Reconciles this object again at `at`, even if nothing changes."""

    at: datetime


Effect = Create | Patch | Delete | Absent | Record | Requeue
