"""What pods are told that ask for a resource which exists as devices only."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from muster.api.resource_v1 import OF_CLASS, DeviceClass
from muster.core.words.events import OutOfReach
from muster.translate.devices.pools import PoolKey, Slices
from muster.translate.devices.selectors import driver

#: Most resources of which there are hints: a cluster has a few classes.
MOST_HINTS: Final = 1_000
_WHAT_TO_DO: Final = (
    "(dynamic resource allocation), which muster does not give out yet; run a device plug-in on nodes for "
    "muster, or leave these pods to the default scheduler"
)
_EVALUATED: Final = "expressions that select the devices are still being evaluated"


class Hints:
    """Takes in DeviceClasses, and which slices count, in any order."""

    def __init__(self) -> None:
        #: by name, the extended resource, and the drivers whose devices alone it can have
        self._classes: dict[str, tuple[str, set[str]]] = {}
        #: by driver, how many devices count
        self._by_driver: Counter[str] = Counter()
        self._told, self._stale = OutOfReach(()), False
        self._pending: frozenset[str] = frozenset()

    def change(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        """Takes in a class: `old` is None for a new one, `new` for one that is gone."""
        self._stale = True
        if old is not None:
            self._classes.pop(old.metadata.name, None)
        if new is not None:
            texts = (each.cel.expression for each in new.spec.selectors if each.cel is not None)
            drivers = {name for text in texts if (name := driver(text))}
            self._classes[new.metadata.name] = new.spec.extended_resource_name, drivers

    def event(
        self, changed: Iterable[tuple[PoolKey, Slices, Slices]], pending: frozenset[str] = frozenset()
    ) -> OutOfReach | None:
        """Returns which resources are devices, if that has changed since it was last told.

        `changed`: the pools of which other slices count now (`Pools.settle`). `pending`: the answers whose
        expressions are still to be evaluated.
        """
        self._stale |= pending != self._pending
        self._pending = pending
        drivers = {*+self._by_driver}
        for (of, _), before, now in changed:
            self._by_driver[of] += sum(len(each.spec.devices) for each in now)
            self._by_driver[of] -= sum(len(each.spec.devices) for each in before)
        if not self._stale and drivers == {*+self._by_driver}:
            return None
        self._stale = False
        hints = self._hints() | dict.fromkeys(sorted(pending), _EVALUATED)
        event = OutOfReach(tuple(sorted(hints.items())[:MOST_HINTS]))
        if event == self._told:
            return None
        self._told = event
        return event

    def _hints(self) -> dict[str, str]:
        """Returns, by resource that devices stand for, what they are and what to do."""
        hints: dict[str, str] = {}
        drivers = sorted(+self._by_driver)
        for each in drivers:
            kind, dot, domain = each.partition(".")
            if dot:  # such as gpu.nvidia.com, whose device plug-in offers nvidia.com/gpu
                hints[f"{domain}/{kind}"] = (
                    f"driver {each} publishes {domain}/{kind} as devices {_WHAT_TO_DO}"
                )
        for name, (extended, needed) in sorted(self._classes.items()) if drivers else ():
            if not needed <= {*drivers}:
                continue
            for resource in filter(None, (f"{OF_CLASS}{name}", extended)):
                hints[resource] = f"DeviceClass {name} has {resource} as devices {_WHAT_TO_DO}"
        return hints
