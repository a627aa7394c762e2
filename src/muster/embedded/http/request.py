"""One HTTP request to the embedded cluster: its headers, its query, its body, each read within bounds."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote

import msgspec

from muster.api import kinds
from muster.api.base import Kind
from muster.api.fields import TOO_DEEP, too_deep
from muster.embedded.http import protobuf
from muster.embedded.verbs import options
from muster.kube.errors import BadRequest, NotFound, TooLarge

# Any: ASGI's messages are open dictionaries
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

#: Largest request body in bytes: etcd's default of 1.5 MiB with room for the encoding.
LARGEST: Final = 3 * 2**20


class Disconnected(Exception):
    """The client disconnected in the middle of its request."""


class Request:
    """One HTTP request: its headers, its query, its body."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope.get("method", "GET")  # a WebSocket has none
        self.subprotocols: list[str] = scope.get("subprotocols", [])
        self.path: str = scope["path"]
        self._headers: dict[bytes, bytes] = dict(scope["headers"])
        self.parameters = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        self._receive = receive

    def header(self, name: bytes) -> bytes:
        return self._headers.get(name, b"")

    def query(self, name: str) -> str:
        values: list[str] = self.parameters.get(name, [""])
        return values[-1]

    def flag(self, name: str) -> bool:
        return self.query(name).lower() in ("1", "true")

    def number(self, name: str) -> int | None:
        text = self.query(name)
        if not text:
            return None
        if not text.isdecimal() or len(text) > 18:
            raise BadRequest(f"{name}={text} is not a whole number from 0 to 10^18")
        return int(text)

    @property
    def dry_run(self) -> bool:
        return options.is_dry(self.parameters.get("dryRun", ()))

    @property
    def media_type(self) -> str:
        given = str(self.header(b"content-type"), "latin-1")
        return given.partition(";")[0].strip().lower()

    @property
    def is_protobuf(self) -> bool:
        return self.media_type == protobuf.MEDIA

    async def body(self) -> bytes:
        declared = self.header(b"content-length")
        if declared.isdigit() and int(declared) > LARGEST:
            raise TooLarge(f"the body has {int(declared)} bytes; the limit is {LARGEST}")
        chunks, size = [], 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > LARGEST:
                raise TooLarge(f"the body is larger than the limit of {LARGEST} bytes")
            if not message.get("more_body"):
                return b"".join(chunks)

    async def json(self, type_: type[Any] = dict) -> Any:
        """The body, JSON or protobuf, as a JSON value of type `type_`. Any: the user may send any content."""
        body = await self.body()
        try:
            value = protobuf.decode(body) if self.is_protobuf else msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadRequest(f"the body is not JSON: {error}") from None
        if not isinstance(value, type_):
            what = "a JSON object" if type_ is dict else "a list of operations"
            raise BadRequest(f"the body is not {what}")
        if not self.is_protobuf and too_deep(body, value):
            raise BadRequest(f"the body {TOO_DEEP}")
        return value


class Target(NamedTuple):
    """The object or collection that a path names."""

    kind: Kind[Any]  # Any: a kind out of the table of all kinds
    namespace: str
    name: str
    subresource: str


def target_of(path: str) -> Target:
    """The target of a path such as `/api/v1/namespaces/ns/pods/name/log`."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise NotFound(f"{path} is not served here")
    namespace = ""
    # namespaces/NS is an object itself, and the prefix of the paths of all objects in it
    if rest[0] == "namespaces" and len(rest) > 2 and (group, rest[2]) != ("", "status"):
        namespace, rest = rest[1], rest[2:]
    kind = kinds.BY_PLURAL.get((group, version, rest[0]))
    if kind is None or len(rest) > 3 or (namespace and not kind.namespaced):
        raise NotFound("the server could not find the requested resource")
    name, subresource = (*rest[1:], "", "")[:2]
    if name and kind.namespaced and not namespace:
        raise NotFound(f"{kind.plural} are in namespaces; write …/namespaces/NS/{kind.plural}/{name}")
    return Target(kind, namespace, name, subresource)
