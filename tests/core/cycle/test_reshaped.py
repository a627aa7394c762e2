"""A gang whose pods ask for something else than those that its places were promised for."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.core.words.decisions import Assign, Decision, Release
from muster.core.words.events import GangSubmitted, PlanFound
from muster.core.words.gang import Effect, GangId, HostPort, NodeName, Place, Shape, Taint, Toleration
from muster.core.world.eligibility import Obstacle, obstacle
from tests.core.words import assigns, gang, node, places, scheduler, shape

IN = [{"zone": "a"}, {"zone": "b"}]
TAINT = Taint("t", "", Effect.NO_SCHEDULE)
NODES = [
    node("n0", labels=IN[0]),
    node("n1", labels=IN[1]),
    node("n2", labels=IN[1], taints=(TAINT,)),
]
TOLERANT = shape(gpu=1, tolerations=(Toleration("t", None, None),))
PLAIN = shape(gpu=1)


def kinds(decisions: list[Decision]) -> list[type]:
    return [type(one) for one in decisions if isinstance(one, Assign | Release)]


@pytest.mark.parametrize("zone", IN)
def test_places_on_nodes_that_are_excluded_now_are_released_and_assigned_anew(zone: dict[str, str]) -> None:
    made = scheduler(NODES, gang("g", count=4, of=shape(gpu=1, selector=zone)))
    made.decide(0.0)
    (other,) = [one for one in IN if one != zone]
    made.apply(GangSubmitted(gang("g", count=4, of=shape(gpu=1, selector=other))))
    found = made.decide(1.0)
    assert kinds(found) == [Release, Assign]
    assert all(
        made.world.nodes.facts[n].labels == tuple(other.items()) for n in assigns(found)[0].nodes.values()
    )
    assert kinds(made.decide(2.0)) == []


def test_places_on_nodes_that_do_stay() -> None:
    made = scheduler(NODES, gang("g", count=4, of=shape(gpu=1, selector=IN[0])))
    made.decide(0.0)
    made.apply(GangSubmitted(gang("g", count=4, of=PLAIN)))
    assert kinds(made.decide(1.0)) == []


def test_a_cordon_does_not_take_places_away() -> None:
    made = scheduler([NODES[0]], gang("g", count=4, of=PLAIN))
    made.decide(0.0)
    made.apply(replace(NODES[0], cordoned=True))
    made.apply(GangSubmitted(gang("g", count=4, of=TOLERANT)))
    assert kinds(made.decide(1.0)) == []


def test_what_depends_on_other_pods_is_decided_anew() -> None:
    made = scheduler([node("n0")], gang("g", count=2, of=PLAIN))
    made.decide(0.0)
    made.apply(GangSubmitted(gang("g", count=2, of=replace(PLAIN, ports=(HostPort(80),)))))
    assert kinds(made.decide(1.0)) == [Release], "two of them are not on one node"


def test_an_open_plan_is_not_adopted_on_nodes_that_its_pods_exclude() -> None:
    made = scheduler(NODES, gang("g", count=2, of=shape(gpu=1, selector=IN[0])))
    made.apply(PlanFound(GangId("g"), dict.fromkeys(places(0, 1), NodeName("n1"))))
    (assign,) = assigns(made.decide(0.0))
    assert set(assign.nodes.values()) == {"n0"}


SHAPES = st.builds(
    lambda gpu, zone, tolerant: replace(
        shape(gpu=gpu, selector=zone), tolerations=TOLERANT.tolerations if tolerant else ()
    ),
    st.integers(1, 3),
    st.sampled_from([None, *IN, {"zone": "c"}]),
    st.booleans(),
)


@given(st.lists(SHAPES, min_size=1, max_size=6), st.integers(1, 6))
def test_no_place_is_held_where_the_gang_as_it_is_must_not_run(shapes: list[Shape], count: int) -> None:
    made = scheduler(NODES)
    held: dict[Place, NodeName] = {}
    for now, each in enumerate(shapes):
        made.apply(GangSubmitted(gang("g", count=count, of=each)))
        for decision in made.decide(float(now)):
            if isinstance(decision, Release):
                held = {place: n for place, n in held.items() if place not in decision.places}
            elif isinstance(decision, Assign):
                held.update(decision.nodes)
        for name in held.values():
            assert obstacle(each, made.world.nodes.facts[name]) is Obstacle.NONE
        assert {p: h.node for p, h in made.world.gangs[GangId("g")].holds.items()} == held
