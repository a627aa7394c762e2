"""Allocation of a node's devices to pods, against an exhaustive search over single devices."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from hypothesis import example, given
from hypothesis import strategies as st

from muster.core.words.devices import (
    ALL,
    ClaimShape,
    DeviceAsk,
    DeviceConstraint,
    DeviceKind,
    DeviceRequest,
    KindId,
)
from muster.core.world.allocation import Claims, Room, serve

GPU = "deviceclass/gpu"
#: Two cliques of four GPUs.
CLIQUES = {
    KindId(0): DeviceKind(frozenset({GPU}), (("clique", "string:a"),)),
    KindId(1): DeviceKind(frozenset({GPU}), (("clique", "string:b"),)),
}


def room(*numbers: int) -> Room:
    return Room(tuple((KindId(kind), n, 0) for kind, n in enumerate(numbers)))


def claim(count: int = 1, *constraints: DeviceConstraint, selectors: tuple[str, ...] = (GPU,)) -> ClaimShape:
    return ClaimShape("c", (DeviceRequest("r", (DeviceAsk(selectors, count),)),), constraints)


SAME = DeviceConstraint("clique")


def test_equal_devices_are_a_number() -> None:
    one = {KindId(0): DeviceKind(frozenset({GPU}))}
    assert serve(room(8), one, [], (claim(2),)).further == 4
    assert serve(room(8), one, [((claim(2),), 3)], (claim(1),)).further == 2
    assert serve(room(8), one, [((claim(2),), 5)]).grants is None
    assert serve(room(256), one, [], (claim(),), steps=600).further == 256


def test_devices_for_one_claim_share_a_value() -> None:
    assert serve(room(4, 4), CLIQUES, [], (claim(4, SAME),)).further == 2
    assert serve(room(4, 4), CLIQUES, [], (claim(3, SAME),)).further == 2
    assert serve(room(3, 5), CLIQUES, [], (claim(4, SAME),)).further == 1
    assert serve(room(3, 3), CLIQUES, [], (claim(4, SAME),)).further == 0


def test_pods_of_one_gang_are_decided_together() -> None:
    """A pod that can use any device leaves the only one that the other can use."""
    kinds = {
        KindId(0): DeviceKind(frozenset({GPU, "large"})),
        KindId(1): DeviceKind(frozenset({GPU})),
    }
    any_, large = (claim(),), (claim(selectors=(GPU, "large")),)
    assert serve(room(1, 1), kinds, [(any_, 1)], large).further == 1
    # Pods that need a whole clique come after pods that need a single device.
    assert serve(room(4, 4), CLIQUES, [(any_, 4)], (claim(4, SAME),)).further == 1


def test_all_are_free_and_tolerated_or_none_is_given() -> None:
    one = {KindId(0): DeviceKind(frozenset({GPU})), KindId(1): DeviceKind(frozenset({GPU}), tainted=True)}
    every = (claim(ALL),)
    assert serve(Room(((KindId(0), 3, 0),)), one, [], every).further == 1
    assert serve(Room(((KindId(0), 3, 1),)), one, [], every).further == 0
    assert serve(room(3, 1), one, [], every).further == 0
    assert serve(Room(()), one, [], every).further == 0


def test_partitions_share_the_counters_of_their_device() -> None:
    kinds = {
        KindId(0): DeviceKind(frozenset({"half"}), consumes=(("memory", 40),)),
        KindId(1): DeviceKind(frozenset({"whole"}), consumes=(("memory", 80),)),
    }
    half, whole = (claim(selectors=("half",)),), (claim(selectors=("whole",)),)
    free = Room(((KindId(0), 2, 0), (KindId(1), 1, 0)), (("memory", 80),))
    assert serve(free, kinds, [], half).further == 2
    assert serve(free, kinds, [(half, 1)], whole).further == 0
    assert serve(free, kinds, [], whole).further == 1


def test_an_answer_beyond_the_steps_says_so() -> None:
    """Requests of many devices, on devices of as many kinds that constraints tell apart."""
    kinds = {
        KindId(i): DeviceKind(frozenset({GPU}), (("x", f"int:{i % 7}"), ("y", f"int:{i % 11}")))
        for i in range(128)
    }
    requests = tuple(DeviceRequest(f"r{i}", (DeviceAsk((GPU,), 4),)) for i in range(32))
    rules = tuple(DeviceConstraint(name, (f"r{i}",), i % 2 == 0) for i in range(32) for name in "xy")
    hard = (ClaimShape("c", requests, rules),)
    found = serve(room(*[1] * 128), kinds, [], hard)
    assert found.further == 1 or found.open


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
    st.just("a"),
)
constraint = st.builds(
    DeviceConstraint, st.sampled_from("xy"), st.sampled_from([(), ("r0",), ("r0", "r1")]), st.booleans()
)


@st.composite
def claims(draw: st.DrawFn) -> Claims:
    found = []
    for c in range(draw(st.sampled_from([1, 1, 2]))):
        requests = [
            DeviceRequest(f"r{r}", tuple(draw(st.lists(ask, min_size=1, max_size=2))))
            for r in range(draw(st.sampled_from([1, 1, 2])))
        ]
        found.append(ClaimShape(f"c{c}", tuple(requests), tuple(draw(st.lists(constraint, max_size=2)))))
    return tuple(found)


def possible(
    devices: tuple[DeviceKind, ...], busy: tuple[DeviceKind, ...], memory: int, pods: list[Claims]
) -> bool:
    """Whether all pods can be served, by trying every device for every request."""
    used: set[int] = set()

    def legal(ask: DeviceAsk, each: DeviceKind) -> bool:
        return not each.tainted or ask.tolerations in each.answers

    def ways(ask: DeviceAsk) -> Iterator[tuple[int, ...]]:
        fitting = [i for i, each in enumerate(devices) if each.answers >= set(ask.selectors)]
        if ask.count != ALL:
            free = [i for i in fitting if i not in used and legal(ask, devices[i])]
            yield from combinations(free, ask.count)
        elif fitting and all(legal(ask, devices[i]) and i not in used for i in fitting):
            yield from [tuple(fitting)] * all(not each.answers >= set(ask.selectors) for each in busy)

    def holds(one: ClaimShape, given: dict[str, tuple[int, ...]]) -> bool:
        for rule in one.constraints:
            chosen = [
                i for name, some in given.items() if not rule.requests or name in rule.requests for i in some
            ]
            values = [dict(devices[i].attributes).get(rule.attribute) for i in chosen]
            if None in values:
                return False
            if len(set(values)) != len(values) if rule.distinct else len(set(values)) > 1:
                return False
        return True

    def go(left: list[tuple[ClaimShape, int]], given: dict[str, tuple[int, ...]]) -> bool:
        if sum(dict(devices[i].consumes).get("memory", 0) for i in used) > memory:
            return False
        if not left:
            return True
        (one, r), *rest = left
        if r == len(one.requests):
            return holds(one, given) and go(rest, {})
        for each in one.requests[r].alternatives:
            for some in ways(each):
                used.update(some)
                if go([(one, r + 1), *rest], {**given, one.requests[r].name: some}):
                    return True
                used.difference_update(some)
        return False

    return go([(one, 0) for pod in pods for one in pod], {})


@given(
    st.lists(st.tuples(kind, st.sampled_from([0, 0, 0, 1])), max_size=6),
    st.integers(0, 6),
    st.lists(claims(), max_size=2),
    claims(),
)
@example([(DeviceKind(frozenset({GPU})), 0)] * 2, 6, [], (claim(),))
def test_as_many_pods_as_an_exhaustive_search_finds(
    devices: list[tuple[DeviceKind, int]], memory: int, first: list[Claims], more: Claims
) -> None:
    numbers = {each: KindId(i) for i, each in enumerate(dict.fromkeys(each for each, _ in devices))}
    free = Counter(numbers[each] for each, busy in devices if not busy)
    busy = Counter(numbers[each] for each, busy in devices if busy)
    there = Room(tuple((k, free[k], busy[k]) for k in sorted(numbers.values())), (("memory", memory),))
    kinds = {number: each for each, number in numbers.items()}
    found = serve(there, kinds, [(each, 1) for each in first], more, steps=10**6)
    single = tuple(each for each, busy in devices if not busy)
    in_use = tuple(each for each, busy in devices if busy)
    expected = [n for n in range(4) if possible(single, in_use, memory, [*first, *[more] * n])]
    assert not found.open
    if not expected:
        assert (found.further, found.grants) == (0, None)
        return
    assert min(found.further, 3) == max(expected)
    assert found.grants is not None
    assert len(found.grants) == len(first) + found.further
