"""Which proxy a look-up uses, and which credentials the proxy sees."""

import asyncio
import base64
from contextlib import suppress

import pytest
from yarl import URL

from muster.security.images import proxies, reference
from muster.security.images.connections import Connections
from muster.security.images.proxies import Proxies, UnusableProxy, choose
from muster.security.images.registry import Registry, RegistryError

PROXY = "http://proxy.example.com:3128"
BOTH = {"https": PROXY, "http": "http://plain.example.com:80"}
CHOSEN: dict[str, tuple[str, Proxies, str | None]] = {
    "https": ("https://ghcr.io/v2/", BOTH, PROXY),
    "http": ("http://ghcr.io/v2/", BOTH, "http://plain.example.com"),
    "another scheme's": ("https://ghcr.io/v2/", {"http": PROXY}, None),
    "none": ("https://ghcr.io/v2/", {}, None),
    "without a scheme": ("https://ghcr.io/v2/", {"https": "proxy.example.com:3128"}, PROXY),
    "NO_PROXY: the host": ("https://ghcr.io/v2/", BOTH | {"no": "quay.io, ghcr.io"}, None),
    "NO_PROXY: a domain": ("https://eu.ghcr.io/v2/", BOTH | {"no": ".ghcr.io"}, None),
    "NO_PROXY: the host and its port": ("https://ghcr.io:5000/v2/", BOTH | {"no": "ghcr.io:5000"}, None),
    "NO_PROXY: another port": ("https://ghcr.io:5000/v2/", BOTH | {"no": "ghcr.io:5001"}, PROXY),
    "NO_PROXY: a pattern": ("https://eu.ghcr.io/v2/", BOTH | {"no": ",*.ghcr.io"}, None),
    "NO_PROXY: all": ("https://ghcr.io/v2/", BOTH | {"no": "*"}, None),
    "NO_PROXY: a network": ("https://10.1.2.3/v2/", BOTH | {"no": "10.0.0.0/8"}, None),
    "NO_PROXY: another network": ("https://11.1.2.3/v2/", BOTH | {"no": "10.0.0.0/8,x/y"}, PROXY),
    "NO_PROXY: the end of a name is no domain": (
        "https://evilghcr.io/v2/",
        BOTH | {"no": "ghcr.io"},
        PROXY,
    ),
    "this machine": ("https://127.0.0.1:5000/v2/", BOTH, None),
    "this machine by name": ("http://localhost:5000/v2/", BOTH, None),
}


@pytest.mark.parametrize(("url", "known", "expected"), CHOSEN.values(), ids=CHOSEN)
def test_the_proxy_of_a_request(url: str, known: Proxies, expected: str | None) -> None:
    found = choose(URL(url), known)
    assert (str(found.url).rstrip("/") if found is not None else None) == expected


def test_credentials_without_tls_pass_no_proxy() -> None:
    assert choose(URL("http://tokens.internal/"), BOTH, secret=True) is None
    assert choose(URL("https://ghcr.io/"), BOTH, secret=True) is not None


@pytest.mark.parametrize("named", ["socks5://u:secret@p:1080", "http://", "http://u:secret@[", "ftp://p"])
def test_a_proxy_that_cannot_be_used_is_named_without_its_password(named: str) -> None:
    with pytest.raises(UnusableProxy, match="HTTPS_PROXY is not an http") as told:
        choose(URL("https://ghcr.io/"), {"https": named})
    assert "secret" not in str(told.value)


def test_the_environment_counts_in_capitals_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    monkeypatch.setenv("no_proxy", "ghcr.io")
    known = proxies.of_environment()
    assert choose(URL("https://ghcr.io/"), known) is None
    assert choose(URL("https://quay.io/"), known) is not None


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
