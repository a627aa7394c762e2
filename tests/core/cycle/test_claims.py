"""Gangs whose pods have claims: started with devices by name, whole, and never with a device twice."""

import itertools
from collections import Counter
from dataclasses import replace
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.saved import restored, saved
from muster.core.words.decisions import Assign, Evict
from muster.core.words.devices import (
    ALL,
    Allocation,
    ClaimShape,
    DeviceAsk,
    DeviceConstraint,
    DeviceId,
    DeviceKind,
    DeviceKindChanged,
    DeviceKindRemoved,
    DeviceRequest,
    DevicesChanged,
    KindId,
)
from muster.core.words.events import Event, GangRemoved, GangSubmitted, PodsBound, PodsEnded
from muster.core.words.gang import Code, Gang, GangId, NodeName, Place, PodSet, Shape
from muster.core.world import allocation, claims
from tests.core.words import amounts, assigns, gang, node, pod, shape, waits

STEPS = Config().steps or 0
GPU = "deviceclass/gpu"
LARGE = "deviceclass/large"
#: Two cliques, of which the devices of one are large as well.
KINDS = (
    DeviceKindChanged(KindId(0), DeviceKind(frozenset({GPU}), (("clique", "string:a"),))),
    DeviceKindChanged(KindId(1), DeviceKind(frozenset({GPU, LARGE}), (("clique", "string:b"),))),
)


def devices(on: str, *numbers: int, taken: int = 0) -> DevicesChanged:
    """So many devices of each kind."""
    kinds = [KindId(kind) for kind, n in enumerate(numbers) for _ in range(n)]
    found = tuple((DeviceId(f"{on}/{i}"), kind) for i, kind in enumerate(kinds))
    return DevicesChanged(on, found, taken=tuple(device for device, _ in found[:taken]))


def claiming(count: int = 1, of: str = GPU, *, same: bool = False) -> Shape:
    rules = (DeviceConstraint("clique"),) if same else ()
    claim = ClaimShape("c", (DeviceRequest("r", (DeviceAsk((of,), count),)),), rules)
    return replace(shape(cpu=1), requests=amounts({"cpu": 1, of: count}), claims=(claim,))


def cluster(*facts: DevicesChanged) -> Scheduler:
    made = Scheduler()
    told: list[Event] = [*KINDS, *(node(fact.node, gpu=0) for fact in facts), *facts]
    for each in told:
        made.apply(each)
    return made


def submit(made: Scheduler, *gangs: Gang, at: float = 0.0) -> list[Assign]:
    for each in gangs:
        made.apply(GangSubmitted(each))
    return assigns(made.decide(at))


def had(assign: Assign) -> list[DeviceId]:
    found = [device for some in assign.claims.values() for each in some for _, device in each.devices]
    assert len(set(found)) == len(found)
    return sorted(found)


def bind(made: Scheduler, assign: Assign, of: Shape, *, named: bool = False) -> None:
    for place, on in assign.nodes.items():
        event = PodsBound({pod(assign.gang, place): place}, on, of.requests, assign.gang)
        if named:
            own = tuple(device for each in assign.claims[place] for _, device in each.devices)
            event = replace(event, footprint=replace(event.footprint, devices=own))
        made.apply(event)


def test_a_gang_starts_with_its_devices_by_name() -> None:
    [assign] = submit(cluster(devices("a", 2)), gang("g", count=2, of=claiming()))
    assert assign.claims == {
        Place("main", 0): (Allocation("c", (("r", DeviceId("a/0")),)),),
        Place("main", 1): (Allocation("c", (("r", DeviceId("a/1")),)),),
    }


def test_a_gang_that_lacks_a_device_does_not_start_in_part() -> None:
    assert not submit(cluster(devices("a", 2), devices("b", 1)), gang("g", count=4, of=claiming()))
    assert submit(cluster(devices("a", 2), devices("b", 2)), gang("g", count=4, of=claiming()))


def test_constraints_leave_devices_of_one_value() -> None:
    """Counts suffice, values do not."""
    made = cluster(devices("a", 3, 3))
    assert not submit(made, gang("g", of=claiming(4, same=True)))
    [assign] = submit(made, gang("h", count=2, of=claiming(3, same=True)))
    assert had(assign) == [DeviceId(f"a/{i}") for i in range(6)]


@pytest.mark.parametrize("first", [GPU, LARGE])
def test_pods_of_several_sets_are_decided_together(first: str) -> None:
    """Whichever set is placed first, those that can use any device leave the large ones to the others."""
    other = LARGE if first == GPU else GPU
    sets = (PodSet("one", claiming(1, first), 2, 2), PodSet("other", claiming(1, other), 2, 2))
    [assign] = submit(cluster(devices("a", 2, 2)), gang("g", *sets))
    assert len(had(assign)) == 4
    assert not submit(cluster(devices("a", 3, 1)), gang("g", *sets))


def test_pods_with_different_claims_are_spread_over_nodes_as_their_devices_allow() -> None:
    """The first node that has a device for the one is the only node whose devices are all free."""
    sets = (PodSet("any", claiming(1), 1, 1), PodSet("all", claiming(ALL), 1, 1))
    all_ = replace(sets[1].shape, requests=amounts({"cpu": 1, GPU: 1}))
    sets = (sets[0], replace(sets[1], shape=all_))
    for first, second in (
        (devices("a", 2), devices("b", 3, taken=1)),
        (devices("a", 3, taken=1), devices("b", 2)),
    ):
        [assign] = submit(cluster(first, second, DevicesChanged("c")), gang("g", *sets))
        assert len(had(assign)) == 3
    assert not submit(cluster(devices("a", 3, taken=1), devices("b", 3, taken=1)), gang("g", *sets))


@pytest.mark.parametrize("named", [True, False])
def test_bound_pods_have_their_devices_until_they_end(named: bool) -> None:
    made, of = cluster(devices("a", 2)), claiming(2)
    [first] = submit(made, gang("g", of=of))
    assert not submit(made, gang("h", of=of, submitted=1.0))
    bind(made, first, of, named=named)
    assert not assigns(made.decide(1.0))
    made.apply(PodsEnded((pod("g", Place("main", 0)),), 2.0))
    made.apply(GangRemoved(GangId("g")))
    [second] = assigns(made.decide(2.0))
    assert second.gang == "h"
    assert had(second) == had(first)


def test_a_pod_with_other_devices_than_promised_has_what_it_has() -> None:
    made, of = cluster(devices("a", 2)), claiming(1)
    [first] = submit(made, gang("g", of=of))
    assert had(first) == ["a/0"]
    event = PodsBound({pod("g", Place("main", 0)): Place("main", 0)}, NodeName("a"), of.requests, GangId("g"))
    made.apply(replace(event, footprint=replace(event.footprint, devices=(DeviceId("a/1"),))))
    [second] = submit(made, gang("h", of=of), at=1.0)
    assert had(second) == ["a/0"]


def test_devices_in_use_by_others_are_not_given() -> None:
    made, of = cluster(devices("a", 2, taken=1)), claiming()
    [first] = submit(made, gang("g", of=of))
    assert had(first) == ["a/1"]
    assert not submit(made, gang("h", of=of), at=1.0)
    made.apply(devices("a", 2))
    [second] = assigns(made.decide(2.0))
    assert had(second) == ["a/0"]


def test_what_a_pod_has_may_be_known_by_its_claim_as_well() -> None:
    made, of = cluster(devices("a", 2)), claiming()
    [first] = submit(made, gang("g", of=of))
    made.apply(devices("a", 2, taken=1))
    bind(made, first, of)
    [second] = submit(made, gang("h", of=of), at=1.0)
    assert had(second) == ["a/1"]


def test_a_gang_of_higher_priority_gets_the_devices_of_its_victims() -> None:
    made, of = cluster(devices("a", 4), devices("b", 4)), claiming(2)
    for assign in submit(made, gang("low", count=4, of=of)):
        bind(made, assign, of)
    made.apply(GangSubmitted(gang("high", count=2, of=claiming(4, same=True), priority=1)))
    decisions = made.decide(1.0)
    assert any(isinstance(each, Evict) for each in decisions)
    [assign] = assigns(decisions)
    assert had(assign) == sorted(f"{on}/{i}" for on in "ab" for i in range(4))


def test_an_answer_of_a_kind_changes_what_fits() -> None:
    """A new selector is an event for each kind, none for nodes."""
    made, of = cluster(devices("a", 2)), claiming(2, "new")
    of = replace(of, requests=amounts({"cpu": 1}))
    assert not submit(made, gang("g", of=of))
    kind = KINDS[0].kind
    made.apply(replace(KINDS[0], kind=replace(kind, answers=kind.answers | {"new"})))
    assert had(*assigns(made.decide(1.0))) == ["a/0", "a/1"]


def test_devices_may_be_known_before_their_node_and_go_with_it() -> None:
    made = Scheduler()
    told: list[Event] = [devices("a", 1), *KINDS, node("a", gpu=0)]
    for each in told:
        made.apply(each)
    assert made.world.nodes.facts[NodeName("a")].capacity[1:2] == ((GPU, 1),)
    made.apply(DevicesChanged("a"))
    assert GPU not in dict(made.world.nodes.facts[NodeName("a")].capacity)
    assert not submit(made, gang("g", of=claiming()))


def test_a_kind_that_no_node_has_is_forgotten() -> None:
    made = cluster(devices("a", 1))
    made.apply(DeviceKindRemoved(KindId(0)))
    assert made.world.nodes.claims.kinds.keys() == {0, 1}, "a node has it"
    made.apply(devices("a", 0, 1))
    made.apply(DeviceKindRemoved(KindId(0)))
    assert made.world.nodes.claims.kinds.keys() == {1}
    assert had(*submit(made, gang("g", of=claiming()))) == ["a/0"]


def test_a_node_may_have_counters_and_no_devices() -> None:
    """A driver may publish what its devices share before the devices, and after they are gone."""
    made, counters = cluster(devices("a", 1)), (("memory", 80),)
    for fact in (DevicesChanged("b", (), counters), DevicesChanged("a", (), counters), DevicesChanged("a")):
        made.apply(fact)
    assert not submit(made, gang("g", of=claiming()))


def test_a_place_whose_device_is_gone_is_decided_again() -> None:
    made, of = cluster(devices("a", 1), devices("b", 1)), claiming()
    [first] = submit(made, gang("g", of=of))
    assert first.nodes == {Place("main", 0): "a"}
    made.apply(DevicesChanged("a"))
    [again] = assigns(made.decide(1.0))
    assert had(again) == ["b/0"]


def test_a_saved_scheduler_knows_the_devices() -> None:
    made, of = cluster(devices("a", 3)), claiming()
    submit(made, gang("g", of=of))
    again = restored(saved(made))
    for each in (made, again):
        [assign] = submit(each, gang("h", count=2, of=of), at=1.0)
        assert had(assign) == ["a/1", "a/2"]


@pytest.mark.parametrize(
    ("of", "code", "message"),
    [
        (
            claiming(4, same=True),
            Code.FRAGMENTED,
            "4 devices of class gpu with equal clique free at once: the best node has 3",
        ),
        (
            claiming(7),
            Code.FRAGMENTED,
            "no node has 7 devices of class gpu free at once: the best node has 6",
        ),
        (claiming(9), Code.NOTHING_MATCHES, "the largest matching node has 8"),
        (
            claiming(5, same=True),
            Code.NOTHING_MATCHES,
            "no matching node has 5 devices of class gpu with equal clique",
        ),
    ],
)
def test_why_a_gang_waits_for_devices(of: Shape, code: Code, message: str) -> None:
    there = replace(devices("a", 4, 4), taken=(DeviceId("a/0"), DeviceId("a/7")))
    made = cluster(there)
    made.apply(GangSubmitted(gang("g", of=of)))
    [wait] = waits(made.decide(0.0))
    assert wait.explanation.code is code
    assert message in wait.explanation.message
    if code is Code.FRAGMENTED:
        assert wait.explanation.pod_sets[0].limited_by == {"devices": 1}


def hard(number: int) -> Shape:
    """Claims that take all steps to decide, and fit nowhere as far as is found."""
    requests = tuple(DeviceRequest(f"r{i}", (DeviceAsk((GPU,), 2),)) for i in range(12))
    rules = tuple(
        DeviceConstraint(name, (f"r{i}",), i % 2 == 0) for i in range(12) for name in ("clique", "y")
    )
    return replace(shape(cpu=1 + number), claims=(ClaimShape("c", requests, rules),))


def of_many_kinds() -> Scheduler:
    """Nodes whose devices all differ: each node has kinds of its own."""
    made, kinds = Scheduler(), itertools.count()
    for name in "abcdefgh":
        own = [KindId(next(kinds)) for _ in range(24)]
        for i, each in enumerate(own):
            values = (("clique", f"int:{i % 7}"), ("serial", f"int:{each}"), ("y", f"int:{i % 5}"))
            made.apply(DeviceKindChanged(each, DeviceKind(frozenset({GPU}), values)))
        made.apply(node(name, gpu=0))
        found = tuple((DeviceId(f"{name}/{i}"), each) for i, each in enumerate(own))
        made.apply(DevicesChanged(name, found))
    return made


def test_hard_claims_are_decided_later_and_delay_no_other_namespace() -> None:
    made = of_many_kinds()
    for i in range(8):
        made.apply(GangSubmitted(replace(gang(f"evil{i}", of=hard(i)), namespace="evil", priority=9)))
    made.apply(GangSubmitted(replace(gang("good", of=claiming(2)), namespace="good")))
    before = made.world.nodes.steps
    decisions = made.decide(0.0)
    assert [each.gang for each in assigns(decisions)] == ["good"]
    assert made.world.nodes.steps - before < 4 * STEPS
    found = Counter(each.explanation.code for each in waits(decisions))
    assert found[Code.POSTPONED] > 5
    cycles = [made.decide(float(now)) for now in range(1, 100)]
    told = {each.gang: each.explanation.code for some in cycles for each in waits(some)}
    assert Code.POSTPONED not in {told.get(GangId(f"evil{i}"), Code.POSTPONED) for i in range(8)}


def test_nodes_whose_devices_differ_in_what_no_claim_compares_are_decided_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = Mock(side_effect=allocation.serve)
    monkeypatch.setattr(claims, "serve", served)
    assert submit(of_many_kinds(), gang("g", of=claiming(2, same=True)))
    assert served.call_count < 8


def test_what_is_found_because_somebody_asks_is_work_of_the_next_cycle() -> None:
    """So whether somebody asks why a gang waits changes no decision."""
    made, of = of_many_kinds(), hard(0)
    made.decide(0.0)
    nodes = made.world.nodes
    with nodes.claims.between():
        made.fit.slots.room(of)
    spent = []
    for _ in range(2):
        before = nodes.steps
        made.fit.slots.room(of)
        spent.append(nodes.steps - before)
    assert spent[0] >= STEPS
    assert spent[1] == 0


amount = st.integers(0, 4)


@given(
    st.lists(st.tuples(amount, amount, st.integers(0, 2)), min_size=1, max_size=3),
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.sampled_from([GPU, LARGE]), st.booleans()),
        max_size=6,
    ),
    st.randoms(use_true_random=False),
)
def test_no_device_is_had_twice_whatever_happens(nodes, asked, rng) -> None:  # type: ignore[no-untyped-def]
    """Gangs arrive, are bound, end; every device that is given exists, is free, and is of the class."""
    facts = [
        devices(f"n{i}", *numbers, taken=min(taken, sum(numbers)))
        for i, (*numbers, taken) in enumerate(nodes)
    ]
    made = cluster(*facts)
    kind_of = dict(each for fact in facts for each in fact.devices)
    in_use = {device: "" for fact in facts for device in fact.taken}
    shapes: dict[str, tuple[Shape, str]] = {}
    for step, (pods, count, of, same) in enumerate(asked):
        name = f"g{step}"
        shapes[name] = claiming(count, of, same=same), of
        made.apply(GangSubmitted(gang(name, count=pods, of=shapes[name][0], priority=rng.randint(0, 1))))
        for each in made.decide(float(step)):
            if isinstance(each, Evict):
                for victim in each.victims:
                    state = made.world.gangs[victim.gang]
                    made.apply(PodsEnded(tuple(state.pods), float(step)))
                    made.apply(GangRemoved(victim.gang))
                    in_use = {device: by for device, by in in_use.items() if by != victim.gang}
            if isinstance(each, Assign):
                wanted, of = shapes[each.gang]
                for place, on in each.nodes.items():
                    own = [device for one in each.claims[place] for _, device in one.devices]
                    assert len(own) == dict(wanted.requests)[of]
                    for device in own:
                        assert device.startswith(f"{on}/")
                        assert device not in in_use
                        assert of in KINDS[kind_of[device]].kind.answers
                        in_use[device] = each.gang
                if rng.random() < 0.7:
                    bind(made, each, wanted, named=rng.random() < 0.5)
    for name in shapes:
        if rng.random() < 0.5 and (left := made.world.gangs.get(GangId(name))) is not None:
            made.apply(PodsEnded(tuple(left.pods), 99.0))
            made.apply(GangRemoved(GangId(name)))
            in_use = {device: by for device, by in in_use.items() if by != name}
    for fact in facts:
        free = {device for device, _ in fact.devices} - in_use.keys()
        room = made.world.nodes.claims.room(NodeName(fact.node))
        assert sum(n for _, n, _ in room.kinds) == len(free)
