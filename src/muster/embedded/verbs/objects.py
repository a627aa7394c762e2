"""Writes and removes whole objects, each with its consequences in the same transaction.

Each write is charged to the ResourceQuotas of its namespace. The write of a pod is recorded in its history,
and its removal frees its address. A removed object is recorded among past objects. A namespace that is being
deleted is removed with its last object. The oldest Event objects are removed if there are too many. The
registry decides what to write; this module does not check it.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from muster.api import kinds
from muster.api.base import Object, Resource
from muster.api.core_v1 import Pod
from muster.embedded.api_errors import AnyKind, forbidden, resource
from muster.embedded.storage.history import History
from muster.embedded.storage.past import Past
from muster.embedded.storage.store import Store
from muster.embedded.verbs import namespaces, quota
from muster.embedded.verbs.addresses import Addresses
from muster.embedded.verbs.deletion import DeleteOptions, mark
from muster.kube.clock import Clock

#: Most Event objects kept; the oldest are removed first.
EVENTS: Final = 10_000
#: Deletes an object and leaves its dependents to the garbage collector, as requests do by default.
BACKGROUND: Final = DeleteOptions(propagation="Background")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])  # Any: JSON


class Objects:
    """The objects of one store. Call everything that writes within a transaction."""

    def __init__(self, store: Store, history: History, past: Past, clock: Clock) -> None:
        self._store, self._history, self._past, self._clock = store, history, past, clock
        #: the pods' addresses in use, built from the pods at first use
        self._addresses: Addresses | None = None
        self._events = 0  # Event objects created since they were last counted
        store.undone.append(self._forget)

    def scan(self, kind: AnyKind, namespace: str = "") -> Iterator[Object]:
        for _, _, body in self._store.scan(resource(kind), namespace):
            yield _OBJECT.decode(body)

    def put(
        self,
        kind: AnyKind,
        obj: Object,
        old: Object | None,
        raw: bytes | None,
        typed: Resource | None = None,
    ) -> bytes:
        """Writes `obj`, whose stored state was `old` (`raw`). `typed`: the struct, if the caller has it."""
        meta = obj["metadata"] = dict(obj["metadata"])
        if kind is kinds.POD:
            assert isinstance(typed, Pod | None)
            self._history.record(obj, old, self._clock.now(), typed)
        elif kind is kinds.RESOURCE_QUOTA:
            obj["status"] = quota.status(self._store, obj)
        quota.charge(self._store, kind, meta.get("namespace", ""), obj, old)
        return self._store.put(resource(kind), meta.get("namespace", ""), meta["name"], obj, raw)

    def remove(self, kind: AnyKind, obj: Object, old: Object, raw: bytes) -> bytes:
        """Removes an object in its last state `obj`; its stored state was `old` (`raw`)."""
        meta = obj["metadata"] = dict(obj["metadata"])
        namespace, name = meta.get("namespace", ""), meta["name"]
        if kind is kinds.POD:
            self._history.close(obj, old, self._clock.now())
            if self._addresses is not None:
                self._addresses.free((obj.get("status") or {}).get("podIP", ""))
        self._past.close(kind, obj, self._clock.now())
        body = self._store.remove(resource(kind), namespace, name, obj, raw)
        quota.charge(self._store, kind, namespace, None, old)
        if namespace and namespaces.is_closing(self._store, namespace):
            self._finish_namespace(namespace)
        return body

    def delete(
        self,
        kind: AnyKind,
        raw: bytes,
        current: Object,
        options: DeleteOptions,
        before: Object | None = None,
    ) -> bytes:
        """Deletes an object; returns its last state, or the state in which it waits for its removal.

        `before` is the stored state (`raw`), if `current` differs from it already.
        """
        before = before or current
        marked, gone = mark(kind, current, options, self._clock.now())
        if gone:
            return self.remove(kind, marked, before, raw)
        return raw if marked == before else self.put(kind, marked, before, raw)

    def delete_namespace(self, raw: bytes, current: Object) -> bytes:
        """Closes a namespace to new objects and deletes all objects in it; it is removed after the last."""
        name = current["metadata"]["name"]
        if name in namespaces.PERMANENT:
            raise forbidden(kinds.NAMESPACE, name, "this namespace may not be deleted")
        marked, _ = mark(kinds.NAMESPACE, current, BACKGROUND, self._clock.now())
        marked["status"] = {**(current.get("status") or {}), "phase": "Terminating"}
        if marked != current:
            raw = self.put(kinds.NAMESPACE, marked, current, raw)
        for kind in kinds.ALL:
            if kind.namespaced:
                for _, _, body in list(self._store.scan(resource(kind), name)):
                    self.delete(kind, body, _OBJECT.decode(body), BACKGROUND)
        return self._finish_namespace(name) or raw

    def bound_events(self) -> None:
        """Removes the oldest Event objects if there are too many; call it before each new one."""
        self._events += 1
        if self._events % 256 == 1 and self._store.count("events") > EVENTS:
            oldest = self._store.execute(
                "SELECT body FROM objects WHERE kind = 'events' ORDER BY revision LIMIT ?", (EVENTS // 8,)
            ).fetchall()
            for (raw,) in oldest:
                event = _OBJECT.decode(raw)
                self.remove(kinds.EVENT, event, event, raw)

    def allot_address(self) -> str:
        """Returns an address that no pod has; the removal of the pod that stores it frees it."""
        if self._addresses is None:
            self._addresses = Addresses(
                (pod.get("status") or {}).get("podIP", "") for pod in self.scan(kinds.POD)
            )
        return self._addresses.allot()

    def _forget(self) -> None:
        """Forgets the addresses in use, because a write has been undone."""
        self._addresses = None

    def _finish_namespace(self, name: str) -> bytes | None:
        """Removes a namespace if no object and no finalizer is left in it; returns its last state."""
        if any(kind.namespaced and self._store.count(resource(kind), name) for kind in kinds.ALL):
            return None
        raw = self._store.get("namespaces", "", name)
        if raw is None:
            return None
        current = _OBJECT.decode(raw)
        if current["metadata"].get("finalizers"):
            return None
        return self.remove(kinds.NAMESPACE, current, current, raw)
