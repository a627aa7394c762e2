"""Whole gangs with claims on small clusters, against an exhaustive search: what fits starts, and only that.

A scheduler gets events and gives decisions. The search tries every node for every pod, and every device for
every request (`tests/core/claiming.py`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign
from muster.core.words.devices import (
    ALL,
    DEVICE_CLASS,
    Allocation,
    ClaimShape,
    DeviceAsk,
    DeviceConstraint,
    DeviceId,
    DeviceKind,
    DeviceKindChanged,
    DeviceRequest,
    DevicesChanged,
    KindId,
)
from muster.core.words.events import GangSubmitted
from muster.core.words.gang import Amounts, Gang, PodSet, Shape
from muster.core.world.allocation import Claims
from tests.core.claiming import GPU, Given, There, claims, faults, kind, possible
from tests.core.words import amounts, assigns, gang, node, shape

NAMES: Final = ("a", "b", "c")


@dataclass(frozen=True)
class Node:
    cpu: int
    there: There


def least(claimed: Claims) -> Amounts:
    """What any allocation takes at least, by class."""
    found = Counter[str]()
    for request in (request for one in claimed for request in one.requests):
        each = [
            Counter({s: 1 if a.count == ALL else a.count for s in a.selectors if s.startswith(DEVICE_CLASS)})
            for a in request.alternatives
        ]
        for name in each[0]:
            found[name] += min(one[name] for one in each)
    return amounts(found)


def pod_shape(cpu: int, claimed: Claims) -> Shape:
    made = shape(cpu=cpu)
    return replace(made, requests=tuple(sorted((*made.requests, *least(claimed)))), claims=claimed)


def cluster(nodes: Sequence[Node]) -> Scheduler:
    kinds = dict.fromkeys(each for one in nodes for each in one.there.devices.values())
    numbers = {each: KindId(i) for i, each in enumerate(kinds)}
    made = Scheduler()
    for each, number in numbers.items():
        made.apply(DeviceKindChanged(number, each))
    for name, one in zip(NAMES, nodes, strict=False):
        made.apply(node(name, gpu=0, cpu=one.cpu))
        made.apply(
            DevicesChanged(
                name,
                tuple((DeviceId(f"{name}/{d}"), numbers[of]) for d, of in one.there.devices.items()),
                (("memory", one.there.memory),) if one.there.memory else (),
                tuple(DeviceId(f"{name}/{d}") for d in sorted(one.there.busy)),
            )
        )
    return made


def fits(nodes: Sequence[Node], of: Gang) -> bool:
    """Whether the minimum of a gang fits, by trying every node for every pod."""
    served: dict[tuple[int, tuple[int, ...]], bool] = {}

    def serves(n: int, pods: tuple[int, ...]) -> bool:
        shapes = [of.pod_sets[p].shape for p, number in enumerate(pods) for _ in range(number)]
        if sum(dict(each.requests)["cpu"] for each in shapes) > nodes[n].cpu:
            return False
        if (n, pods) not in served:
            served[n, pods] = possible(nodes[n].there, [each.claims for each in shapes])
        return served[n, pods]

    for numbers in product(*(range(each.min_count, each.count + 1) for each in of.pod_sets)):
        if sum(numbers) != max(of.min_count, sum(each.min_count for each in of.pod_sets)):
            continue
        spread = (combinations_with_replacement(range(len(nodes)), number) for number in numbers)
        for where in product(*spread):
            if all(serves(n, tuple(some.count(n) for some in where)) for n in range(len(nodes))):
                return True
    return False


def wrong(nodes: Sequence[Node], of: Gang, assign: Assign) -> Iterator[str]:
    sets = {each.name: each for each in of.pod_sets}
    on = {name: [place for place, at in assign.nodes.items() if at == name] for name in NAMES}
    for name, one in zip(NAMES, nodes, strict=False):
        if sum(dict(sets[p.pod_set].shape.requests)["cpu"] for p in on[name]) > one.cpu:
            yield f"{name} has not enough CPU"
        pods = [
            (sets[p.pod_set].shape.claims, [given_by(each, name) for each in assign.claims.get(p, ())])
            for p in on[name]
        ]
        yield from faults(one.there, pods)
    for each in of.pod_sets:
        if sum(place.pod_set == each.name for place in assign.nodes) < each.min_count:
            yield f"{each.name} is below its minimum"
    if len(assign.nodes) < of.min_count:
        yield "the gang is below its minimum"


def given_by(of: Allocation, on: str) -> Given:
    found: dict[str, tuple[str, ...]] = {}
    for label, device in of.devices:
        found[label] = (*found.get(label, ()), device.removeprefix(f"{on}/"))
    return found


#: Devices and claims that fit oftener than those that are drawn at random, and gangs that nearly fit.
usual_kind = st.builds(
    DeviceKind,
    st.sampled_from([frozenset({GPU}), frozenset({GPU, "large"}), frozenset({"large"})]),
    st.sampled_from([(("x", "a"),), (("x", "b"),), ()]),
    st.sampled_from([(), (), (("memory", 1),), (("memory", 2),)]),
)
usual_ask = st.builds(
    DeviceAsk, st.sampled_from([(GPU,), ("large",), (GPU, "large")]), st.sampled_from([1, 1, 1, 2, 2, ALL])
)
usual_claims = st.builds(
    lambda one, other, rule: (
        ClaimShape(
            "c", (DeviceRequest("r0", (one,) if other is None else (replace(one, name="a"), other)),), rule
        ),
    ),
    usual_ask,
    st.sampled_from([None, None, None, DeviceAsk((GPU,), name="b"), DeviceAsk(("large",), 2, name="b")]),
    st.sampled_from([(), (), (DeviceConstraint("x"),), (DeviceConstraint("x", (), True),)]),
)


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    kinds = draw(st.lists(draw(st.sampled_from([usual_kind, usual_kind, kind])), min_size=1, max_size=3))
    left, found = 6, []
    for _ in range(draw(st.sampled_from([1, 2, 2, 3]))):
        most = min(left, 4)
        there = draw(st.lists(st.sampled_from(kinds), min_size=min(most, 2), max_size=most))
        left -= len(there)
        devices = {f"d{i}": each for i, each in enumerate(there)}
        busy = frozenset(d for d in devices if draw(st.sampled_from([False, False, False, False, True])))
        one = There(devices, busy)
        memory = one.taken(busy) + draw(st.sampled_from([4, 2, 3, 6]))
        found.append(Node(draw(st.sampled_from([4, 3, 2])), replace(one, memory=memory)))
    return found


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    left, sets = 4, []
    for i in range(draw(st.sampled_from([1, 2, 2, 3]))):
        if not left:
            break
        count = draw(st.integers(1, min(left, 2)))
        left -= count
        claimed = draw(draw(st.sampled_from([usual_claims] * 4 + [claims(), st.just(())])))
        of = pod_shape(draw(st.sampled_from([1, 2])), claimed)
        sets.append(PodSet(f"s{i}", of, count, draw(st.sampled_from([count, count, 0]))))
    total = sum(each.count for each in sets)
    return gang("g", *sets, minimum=draw(st.sampled_from([total, total, max(total - 1, 1)])))


@given(clusters(), gangs())
def test_a_gang_starts_if_it_fits(nodes: list[Node], of: Gang) -> None:
    made = cluster(nodes)
    made.apply(GangSubmitted(of))
    found = assigns(made.decide(0.0))
    assert [fault for each in found for fault in wrong(nodes, of, each)] == []
    assert bool(found) is fits(nodes, of)
