"""One pod at a time, on one node: what Kubernetes' allocator of devices can place, the scheduler starts.

Slices, classes and claims are drawn as drivers and users write them. The allocator gets them as they are. The
core gets what `translate/devices` makes of them: a node, its devices, and a gang of one pod.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api.base import Object
from muster.api.fields import convert
from muster.api.resource_v1 import ResourceClaimSpec, ResourceSlice
from muster.core.cycle import Scheduler
from muster.core.words.devices import DevicesChanged
from muster.core.words.events import GangSubmitted
from muster.core.words.gang import PodSet, Shape
from muster.core.world.allocation import Claims
from muster.translate.devices.claims import asked, least
from muster.translate.devices.inventory import Inventory
from muster.translate.devices.kinds import Wanted
from muster.translate.devices.pools import Pools
from muster.translate.devices.selectors import Expressions
from tests.core.words import assigns, gang, node, shape
from tests.tiers import examples
from tests.upstream.allocator import NODE, Allocator, Refused, running
from tests.upstream.modules import ALLOCATOR

DRIVER: Final = "gpu.example.com"
KEPT: Final = ALLOCATOR.kept
CLASSES: Final = {
    "gpu": f'device.driver == "{DRIVER}"',
    "large": f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].large',
}
MEMORY: Final = "memory"
#: The DeviceClasses.
DEFINED: Final[list[Object]] = [
    {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    for name, expression in CLASSES.items()
]
pytestmark = pytest.mark.skipif(KEPT is None, reason="make test-upstream builds it")


@pytest.fixture(scope="module")
def allocator() -> Iterator[Allocator]:
    assert KEPT is not None
    with running(KEPT) as started:
        yield started


def a_slice(name: str, count: int, **more: Any) -> Object:  # Any: fields as JSON
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": count}
    return {"metadata": {"name": name}, "spec": {"driver": DRIVER, "nodeName": NODE, "pool": pool, **more}}


def published(devices: Sequence[Object], memory: int) -> list[Object]:
    """Counters are in a slice of their own, as the API server demands."""
    shared = [{"name": "card", "counters": {MEMORY: {"value": f"{memory}Gi"}}}]
    return [a_slice("counters", 2, sharedCounters=shared), a_slice("devices", 2, devices=[*devices])]


def ours(
    slices: Sequence[Object], pods: Sequence[Sequence[Object]], taken: Sequence[str]
) -> list[str] | None:
    """The devices that a gang of these pods, each with its claims, is given; None if it does not start."""
    pools, inventory, wanted = Pools(), Inventory(), Wanted()
    for name, expression in CLASSES.items():
        wanted.add_class(name, [expression])
    claimed = [
        [asked(f"c{i}", convert(spec, ResourceClaimSpec)) for i, spec in enumerate(claims)] for claims in pods
    ]
    for each in (each for some in claimed for each in some):
        wanted.add(each)
    inventory.want(wanted)
    for one in slices:
        pools.change(None, convert(one, ResourceSlice))
    inventory.settle(pools.settle())
    events = [*inventory.events()]
    expressions = Expressions()
    for text, of in [*inventory.kinds.unanswered()]:
        inventory.kinds.tell(text, of, [expressions.holds(text, each) for each in of])
    core = Scheduler()
    core.apply(node(NODE, gpu=0))
    for event in (*events, *inventory.events()):
        if isinstance(event, DevicesChanged):
            event = replace(event, taken=tuple(device for device, _ in event.devices if device in taken))
        core.apply(event)
    sets = [
        PodSet(f"s{number}", of_pod(tuple(each.shape for each in some)), 1, 1)
        for number, some in enumerate(claimed)
    ]
    core.apply(GangSubmitted(gang("g", *sets)))
    for assign in assigns(core.decide(0.0)):
        return [device for each in assign.claims.values() for one in each for _, device in one.devices]
    return None


def of_pod(claims: Claims) -> Shape:
    plain = shape(cpu=1)
    return replace(plain, requests=tuple(sorted((*plain.requests, *least(claims)))), claims=claims)


attribute = st.sampled_from([{"string": "a"}, {"string": "b"}, {"int": 1}])
taint = st.builds(
    lambda key, effect: {"key": key, "effect": effect},
    st.sampled_from(["old", "hot"]),
    st.sampled_from(["NoSchedule", "NoExecute", "None"]),
)


@st.composite
def a_device(draw: st.DrawFn) -> Object:
    attributes: Object = {"large": {"bool": draw(st.booleans())}}
    for name in ("x", "y"):
        if draw(st.sampled_from([True, True, True, False])):
            attributes[name] = draw(attribute)
    made: Object = {"attributes": attributes}
    if draw(st.sampled_from([False, False, True])):
        takes = {MEMORY: {"value": draw(st.sampled_from(["1Gi", "2Gi", "1500Mi"]))}}
        made["consumesCounters"] = [{"counterSet": "card", "counters": takes}]
    if draw(st.sampled_from([False] * 4 + [True])):
        made["taints"] = draw(st.lists(taint, min_size=1, max_size=2, unique_by=repr))
    return made


@st.composite
def an_ask(draw: st.DrawFn) -> Object:
    made: Object = {"deviceClassName": draw(st.sampled_from(["gpu", "gpu", "large"]))}
    if draw(st.sampled_from([False, False, False, True])):
        made["allocationMode"] = "All"
    else:
        made |= {"allocationMode": "ExactCount", "count": draw(st.sampled_from([1, 1, 1, 2, 3]))}
    if draw(st.sampled_from([False, False, True])):
        text = draw(st.sampled_from(['"x" in {0} && {0}.x == "a"', "!{0}.large", '"y" in {0}']))
        expression = text.format(f'device.attributes["{DRIVER}"]')
        made["selectors"] = [{"cel": {"expression": expression}}]
    if draw(st.booleans()):
        made["tolerations"] = [
            draw(st.sampled_from([{"operator": "Exists"}, {"key": "old", "operator": "Exists"}]))
        ]
    return made


@st.composite
def a_claim(draw: st.DrawFn) -> Object:
    requests: list[Object] = []
    for number in range(draw(st.sampled_from([1, 1, 2]))):
        name = f"r{number}"
        if draw(st.sampled_from([True, True, False])):
            requests.append({"name": name, "exactly": draw(an_ask())})
        else:
            each = draw(st.lists(an_ask(), min_size=1, max_size=2))
            named = [{"name": f"a{i}", **one} for i, one in enumerate(each)]
            requests.append({"name": name, "firstAvailable": named})
    constraints = []
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        kind = draw(st.sampled_from(["matchAttribute", "matchAttribute", "distinctAttribute"]))
        rule: Object = {kind: f"{DRIVER}/{draw(st.sampled_from('xy'))}"}
        if draw(st.booleans()):
            first = requests[0]
            names = ["r0", *(f"r0/{one['name']}" for one in first.get("firstAvailable", []))]
            rule["requests"] = [draw(st.sampled_from(names))]
        constraints.append(rule)
    return {"devices": {"requests": requests, "constraints": constraints}}


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(a_device(), min_size=1, max_size=6),
    st.integers(0, 6),
    st.lists(a_claim(), min_size=1, max_size=2),
    st.sets(st.integers(0, 5), max_size=1),
)
def test_what_the_allocator_places_is_started(
    allocator: Allocator, devices: list[Object], memory: int, claims: list[Object], busy: set[int]
) -> None:
    """And if there are no other devices than those that are given, it places the claims as well."""
    pytest.importorskip("cel_expr_python")
    named = [{"name": f"gpu-{i}", **each} for i, each in enumerate(devices)]
    slices = published(named, memory)
    taken = [f"{DRIVER}/{NODE}/gpu-{i}" for i in sorted(busy) if i < len(named)]
    try:
        theirs = allocator.ask([], claims, taken, slices, DEFINED)
    except Refused:
        theirs = None
    given = ours(slices, [claims], taken)
    assert given is not None or theirs is None
    if given is None:
        return
    assert max(Counter([*given, *taken]).values()) == 1
    if "All" not in repr(claims):
        kept = [each for each in named if f"{DRIVER}/{NODE}/{each['name']}" in {*given, *taken}]
        alone = allocator.ask([], claims, taken, published(kept, memory), DEFINED)
        assert alone is not None, "these devices are no answer"


def test_a_gang_starts_that_fails_pod_by_pod(allocator: Allocator) -> None:
    """kubernetes#138765: the first pod, which has a choice, takes the only device that the second can use."""
    pytest.importorskip("cel_expr_python")
    devices = [{"name": f"gpu-{i}", "attributes": {"large": {"bool": i == 0}}} for i in range(2)]
    slices = published(devices, 1)
    one, other = (
        {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": name}}]}}
        for name in ("gpu", "large")
    )
    first = allocator.ask([], [one], (), slices, DEFINED)
    assert first is not None
    taken = [f"{DRIVER}/{NODE}/{each['device']}" for each in first[0]["devices"]["results"]]
    assert allocator.ask([], [other], taken, slices, DEFINED) is None, "it has chosen greedily"
    assert sorted(ours(slices, [[one], [other]], ()) or ()) == [f"{DRIVER}/{NODE}/gpu-{i}" for i in range(2)]
