"""Which slices count: of each pool those of its newest generation, once they are all there.

Until then, what is published is half of the truth. Source: k8s.io/dynamic-resource-allocation/structured.
"""

from collections.abc import Iterator, Mapping

from muster.api.resource_v1 import ResourceSlice

#: Driver and name of a pool.
PoolKey = tuple[str, str]
Slices = tuple[ResourceSlice, ...]


class Pools:
    """Takes in slices in any order."""

    def __init__(self) -> None:
        self._slices: dict[PoolKey, dict[str, ResourceSlice]] = {}
        #: the slices that count, by pool that has some
        self._usable: dict[PoolKey, Slices] = {}
        self._changed: dict[PoolKey, None] = {}

    def change(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        """Takes in a slice: `old` is None for a new one, `new` for one that is gone."""
        for each in filter(None, (old, new)):
            pool = each.spec.driver, each.spec.pool.name
            self._changed[pool] = None
            slices = self._slices.setdefault(pool, {})
            if each is new:
                slices[each.metadata.name] = each
            else:
                slices.pop(each.metadata.name, None)

    def settle(self) -> Iterator[tuple[PoolKey, Slices, Slices]]:
        """Yields the pools of which other slices count than at the last call, with those of then and now."""
        changed, self._changed = self._changed, {}
        for pool in changed:
            before, now = self._usable.pop(pool, ()), usable(self._slices[pool])
            if now:
                self._usable[pool] = now
            if not self._slices[pool]:
                del self._slices[pool]
            if before != now:
                yield pool, before, now


def usable(slices: Mapping[str, ResourceSlice]) -> Slices:
    """Returns the slices of a pool that count, by name.

    A node whose own slices are complete has these, whatever other nodes say of a pool of that name: a driver
    may write slices of its own node only. Of a pool that several nodes make up, all of its slices count.
    """
    there = tuple(each for _, each in sorted(slices.items()))
    of_nodes: dict[str, Slices] = {}
    for each in there:
        of_nodes[each.spec.node_name] = (*of_nodes.get(each.spec.node_name, ()), each)
    whole = _complete(there) if len(of_nodes) > 1 else ()
    own = {node: _complete(of_node) for node, of_node in of_nodes.items()}
    counting = {id(each) for of_node in own.values() for each in of_node}
    counting |= {id(each) for each in whole if not own[each.spec.node_name]}
    return tuple(each for each in there if id(each) in counting)


def _complete(slices: Slices) -> Slices:
    """Returns the newest generation of these slices; none while it is incomplete.

    It is complete if it has as many slices as each of them says, and no device twice.
    """
    newest = max((each.spec.pool.generation for each in slices), default=0)
    found = tuple(each for each in slices if each.spec.pool.generation == newest)
    if any(each.spec.pool.resource_slice_count != len(found) for each in found):
        return ()
    names = [device.name for each in found for device in each.spec.devices]
    return found if len({*names}) == len(names) else ()
