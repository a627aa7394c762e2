"""Telling an event to a program or a URL, whatever these do."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.app.wiring.sending import LONGEST, Address, Program, Url, address, send
from tests.patience import PATIENCE
from tests.tiers import examples

BODY = b'{"event":"end"}'
VARIABLES = {"MUSTER_EVENT": "end", "MUSTER_MESSAGE": "$(touch evil); 'loss' is NaN"}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Url]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield Url(f"http://127.0.0.1:{runner.addresses[0][1]}/hook/key")
    finally:
        await runner.cleanup()


async def test_a_url_gets_the_event_as_json() -> None:
    got = list[tuple[str, str, str, bytes]]()

    async def accept(request: web.Request) -> web.Response:
        got.append((request.method, request.path, request.content_type, await request.read()))
        return web.Response(status=204)

    async with serving(accept) as to:
        assert await send(to, BODY, VARIABLES) == ""
    assert got == [("POST", "/hook/key", "application/json", BODY)]


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 404, 429, 500, 503])
async def test_an_answer_that_is_no_success_is_one_request_and_no_more(status: int) -> None:
    paths = list[str]()

    async def refuse(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.Response(status=status, headers={"Location": "/elsewhere", "Set-Cookie": "a=b"})

    async with serving(refuse) as to:
        told = await send(to, BODY, VARIABLES)
    followed = "; redirects are not followed" if status < 400 else ""
    assert (told, paths) == (f"the server answered {status}{followed}", ["/hook/key"])


async def test_an_answer_without_end_is_not_read() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        with suppress(ConnectionError):
            while True:
                await answer.write(bytes(1 << 16))
        return answer

    async with asyncio.timeout(PATIENCE), serving(endless) as to:
        assert await send(to, BODY, VARIABLES) == ""


async def test_a_server_that_talks_nonsense_or_is_not_there_is_a_failure() -> None:
    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\0\xff" * 100_000)
        writer.close()

    server = await asyncio.start_server(nonsense, "127.0.0.1", 0)
    to = Url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    async with server:
        assert await send(to, BODY, VARIABLES)
    await server.wait_closed()
    assert await send(to, BODY, VARIABLES)


async def test_a_server_that_never_answers_is_left_when_the_time_is_over() -> None:
    asked = asyncio.Event()

    async def silent(request: web.Request) -> web.Response:
        asked.set()
        await asyncio.Event().wait()
        return web.Response()

    async with asyncio.timeout(PATIENCE), serving(silent) as to:
        sending = asyncio.create_task(send(to, BODY, VARIABLES))
        await asked.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending


def program(directory: Path, script: str) -> Address:
    (directory / "tell").write_text(f"#!/bin/sh\n{script}\n")
    (directory / "tell").chmod(0o700)
    return address("./tell 'two words'", str(directory), os.environ)


async def test_a_program_gets_the_event_on_standard_input_and_as_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN", "secret")
    to = program(tmp_path, 'cat > body; printf "%s" "$1" > word; env > env; exit 0')
    assert await send(to, BODY, VARIABLES) == ""
    assert (tmp_path / "body").read_bytes() == BODY
    assert (tmp_path / "word").read_text() == "two words"
    variables = dict(line.partition("=")[::2] for line in (tmp_path / "env").read_text().splitlines())
    assert VARIABLES.items() <= variables.items()
    assert variables["PATH"] == os.environ["PATH"]
    assert "TOKEN" not in variables
    assert not (tmp_path / "evil").exists()


async def test_a_program_that_fails_or_is_gone_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    to = program(tmp_path, "exit 3")
    assert await send(to, BODY, VARIABLES) == "the command ended with exit code 3"
    (tmp_path / "tell").unlink()
    assert "No such file" in await send(to, BODY, VARIABLES)
    elsewhere = Program(("/bin/sh", "-c", "test $PWD = /"), str(tmp_path / "gone"), {})
    assert await send(elsewhere, BODY, VARIABLES) == ""


def exists(pid: int) -> bool:
    """Whether the process exists, and has not ended: whose child it was may not have asked for it yet."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110  # another process makes it true
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("ends", [True, False])
async def test_a_program_that_forks_leaves_nothing_whether_it_ends_or_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    fork = "trap '' TERM HUP; (trap '' TERM HUP; sleep 1000) & echo $! > new; mv new child"
    to = program(tmp_path, f"{fork}; {'exit 0' if ends else 'wait'}")
    sending = asyncio.create_task(send(to, BODY, VARIABLES))
    await until((tmp_path / "child").exists)
    if ends:
        async with asyncio.timeout(PATIENCE):
            assert await sending == ""
    else:
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    child = int((tmp_path / "child").read_text())
    try:
        await until(lambda: not exists(child))
    finally:
        if exists(child):
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "write a command or a URL"),
        ("''", "write a command or a URL"),
        ("nosuch-program train", "there is no program nosuch-program; for a shell line write: sh -c"),
        ("tell 'unbalanced", "quotes that match"),
        ("ftp://host/x", "write an http:// or https:// URL with a host"),
        ("file:///etc/passwd", "write an http:// or https:// URL with a host"),
        ("http://", "write an http:// or https:// URL with a host"),
        ("http://host:99999/", "write an http:// or https:// URL with a host"),
        ("http://[::1/", "write an http:// or https:// URL with a host"),
        ("http://host/a b", "write an http:// or https:// URL with a host"),
        ("http://host/\nX: y", "of printable characters"),
        ("sh\0", "of printable characters"),
        ("sh \udcff", "of printable characters"),
        ("x" * (LONGEST + 1), "at most 4,096"),
    ],
)
def test_what_is_neither_a_command_nor_a_url_is_answered_with_what_to_write(given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        address(given, "/", {"PATH": "/bin:/usr/bin"})


@settings(max_examples=examples(300))
@given(st.text(max_size=40).map("{}".format) | st.text(max_size=40).map("http://{}".format))
def test_any_text_is_an_address_that_is_kept_as_it_is_or_an_error(given: str) -> None:
    try:
        found = address(given, "/", {"PATH": "/bin", "DISPLAY": "\udcff"})
    except ValueError:
        return
    assert msgspec.json.decode(msgspec.json.encode(found), type=Address) == found
    assert json.loads(msgspec.json.encode(found))["type"] == ("url" if isinstance(found, Url) else "program")


def test_an_address_is_named_without_its_key() -> None:
    assert str(Url("https://user:password@hooks.example.com/services/KEY?token=KEY")) == "hooks.example.com"
