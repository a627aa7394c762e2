"""What the proxy of a look-up sees."""

import asyncio
import base64
from contextlib import suppress

import pytest

from muster.security.images import reference
from muster.security.images.connections import Connections
from muster.security.images.registry import Registry, RegistryError


async def test_the_proxy_gets_its_own_credentials_and_no_others() -> None:
    """It opens a tunnel: what goes through that, such as the token of the registry, is encrypted."""
    heard: list[str] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(proxy, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    image = reference.parse("registry.example.com/team/app:v1")
    async with server, Connections(loopback=False) as connections:
        known = {"https": f"http://me:hidden@127.0.0.1:{port}"}
        registry = Registry(connections, {"registry.example.com": ("alice", "sesame")}, proxies=known)
        registry._tokens[("registry.example.com", "repository:team/app:pull")] = "Bearer token-of-alice"
        with pytest.raises(RegistryError) as told:
            await registry.manifest(image, "v1")
    [request] = heard
    assert request.startswith("CONNECT registry.example.com:443 HTTP/1.1\r\n")
    own = base64.b64encode(b"me:hidden").decode()
    assert f"Proxy-Authorization: Basic {own}" in request
    assert "token-of-alice" not in request
    assert "hidden" not in str(told.value)


async def test_a_proxy_that_cannot_be_used_is_a_reason_that_an_image_is_not_known() -> None:
    async with Connections(loopback=False) as connections:
        registry = Registry(connections, proxies={"https": "socks5://p:1080"})
        with pytest.raises(RegistryError, match="HTTPS_PROXY is not an http:// or https:// URL"):
            await registry.manifest(reference.parse("ghcr.io/team/app:v1"), "v1")
