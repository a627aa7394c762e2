"""Kubernetes' allocator of devices, as an oracle: what it places on a node, muster has to be able to place.

Here it is held against an exhaustive search, and its answers against the rules of the embedded cluster;
`test_allocations.py` holds the scheduler against it.
"""

import itertools
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import rules
from muster.api.base import Object
from muster.api.kinds import RESOURCE_CLAIM
from muster.api.resource_v1 import Device
from muster.embedded.devicespec import DeviceSpec, slices
from muster.translate.devices import selectors
from tests.upstream.allocator import NODE, Allocator, Refused, claim, running
from tests.upstream.modules import ALLOCATOR

DRIVER: Final = "gpu.example.com"
CLIQUE: Final = f"{DRIVER}/clique"
KEPT: Final = ALLOCATOR.kept
pytestmark = pytest.mark.skipif(KEPT is None, reason="make test-upstream builds it")


@pytest.fixture(scope="module")
def allocator() -> Iterator[Allocator]:
    assert KEPT is not None
    with running(KEPT) as started:
        yield started


def gpus(**attributes: Any) -> DeviceSpec:
    """Eight devices; each attribute has a value, or several in blocks."""
    return devices(8, **attributes)


def devices(count: int, **attributes: Any) -> DeviceSpec:
    values = {name: each if isinstance(each, list) else [each] for name, each in attributes.items()}
    typed = {name: [{"string": value} for value in each] for name, each in values.items()}
    return DeviceSpec(DRIVER, count, DRIVER, attributes=typed)


def request(name: str = "gpu", **asked: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": DRIVER, **asked}}


def asks(*requests: Object, **more: Any) -> Object:
    return {"devices": {"requests": [*requests], **more}}


def cel(expression: str) -> list[Object]:
    return [{"cel": {"expression": expression}}]


def names(found: list[Object] | None) -> list[str] | None:
    """The devices of all claims."""
    if found is None:
        return None
    return [each["device"] for one in found for each in one["devices"]["results"]]


MATCH: Final = {"constraints": [{"matchAttribute": CLIQUE}]}
DISTINCT: Final = {"constraints": [{"distinctAttribute": CLIQUE}]}


@pytest.mark.parametrize(
    ("claims", "count"),
    [
        ([asks(request(count=8))], 8),
        ([asks(request(count=9))], None),
        ([asks(request(count=5)), asks(request(count=3))], 8),
        ([asks(request(count=5)), asks(request(count=4))], None),
        ([asks(request(allocationMode="All"))], 8),
        ([asks(request(count=4), **MATCH)], 4),
        ([asks(request(count=5), **MATCH)], None),
        ([asks(request(count=4), **MATCH), asks(request(count=4), **MATCH)], 8),
        ([asks(request(count=2), **DISTINCT)], 2),
        ([asks(request(count=3), **DISTINCT)], None),
        ([asks(request(selectors=cel('device.attributes["gpu.example.com"].clique == "b"'), count=4))], 4),
        ([asks(request(selectors=cel('device.attributes["gpu.example.com"].clique == "b"'), count=5))], None),
        ([asks(request(selectors=cel('device.attributes["gpu.example.com"].index > 5'), count=2))], 2),
        (
            [
                asks(
                    {
                        "name": "gpu",
                        "firstAvailable": [
                            {"name": "many", "deviceClassName": DRIVER, "count": 9},
                            {"name": "few", "deviceClassName": DRIVER, "count": 2},
                        ],
                    }
                )
            ],
            2,
        ),
    ],
)
def test_it_allocates(allocator: Allocator, claims: list[Object], count: int | None) -> None:
    found = allocator.ask([gpus(clique=["a", "b"])], claims)
    got = names(found)
    assert (len(got) if got is not None else None) == count
    assert got is None or len({*got}) == len(got)
    for number, allocation in enumerate(found or []):
        before = claim(claims[number], number)
        after = before | {"status": {"allocation": allocation}}
        assert rules.validate_status(RESOURCE_CLAIM, after, before) == []
        [term] = allocation["nodeSelector"]["nodeSelectorTerms"]
        assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}


def test_devices_in_use_are_not_allocated(allocator: Allocator) -> None:
    taken = [f"{DRIVER}/{NODE}/gpu-{number}" for number in range(7)]
    assert names(allocator.ask([gpus()], [asks(request())], taken)) == ["gpu-7"]
    assert allocator.ask([gpus()], [asks(request(count=2))], taken) is None
    assert allocator.ask([gpus()], [asks(request(allocationMode="All"))], taken) is None


@pytest.mark.parametrize("expression", ["1 +", '"no boolean"', "device.attributes[1]"])
def test_an_expression_that_is_wrong_is_refused(allocator: Allocator, expression: str) -> None:
    with pytest.raises(Refused):
        allocator.ask([gpus()], [asks(request(selectors=cel(expression)))])


EXPRESSIONS: Final = (
    "true",
    "false",
    'device.driver == "gpu.example.com"',
    'device.driver.startsWith("gpu.")',
    'device.driver.matches("^gpu[.]example")',
    'device.attributes["gpu.example.com"].model == "A100"',
    'device.attributes["gpu.example.com"].model != "A100"',
    'device.attributes["gpu.example.com"].model in ["H100", "A100"]',
    'device.attributes["gpu.example.com"].model.lowerAscii() == "a100"',
    'device.attributes["gpu.example.com"].ecc',
    '!device.attributes["gpu.example.com"].ecc',
    'device.attributes["gpu.example.com"].cores > 50 && device.attributes["gpu.example.com"].cores % 2 == 0',
    'device.attributes["gpu.example.com"].cores > 500',
    'device.attributes["gpu.example.com"].missing == 1',
    'has(device.attributes["gpu.example.com"].missing)',
    'has(device.attributes["gpu.example.com"].model)',
    'device.attributes["other.example.com"].model == "A100"',
    '"other.example.com" in device.attributes',
    '"gpu.example.com" in device.attributes',
    'device.attributes["pci.example.com"].root == "0000:1"',
    'device.attributes["gpu.example.com"].firmware.isGreaterThan(semver("1.2.0"))',
    'device.attributes["gpu.example.com"].firmware.isLessThan(semver("1.2.0"))',
    'device.attributes["gpu.example.com"].firmware.compareTo(semver("1.2.3-rc.1")) == 1',
    'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) == 0',
    'device.capacity["gpu.example.com"].memory == quantity("80Gi")',
    'device.capacity["gpu.example.com"].memory.asInteger() > 1000',
    'device.capacity["gpu.example.com"].memory.sub(quantity("1Gi")).isLessThan(quantity("80Gi"))',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    "1 == 1 ? true : false",
    '["a", "b"].exists(x, x == "b")',
    '["a", "b"].all(x, x in device.attributes)',
    'device.attributes["gpu.example.com"].?missing.orValue(5) == 5',
    'cel.bind(g, device.attributes["gpu.example.com"], g.model == "A100" && g.cores == 108)',
    'isSemver("1.2.3") && isQuantity("5Gi") && !isSemver("one")',
    'size(device.attributes["gpu.example.com"].model) == 4',
    "device.attributes.size() > 0",
    'device.attributes[?"other.example.com"].?x.orValue("none") == "none"',
    'device.attributes[?"other.example.com"].hasValue()',
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_our_expressions_select_what_its_expressions_select(allocator: Allocator, expression: str) -> None:
    """One device is asked for. What fails for a device aborts its search, and selects nothing here."""
    pytest.importorskip("cel_expr_python")
    spec = DeviceSpec(
        DRIVER,
        1,
        DRIVER,
        attributes={
            "model": [{"string": "A100"}],
            "cores": [{"int": 108}],
            "ecc": [{"bool": True}],
            "firmware": [{"version": "1.2.3"}],
            "pci.example.com/root": [{"string": "0000:1"}],
        },
        capacity={"memory": "80Gi"},
    )
    [published] = slices(NODE, [spec])
    device = msgspec.convert(published["spec"]["devices"][0], Device)
    try:
        theirs = allocator.ask([spec], [asks(request(selectors=cel(expression)))]) is not None
    except Refused:
        theirs = False
    assert selectors.Expressions().holds(expression, selectors.facts(DRIVER, device)) is theirs


@given(
    cliques=st.lists(st.sampled_from("ab"), min_size=1, max_size=5),
    counts=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    matched=st.lists(st.booleans(), min_size=3, max_size=3),
    busy=st.sets(st.integers(0, 4), max_size=2),
)
def test_it_places_whatever_can_be_placed(
    allocator: Allocator, cliques: list[str], counts: list[int], matched: list[bool], busy: set[int]
) -> None:
    """Claims of so many devices each, some of which must be of one clique."""
    claims = [
        asks(request(count=count), **(MATCH if match else {}))
        for count, match in zip(counts, matched, strict=False)
    ]
    taken = [f"{DRIVER}/{NODE}/gpu-{number}" for number in busy]
    found = names(allocator.ask([devices(len(cliques), clique=cliques)], claims, taken))
    free = [number for number in range(len(cliques)) if number not in busy]
    assert (found is not None) is fits(free, cliques, [*zip(counts, matched, strict=False)])


def fits(free: list[int], cliques: list[str], wanted: list[tuple[int, bool]]) -> bool:
    """Whether each gets so many of the free devices; with True, all of one clique. It tries all ways."""
    if not wanted:
        return True
    count, match = wanted[0]
    return any(
        (not match or len({cliques[number] for number in chosen}) == 1)
        and fits([number for number in free if number not in chosen], cliques, wanted[1:])
        for chosen in itertools.combinations(free, count)
    )
