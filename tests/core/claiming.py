"""Small sets of devices and claims on them, drawn at random, and an exhaustive search over single devices."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from hypothesis import strategies as st

from muster.core.words.devices import (
    ALL,
    ClaimShape,
    DeviceAsk,
    DeviceConstraint,
    DeviceKind,
    DeviceRequest,
)
from muster.core.world.allocation import Claims

GPU = "deviceclass/gpu"

answers = st.frozensets(st.sampled_from([GPU, "large", "tolerant"]), max_size=3)
kind = st.builds(
    DeviceKind,
    answers,
    st.sampled_from([(), (("x", "a"),), (("x", "b"),), (("x", "a"), ("y", "c")), (("x", "b"), ("y", "d"))]),
    st.sampled_from([(), (("memory", 1),), (("memory", 2),)]),
    st.booleans(),
)
ask = st.builds(
    DeviceAsk,
    st.sampled_from([(GPU,), ("large",), (GPU, "large"), ()]),
    st.sampled_from([1, 1, 2, 3, ALL]),
    st.sampled_from(["", "tolerant"]),
)
constraint = st.builds(
    DeviceConstraint,
    st.sampled_from("xy"),
    st.sampled_from([(), (), ("r0",), ("r0", "r1"), ("r0/a1",), ("r0/a0", "r1")]),
    st.booleans(),
)


@st.composite
def requests(draw: st.DrawFn, name: str) -> DeviceRequest:
    alternatives = draw(st.lists(ask, min_size=1, max_size=2))
    if len(alternatives) == 1 and draw(st.booleans()):
        return DeviceRequest(name, (alternatives[0],))
    return DeviceRequest(name, tuple(replace(each, name=f"a{i}") for i, each in enumerate(alternatives)))


@st.composite
def claims(draw: st.DrawFn) -> Claims:
    found = []
    for c in range(draw(st.sampled_from([1, 1, 2]))):
        asked = [draw(requests(f"r{r}")) for r in range(draw(st.sampled_from([1, 1, 2])))]
        found.append(ClaimShape(f"c{c}", tuple(asked), tuple(draw(st.lists(constraint, max_size=2)))))
    return tuple(found)


@dataclass(frozen=True)
class There:
    """What a node has: devices by name, those in use, and what they share."""

    devices: Mapping[str, DeviceKind]
    busy: frozenset[str] = frozenset()
    memory: int = 0

    @property
    def left(self) -> int:
        return self.memory - self.taken(self.busy)

    def taken(self, devices: Iterator[str] | Sequence[str] | frozenset[str] | set[str]) -> int:
        return sum(dict(self.devices[each].consumes).get("memory", 0) for each in devices)


#: By the label of what was asked for (`request` or `request/alternative`), the devices for it.
Given = Mapping[str, tuple[str, ...]]


def possible(there: There, pods: Sequence[Claims]) -> bool:
    """Whether all pods can be served, by trying every device for every request."""
    used: set[str] = set()

    def go(left: list[tuple[ClaimShape, int]], given: Given) -> bool:
        if used and there.taken(used) > there.left:
            return False
        if not left:
            return True
        (one, r), *rest = left
        if r == len(one.requests):
            return not broken(there, one, given) and go(rest, {})
        for label, each in labelled(one.requests[r]):
            for some in _ways(there, each, used):
                used.update(some)
                if go([(one, r + 1), *rest], {**given, label: some}):
                    return True
                used.difference_update(some)
        return False

    return go([(one, 0) for pod in pods for one in pod], {})


def labelled(request: DeviceRequest) -> Iterator[tuple[str, DeviceAsk]]:
    for each in request.alternatives:
        yield f"{request.name}/{each.name}" if each.name else request.name, each


def selects(each: DeviceAsk, of: DeviceKind) -> bool:
    return of.answers >= {*each.selectors}


def tolerated(each: DeviceAsk, of: DeviceKind) -> bool:
    return not of.tainted or each.tolerations in of.answers


def broken(there: There, one: ClaimShape, given: Given) -> bool:
    """Whether what a claim was given breaks one of its constraints."""
    for rule in one.constraints:
        chosen = [
            device
            for label, some in given.items()
            if not rule.requests or {label, label.partition("/")[0]} & {*rule.requests}
            for device in some
        ]
        values = [dict(there.devices[each].attributes).get(rule.attribute) for each in chosen]
        if None in values:
            return True
        if len({*values}) != len(values) if rule.distinct else len({*values}) > 1:
            return True
    return False


def faults(there: There, pods: Sequence[tuple[Claims, Sequence[Given]]]) -> Iterator[str]:
    """What is wrong with the devices that pods were given: by pod its claims, and by claim what it has."""
    had = [d for _, each in pods for given in each for some in given.values() for d in some]
    if len({*had}) < len(had):
        yield "a device is given twice"
    if strange := {*had} - there.devices.keys():
        yield f"there is no {strange}"
        return
    if in_use := {*had} & there.busy:
        yield f"{in_use} are in use"
    if had and there.taken(had) > there.left:
        yield "they share more than there is"
    for claimed, each in pods:
        for one, given in zip(claimed, each, strict=True):
            if broken(there, one, given):
                yield f"{one} is given {given}"
            if {label.partition("/")[0] for label in given} != {request.name for request in one.requests}:
                yield f"not every request of {one} is served: {given}"
            by_label = {label: ask for request in one.requests for label, ask in labelled(request)}
            for label, some in given.items():
                asked = by_label[label]
                fitting = {name for name, of in there.devices.items() if selects(asked, of)}
                if not {*some} <= fitting or not all(tolerated(asked, there.devices[d]) for d in some):
                    yield f"{some} are none of {asked}"
                if len(some) != (len(fitting) if asked.count == ALL else asked.count) or not some:
                    yield f"{some} are too few or too many for {asked}"


def _ways(there: There, asked: DeviceAsk, used: set[str]) -> Iterator[tuple[str, ...]]:
    fitting = [name for name, of in there.devices.items() if selects(asked, of)]
    usable = [
        name
        for name in fitting
        if name not in used and name not in there.busy and tolerated(asked, there.devices[name])
    ]
    if asked.count != ALL:
        yield from combinations(usable, asked.count)
    elif fitting and len(usable) == len(fitting):
        yield tuple(fitting)
