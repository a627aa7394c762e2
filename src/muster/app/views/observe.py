"""Reads the current state of a cluster once."""

import asyncio
from collections.abc import Sequence

from muster.api.kinds import HIDDEN
from muster.kube.client import Client
from muster.kube.errors import Forbidden, NotFound
from muster.kube.listing import list_all
from muster.runtime.mirror import WATCHED
from muster.workloads.snapshot import AnyKind, Objects


async def observe(client: Client, kinds: Sequence[AnyKind] = WATCHED) -> Objects:
    """All objects that the scheduler would watch. Raises Forbidden with all kinds that may not be listed."""
    found = Objects()
    denied: dict[str, Forbidden] = {}
    pages = await asyncio.gather(*(list_all(client, kind) for kind in kinds), return_exceptions=True)
    for kind, page in zip(kinds, pages, strict=True):
        match page:
            case NotFound():  # the cluster lacks muster's kinds, or another project's
                found.absent.append(kind)
            case Forbidden() if kind in HIDDEN:
                found.hidden.append(kind)
            case Forbidden():
                denied[f"{kind.plural}.{kind.group}".rstrip(".")] = page
            case BaseException():
                raise page
            case _:
                for resource in page.items:
                    found.add(kind, resource)
    if denied:
        (_, first), *others = denied.items()
        too = f"; nor may it list {', '.join(name for name, _ in others)}" if others else ""
        raise Forbidden(f"{first.message}{too}")
    return found
