"""The devices of a cluster, as drivers publish them, and what pods are told that ask for them.

`pools` says which slices count, `kinds` what tells devices apart, `selectors` of which an expression holds,
`claims` what claims ask for, `inventory` and `pods` which devices nodes have, and which claims pods. `hints`
says which resources exist as devices only.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from muster.api.base import Resource
from muster.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from muster.core.words.devices import DeviceKindChanged, DevicesChanged
from muster.core.words.events import OutOfReach
from muster.translate.devices.hints import Hints
from muster.translate.devices.inventory import Inventory
from muster.translate.devices.kinds import Wanted
from muster.translate.devices.pods import add_class
from muster.translate.devices.pools import Pools
from muster.translate.devices.selectors import Facts


class Devices:
    """Takes in DeviceClasses, ResourceSlices and ResourceClaims in any order.

    Without a class no claim can ask for devices, so the core is told of none, and nothing is evaluated.
    """

    def __init__(self) -> None:
        self._pools, self._hints, self._inventory = Pools(), Hints(), Inventory()
        self._classes: dict[str, DeviceClass] = {}
        self._stale = False

    def change(self, old: Resource | None, new: Resource | None) -> None:
        """Takes in an object: `old` is None for a new one, `new` for one that is gone."""
        match new or old:
            case DeviceClass(metadata=meta):
                before = self._classes.pop(meta.name, None)
                if isinstance(new, DeviceClass):
                    self._classes[meta.name] = new
                self._hints.change(before, new if isinstance(new, DeviceClass) else None)
                self._stale = True
            case ResourceSlice():
                self._pools.change(
                    old if isinstance(old, ResourceSlice) else None,
                    new if isinstance(new, ResourceSlice) else None,
                )
            case ResourceClaim():
                self._inventory.claim(
                    old if isinstance(old, ResourceClaim) else None,
                    new if isinstance(new, ResourceClaim) else None,
                )

    def events(self) -> Iterator[OutOfReach | DeviceKindChanged | DevicesChanged]:
        """Yields what has changed since the last call: kinds before the nodes that have devices of them."""
        changed = [*self._pools.settle()]
        if (event := self._hints.event(changed)) is not None:
            yield event
        self._inventory.settle(changed)
        if self._stale:
            self._stale = False
            self._inventory.want(self._wanted())
        if self._classes or self._inventory.known:
            yield from self._inventory.events(none=not self._classes)

    @property
    def asks(self) -> bool:
        """Whether `questions` may have new ones."""
        return self._inventory.kinds.asks

    def questions(self) -> Sequence[tuple[str, list[Facts]]]:
        """Returns expressions, and the devices of which it is not known whether they hold, each once."""
        found: dict[str, list[Facts]] = {}
        for expression, of in self._inventory.kinds.unanswered():
            found.setdefault(expression, []).append(of)
        return [*found.items()]

    def tell(self, expression: str, devices: Sequence[Facts], holds: Sequence[bool]) -> None:
        """Takes the answers; `events` then has what they change."""
        for of, held in zip(devices, holds, strict=True):
            self._inventory.kinds.tell(expression, of, held)

    def _wanted(self) -> Wanted:
        wanted = Wanted()
        for _, each in sorted(self._classes.items()):
            with suppress(ValueError):  # a class that cannot be evaluated has no devices
                add_class(wanted, each)
        return wanted
