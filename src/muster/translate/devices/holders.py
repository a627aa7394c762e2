"""Which claims have each device, by whatever client they were allocated."""

from collections.abc import Sequence

from muster.api.resource_v1 import ResourceClaim
from muster.core.words.devices import DeviceId
from muster.translate.devices.pods import allocated


class Holders:
    def __init__(self) -> None:
        #: by claim, as `namespace/name`, its devices; by device its claims, of which there is one as a rule
        self._devices: dict[str, tuple[DeviceId, ...]] = {}
        self._claims: dict[DeviceId, tuple[str, ...]] = {}

    def of(self, device: DeviceId) -> Sequence[str]:
        """Returns the claims that have a device, as `namespace/name`."""
        return self._claims.get(device, ())

    def change(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Takes in a claim. One that cannot be read has at least what it had."""
        latest = new or old
        assert latest is not None, "a change has an object"
        key = latest.key
        if new is not None and new.metadata.unreadable:
            return
        for device in self._devices.pop(key, ()):
            if rest := tuple(each for each in self._claims[device] if each != key):
                self._claims[device] = rest
            else:
                del self._claims[device]
        if now := allocated(new):
            self._devices[key] = now
            for device in now:
                self._claims[device] = (*self._claims.get(device, ()), key)
