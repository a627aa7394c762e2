"""What writes need to know of namespaces: which exist, which accept new objects, which always exist."""

from typing import Any, Final

import msgspec

from muster.api import kinds
from muster.embedded.api_errors import AnyKind, forbidden, not_found, resource
from muster.embedded.storage.store import Store
from muster.kube.errors import BadRequest

#: Namespaces that always exist and cannot be deleted.
PERMANENT: Final = ("default", "kube-system")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])  # Any: JSON


def writable(store: Store, kind: AnyKind, namespace: str) -> str:
    """The namespace of a new object; "" for a cluster-wide kind.

    Raises BadRequest, NotFound or Forbidden unless the namespace is named, exists, and is not being deleted.
    """
    if not kind.namespaced:
        return ""
    if not namespace:
        raise BadRequest(f"{resource(kind)} live in a namespace, and none is named")
    closing = store.derived("namespaces", _closing).get(namespace)
    if closing is None:
        raise not_found(kinds.NAMESPACE, namespace)
    if closing:
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = {"reason": "NamespaceTerminating", "message": why, "field": "metadata.namespace"}
        raise forbidden(kind, "", why, [cause])
    return namespace


def is_closing(store: Store, namespace: str) -> bool:
    """Whether a namespace is being deleted; it is removed after its last object."""
    return store.derived("namespaces", _closing).get(namespace, False)


def _closing(store: Store) -> dict[str, bool]:
    """All namespaces, and whether they are being deleted."""
    return {
        name: "deletionTimestamp" in _OBJECT.decode(body)["metadata"]
        for _, name, body in store.scan("namespaces")
    }
