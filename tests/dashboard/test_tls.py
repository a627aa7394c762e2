"""The certificate of the pages on a cluster: served, refused, and renewed."""

import asyncio
import os
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from muster.dashboard import server
from muster.dashboard.tls import BadCertificate, Certificate
from tests.patience import PATIENCE


def made(directory: Path, name: str) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that it signs itself, and its key."""
    chain, key = directory / f"{name}.crt", directory / f"{name}.key"
    how = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    who = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", *how, *who, "-out", str(chain), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    return chain, key


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return made(tmp_path, "first")


async def answered(port: int, trusted: Path) -> bytes:
    context = ssl.create_default_context(cafile=str(trusted))
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        found = await reader.read()
        writer.close()
        return found


async def test_pages_are_served_with_it_and_with_the_next_one(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    async def page(request: Request) -> Response:
        return PlainTextResponse(request.url.scheme)

    app: Any = Starlette(routes=[Route("/", page)])  # Any: an application
    one = Certificate(*pair)
    async with server.serving(lambda port: app, 0, tls=one.context) as port:
        assert (await answered(port, pair[0])).endswith(b"https")
        later = made(tmp_path, "second")
        for old, new in zip(pair, later, strict=True):
            os.utime(new, (4e9, 4e9))
            os.replace(new, old)
            one.renew()  # also between the two: the old pair is served
        assert (await answered(port, pair[0])).endswith(b"https")


def test_what_is_no_certificate_is_refused_and_a_bad_one_does_not_replace_a_good_one(
    tmp_path: Path, pair: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    chain, key = pair
    other = made(tmp_path, "other")[1]
    for bad in ((chain, other), (key, chain), (tmp_path / "none", key), (tmp_path, key)):
        with pytest.raises(BadCertificate, match=r"cannot be read|no certificate and its key"):
            Certificate(*bad)
    one = Certificate(chain, key)
    key.write_text("damaged")
    os.utime(key, (4e9, 4e9))
    one.renew()
    assert "the certificate is as it was" in caplog.text
