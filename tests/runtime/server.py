"""A deterministic API server for crash tests: small, without a loop, and with the semantics that matter here.

Resource versions, uids, preconditions, merge patches, status as a subresource, binding, finalizers, and pods
that take their time to end. Each write can be made to fail: refused, or unanswered with or without effect.
Every client call that writes gives way once after it has taken effect (`Pause`), so that a
test that drives a leader's coroutine can stop it after any single write, for good or for a while.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn, TypeVar

import msgspec

from muster.api import kinds
from muster.api.base import Kind, Object, Resource
from muster.api.rules.claims import update_status
from muster.kube.client import Page, Patch, Propagation
from muster.kube.errors import INAPPLICABLE, AlreadyExists, Conflict, Invalid, NotFound, Unanswered

AnyKind = Kind[Any]  # Any: one server for all kinds
CPU_OF_A_POD = 1
T = TypeVar("T")


class Pause:
    """Awaited by a client after each write; drives nothing by itself."""

    def __await__(self) -> Generator["Pause", None, None]:
        yield self


@dataclass
class Server:
    time: float = 0.0
    objects: dict[tuple[AnyKind, str], Object] = field(default_factory=dict)
    #: what was read, with what it was read from
    typed: dict[tuple[AnyKind, str], tuple[Object, Resource]] = field(default_factory=dict)
    revision: int = 0
    #: all changes, in order: what watches tell
    log: list[tuple[AnyKind, str, Resource | None]] = field(default_factory=list)
    #: called after every change
    watch: Callable[[], None] = lambda: None

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    def read(self, kind: Kind[Any], key: str) -> Any:  # Any: of the kind
        obj = self.objects[kind, key]
        before = self.typed.get((kind, key))
        if before is None or before[0] is not obj:
            before = self.typed[kind, key] = (obj, msgspec.convert(obj, kind.type))
        return before[1]

    def all(self, kind: Kind[Any]) -> list[Any]:  # Any: of the kind
        return [self.read(kind, key) for of, key in list(self.objects) if of is kind]

    def create(self, kind: AnyKind, namespace: str, body: Object) -> Any:  # Any: of the kind
        obj = _renewed(body)
        meta = obj["metadata"]
        if kind.namespaced:
            meta["namespace"] = namespace
        key = f"{namespace}/{meta['name']}" if kind.namespaced else meta["name"]
        if (kind, key) in self.objects:
            raise AlreadyExists(key)
        meta["uid"] = f"uid-{self.revision + 1}"
        meta["creationTimestamp"] = self.now().isoformat()
        self._store(kind, key, obj)
        return self.read(kind, key)

    def patch(self, kind: AnyKind, key: str, patch: Patch, subresource: str = "") -> Any:  # Any: of the kind
        old = self.json(kind, key)
        if isinstance(patch, list):
            new = operated(old, patch)
            if new != old:
                self._store(kind, key, _renewed(new))
            return self.read(kind, key)
        meta = patch.get("metadata", {})
        self._check(old, meta.get("uid", ""), meta.get("resourceVersion", ""))
        new = _renewed(old)
        for name, value in patch.items():
            if not kind.status or (name == "status") == (subresource == "status"):
                new[name] = merged(new.get(name), value) if name != "metadata" else new["metadata"]
        if subresource != "status":
            for name in _OF_METADATA & meta.keys():
                new["metadata"][name] = merged(new["metadata"].get(name), meta[name])
                if new["metadata"][name] is None:
                    del new["metadata"][name]
            if "deletionTimestamp" in new["metadata"] and _lets_go(new, old):
                self.end(kind, key)
                return msgspec.convert(new, kind.type)
        if kind is kinds.RESOURCE_CLAIM and subresource == "status" and (wrong := update_status(new, old)):
            raise Invalid(str(wrong))
        if new != old:
            self._store(kind, key, new)
        return self.read(kind, key)

    def delete(self, kind: AnyKind, key: str, uid: str = "", version: str = "") -> None:
        """A pod on a node goes only when `end` says that its node has let it go."""
        obj = self.json(kind, key)
        self._check(obj, uid, version)
        held = obj["metadata"].get("finalizers") or (kind is kinds.POD and obj["spec"].get("nodeName"))
        if not held:
            self.end(kind, key)
        elif "deletionTimestamp" not in obj["metadata"]:
            new = _renewed(obj)
            new["metadata"]["deletionTimestamp"] = self.now().isoformat()
            self._store(kind, key, new)

    def end(self, kind: AnyKind, key: str) -> None:
        del self.objects[kind, key]
        self.revision += 1
        self.log.append((kind, key, None))
        self.watch()

    def bind(self, key: str, binding: Object) -> None:
        old = self.json(kinds.POD, key)
        meta = binding["metadata"]
        self._check(old, meta["uid"], meta["resourceVersion"])
        if old["spec"].get("nodeName") or "deletionTimestamp" in old["metadata"]:
            raise Conflict(f"pod {key} is bound or going")
        new = _renewed(old)
        new["spec"] = {**old["spec"], "nodeName": binding["target"]["name"]}
        new["metadata"]["annotations"] = {**old["metadata"].get("annotations", {}), **meta["annotations"]}
        self._store(kinds.POD, key, new)

    def json(self, kind: AnyKind, key: str) -> Object:
        if (kind, key) not in self.objects:
            raise NotFound(f"{kind.kind} {key}")
        return self.objects[kind, key]

    def _check(self, obj: Object, uid: str, version: str) -> None:
        meta = obj["metadata"]
        if (uid and uid != meta["uid"]) or (version and version != meta["resourceVersion"]):
            raise Conflict(f"{meta['name']}: not as it was")

    def _store(self, kind: AnyKind, key: str, obj: Object) -> None:
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        self.objects[kind, key] = obj
        self.log.append((kind, key, self.read(kind, key)))
        self.watch()


#: What of an object's metadata a patch may change.
_OF_METADATA = frozenset({"annotations", "finalizers"})


def _lets_go(new: Object, old: Object) -> bool:
    """Whether a patch has removed the last finalizer of an object."""
    return bool(old["metadata"].get("finalizers")) and not new["metadata"].get("finalizers")


def _renewed(obj: Object) -> Object:
    """A copy to be stored, of which only the top and the metadata may be changed in place."""
    return {**obj, "metadata": dict(obj["metadata"])}


def operated(old: Object, patch: list[Object]) -> Object:
    """RFC 6902: tests, additions and removals of fields, at most two names deep. Raises `Invalid`."""
    new = dict(old)
    for operation in patch:
        *outer, last = operation["path"][1:].split("/")
        inside = new
        for name in outer:
            if name not in inside:
                raise Invalid(f"{INAPPLICABLE}: there is no {name}")
            inside[name] = dict(inside[name])
            inside = inside[name]
        match operation["op"]:
            case "test" if last not in inside or inside[last] != operation["value"]:
                raise Invalid(f"{INAPPLICABLE}: {last} is not {operation['value']}")
            case "add":
                inside[last] = operation["value"]
            case "remove" if last not in inside:
                raise Invalid(f"{INAPPLICABLE}: there is no {last}")
            case "remove":
                del inside[last]
    return new


def merged(old: Any, patch: Any) -> Any:  # Any: JSON
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


#: Decides the fate of a write before it is made: an error, and whether it takes effect all the same.
Fault = Callable[[str, AnyKind, str], tuple[Exception, bool] | None]


@dataclass
class ServerClient:
    """`muster.kube.client.Client` as far as a leader's writes go; reads come by the mirror."""

    server: Server
    fault: Fault = lambda verb, kind, key: None
    #: writes that took effect: verb, kind and key
    accepted: list[tuple[str, AnyKind, str]] = field(default_factory=list)

    async def create(self, kind: AnyKind, namespace: str, obj: Object) -> Any:  # Any: of the kind
        key = f"{namespace}/{obj['metadata']['name']}"
        return await self._do("create", kind, key, lambda: self.server.create(kind, namespace, obj))

    async def patch(
        self, kind: AnyKind, namespace: str, name: str, patch: Patch, *, subresource: str = ""
    ) -> Any:  # Any: of the kind
        key = f"{namespace}/{name}" if kind.namespaced else name
        return await self._do("patch", kind, key, lambda: self.server.patch(kind, key, patch, subresource))

    async def delete(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period: int | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        key = f"{namespace}/{name}"
        await self._do("delete", kind, key, lambda: self.server.delete(kind, key, uid, resource_version))

    async def bind(self, namespace: str, name: str, binding: Object) -> None:
        key = f"{namespace}/{name}"
        await self._do("bind", kinds.POD, key, lambda: self.server.bind(key, binding))

    async def _do(self, verb: str, kind: AnyKind, key: str, write: Callable[[], T]) -> T:
        fate = self.fault(verb, kind, key)
        if fate is None or fate[1]:
            try:
                answer = write()
                self.accepted.append((verb, kind, key))
            finally:
                await Pause()
        if fate is not None:
            raise fate[0]
        return answer

    def _unread(self, *args: Any, **named: Any) -> NoReturn:
        raise AssertionError("a leader reads through its mirror")

    async def dry_create(self, kind: AnyKind, namespace: str, obj: Object) -> Object:
        return obj

    async def get_json(self, kind: AnyKind, namespace: str, name: str) -> Object:
        return self.server.json(kind, f"{namespace}/{name}")

    async def get(self, kind: AnyKind, namespace: str, name: str) -> Any:  # Any: of the kind
        self.server.json(kind, f"{namespace}/{name}")
        return self.server.read(kind, f"{namespace}/{name}")

    list = watch = evict = log = _unread

    async def close(self) -> None: ...


def lost() -> Exception:
    return Unanswered("no answer")


__all__ = ["CPU_OF_A_POD", "Fault", "Page", "Pause", "Server", "ServerClient", "lost", "merged"]
