"""Kubernetes' verbs on the store: the embedded API server without its HTTP side.

Every call except a watch is synchronous and runs in one transaction. A call that returns has been committed,
and calls that are made `together` are committed together. Arguments are JSON objects; results are the encoded
bytes that the store holds. The rules have one module each: admission, metadata, namespaces, patches,
deletion, binding, eviction, watching. This module reads and applies the rules; `objects` writes.

The callers are the HTTP API (`http_api`) and `LocalClient` (in process). All errors are `ApiError`s.
"""

import logging
import random
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Final

import msgspec

from muster.api import kinds
from muster.api.base import Object
from muster.embedded.api_errors import (
    AnyKind,
    already_exists,
    conflict,
    not_found,
    resource,
)
from muster.embedded.storage.aside import set_aside
from muster.embedded.storage.history import History
from muster.embedded.storage.past import Past
from muster.embedded.storage.snapshot import scan_at
from muster.embedded.storage.store import Store
from muster.embedded.verbs import (
    admission,
    binding,
    defaults,
    eviction,
    metadata,
    namespaces,
    ownership,
    patches,
    priority,
    quota,
    watching,
)
from muster.embedded.verbs.deletion import DeleteOptions, is_over
from muster.embedded.verbs.objects import BACKGROUND, Objects
from muster.embedded.verbs.pages import Listing, read_token, write_token
from muster.embedded.verbs.selectors import Selector
from muster.embedded.verbs.watching import Frame, Frames
from muster.kube.client import Patch
from muster.kube.clock import Clock, SystemClock
from muster.kube.errors import BadRequest, Expired, ServerError

log = logging.getLogger(__name__)

#: The field manager of writes that name none: muster's own.
MANAGER: Final = "muster"
_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
_ATTEMPTS: Final = 8  # to generate a free name
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])  # Any: JSON


class _Undone(Exception):
    """Ends the transaction of a dry run."""


class Registry:
    """Kubernetes' verbs on one store. If it is open for reading only, get, list and the history work."""

    def __init__(
        self, store: Store, *, clock: Clock | None = None, source: random.Random | None = None
    ) -> None:
        self.store = store
        self.history = History(store)
        self.past = Past(store)
        self._clock = clock or SystemClock()
        self._random = source or random.SystemRandom()
        self._objects = Objects(store, self.history, self.past, self._clock)
        if not store.read_only:
            self._start()

    def now(self) -> datetime:
        return self._clock.now()

    # Reading

    def get(self, kind: AnyKind, namespace: str, name: str) -> bytes:
        body = self.store.get(resource(kind), namespace if kind.namespaced else "", name)
        if body is None:
            raise not_found(kind, name)
        return body

    def list(
        self,
        kind: AnyKind,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        token: str = "",
        revision: int = 0,
    ) -> Listing:
        """One page of a list.

        Pages after the first, and those with a `revision`, show the state at that revision. Raises `Expired`
        if the store no longer keeps it.
        """
        selector = Selector(kind, labels, fields)
        after = ("", "")
        if token:
            revision, after = read_token(token)
        at = revision or self.store.revision
        if at > self.store.revision:
            raise Expired(f"Too large resource version: {at}, current: {self.store.revision}")
        namespace = namespace if kind.namespaced else ""
        items: list[bytes] = []
        for at_namespace, name, body in scan_at(self.store, resource(kind), namespace, after, at):
            if not selector.matches(body):
                continue
            if limit and len(items) == limit:
                remaining = None
                if selector.everything and at == self.store.revision:
                    remaining = self.store.count(resource(kind), namespace, after)
                return Listing(items, at, write_token(at, after), remaining)
            items.append(body)
            after = (at_namespace, name)
        return Listing(items, at)

    async def watch(
        self,
        kind: AnyKind,
        namespace: str = "",
        *,
        revision: int = 0,
        labels: str = "",
        fields: str = "",
        bookmarks: bool = True,
        timeout: float | None = None,
    ) -> AsyncIterator[Frames]:
        """Changes after `revision`; with 0, all current objects come first, as ADDED."""
        selector = Selector(kind, labels, fields)
        if not revision:
            listing = self.list(kind, namespace, labels=labels, fields=fields)
            revision = listing.revision
            if listing.items:
                yield [Frame("ADDED", revision, body) for body in listing.items]
        if revision > self.store.revision:
            raise Expired(f"Too large resource version: {revision}, current: {self.store.revision}")
        namespace = namespace if kind.namespaced else ""
        async for frames in watching.watch(
            self.store, kind, namespace, selector, revision, bookmarks=bookmarks, timeout=timeout
        ):
            yield frames

    # Writing

    @contextmanager
    def dry_run(self, dry: bool = True) -> Iterator[None]:
        """A dry run: writes within are checked and answered, and then undone. Without `dry` they are kept."""
        if not dry:
            yield
            return
        with suppress(_Undone), self.store.transaction():
            yield
            raise _Undone

    def create(
        self, kind: AnyKind, namespace: str, obj: Object, *, managed: ownership.Managed | None = None
    ) -> bytes:
        obj = admission.read(kind, obj)
        meta = obj["metadata"]
        namespace = namespaces.writable(self.store, kind, namespace)
        generated = not meta.get("name")
        name = meta["name"] = self._generated_name(kind, meta) if generated else meta["name"]
        if not isinstance(name, str):
            raise BadRequest(f"metadata.name is {name!r}, not a string")
        for attempt in range(_ATTEMPTS):
            if self.store.get(resource(kind), namespace, name) is None:
                break
            if not generated or attempt == _ATTEMPTS - 1:
                raise already_exists(kind, name)
            name = meta["name"] = self._generated_name(kind, meta)
        now = self._clock.now()
        metadata.stamp(kind, obj, namespace, uid=self._uid(), now=now)
        if managed is not None:
            meta["managedFields"] = managed
        obj = admission.complete(kind, name, obj)
        if kind in priority.OF:
            priority.admit(self.store, kind, obj)
        if kind is kinds.POD:
            defaults.admit(self.store, obj)
        elif kind is kinds.SERVICE_ACCOUNT:
            obj.pop("status", None)
        admission.check(kind, name, obj, None)
        quota.admit(self.store, kind, obj)
        with self.store.transaction():
            if kind is kinds.POD:
                obj["status"] = {"phase": "Pending"}
                if obj["spec"].get("nodeName"):
                    obj = self._assign(obj, obj["spec"]["nodeName"], {})
            if kind is kinds.EVENT:
                self._objects.bound_events()
            return self._objects.put(kind, obj, None, None)

    def update(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        obj: Object,
        *,
        subresource: str = "",
        manager: str = MANAGER,
    ) -> bytes:
        """Replaces an object (PUT). A resourceVersion or uid in `obj` is a precondition."""
        raw, current = self._load(kind, namespace, name)
        return self._replace(kind, raw, current, admission.read(kind, obj), subresource, manager)

    def apply(
        self, kind: AnyKind, namespace: str, name: str, config: Object, *, manager: str, force: bool
    ) -> bytes:
        """Applies a configuration (server-side apply); creates the object if there is none."""
        config = admission.read(kind, config)
        config["metadata"].setdefault("name", name)
        now = self._clock.now()
        if self.store.get(resource(kind), namespace if kind.namespaced else "", name) is None:
            _, managed = ownership.applied(kind, None, config, manager, force, now)
            return self.create(kind, namespace, config, managed=managed)
        raw, current = self._load(kind, namespace, name)
        new, managed = ownership.applied(kind, current, config, manager, force, now)
        new["metadata"].pop("resourceVersion", None)
        if version := config["metadata"].get("resourceVersion"):
            new["metadata"]["resourceVersion"] = version
        return self._replace(kind, raw, current, admission.read(kind, new), "", manager, managed)

    def patch(
        self, kind: AnyKind, namespace: str, name: str, patch: Patch, *, subresource: str = ""
    ) -> bytes:
        """Applies a merge patch (object) or JSON patch (list).

        A resourceVersion or uid that the patch sets in metadata is a precondition.
        """
        if not isinstance(patch, dict):
            return self.change(
                kind,
                namespace,
                name,
                lambda current: patches.apply(current, patch),
                subresource=subresource,
            )
        raw, current = self._load(kind, namespace, name)
        # what an update completes in place must not be part of `current`; a status is not completed
        base = current if subresource else _OBJECT.decode(raw)
        return self._replace(kind, raw, current, admission.merged(kind, base, patch), subresource, MANAGER)

    def change(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        *,
        subresource: str = "",
        manager: str = MANAGER,
    ) -> bytes:
        """Replaces an object by `change` of it. Metadata that it sets is a precondition, as in a patch."""
        raw, current = self._load(kind, namespace, name)
        return self._replace(kind, raw, current, admission.read(kind, change(current)), subresource, manager)

    def delete(self, kind: AnyKind, namespace: str, name: str, options: DeleteOptions = BACKGROUND) -> bytes:
        """Deletes an object; returns its last state, or the state in which it waits for its removal."""
        raw, current = self._load(kind, namespace, name)
        metadata.check_preconditions(
            kind, current, uid=options.uid, resource_version=options.resource_version
        )
        with self.store.transaction():
            if kind is kinds.NAMESPACE:
                return self._objects.delete_namespace(raw, current)
            return self._objects.delete(kind, raw, current, options)

    def delete_collection(
        self,
        kind: AnyKind,
        namespace: str,
        options: DeleteOptions = BACKGROUND,
        *,
        labels: str = "",
        fields: str = "",
    ) -> Listing:
        """Deletes all matching objects in one transaction; returns their states before."""
        with self.store.transaction():
            listing = self.list(kind, namespace, labels=labels, fields=fields)
            for raw in listing.items:
                self._objects.delete(kind, raw, _OBJECT.decode(raw), options)
        return listing

    def bind(self, namespace: str, name: str, obj: Object) -> bytes:
        """Binds a pod (POST pods/binding); returns the bound pod."""
        wanted = binding.read(name, obj)
        raw, pod = self._load(kinds.POD, namespace, name)
        metadata.check_preconditions(
            kinds.POD, pod, uid=wanted.metadata.uid, resource_version=wanted.metadata.resource_version
        )
        binding.check(pod)
        with self.store.transaction():
            bound = self._assign(pod, wanted.target.name, wanted.metadata.annotations)
            metadata.count_generation(kinds.POD, pod, bound)
            return self._objects.put(kinds.POD, bound, pod, raw)

    def evict(self, namespace: str, name: str, obj: Object) -> bytes:
        """Evicts a pod (POST pods/eviction); returns the pod waiting for its removal, or its last state."""
        options, dry = eviction.options(name, obj)
        raw, pod = self._load(kinds.POD, namespace, name)
        metadata.check_preconditions(
            kinds.POD, pod, uid=options.uid, resource_version=options.resource_version
        )
        if eviction.needs_budget(pod):
            scan = self._objects.scan
            eviction.check(pod, scan(kinds.PDB, namespace), scan(kinds.POD, namespace))
        if "deletionTimestamp" not in pod["metadata"]:
            disrupted = eviction.disrupted(pod, self._clock.now())
        else:
            disrupted = pod
        with self.dry_run(dry), self.store.transaction():
            return self._objects.delete(kinds.POD, raw, disrupted, options, before=pod)

    def together(self, writes: Sequence[Callable[[], bytes]]) -> Iterable[bytes | Exception]:
        """Makes calls of the methods above and commits them together; each succeeds or is refused by itself.

        A commit costs as much as two writes. If the commit fails, or one write breaks it for all, each write
        is repeated in a transaction of its own, so that each caller gets its own outcome.
        """
        if len(writes) > 1:
            try:
                with self.store.transaction():
                    return [_outcome(write, ServerError) for write in writes]
            except Exception as error:
                log.warning("%d writes are made one by one: %s", len(writes), error)
        return [_outcome(write) for write in writes]

    # Steps of the above

    def _start(self) -> None:
        with self.store.transaction():
            set_aside(self.store)
            for name in namespaces.PERMANENT:
                if self.store.get("namespaces", "", name) is None:
                    self.create(kinds.NAMESPACE, "", {"metadata": {"name": name}})
            for raw, obj in quota.uncounted(self.store):
                self._objects.put(kinds.RESOURCE_QUOTA, obj, obj, raw)

    def _load(self, kind: AnyKind, namespace: str, name: str) -> tuple[bytes, Object]:
        raw = self.get(kind, namespace, name)
        return raw, _OBJECT.decode(raw)

    def _generated_name(self, kind: AnyKind, meta: Object) -> str:
        base = meta.get("generateName")
        if not isinstance(base, str) or not base:
            raise BadRequest(f"a {kind.kind} needs metadata.name or metadata.generateName")
        return base[:58] + "".join(self._random.choices(_SUFFIX, k=5))

    def _uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _replace(
        self,
        kind: AnyKind,
        raw: bytes,
        current: Object,
        proposed: Object,
        subresource: str,
        manager: str,
        managed: ownership.Managed | None = None,
    ) -> bytes:
        given, name = proposed["metadata"], current["metadata"]["name"]
        if given.get("name", name) != name:
            raise BadRequest(
                f"the name of the object ({given['name']}) does not match the name on the URL ({name})"
            )
        if given.get("namespace") not in (None, "", current["metadata"].get("namespace")):
            raise BadRequest("the namespace of the object does not match the namespace on the URL")
        metadata.check_preconditions(
            kind, current, uid=given.get("uid"), resource_version=given.get("resourceVersion")
        )
        typed = None
        if subresource:
            new = metadata.carry_over(kind, current, proposed, subresource)
            typed = admission.check_status(kind, name, new, current)
        else:
            given |= {"name": name, "uid": current["metadata"]["uid"]}  # some defaults derive from these
            proposed = admission.complete(kind, name, proposed, current)
            new = metadata.carry_over(kind, current, proposed, subresource)
            if managed is not None:
                new["metadata"]["managedFields"] = managed
            elif "managedFields" in current["metadata"]:
                fields = ownership.updated(kind, current, new, manager, self._clock.now())
                new["metadata"]["managedFields"] = fields
            if metadata.equal(new, current):
                return raw
            same = new.get("spec") == current.get("spec")
            admission.check(kind, name, new, current if same else admission.earlier(kind, raw))
            metadata.count_generation(kind, current, new)
        if metadata.equal(new, current):
            return raw
        with self.store.transaction():
            if is_over(new):
                return self._objects.remove(kind, new, current, raw)
            return self._objects.put(kind, new, current, raw, typed)

    def _assign(self, pod: Object, node_name: str, annotations: dict[str, str]) -> Object:
        node = self.store.get("nodes", "", node_name)
        if node is None:
            raise conflict(
                kinds.POD, pod["metadata"]["name"], f'node "{node_name}" does not exist', "binding"
            )
        address = self._objects.allot_address()
        return binding.assign(pod, node_name, node, address, annotations, self._clock.now())


def _outcome(write: Callable[[], bytes], *fatal: type[Exception]) -> bytes | Exception:
    try:
        return write()
    except fatal:
        raise
    except Exception as error:  # returned to the caller of this write
        return error
