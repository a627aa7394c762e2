"""Lists of any length, read page by page, so that no single answer is as large as the cluster."""

from collections.abc import Callable
from typing import Final, TypeVar

from muster.api.base import Kind, Resource
from muster.kube.client import Client, Page
from muster.kube.errors import NotFound, Unanswered

R = TypeVar("R", bound=Resource)

#: Objects per request.
PAGE: Final = 2000


async def list_all(
    client: Client,
    kind: Kind[R],
    namespace: str = "",
    *,
    labels: str = "",
    fields: str = "",
    missing_ok: bool = False,
    progress: Callable[[int], None] = lambda read: None,
) -> Page[R]:
    """Returns all objects of a kind as of the revision of the first page. Raises what `Client.list` raises.

    `missing_ok`: a kind that the cluster does not know (its definition is not installed) has no objects.
    `progress` is called with the number of objects read, after each page.
    """
    items: list[R] = []
    token, version = "", ""
    while True:
        try:
            page = await client.list(kind, namespace, labels=labels, fields=fields, limit=PAGE, token=token)
        except NotFound:
            if not missing_ok:
                raise
            return Page([], "")
        items += page.items
        progress(len(items))
        version = version or page.resource_version
        if token and page.token == token:
            raise Unanswered(f"the list of {kind.plural} does not end: a page names itself as the next one")
        token = page.token
        if not token:
            return Page(items, version)
