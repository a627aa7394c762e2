"""Lists of any length, read page by page, so that no single answer is as large as the cluster."""

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
    """All objects of a kind; none if the cluster does not know the kind (its definition is not installed)."""
    try:
        return (await everything(client, kind, namespace)).items
    except NotFound:
        return []
