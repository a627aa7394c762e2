"""Lists of any length, page by page: neither we nor the server hold one answer as large as a cluster."""

from typing import Final, TypeVar

from muster.api.base import Kind, Resource
from muster.kube.client import Client, Page
from muster.kube.errors import NotFound

R = TypeVar("R", bound=Resource)

#: Objects per request.
PAGE: Final = 2000


async def everything(
    client: Client, kind: Kind[R], namespace: str = "", *, labels: str = "", fields: str = ""
) -> Page[R]:
    """All objects of a kind as of the revision of the first page. Raises what `Client.list` raises."""
    items: list[R] = []
    token, version = "", ""
    while True:
        page = await client.list(kind, namespace, labels=labels, fields=fields, limit=PAGE, token=token)
        items += page.items
        version = version or page.resource_version
        token = page.token
        if not token:
            return Page(items, version)


async def every(client: Client, kind: Kind[R], namespace: str = "") -> list[R]:
    """All objects of a kind; none on a cluster that does not know it: without our kinds, or somebody's."""
    try:
        return (await everything(client, kind, namespace)).items
    except NotFound:
        return []
