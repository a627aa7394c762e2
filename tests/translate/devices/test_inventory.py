"""Which devices nodes have and claims use: whatever has happened, the core knows what is there now."""

from collections.abc import Iterable
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.fields import convert
from muster.api.resource_v1 import ResourceClaim, ResourceSlice
from muster.core.words.devices import DeviceKind, DeviceKindChanged, DeviceKindRemoved, DevicesChanged, KindId
from muster.translate.devices import kinds
from muster.translate.devices.inventory import Inventory
from muster.translate.devices.kinds import Wanted
from muster.translate.devices.pools import Pools
from tests.tiers import examples
from tests.translate.devices.test_kinds import A100, SERIAL, answered, gpu, wanted


def a_slice(
    name: str,
    *devices: Object,
    node: str = "n0",
    pool: str = "p/q",
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> ResourceSlice:  # Any: fields as JSON
    pooled = {"name": pool, "generation": generation, "resourceSliceCount": count}
    made = {"driver": "gpu.nvidia.com", "nodeName": node, "pool": pooled, "devices": list(devices), **spec}
    return convert({"metadata": {"name": name}, "spec": made}, ResourceSlice)


def claim(name: str, *devices: str, pool: str = "p/q") -> ResourceClaim:
    results = [{"driver": "gpu.nvidia.com", "pool": pool, "device": each} for each in devices]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    return convert({"metadata": {"name": name, "namespace": "ns"}, "status": status}, ResourceClaim)


class Told:
    """What the core knows."""

    def __init__(self) -> None:
        self.pools, self.inventory = Pools(), Inventory()
        self.kinds: dict[KindId, DeviceKind] = {}
        self.nodes: dict[str, DevicesChanged] = {}

    def drain(self) -> int:
        """How many events there were."""
        self.inventory.settle(self.pools.settle())
        events = [*self.inventory.events()]
        answered(self.inventory.kinds)
        events += self.inventory.events()
        for event in events:
            if isinstance(event, DeviceKindChanged):
                self.kinds[event.id] = event.kind
                continue
            if isinstance(event, DeviceKindRemoved):
                assert not any(event.id == kind for each in self.nodes.values() for _, kind in each.devices)
                del self.kinds[event.id]
                continue
            assert all(kind in self.kinds for _, kind in event.devices), "kinds come first"
            self.nodes.pop(event.node, None)
            if event != DevicesChanged(event.node):
                self.nodes[event.node] = event
        return len(events)

    def shown(self) -> dict[str, object]:
        return {
            node: (
                [(device, self.kinds[kind]) for device, kind in event.devices],
                event.counters,
                event.taken,
            )
            for node, event in self.nodes.items()
        }


def test_devices_of_a_node_and_those_that_claims_have() -> None:
    told = Told()
    told.inventory.want(wanted(A100))
    told.inventory.claim(None, claim("early", "gpu-1"))
    told.pools.change(None, one := a_slice("s", gpu(0), gpu(1), gpu(2)))
    told.drain()
    event = told.nodes["n0"]
    name = "gpu.nvidia.com/p/q/gpu-{}".format
    assert [device for device, _ in event.devices] == [name(i) for i in range(3)]
    assert [*event.taken] == [name(1)]
    told.inventory.claim(None, claim("other", "gpu-0", "gpu-1", "elsewhere"))
    told.inventory.claim(claim("early", "gpu-1"), None)
    told.drain()
    assert [*told.nodes["n0"].taken] == [name(0), name(1)]
    told.inventory.claim(claim("other", "gpu-0"), claim("other"))
    assert told.drain() == 1
    assert not told.nodes["n0"].taken
    assert told.drain() == 0
    told.pools.change(one, None)
    assert told.drain() == 2, "its kind is forgotten as well"
    assert told.nodes == {}


def test_claims_that_have_no_device_cost_nothing() -> None:
    told = Told()
    told.pools.change(None, a_slice("s", gpu(0)))
    told.drain()
    for number in range(10_000):
        told.inventory.claim(None, claim(str(number)))
    assert told.drain() == 0


def test_pools_of_no_single_node_are_counted_by_reason() -> None:
    told = Told()
    told.pools.change(None, first := a_slice("s", gpu(0), gpu(1), node="", allNodes=True, pool="a"))
    told.pools.change(None, a_slice("t", gpu(0, bindsToNode=True), gpu(1), pool="b"))
    told.drain()
    assert told.inventory.omitted == {
        "allNodes is not supported yet": 2,
        "bindsToNode is not supported yet": 1,
    }
    [event] = told.nodes.values()
    assert [told.kinds[kind].withheld for _, kind in event.devices] == [True, False]
    told.pools.change(first, None)
    told.drain()
    assert told.inventory.omitted == {"bindsToNode is not supported yet": 1}


def test_a_new_expression_tells_of_kinds_alone() -> None:
    told = Told()
    told.inventory.want(wanted(A100))
    for number in range(20):
        told.pools.change(None, a_slice(f"s{number}", gpu(0), node=f"n{number}", pool=f"n{number}"))
    assert told.drain() == 20 + 2, "a kind, before and after its answers"
    more = wanted(A100)
    more.add_class("more", [A100])
    told.inventory.want(more)
    assert told.drain() == 1


SLICES: Final = st.builds(
    lambda name, node, pool, generation, count, devices: a_slice(
        name,
        *(dict(gpu(number, product), name=f"{name}{number}") for number, product in devices),
        node=node,
        pool=pool,
        generation=generation,
        count=count,
    ),
    st.sampled_from("abc"),
    st.sampled_from(["n0", "n1", ""]),
    st.sampled_from(["p/q", "r"]),
    st.integers(0, 1),
    st.sampled_from([1, 1, 2]),
    st.dictionaries(st.integers(0, 3), st.sampled_from(["A100", "H100"]), max_size=2).map(dict.items),
)
CLAIMS: Final = st.builds(
    lambda name, pool, devices: claim(name, *devices, pool=pool),
    st.sampled_from("kl"),
    st.sampled_from(["p/q", "r"]),
    st.lists(st.sampled_from(["a0", "a3", "b1", "zz"]), max_size=2),
)
WISHES: Final = st.sampled_from([(), (A100,), (SERIAL,), (A100, SERIAL)]).map(lambda texts: wanted(*texts))


@given(st.lists(st.tuples(SLICES | CLAIMS | WISHES, st.booleans(), st.booleans()), max_size=12))
@settings(max_examples=examples(200), deadline=None)
def test_any_history_tells_what_the_objects_as_they_are_tell(
    changes: Iterable[tuple[ResourceSlice | ResourceClaim | Wanted, bool, bool]],
) -> None:
    told, slices, claims = Told(), dict[str, ResourceSlice](), dict[str, ResourceClaim]()
    wish = Wanted()
    for obj, gone, drained in changes:
        if isinstance(obj, Wanted):
            told.inventory.want(wish := obj)
        elif isinstance(obj, ResourceSlice):
            before = slices.pop(obj.metadata.name, None)
            if not gone:
                slices[obj.metadata.name] = obj
            if before is not None or not gone:
                told.pools.change(before, None if gone else obj)
        else:
            had = claims.pop(obj.metadata.name, None)
            if not gone:
                claims[obj.metadata.name] = obj
            if had is not None or not gone:
                told.inventory.claim(had, None if gone else obj)
        if drained:
            told.drain()
    told.drain()
    anew = Told()
    anew.inventory.want(wish)
    for one in slices.values():
        anew.pools.change(None, one)
    for each in claims.values():
        anew.inventory.claim(None, each)
    anew.drain()
    assert told.shown() == anew.shown()
    assert told.inventory.omitted == anew.inventory.omitted
    assert told.drain() == 0


def test_kinds_that_no_node_has_are_forgotten() -> None:
    """A driver that publishes other devices each time leaves nothing behind."""
    told = Told()
    told.inventory.want(wanted(SERIAL))
    for generation in range(1, 6):
        devices = [gpu(8 * generation + i) for i in range(8)]
        before = a_slice("s", *devices, generation=generation)
        told.pools.change(None, before)
        told.drain()
        assert len(told.kinds) == 8
        assert [*told.kinds] == [*dict(reversed(told.nodes["n0"].devices)).values()][::-1]
    told.pools.change(before, None)
    told.drain()
    assert told.kinds == {}


def test_a_node_whose_devices_are_all_different_takes_none_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kinds, "MOST_OF_NODE", 4)
    monkeypatch.setattr(kinds, "MOST_KINDS", 12)
    told = Told()
    told.inventory.want(wanted(SERIAL))
    told.pools.change(None, a_slice("hostile", *(gpu(i) for i in range(8)), pool="a", node="n0"))
    told.drain()
    told.pools.change(None, a_slice("honest", *(gpu(i) for i in range(8, 12)), pool="b", node="n1"))
    told.drain()
    assert {node: len(each.devices) for node, each in told.nodes.items()} == {"n0": 4, "n1": 4}
    assert told.inventory.omitted == {"there are too many kinds of devices on its node": 4}
