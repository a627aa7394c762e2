"""Looks up a job's images in their registries, with the credentials of the user's container tools."""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from muster.compiler.facts import Image
from muster.kube import proxies
from muster.security.images import credentials
from muster.security.images.connections import Connections
from muster.security.images.reference import InvalidReference
from muster.security.images.registry import Registry, RegistryError
from muster.security.images.trust import TrustPolicy
from muster.security.images.verify import look_up

#: What pods of the cluster run on.
_PLATFORM: Final = ("linux", "amd64")
_AT_A_TIME: Final = 8


def looker(policies: Sequence[TrustPolicy]) -> Callable[[Sequence[str]], Mapping[str, Image]]:
    """A function that looks images up. An image that cannot be looked up is not trusted, with the reason."""

    def look(images: Sequence[str]) -> Mapping[str, Image]:
        return asyncio.run(_all(images, policies))

    return look


async def _all(images: Sequence[str], policies: Sequence[TrustPolicy]) -> Mapping[str, Image]:
    several = asyncio.Semaphore(_AT_A_TIME)
    async with Connections(loopback=True) as connections:
        registry = Registry(connections, _credentials(), proxies=proxies.of_environment())

        async def one(image: str) -> Image:
            async with several:
                try:
                    return (await look_up(image, registry, policies, _PLATFORM)).image
                except (InvalidReference, RegistryError) as error:
                    return Image("", trusted=False, reason=str(error))

        found = await asyncio.gather(*map(one, images))
    return dict(zip(images, found, strict=True))


def _credentials() -> dict[str, tuple[str, str]]:
    """Registry → (user, password), from Docker's configuration."""
    directory = os.environ.get("DOCKER_CONFIG") or str(Path.home() / ".docker")
    try:
        with (Path(directory) / "config.json").open("rb") as file:
            return credentials.read(file.read(credentials.MOST))
    except OSError:
        return {}
