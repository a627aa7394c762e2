"""Which devices each node has, and which of them claims have: events for the core.

A change of one slice costs as much as its node has devices. A change of what expressions look at costs as
much as all nodes have.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from muster.api.resource_v1 import ResourceClaim
from muster.core.words.devices import DeviceId, DeviceKindChanged, DeviceKindRemoved, DevicesChanged
from muster.names import PLAN
from muster.translate.devices.kinds import Kinds, Wanted, devices_of, elsewhere
from muster.translate.devices.pods import allocated
from muster.translate.devices.pools import PoolKey, Slices


class Inventory:
    def __init__(self) -> None:
        self.kinds = Kinds()
        #: by node and pool, the slices that count
        self._of_node: dict[str, dict[PoolKey, Slices]] = {}
        self._nodes: dict[PoolKey, frozenset[str]] = {}
        #: by claim, its devices, and the uids of what it is reserved for; by uid, the claims
        self._claims: dict[str, tuple[DeviceId, ...]] = {}
        self._reserved: dict[str, frozenset[str]] = {}
        self._of: dict[str, set[str]] = {}
        #: claims that muster has allocated, as far as they say, and that are not being deleted
        self._ours: set[str] = set()
        #: uids of pods without a node whose places the core is about to decide again
        self._spared = frozenset[str]()
        #: uids of the pods on nodes that the core knows, of those that have claims
        self._bound: set[str] = set()
        #: by device, how many claims have it of which the core knows no pod; by claim, these devices
        self._taken: Counter[DeviceId] = Counter()
        self._counted: dict[str, tuple[DeviceId, ...]] = {}
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
        """Takes in a claim: the devices that it has are in use, whichever client allocated them."""
        latest = new or old
        assert latest is not None, "a change has an object"
        key, uids = latest.key, frozenset[str]()
        before = self._claims.pop(key, ())
        # what a claim that cannot be read has now is unknown: at least what it had
        now = before if new is not None and new.metadata.unreadable else allocated(new)
        if now:
            assert new is not None
            self._claims[key] = now
            uids = frozenset(each.uid for each in new.status.reserved_for)
        meta = new.metadata if new is not None and now else None
        ours = meta is not None and PLAN in meta.annotations and meta.deletion_timestamp is None
        (self._ours.add if ours else self._ours.discard)(key)
        for uid in self._reserved.pop(key, frozenset()) - uids:
            self._of[uid].discard(key)
            if not self._of[uid]:
                del self._of[uid]
        if uids:
            self._reserved[key] = uids
        for uid in uids:
            self._of.setdefault(uid, set()).add(key)
        self._recount(key)

    def pod(self, uid: str, *, bound: bool) -> None:
        """Takes in whether the core knows a pod on a node, which may have claims."""
        if bound != (uid in self._bound):
            (self._bound.add if bound else self._bound.discard)(uid)
            for claim in self._of.get(uid, ()):
                self._recount(claim)

    def spare(self, uids: frozenset[str]) -> None:
        """Takes in which pods keep or lose what muster has allocated for them, by a decision that is due."""
        changed, self._spared = uids ^ self._spared, uids
        for claim in {claim for uid in changed for claim in self._of.get(uid, ())}:
            self._recount(claim)

    def _recount(self, claim: str) -> None:
        """Counts what a claim takes: nothing if only pods on nodes have it, whose devices the core knows.

        Nor if muster has allocated it, and only pods that are spared have reserved it.
        """
        reserved = self._reserved.get(claim, frozenset())
        borne = reserved <= self._bound or (claim in self._ours and reserved <= self._spared)
        borne = borne and bool(reserved)
        now, before = () if borne else self._claims.get(claim, ()), self._counted.pop(claim, ())
        if now:
            self._counted[claim] = now
        self._taken.update(now)
        self._taken.subtract(before)
        for device in {*before, *now} if before != now else ():
            if not self._taken[device]:
                del self._taken[device]
            self._stale.update(dict.fromkeys(self._nodes.get(_pool(device), ())))

    @property
    def stale(self) -> bool:
        return bool(self._stale)

    @property
    def known(self) -> bool:
        """Whether the core has been told of devices."""
        return bool(self._told)

    def events(
        self, *, none: bool = False
    ) -> Iterator[DeviceKindChanged | DeviceKindRemoved | DevicesChanged]:
        """Yields what the core has not been told: kinds before the nodes that have devices of them.

        Kinds that no node has any more come last, and are forgotten.

        `none`: it shall know of no devices. They are told again when it shall know of them again.
        """
        if none:
            yield from (DevicesChanged(node) for node in sorted(self._told))
            self._told.clear()
            self._stale = dict.fromkeys(self._of_node)
            return
        stale, self._stale = self._stale, {}
        nodes = [self._read(node) for node in sorted(stale)]
        removed = self.kinds.removed()
        yield from self.kinds.events()
        for event in nodes:
            if self._told.pop(event.node, nothing := DevicesChanged(event.node)) != event:
                yield event
            if event != nothing:
                self._told[event.node] = event
            if not self._of_node.get(event.node):
                self._of_node.pop(event.node, None)
        yield from removed

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
        self.kinds.use(node, frozenset(kind for _, kind in event.devices))
        taken = tuple(device for device, _ in event.devices if device in self._taken)
        return replace(event, taken=taken)

    def _omit(self, where: str | PoolKey, reasons: Mapping[str, int]) -> None:
        self._omitted.pop(where, None)
        if reasons:
            self._omitted[where] = reasons


def _pool(device: DeviceId) -> PoolKey:
    """Returns the pool of a device: of the three names only that of a pool may have slashes."""
    driver, _, rest = device.partition("/")
    return driver, rest.rpartition("/")[0]
