"""A small API server in memory, for tests of controllers: `Memory` is the store, `MemoryClient` the client.

It knows resource versions, uids, finalizers, propagation, merge and JSON patches, preconditions and watches.
Faults are injected by `MemoryClient.fault`, a delayed watch by clearing `MemoryClient.flowing`.
"""

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import jsonpatch
import msgspec

from muster.api.base import AnyKind, Kind, Object, Resource
from muster.controllers.caches import Caches, Index
from muster.effects import Absent, Create, Delete, Effect, Patch, RecordEvent
from muster.kube.client import EVERYTHING, EventType, LogOptions, Page, Propagation, WatchEvent
from muster.kube.client import Patch as Document
from muster.kube.errors import INAPPLICABLE, AlreadyExists, Conflict, Expired, Invalid, NotFound

R = TypeVar("R", bound=Resource)
START = datetime(2026, 1, 1, tzinfo=UTC)


class Memory:
    def __init__(self, now: Callable[[], datetime] = lambda: START) -> None:
        self.now = now
        self.objects: dict[tuple[AnyKind, str], Object] = {}
        self.revision = 0
        self.history: list[tuple[int, AnyKind, EventType, Object]] = []
        self.forgotten = 0  # watches from before this revision are refused
        self.changed = asyncio.Event()

    def read(self, kind: Kind[R], key: str) -> R:
        return msgspec.convert(self.json(kind, key), kind.type)

    def json(self, kind: AnyKind, key: str) -> Object:
        if (kind, key) not in self.objects:
            raise NotFound(f'{kind.plural} "{key}" not found')
        return self.objects[kind, key]

    def all(self, kind: Kind[R]) -> list[R]:
        return [self.read(kind, key) for of, key in sorted(self.objects, key=lambda k: k[1]) if of is kind]

    def caches(self, kinds: Sequence[AnyKind], indexes: Sequence[Index] = ()) -> Caches:
        """Caches that show exactly what is there now."""
        caches = Caches(kinds, indexes)
        for cache in caches:
            for item in self.all(cache.kind):
                cache.change(None, item)
            cache.progress(str(self.revision))
        return caches

    def create(self, kind: AnyKind, namespace: str, body: Object) -> Object:
        obj = copy.deepcopy(body)
        meta = obj.setdefault("metadata", {})
        name = meta.get("name") or f"{meta['generateName']}{self.revision:05}"
        key = f"{namespace}/{name}" if kind.namespaced else name
        if (kind, key) in self.objects:
            raise AlreadyExists(f'{kind.plural} "{name}" already exists')
        meta |= {
            "name": name,
            "uid": f"uid-{self.revision + 1}",
            "creationTimestamp": self.now().isoformat(),
        }
        if kind.namespaced:
            meta["namespace"] = namespace
        obj |= {"apiVersion": kind.api_version, "kind": kind.kind}
        self._write(kind, key, EventType.ADDED, obj)
        return obj

    def patch(
        self, kind: AnyKind, namespace: str, name: str, patch: Document, subresource: str = ""
    ) -> Object:
        key = f"{namespace}/{name}" if kind.namespaced else name
        old = self.json(kind, key)
        if isinstance(patch, list):
            try:
                new: Object = jsonpatch.apply_patch(old, patch)
            except jsonpatch.JsonPatchTestFailed as error:
                raise Invalid(f"{INAPPLICABLE}: {error}") from None
        else:
            for field in ("uid", "resourceVersion"):
                wanted = patch.get("metadata", {}).get(field)
                if wanted and wanted != old["metadata"][field]:
                    raise Conflict(f"{field} is {old['metadata'][field]}, not {wanted}")
            new = merge(old, patch)
        if subresource == "status":
            new = {**old, "status": new.get("status", {})}
        elif kind.status and "status" in old:
            new["status"] = old["status"]
        elif kind.status:
            new.pop("status", None)
        if new == old and repr(new) == repr(old):  # 1 is not true
            return old
        meta = new["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            del self.objects[kind, key]
            self._write(kind, key, EventType.DELETED, new)
        else:
            self._write(kind, key, EventType.MODIFIED, new)
        return new

    def delete(
        self, kind: AnyKind, namespace: str, name: str, uid: str = "", propagation: Propagation = "Background"
    ) -> None:
        key = f"{namespace}/{name}" if kind.namespaced else name
        old = self.json(kind, key)
        if uid and old["metadata"]["uid"] != uid:
            raise Conflict(f"uid is {old['metadata']['uid']}, not {uid}")
        finalizers = [
            name
            for name in old["metadata"].get("finalizers", [])
            if name not in ("foregroundDeletion", "orphan")
        ]
        if propagation != "Background":
            finalizers.append("foregroundDeletion" if propagation == "Foreground" else "orphan")
        if not finalizers:
            del self.objects[kind, key]
            self._write(kind, key, EventType.DELETED, copy.deepcopy(old))
            return
        marked = merge(old, {"metadata": {"finalizers": finalizers}})
        marked["metadata"].setdefault("deletionTimestamp", self.now().isoformat())
        if marked != old:
            self._write(kind, key, EventType.MODIFIED, marked)

    def apply(self, effects: Sequence[Effect]) -> list[RecordEvent]:
        """Carries out effects as the driver does, and answers the Events they would have recorded."""
        events: list[RecordEvent] = []
        for effect in effects:
            match effect:
                case Create(kind, namespace, body):
                    with contextlib.suppress(AlreadyExists):
                        self.create(kind, namespace, body)
                case Patch(kind, namespace, name, body, subresource):
                    with contextlib.suppress(NotFound):
                        self.patch(kind, namespace, name, body, subresource)
                case Delete(kind, namespace, name, uid, propagation):
                    with contextlib.suppress(NotFound, Conflict):
                        self.delete(kind, namespace, name, uid, propagation)
                case Absent(kind, namespace, name, uid):
                    found = self.objects.get((kind, f"{namespace}/{name}" if namespace else name))
                    if found and (not uid or found["metadata"]["uid"] == uid):
                        raise Conflict(f"{name} is still there")
                case RecordEvent():
                    events.append(effect)
        return events

    def _write(self, kind: AnyKind, key: str, type_: EventType, obj: Object) -> None:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        if type_ is not EventType.DELETED:
            self.objects[kind, key] = obj
        self.history.append((self.revision, kind, type_, copy.deepcopy(obj)))
        self.changed.set()
        self.changed = asyncio.Event()


class MemoryClient:
    """The client of `Memory`. `fault(operation, kind, name)` may answer an exception to raise; raised before
    the write takes effect, or after it if `fault_after` answers it."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.calls: list[tuple[str, str, str]] = []
        self.fault: Callable[[str, AnyKind, str], Exception | None] = lambda operation, kind, name: None
        self.fault_after: Callable[[str, AnyKind, str], Exception | None] = lambda operation, kind, name: None
        self.blind: AnyKind | None = None  # a kind whose changes no watch tells
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.under_way = 0
        self.most_under_way = 0

    async def get(self, kind: Kind[R], namespace: str, name: str) -> R:
        await self._before("get", kind, name)
        return self.memory.read(kind, f"{namespace}/{name}" if kind.namespaced else name)

    async def get_json(self, kind: Kind[R], namespace: str, name: str) -> Object:
        return self.memory.json(kind, f"{namespace}/{name}" if kind.namespaced else name)

    async def list(
        self,
        kind: Kind[R],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        token: str = "",
    ) -> Page[R]:
        await self._before("list", kind, "")
        found = self.memory.all(kind)
        return Page(
            items=[item for item in found if namespace in ("", item.metadata.namespace)],
            resource_version=str(self.memory.revision),
        )

    async def watch(
        self,
        kind: Kind[R],
        namespace: str = "",
        *,
        resource_version: str,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[WatchEvent[R]]:
        seen = int(resource_version)
        if seen < self.memory.forgotten:
            raise Expired("too old")
        while True:
            await self.flowing.wait()
            changed = self.memory.changed
            news = self.memory.history[seen:]  # each revision is one entry
            for _, of, type_, obj in news:
                if of is kind and kind is not self.blind:
                    await self.flowing.wait()
                    yield WatchEvent(type_, msgspec.convert(obj, kind.type))
            seen += len(news)
            if changed is self.memory.changed:
                await changed.wait()

    async def dry_create(self, kind: Kind[R], namespace: str, obj: Object) -> Object:
        raise AssertionError("controllers make no dry runs")

    async def create(self, kind: Kind[R], namespace: str, obj: Object) -> R:
        name = obj["metadata"].get("name", "")
        await self._before("create", kind, name)
        made = self.memory.create(kind, namespace, obj)
        self._after("create", kind, name)
        return msgspec.convert(made, kind.type)

    async def patch(
        self, kind: Kind[R], namespace: str, name: str, patch: Document, *, subresource: str = ""
    ) -> R:
        await self._before("patch", kind, name)
        made = self.memory.patch(kind, namespace, name, patch, subresource)
        self._after("patch", kind, name)
        return msgspec.convert(made, kind.type)

    async def delete(
        self,
        kind: Kind[R],
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period: int | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        await self._before("delete", kind, name)
        self.memory.delete(kind, namespace, name, uid, propagation)
        self._after("delete", kind, name)

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        raise AssertionError("controllers do not bind")

    async def evict(self, namespace: str, name: str, eviction: Object) -> None:
        raise AssertionError("controllers do not evict")

    def log(
        self, namespace: str, name: str, *, container: str = "", how: LogOptions = EVERYTHING
    ) -> AsyncIterator[bytes]:
        raise AssertionError("controllers do not read logs")

    async def close(self) -> None:
        pass

    async def _before(self, operation: str, kind: AnyKind, name: str) -> None:
        self.calls.append((operation, kind.plural, name))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(0.01)  # of the loop's own, virtual time
        self.under_way -= 1
        error = self.fault(operation, kind, name)
        if error is not None:
            raise error

    def _after(self, operation: str, kind: AnyKind, name: str) -> None:
        error = self.fault_after(operation, kind, name)
        if error is not None:
            raise error


def merge(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    merged = copy.deepcopy(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged
