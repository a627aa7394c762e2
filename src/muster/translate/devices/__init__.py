"""The devices of a cluster, as drivers publish them, and what pods that ask for them are told.

Of a pool only the slices of its newest generation count, and only once they are all there: until then, what
is published is half of the truth. Source: k8s.io/dynamic-resource-allocation/structured.
"""

from collections import Counter
from typing import Final

from muster.api.base import Resource
from muster.api.resource_v1 import OF_CLASS, DeviceClass, ResourceSlice
from muster.core.words.events import OutOfReach

#: Driver and name of a pool.
PoolKey = tuple[str, str]
#: Most resources of which there are hints: a cluster has a few classes.
MOST_HINTS: Final = 1_000
_WHAT_TO_DO: Final = (
    "(dynamic resource allocation), which muster does not give out yet; run a device plug-in on nodes for "
    "muster, or leave these pods to the default scheduler"
)


class Devices:
    """Takes in DeviceClasses and ResourceSlices in any order."""

    def __init__(self) -> None:
        self._classes: dict[str, str] = {}  # by name, the extended resource
        self._slices: dict[PoolKey, dict[str, ResourceSlice]] = {}
        #: by driver, how many devices are in complete pools; by pool, how many of them
        self._by_driver: Counter[str] = Counter()
        self._in_pool: dict[PoolKey, int] = {}
        #: pools of which slices have changed since the last event
        self._changed: dict[PoolKey, None] = {}
        self._told, self._stale = OutOfReach(()), False

    def change(self, old: Resource | None, new: Resource | None) -> None:
        """Takes in an object: `old` is None for a new one, `new` for one that is gone."""
        for obj in filter(None, (old, new)):
            name = obj.metadata.name
            if isinstance(obj, DeviceClass):
                self._stale = True
                if obj is new:
                    self._classes[name] = obj.spec.extended_resource_name
                else:
                    self._classes.pop(name, None)
            elif isinstance(obj, ResourceSlice):
                pool = obj.spec.driver, obj.spec.pool.name
                self._changed[pool] = None
                slices = self._slices.setdefault(pool, {})
                if obj is new:
                    slices[name] = obj
                else:
                    slices.pop(name, None)

    def event(self) -> OutOfReach | None:
        """Returns which resources are devices, if that has changed since it was last told."""
        drivers = {*+self._by_driver}
        for pool in self._changed:
            found = usable(self._slices[pool])
            count = sum(len(each.spec.devices) for each in found)
            self._by_driver[pool[0]] += count - self._in_pool.pop(pool, 0)
            if count:
                self._in_pool[pool] = count
            if not self._slices[pool]:
                del self._slices[pool]
        self._changed.clear()
        if not self._stale and drivers == {*+self._by_driver}:
            return None
        self._stale = False
        event = OutOfReach(tuple(sorted(self._hints().items())[:MOST_HINTS]))
        if event == self._told:
            return None
        self._told = event
        return event

    def _hints(self) -> dict[str, str]:
        """Returns, by resource that devices stand for, what they are and what to do."""
        hints: dict[str, str] = {}
        drivers = sorted(+self._by_driver)
        for driver in drivers:
            kind, dot, domain = driver.partition(".")
            if dot:  # such as gpu.nvidia.com, whose device plug-in offers nvidia.com/gpu
                hints[f"{domain}/{kind}"] = (
                    f"driver {driver} publishes {domain}/{kind} as devices {_WHAT_TO_DO}"
                )
        for name, extended in sorted(self._classes.items()) if drivers else ():
            for resource in filter(None, (f"{OF_CLASS}{name}", extended)):
                hints[resource] = f"DeviceClass {name} has {resource} as devices {_WHAT_TO_DO}"
        return hints


def usable(slices: dict[str, ResourceSlice]) -> list[ResourceSlice]:
    """Returns the slices of a pool that count, by name; none while its newest generation is incomplete.

    A generation is complete if it has as many slices as each of them says, and no device twice.
    """
    newest = max((each.spec.pool.generation for each in slices.values()), default=0)
    found = [each for _, each in sorted(slices.items()) if each.spec.pool.generation == newest]
    if any(each.spec.pool.resource_slice_count != len(found) for each in found):
        return []
    names = [device.name for each in found for device in each.spec.devices]
    return found if len({*names}) == len(names) else []
