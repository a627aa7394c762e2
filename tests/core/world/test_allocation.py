"""Allocation of a node's devices to pods, against an exhaustive search over single devices."""

from collections import Counter
from dataclasses import replace

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
from muster.core.world.allocation import Claims, Room, seen, serve
from tests.core.claiming import GPU, There, claims, kind, possible

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


def test_a_withheld_device_is_not_given_and_all_devices_are_not_all_without_it() -> None:
    kinds = {KindId(0): DeviceKind(frozenset({GPU})), KindId(1): DeviceKind(frozenset({GPU}), withheld=True)}
    assert serve(room(2, 1), kinds, [], (claim(),)).further == 2
    assert serve(room(2, 1), kinds, [], (claim(ALL),)).further == 0
    assert serve(room(2), kinds, [], (claim(ALL),)).further == 1


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


def test_a_constraint_may_be_of_one_alternative() -> None:
    """`request/alternative` names what that alternative takes; the other alternatives are not bound by it."""
    both = tuple(DeviceAsk((GPU,), 4, name=name) for name in ("near", "any"))
    for requests, further in ((("r/near",), 1), (("r/near", "r/any"), 0), (("r",), 0), ((), 0)):
        one = ClaimShape("c", (DeviceRequest("r", both),), (DeviceConstraint("clique", requests),))
        found = serve(room(3, 3), CLIQUES, [], (one,))
        assert found.further == further
        assert {grant.request for some in found.grants or () for grant in some} <= {"r/any"}


def test_a_claim_has_a_bounded_number_of_devices() -> None:
    """More could not be written down: an alternative that takes too many is not taken."""
    one = {KindId(0): DeviceKind(frozenset({GPU}))}
    wide, narrow = DeviceAsk((GPU,), 20, name="wide"), DeviceAsk((GPU,), 12, name="narrow")
    requests = (DeviceRequest("a", (wide,)), DeviceRequest("b", (wide, narrow)))
    found = serve(room(64), one, [], (ClaimShape("c", requests),), most=1)
    assert found.grants is not None
    assert [(grant.request, grant.number) for grant in found.grants[0]] == [("a/wide", 20), ("b/narrow", 12)]
    assert serve(room(33), one, [], (claim(ALL),)).further == 0
    assert serve(room(32), one, [], (claim(ALL),)).further == 1


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


@given(
    st.lists(st.tuples(kind, st.sampled_from([False, False, False, True])), max_size=6),
    st.integers(0, 6),
    st.lists(claims(), max_size=2),
    claims(),
)
@example([(DeviceKind(frozenset({GPU})), False)] * 2, 6, [], (claim(),))
def test_as_many_pods_as_an_exhaustive_search_finds(
    devices: list[tuple[DeviceKind, bool]], memory: int, first: list[Claims], more: Claims
) -> None:
    there = There(
        {f"d{i}": each for i, (each, _) in enumerate(devices)},
        frozenset(f"d{i}" for i, (_, busy) in enumerate(devices) if busy),
    )
    there = replace(there, memory=memory + there.taken(there.busy))
    numbers = {each: KindId(i) for i, each in enumerate(dict.fromkeys(each for each, _ in devices))}
    free = Counter(numbers[each] for each, busy in devices if not busy)
    busy = Counter(numbers[each] for each, busy in devices if busy)
    room = Room(tuple((k, free[k], busy[k]) for k in sorted(numbers.values())), (("memory", memory),))
    kinds = {number: each for each, number in numbers.items()}
    found = serve(room, kinds, [(each, 1) for each in first], more, steps=10**6)
    expected = [n for n in range(4) if possible(there, [*first, *[more] * n])]
    assert not found.open
    if not expected:
        assert (found.further, found.grants) == (0, None)
        return
    assert min(found.further, 3) == max(expected)
    assert found.grants is not None
    assert len(found.grants) == len(first) + found.further


@given(st.lists(st.tuples(kind, st.booleans()), max_size=6), claims(), st.integers(0, 4), st.booleans())
def test_rooms_that_claims_cannot_tell_apart_serve_as_many(
    devices: list[tuple[DeviceKind, bool]], asked: Claims, memory: int, swap: bool
) -> None:
    """Other kinds, other values, other answers that they do not ask for: it looks the same."""
    other = {"a": "v", "b": "w"} if swap else {"a": "b", "b": "a"}

    def renamed(each: DeviceKind) -> DeviceKind:
        values = tuple((name, other.get(value, value)) for name, value in each.attributes)
        return replace(each, attributes=values, answers=each.answers | {"unasked"})

    def of(some: list[tuple[DeviceKind, bool]], first: int) -> tuple[Room, dict[KindId, DeviceKind]]:
        numbers = {each: KindId(first + i) for i, each in enumerate(dict.fromkeys(each for each, _ in some))}
        free, busy = (Counter(numbers[each] for each, taken in some if taken is b) for b in (False, True))
        listed = tuple((k, free[k], busy[k]) for k in sorted(numbers.values()))
        return Room(listed, (("memory", memory), ("unused", first))), {k: each for each, k in numbers.items()}

    here, there = of(devices, 0), of([(renamed(each), taken) for each, taken in devices], 7)
    assert seen(*here, asked) == seen(*there, asked)
    assert serve(*here, [], asked).further == serve(*there, [], asked).further


@given(
    st.lists(st.tuples(kind, st.booleans()), max_size=3),
    st.lists(st.tuples(kind, st.booleans()), max_size=3),
    claims(),
)
def test_rooms_that_look_the_same_serve_as_many(
    one: list[tuple[DeviceKind, bool]], other: list[tuple[DeviceKind, bool]], asked: Claims
) -> None:
    rooms = []
    for some in (one, other):
        numbers = {each: KindId(i) for i, each in enumerate(dict.fromkeys(each for each, _ in some))}
        free, busy = (Counter(numbers[each] for each, taken in some if taken is b) for b in (False, True))
        listed = tuple((k, free[k], busy[k]) for k in sorted(numbers.values()))
        rooms.append((Room(listed, (("memory", 2),)), {k: each for each, k in numbers.items()}))
    if seen(*rooms[0], asked) == seen(*rooms[1], asked):
        assert serve(*rooms[0], [], asked).further == serve(*rooms[1], [], asked).further
