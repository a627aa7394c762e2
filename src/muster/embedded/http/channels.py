"""`kubectl exec` and `cp`: a command's streams over one WebSocket, subprotocol `v5.channel.k8s.io` or v4.

Each message is binary. Its first byte is the channel: 0 stdin, 1 stdout, 2 stderr, 3 the outcome (`Status`),
4 the size of the terminal (JSON), 255 the end of the channel that the second byte names (v5 only).

Source: kubernetes/apimachinery, pkg/util/remotecommand; KEP-4006.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

import msgspec

from muster.api import kinds
from muster.api.base import Object
from muster.embedded.http.answer import Answer, Send
from muster.embedded.http.request import Receive, Request, Target
from muster.embedded.verbs.containers import meant
from muster.embedded.verbs.registry import Registry
from muster.kube.clock import first
from muster.kube.errors import ApiError, BadRequest

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, OUTCOME, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
#: Most arguments of a command, and most bytes of them.
MOST: Final = (10_000, 128 * 1024)


class Size(msgspec.Struct, frozen=True):
    width: int = msgspec.field(name="Width", default=0)
    height: int = msgspec.field(name="Height", default=0)


class Running(Protocol):
    """A running command (`muster.embedded.node.execution`)."""

    def output(self) -> AsyncIterator[tuple[int, bytes]]: ...

    async def write(self, data: bytes) -> None: ...

    def end_stdin(self) -> None: ...

    def resize(self, columns: int, rows: int) -> None: ...

    async def exit_code(self) -> int: ...

    async def close(self) -> None: ...


class Executor(Protocol):
    """Starts commands in containers: the node agent."""

    async def execute(
        self, pod_uid: str, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> Running:
        """Raises BadRequest if the container does not run here, or the command cannot be started."""
        ...


async def serve(
    registry: Registry, executor: Executor, target: Target, request: Request, receive: Receive, send: Send
) -> None:
    """Runs the command of a request until it ends or the client leaves. Raises BadRequest."""
    offered: list[str] = request.subprotocols
    protocol = next((each for each in PROTOCOLS if each in offered), None)
    if protocol is None:
        raise BadRequest(f"none of the subprotocols {', '.join(offered) or '(none)'} is {PROTOCOLS[0]}")
    try:
        running = await _started(registry, executor, target, request)
    except ApiError as error:  # told here, because kubectl would try another protocol if the handshake failed
        await send({"type": "websocket.accept", "subprotocol": protocol})
        await _end(error.as_status(), send)
        return
    try:
        await send({"type": "websocket.accept", "subprotocol": protocol})
        await _converse(running, request, receive, send)
    finally:
        await running.close()


async def _started(registry: Registry, executor: Executor, target: Target, request: Request) -> Running:
    command = request.parameters.get("command", [])
    if not command or len(command) > MOST[0] or sum(map(len, command)) > MOST[1]:
        raise BadRequest("you must specify at least 1 command for the container, of at most 128 KiB")
    pod = msgspec.json.decode(registry.get(kinds.POD, target.namespace, target.name))
    return await executor.execute(
        pod["metadata"]["uid"],
        meant(pod, request.query("container")),
        command,
        stdin=request.flag("stdin"),
        tty=request.flag("tty"),
    )


async def _converse(running: Running, request: Request, receive: Receive, send: Send) -> None:
    with suppress(OSError):
        await first(_print(running, request, send), _listen(running, receive))


async def _print(running: Running, request: Request, send: Send) -> None:
    """Sends what the command prints and how it ended, and closes the connection."""
    wanted = {channel for channel, name in ((STDOUT, "stdout"), (STDERR, "stderr")) if request.flag(name)}
    async for channel, data in running.output():
        if channel in wanted:
            await send({"type": "websocket.send", "bytes": bytes([channel]) + data})
    await _end(_status(await running.exit_code()), send)


async def _end(outcome: Object, send: Send) -> None:
    await send({"type": "websocket.send", "bytes": bytes([OUTCOME]) + msgspec.json.encode(outcome)})
    await send({"type": "websocket.close", "code": 1000})


async def _listen(running: Running, receive: Receive) -> None:
    """Passes on what the client sends; returns when the client has left."""
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        data: bytes = message.get("bytes") or b""
        if data[:1] == bytes([STDIN]):
            await running.write(data[1:])
        elif data == bytes([CLOSE, STDIN]):
            running.end_stdin()
        elif data[:1] == bytes([RESIZE]):
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                size = msgspec.json.decode(data[1:], type=Size)
                if size.width > 0 and size.height > 0:
                    running.resize(size.width, size.height)


def _status(code: int) -> Object:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def refuse(answer: Answer, send: Send) -> None:
    """Answers the handshake, instead of opening the connection."""
    head = {"type": "websocket.http.response.start", "status": answer.status, "headers": [*answer.headers]}
    await send(head)
    await send({"type": "websocket.http.response.body", "body": answer.body})
