"""A mirror that watches an API server to stay true: one reflector for each kind that it shows."""

import asyncio
from collections.abc import Container
from functools import partial
from typing import Any

from muster.api import kinds
from muster.api.base import Resource
from muster.kube.client import Client
from muster.kube.clock import Clock
from muster.kube.reflector import Reflector
from muster.runtime.mirror import WATCHED, Changes, Mirror
from muster.runtime.writes import AnyKind
from muster.translate.world import OPTIONAL


class WatchedMirror(Mirror):
    def __init__(self, client: Client, clock: Clock, schedulers: frozenset[str] | None = None) -> None:
        super().__init__(schedulers)
        #: set when there is something to drain
        self.changed = asyncio.Event()
        self.reflectors: dict[AnyKind, Reflector[Any]] = {  # Any: of many kinds
            kind: Reflector(client, kind, partial(self.change, kind), clock=clock, optional=kind in OPTIONAL)
            for kind in WATCHED
        }

    async def run(self) -> None:
        """Runs until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, reflector in self.reflectors.items():
                group.create_task(reflector.run(), name=f"watch {kind.plural}")

    async def synced(self) -> None:
        for reflector in self.reflectors.values():
            await reflector.synced.wait()

    def change(self, kind: AnyKind, old: Resource | None, new: Resource | None) -> None:
        super().change(kind, old, new)
        self.changed.set()

    def drain(self, now: float) -> Changes:
        self.changed.clear()
        return super().drain(now)

    @property
    def nodes(self) -> Container[str]:
        return self.reflectors[kinds.NODE].items

    def find(self, kind: AnyKind, key: str) -> Resource | None:
        found: Resource | None = self.reflectors[kind].items.get(key)
        return found
