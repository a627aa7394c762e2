"""The informers of one process: one reflector per kind, shared by all parts that read the kind.

Each change is therefore received, decoded and kept in memory once, whether the scheduler, the controllers or
the node agent need it, and all of them see it at the same moment.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from muster.api.base import Kind
from muster.api.kinds import FOREIGN, HIDDEN, OPTIONAL
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.errors import ApiError, Forbidden, NotFound
from muster.kube.reflector import R, Reflector


class Informers:
    def __init__(
        self,
        client: Client,
        clock: Clock | None = None,
        *,
        namespace: str = "",
        streaming: bool = False,
        single: Mapping[Kind[Any], str] | None = None,
        views: Mapping[Kind[Any], Kind[Any]] | None = None,
    ) -> None:
        """`namespace`: only objects in it are shown; "" for all. `streaming`: see `Reflector`.

        `single`: kinds of which one object is shown, `namespace/name`, if it exists and may be read. `views`:
        by kind, the kind with fewer fields as which it is read.
        """
        self._single, self._views = single or {}, views or {}
        self._streaming = streaming
        self._client, self._clock, self._namespace = client, clock, namespace
        self._reflectors: dict[Kind[Any], Reflector[Any]] = {}  # Any: one mapping over many kinds
        self._group: asyncio.TaskGroup | None = None

    def __getitem__(self, kind: Kind[R]) -> Reflector[R]:
        """The reflector of this kind; it is started when it is first asked for."""
        found = self._reflectors.get(kind)
        if found is None:
            single = self._single.get(kind, "")
            namespace, _, name = single.partition("/")
            found = self._reflectors[kind] = Reflector(
                self._client,
                kind,
                namespace=namespace or self._namespace,
                fields=f"metadata.name={name}" if name else "",
                clock=self._clock,
                tolerated=(NotFound, Forbidden) if single else _tolerated(kind),
                unread=(Forbidden,) if kind in FOREIGN else (),
                streaming=self._streaming,
                view=self._views.get(kind),
            )
            self._start(found)
        return found

    def shows(self, kind: Kind[Any], namespace: str, name: str) -> bool:
        """Whether the reflector of this kind shows such an object; name "": one whose name is generated."""
        only = self._single.get(kind)
        if only is not None:
            return only == f"{namespace}/{name}"
        return not kind.namespaced or self._namespace in ("", namespace)

    async def synced(self, kinds: Iterable[Kind[Any]]) -> None:
        """Waits until the first list of each of these kinds has been read."""
        for kind in kinds:
            await self[kind].synced.wait()

    def counts(self) -> Iterator[tuple[str, int]]:
        """Yields the kinds, as `plural.group`, and how many objects of each are known."""
        for kind, reflector in self._reflectors.items():
            yield f"{kind.plural}.{kind.group}" if kind.group else kind.plural, len(reflector.items)

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            for reflector in self._reflectors.values():
                self._start(reflector)
            await asyncio.Event().wait()

    def _start(self, reflector: Reflector[Any]) -> None:
        if self._group is not None:
            self._group.create_task(reflector.run(), name=f"watch {reflector.kind.plural}")


def _tolerated(kind: Kind[Any]) -> tuple[type[ApiError], ...]:
    return (NotFound, Forbidden) if kind in HIDDEN else (NotFound,) if kind in OPTIONAL else ()
