"""What pods are told that ask for a resource which exists as devices that nothing gives out."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from muster.api.resource_v1 import DeviceClass
from muster.core.words.events import OutOfReach
from muster.translate.devices.pools import PoolKey, Slices

#: Most resources of which there are hints: a cluster has a few classes.
MOST_HINTS: Final = 1_000
_NONE: Final[Mapping[str, str]] = {}
_EVALUATED: Final = "expressions that select the devices are still being evaluated"


class Hints:
    """Takes in DeviceClasses, and which slices count, in any order."""

    def __init__(self) -> None:
        #: by class, the resource that it stands for
        self._classes: dict[str, str] = {}
        #: by driver, how many devices count
        self._by_driver: Counter[str] = Counter()
        self._told, self._stale = OutOfReach(()), False
        self._pending: frozenset[str] = frozenset()
        self._faults: Mapping[str, str] = {}

    def change(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        """Takes in a class: `old` is None for a new one, `new` for one that is gone."""
        self._stale = True
        if old is not None:
            self._classes.pop(old.metadata.name, None)
        if new is not None:
            self._classes[new.metadata.name] = new.spec.extended_resource_name

    def event(
        self,
        changed: Iterable[tuple[PoolKey, Slices, Slices]],
        pending: frozenset[str] = frozenset(),
        faults: Mapping[str, str] = _NONE,
    ) -> OutOfReach | None:
        """Returns which resources are devices, if that has changed since it was last told.

        `changed`: the pools of which other slices count now (`Pools.settle`). `pending`: the answers whose
        expressions are still to be evaluated. `faults`: by resource, why its class has no devices.
        """
        self._stale |= (pending, faults) != (self._pending, self._faults)
        self._pending, self._faults = pending, faults
        drivers = {*+self._by_driver}
        for (of, _), before, now in changed:
            self._by_driver[of] += sum(len(each.spec.devices) for each in now)
            self._by_driver[of] -= sum(len(each.spec.devices) for each in before)
        if not self._stale and drivers == {*+self._by_driver}:
            return None
        self._stale = False
        hints = {**self._hints(), **faults, **dict.fromkeys(sorted(pending), _EVALUATED)}
        event = OutOfReach(tuple(sorted(hints.items())[:MOST_HINTS]))
        if event == self._told:
            return None
        self._told = event
        return event

    def _hints(self) -> dict[str, str]:
        """Returns, by resource that drivers publish and no class stands for, what to do."""
        hints: dict[str, str] = {}
        for each in sorted(+self._by_driver):
            kind, dot, domain = each.partition(".")
            resource = (
                f"{domain}/{kind}"  # such as nvidia.com/gpu, which the plug-in of gpu.nvidia.com offers
            )
            if dot and resource not in self._classes.values():
                hints[resource] = (
                    f"driver {each} publishes {resource} as devices (dynamic resource allocation), and no "
                    f"DeviceClass stands for it; write extendedResourceName: {resource} into its DeviceClass"
                )
        return hints
