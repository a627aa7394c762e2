"""Which addresses muster connects to on behalf of jobs: decided when a connection is made, by its address."""

import socket
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from muster.kube.proxies import Proxies
from muster.security.images.connections import Connections
from muster.security.images.reference import parse
from muster.security.images.registry import Registry, RegistryError
from tests.patience import PATIENCE
from tests.security.images.fakes import Store
from tests.security.images.test_verify import serving


class Names(AbstractResolver):
    """Resolves names as a test says, one answer after the other; the last one stays."""

    def __init__(self, **names: Sequence[str]) -> None:
        self.names = {name.replace("_", "."): list(answers) for name, answers in names.items()}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        answers = self.names[host]
        address = answers.pop(0) if len(answers) > 1 else answers[0]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        found = {"hostname": host, "host": address, "port": port, "family": family, "proto": 0}
        return [ResolveResult(**found, flags=socket.AI_NUMERICHOST)]  # type: ignore[typeddict-item]

    async def close(self) -> None:
        pass


async def refusal(
    registry: str, resolver: AbstractResolver | None = None, *, loopback: bool = True, **proxies: str
) -> str:
    """What asking a registry for an image says."""
    async with Connections(loopback=loopback, resolver=resolver) as connections:
        asking = Registry(connections, proxies=proxies, timeout=PATIENCE)
        with pytest.raises(RegistryError) as told:
            await asking.manifest(parse(f"{registry}/team/app:v1"), "v1")
        return str(told.value)


LINK_LOCAL = [
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "::ffff:a9fe:a9fe",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "fd00:ec2::254",
    "100.100.100.200",
]
LOOPBACK = ["127.0.0.1", "127.8.8.8", "::1", "0.0.0.0", "::", "::ffff:7f00:1"]


@pytest.mark.parametrize("address", LINK_LOCAL)
async def test_link_local_addresses_are_never_connected_to_by_whatever_name(address: str) -> None:
    written = f"[{address}]" if ":" in address else address
    assert "muster never connects to it" in await refusal(written)
    assert "muster never connects to it" in await refusal("r.example.com", Names(r_example_com=[address]))
    assert "muster never connects to it" in await refusal(written, https="http://127.0.0.1:1")


@pytest.mark.parametrize("address", LOOPBACK)
async def test_this_machine_is_connected_to_only_if_that_is_configured(address: str) -> None:
    written = f"[{address}]:1" if ":" in address else f"{address}:1"
    assert "batchJobs.loopbackRegistries" in await refusal(written, loopback=False)
    names = Names(r_example_com=[address])
    assert "batchJobs.loopbackRegistries" in await refusal("r.example.com", names, loopback=False)
    assert "batchJobs.loopbackRegistries" in await refusal(
        "localhost", Names(localhost=[address]), loopback=False
    )


async def test_a_registry_on_this_machine_that_is_configured_is_read() -> None:
    store = Store()
    digest = store.image("v1")
    async with serving(store.application()) as host, Connections(loopback=True) as connections:
        assert (await Registry(connections).manifest(parse(f"{host}/app:v1"), "v1")).digest == digest


class Public(Connections):
    """Takes the registry that a test serves on this machine for one with a public address."""

    def inside(self, host: str) -> bool:
        return False


async def led(location: str, resolver: AbstractResolver, made: type[Connections]) -> str:
    """What a registry's redirect to `http://LOCATION:PORT` leads to; PORT is the registry's own."""

    async def away(request: web.Request) -> web.StreamResponse:
        if request.host.startswith("127.0.0.1"):
            port = request.host.rpartition(":")[2]
            raise web.HTTPTemporaryRedirect(f"http://{location}:{port}/elsewhere")
        return web.Response(text="it was connected to")

    application = web.Application()
    application.router.add_get("/{path:.*}", away)
    async with serving(application) as host, made(loopback=True, resolver=resolver) as connections:
        with pytest.raises(RegistryError) as told:
            await Registry(connections).manifest(parse(f"{host}/app:v1"), "v1")
        return str(told.value)


async def test_a_redirect_leads_inside_of_the_network_only_from_inside_whatever_its_name() -> None:
    names = Names(storage_example_com=["127.0.0.1"])
    assert "is not JSON" in await led("storage.example.com", names, Connections)
    assert "is inside of this network" in await led("storage.example.com", names, Public)
    assert "an address inside of this network" in await led("10.0.0.1", names, Public)


async def test_a_redirect_never_leads_to_link_local_addresses() -> None:
    names = Names(storage_example_com=["169.254.169.254"])
    for made in (Connections, Public):
        assert "muster never connects to it" in await led("storage.example.com", names, made)
    assert "muster never connects to it" in await led("169.254.169.254", names, Connections)


async def test_a_token_service_is_inside_of_the_network_only_if_the_registry_is() -> None:
    names = Names(auth_example_com=["10.0.0.1"])

    async def challenge(request: web.Request) -> web.StreamResponse:
        headers = {"WWW-Authenticate": 'Bearer realm="https://auth.example.com/token"'}
        return web.Response(status=401, headers=headers)

    application = web.Application()
    application.router.add_get("/{path:.*}", challenge)
    async with serving(application) as host, Public(loopback=True, resolver=names) as connections:
        with pytest.raises(RegistryError, match=r"10\.0\.0\.1 is inside of this network"):
            await Registry(connections).manifest(parse(f"{host}/app:v1"), "v1")


async def test_a_host_that_has_had_a_public_address_stays_outside() -> None:
    """Otherwise its owner could let its name lead inside, so that its redirects may, too."""
    names = Names(r_example_com=["127.0.0.1", "203.0.113.7", "8.8.8.8", "127.0.0.1"])
    async with Connections(loopback=True, resolver=names) as connections:
        seen = []
        for _ in range(4):
            resolver: Any = connections._direct.connector
            await resolver._resolver.resolve("r.example.com")
            seen.append(connections.inside("r.example.com"))
    assert seen == [True, True, False, False], "203.0.113.0/24 is for documentation"


PROXY: Proxies = {"https": "http://10.0.0.1:3128"}


async def test_a_proxy_may_be_inside_of_the_network() -> None:
    """The administrator chose it; what it resolves is for it to refuse."""
    async with Connections(loopback=False) as connections:
        assert connections._proxied.connector is not connections._direct.connector
        url, none = URL("https://10.0.0.9/v2/"), dict[str, str]()
        from muster.kube.proxies import choose

        proxy = choose(url, PROXY)
        with pytest.raises(OSError, match="is inside of this network"):
            connections.get(url, none, proxy, onward=True)
        request = connections.get(url, none, proxy, onward=False)
        request.close()  # type: ignore[attr-defined]
