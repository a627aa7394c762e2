"""Which devices each node has, and which of them claims have: events for the core.

A change of one slice costs as much as its node has devices. A change of what expressions look at costs as
much as all nodes have.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from muster.api.resource_v1 import ResourceClaim
from muster.core.words.devices import DeviceId, DeviceKindChanged, DevicesChanged
from muster.translate.devices.kinds import Kinds, Wanted, devices_of, elsewhere
from muster.translate.devices.pools import PoolKey, Slices


class Inventory:
    def __init__(self) -> None:
        self.kinds = Kinds()
        #: by node and pool, the slices that count
        self._of_node: dict[str, dict[PoolKey, Slices]] = {}
        self._nodes: dict[PoolKey, frozenset[str]] = {}
        #: by device, how many claims have it; by claim, its devices
        self._allocated: Counter[DeviceId] = Counter()
        self._claims: dict[str, tuple[DeviceId, ...]] = {}
        self._stale: dict[str, None] = {}
        self._told: dict[str, DevicesChanged] = {}
        #: by node, and by pool of no node, how many devices are not given out, by reason
        self._omitted: dict[str | PoolKey, Mapping[str, int]] = {}

    def settle(self, changed: Iterable[tuple[PoolKey, Slices, Slices]]) -> None:
        """Takes in the pools of which other slices count now (`Pools.settle`)."""
        for pool, _, now in changed:
            for node in self._nodes.pop(pool, ()):
                del self._of_node[node][pool]
                self._stale[node] = None
            reasons = Counter[str]()
            by_node: dict[str, Slices] = {}
            for each in now:
                if reason := elsewhere(each):
                    reasons[reason] += len(each.spec.devices)
                else:
                    by_node[each.spec.node_name] = (*by_node.get(each.spec.node_name, ()), each)
            self._omit(pool, reasons)
            if by_node:
                self._nodes[pool] = frozenset(by_node)
            for node, slices in by_node.items():
                self._of_node.setdefault(node, {})[pool] = slices
                self._stale[node] = None

    def want(self, wanted: Wanted) -> None:
        """Takes what classes and claims ask of devices now."""
        if self.kinds.want(wanted):
            self._stale.update(dict.fromkeys(self._of_node))

    def claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Takes in a claim: the devices that it has are in use, whoever allocated them."""
        latest = new or old
        assert latest is not None, "a change has an object"
        before = self._claims.pop(latest.key, ())
        # what a claim that cannot be read has now is unknown: at least what it had
        now = before if new is not None and new.metadata.unreadable else _devices(new)
        if now:
            self._claims[latest.key] = now
        self._allocated.update(now)
        self._allocated.subtract(before)
        for device in {*before, *now}:
            if not self._allocated[device]:
                del self._allocated[device]
            self._stale.update(dict.fromkeys(self._nodes.get(_pool(device), ())))

    @property
    def known(self) -> bool:
        """Whether the core has been told of devices."""
        return bool(self._told)

    def events(self, *, none: bool = False) -> Iterator[DeviceKindChanged | DevicesChanged]:
        """Yields what the core has not been told: kinds before the nodes that have devices of them.

        `none`: it shall know of no devices. They are told anew when it shall know of them again.
        """
        if none:
            yield from (DevicesChanged(node) for node in sorted(self._told))
            self._told.clear()
            self._stale = dict.fromkeys(self._of_node)
            return
        stale, self._stale = self._stale, {}
        nodes = [self._read(node) for node in sorted(stale)]
        yield from self.kinds.events()
        for event in nodes:
            if self._told.pop(event.node, nothing := DevicesChanged(event.node)) != event:
                yield event
            if event != nothing:
                self._told[event.node] = event
            if not self._of_node.get(event.node):
                self._of_node.pop(event.node, None)

    @property
    def omitted(self) -> Mapping[str, int]:
        """How many devices are not given out, by reason."""
        total = Counter[str]()
        for reasons in self._omitted.values():
            total.update(reasons)
        return total

    def _read(self, node: str) -> DevicesChanged:
        slices = [each for some in self._of_node.get(node, {}).values() for each in some]
        event, omitted = devices_of(node, slices, self.kinds.of)
        self._omit(node, omitted)
        taken = tuple(device for device, _ in event.devices if device in self._allocated)
        return replace(event, taken=taken)

    def _omit(self, where: str | PoolKey, reasons: Mapping[str, int]) -> None:
        self._omitted.pop(where, None)
        if reasons:
            self._omitted[where] = reasons


def _devices(claim: ResourceClaim | None) -> tuple[DeviceId, ...]:
    allocation = claim.status.allocation if claim is not None else None
    if allocation is None:
        return ()
    found = (DeviceId(f"{each.driver}/{each.pool}/{each.device}") for each in allocation.devices.results)
    return tuple(dict.fromkeys(found))


def _pool(device: DeviceId) -> PoolKey:
    """Returns the pool of a device: of the three names only that of a pool may have slashes."""
    driver, _, rest = device.partition("/")
    return driver, rest.rpartition("/")[0]
