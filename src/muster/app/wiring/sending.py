"""Tells one event to the address of `--notify`: a program of this machine, or a URL.

A program is started without a shell, in a session of its own, with the few variables of the submitting shell
that it may need. It gets the event on standard input and as variables; exit code 0 means told. When it ends
or is stopped, what it has left running in its process group is killed. A URL gets the event by POST. Any 2xx
means told; redirects are not followed, and an answer's body is not read.
"""

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

import msgspec

#: Variables of the submitting shell that a program gets; those for messages on a desktop are among them.
_PASSED: Final = (
    *("PATH", "HOME", "LANG"),
    *("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"),
)
#: Characters of `--notify`.
LONGEST: Final = 4_096
#: Seconds within which a killed program is reaped, unless the kernel holds it.
_REAPED: Final = 1.0


class Url(msgspec.Struct, frozen=True, tag="url"):
    url: str

    def __str__(self) -> str:
        """Without what may be secret: chat services put a key into the path."""
        return urlsplit(self.url).hostname or "a URL"


class Program(msgspec.Struct, frozen=True, tag="program"):
    #: the first is an absolute path
    words: tuple[str, ...]
    #: where it was named; elsewhere if that is gone
    directory: str
    variables: dict[str, str]

    def __str__(self) -> str:
        return self.words[0]


Address = Url | Program


def address(given: str, directory: str, environment: Mapping[str, str]) -> Address:
    """What `--notify` names, given in this directory and environment. Raises ValueError."""
    if not given.isprintable() or len(given) > LONGEST:
        raise ValueError(f"write a command or a URL of printable characters, at most {LONGEST:,}")
    scheme, separator, _ = given.partition("://")
    if separator and scheme.isalnum():
        return Url(_url(given))
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise ValueError(f"{str(error).lower()}: write a command, with quotes that match, or a URL") from None
    if not words or not words[0]:
        raise ValueError("write a command or a URL")
    program = shutil.which(words[0], path=environment.get("PATH", os.defpath))
    if program is None:
        raise ValueError(f"there is no program {words[0]}; for a shell line write: sh -c '…'")
    passed = {name: value for name in _PASSED if (value := environment.get(name, "")).isprintable() and value}
    return Program((os.path.join(directory, program), *words[1:]), directory, passed)


def _url(given: str) -> str:
    try:
        parts = urlsplit(given)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and " " not in given
    except ValueError:
        known = False
    if not known:
        raise ValueError("write an http:// or https:// URL with a host")
    return given


async def send(to: Address, body: bytes, variables: Mapping[str, str]) -> str:
    """Tells the event; returns "", or why it is not told. The caller limits the time.

    `body`: the event as JSON; `variables`: for a program.
    """
    try:
        return await (_post(to, body) if isinstance(to, Url) else _run(to, body, variables))
    except Exception as error:  # whatever a server or a system does: the next attempt may succeed
        return f"{type(error).__name__}: {error}"


async def _post(to: Url, body: bytes) -> str:
    import aiohttp

    headers = {"Content-Type": "application/json"}
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
        session.post(to.url, data=body, headers=headers, allow_redirects=False) as answer,
    ):
        if 200 <= answer.status < 300:
            return ""
        followed = "; redirects are not followed" if 300 <= answer.status < 400 else ""
        return f"the server answered {answer.status}{followed}"


async def _run(to: Program, body: bytes, variables: Mapping[str, str]) -> str:
    directory = to.directory if await asyncio.to_thread(os.path.isdir, to.directory) else "/"
    with tempfile.TemporaryFile() as event:  # a pipe could fill up, or be held open
        event.write(body)
        event.seek(0)
        process = await asyncio.create_subprocess_exec(
            *to.words,
            stdin=event,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=directory,
            env={**to.variables, **variables},
            start_new_session=True,
        )
    try:
        code = await process.wait()
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(_REAPED):
                await process.wait()
    return "" if code == 0 else f"the command ended with exit code {code}"
