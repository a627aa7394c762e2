"""The devices of a cluster, as drivers publish them, and what pods are told that ask for them.

`pools` says which slices count, `kinds` what tells devices apart, `selectors` of which an expression holds,
`counted` as which resources they count, `claims` what claims ask for, `inventory` and `pods` which devices
nodes have, and which claims pods. `hints` says which resources exist as devices that nothing gives out.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from muster.api.base import Resource
from muster.api.resource_v1 import DeviceClass, ResourceClaim, ResourceSlice
from muster.core.words.devices import (
    DeviceId,
    DeviceKindChanged,
    DeviceKindRemoved,
    DevicesChanged,
)
from muster.core.words.events import OutOfReach
from muster.translate.devices.asks import Asks
from muster.translate.devices.counted import counted_as, resource_of
from muster.translate.devices.hints import Hints
from muster.translate.devices.holders import Holders
from muster.translate.devices.inventory import Inventory
from muster.translate.devices.kinds import Wanted
from muster.translate.devices.pods import add_class
from muster.translate.devices.pools import Pools
from muster.translate.devices.selectors import Facts

_BLIND: Final = (
    "muster's role may not list resourceclaims.resource.k8s.io, so it is not known which devices are free"
)


class Devices:
    """Takes in DeviceClasses, ResourceSlices and ResourceClaims in any order.

    Without a class no claim can ask for devices, so the core is told of none, and nothing is evaluated.
    """

    def __init__(self, asks: Asks | None = None) -> None:
        """`asks`: what the claims of pods ask for."""
        self._pools, self._hints, self._inventory = Pools(), Hints(), Inventory()
        self._classes: dict[str, DeviceClass] = {}
        self._claims, self._holders = asks or Asks(), Holders()
        self._stale = False
        #: whether claims that were read before may be read otherwise now
        self.reread = False
        #: whether it is not known which claims there are: then no device is known to be free
        self.blind = False

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
                self._holders.change(
                    old if isinstance(old, ResourceClaim) else None,
                    new if isinstance(new, ResourceClaim) else None,
                )
                self._inventory.claim(
                    old if isinstance(old, ResourceClaim) else None,
                    new if isinstance(new, ResourceClaim) else None,
                )

    def events(self) -> Iterator[OutOfReach | DeviceKindChanged | DeviceKindRemoved | DevicesChanged]:
        """Yields what has changed since the last call: kinds before the nodes that have devices of them."""
        changed = [*self._pools.settle()]
        self._inventory.settle(changed)
        if self._stale or self._claims.changed:
            self._stale = self._claims.changed = False
            self._inventory.want(self._wanted())
        faults = self._faults()
        if self.blind:
            counted = counted_as(self._classes.values())
            named = sorted({resource_of(name, counted) for name in self._classes})
            faults = {**faults, **dict.fromkeys(named, _BLIND)}
        if (event := self._hints.event(changed, self.pending, faults)) is not None:
            yield event
        if self._classes or self._inventory.known:
            yield from self._inventory.events(none=self.blind or not self._classes)

    def holders(self, device: DeviceId) -> Sequence[str]:
        """Returns the claims that have a device, as `namespace/name`."""
        return self._holders.of(device)

    @property
    def asks(self) -> bool:
        """Whether `questions` may have new ones."""
        return self._inventory.kinds.asks

    @property
    def pending(self) -> frozenset[str]:
        """The answers, as shapes of pods name them, whose expressions have not been evaluated yet."""
        return frozenset() if self.blind else self._inventory.kinds.pending

    @property
    def stale(self) -> bool:
        """Whether `events` may have some that it did not have before."""
        return self._inventory.stale or self._claims.changed

    def pod(self, uid: str, *, bound: bool) -> None:
        """Takes in whether the core knows a pod on a node, which may have claims."""
        self._inventory.pod(uid, bound=bound)

    def spare(self, uids: frozenset[str]) -> None:
        """Counts as free what muster has allocated for these pods, and for no others any more.

        Any user may write muster's mark on a claim. So a leader spares only waiting pods of plans that it
        takes over, until their places are decided. From then on the core itself knows their devices.
        """
        self._inventory.spare(uids)

    def questions(self) -> Sequence[tuple[str, list[Facts]]]:
        """Returns expressions, and the devices of which it is not known whether they hold, each once.

        An expression that has never been evaluated is among them even if there are no devices.
        """
        return [*self._inventory.kinds.unanswered()]

    def tell(self, expression: str, devices: Sequence[Facts], holds: Sequence[bool], fault: str = "") -> None:
        """Takes the answers, and what is wrong with the expression; `events` then has what they change."""
        self._inventory.kinds.tell(expression, devices, holds)
        faults = self._claims.faults
        if fault != faults.get(expression, ""):
            self.reread = True
            faults.pop(expression, None)
            if fault:
                faults[expression] = fault

    def _faults(self) -> dict[str, str]:
        """Returns, by resource for which a class stands, why it has no devices."""
        found, faults = dict[str, str](), self._claims.faults
        for name, resource in sorted(counted_as(self._classes.values()).items()) if faults else ():
            for each in self._classes[name].spec.selectors:
                if each.cel is not None and (fault := faults.get(each.cel.expression)):
                    found[resource] = f"DeviceClass {name} has no devices: {fault}"
        return found

    def _wanted(self) -> Wanted:
        wanted, counted = Wanted(), counted_as(self._classes.values())
        for _, each in sorted(self._classes.items()):
            with suppress(ValueError):  # a class that cannot be evaluated has no devices
                add_class(wanted, each, counted)
        self._claims.want(wanted)
        return wanted
