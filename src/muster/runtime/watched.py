"""A mirror that the informers of an API server keep up to date."""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import Final

from muster.api import kinds, rates
from muster.api.base import AnyKind, LabelSelector, Resource
from muster.api.core_v1 import ConfigMap
from muster.kube.informers import Informers
from muster.runtime.mirror import WATCHED, Changes, Mirror
from muster.translate.adopted import EVERY
from muster.translate.start_failures import Counted
from muster.translate.world import UNRANKED

log = logging.getLogger(__name__)

#: Most faults of a ConfigMap that are logged at a time.
_TOLD: Final = 10


class WatchedMirror(Mirror):
    def __init__(
        self,
        informers: Informers,
        schedulers: frozenset[str] | None = None,
        selector: LabelSelector | None = None,
        priced_by: str = rates.KEY,
        admitting: Iterable[AnyKind] = (),
        lease: str = "",
        victims: frozenset[str] = frozenset(),
        unranked: int = UNRANKED,
        counted: Counted | None = None,
        adopts: frozenset[str] = EVERY,
        awaiting: frozenset[str] = frozenset(),
    ) -> None:
        """`priced_by`: namespace and name of the ConfigMap with the prices of GPUs.

        `admitting`: the kinds whose changes may admit what the API server has refused (`readmitted`).
        """
        # Subscribing tells of all that is there at once, so it comes after every setting.
        super().__init__(
            schedulers,
            selector=selector,
            lease=lease,
            victims=victims,
            unranked=unranked,
            counted=counted,
            adopts=adopts,
            awaiting=awaiting,
        )
        #: set when there is something to drain
        self.changed = asyncio.Event()
        #: set when `devices` has questions
        self.asks = asyncio.Event()
        #: whether an object of these kinds has changed; the leader resets it
        self.readmitted = False
        self._informers = informers
        for kind in WATCHED:
            informers[kind].subscribe(partial(self.change, kind))
        for kind in admitting:
            informers[kind].subscribe(self._readmit)
        informers[kinds.CONFIG_MAP].subscribe(partial(self._priced, priced_by))

    async def synced(self) -> None:
        await self._informers.synced(WATCHED)

    def change(self, kind: AnyKind, old: Resource | None, new: Resource | None) -> None:
        super().change(kind, old, new)
        self.changed.set()

    def _readmit(self, old: Resource | None, new: Resource | None) -> None:
        """Notes a change of what admission is configured by; its status does not count."""
        if old is None or new is None or old.metadata.generation != new.metadata.generation:
            self.readmitted = True
            self.changed.set()

    def _priced(self, key: str, old: ConfigMap | None, new: ConfigMap | None) -> None:
        changed = new or old
        if changed is not None and changed.key == key:
            self.rates = rates.read(new)
            for fault in self.rates.faults[:_TOLD]:
                log.warning("ConfigMap %s: %s", key, fault)
            if len(self.rates.faults) > _TOLD:
                log.warning("ConfigMap %s: and %d more", key, len(self.rates.faults) - _TOLD)

    def drain(self, now: float) -> Changes:
        self.changed.clear()
        self.devices.blind = self._informers[kinds.RESOURCE_CLAIM].off
        changes = super().drain(now)
        if self.devices.asks:
            self.asks.set()
        return changes

    def use(self, selector: LabelSelector) -> None:
        """Uses only nodes with these labels from now on."""
        self.select(selector, [*self._informers[kinds.NODE].items.values()])
        self.changed.set()

    def find(self, kind: AnyKind, key: str) -> Resource | None:
        found: Resource | None = self._informers[kind].items.get(key)
        return found
