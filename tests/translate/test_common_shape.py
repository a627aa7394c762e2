"""A place that any of several pods may take: each of them may run there."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.core.words.events import NodeChanged
from muster.core.words.gang import Effect, NodeName, NodeTerm, Operator, Requirement, Shape, Taint, Toleration
from muster.core.world.eligibility import Obstacle, obstacle
from muster.names import GPU, GPU_SHARE
from muster.translate.common_shape import all_of, as_created

KEYS, VALUES = ("a", "b"), ("1", "2")
REQUIREMENTS = st.builds(
    Requirement, st.sampled_from(KEYS), st.just(Operator.IN), st.sampled_from([("1",), ("2",), VALUES])
)
TERMS = st.builds(NodeTerm, st.lists(REQUIREMENTS, min_size=1, max_size=2).map(tuple))
AFFINITIES = st.none() | st.lists(TERMS, max_size=3).map(tuple)
TOLERATIONS = st.builds(
    Toleration, st.sampled_from(KEYS), st.sampled_from([None, *VALUES]), st.just(Effect.NO_SCHEDULE)
)
SHAPES = st.builds(
    Shape,
    st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(1, 4)).map(
        lambda d: tuple(sorted(d.items()))
    ),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)).map(lambda d: tuple(sorted(d.items()))),
    AFFINITIES,
    st.lists(TOLERATIONS, max_size=3, unique=True).map(tuple),
    st.lists(st.lists(TERMS, max_size=2).map(tuple), max_size=2).map(tuple),
    features=st.sampled_from([(), ("F",), ("G",), ("F", "G")]),
)
NODES = st.builds(
    NodeChanged,
    st.just(NodeName("n")),
    st.just(()),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)).map(lambda d: tuple(sorted(d.items()))),
    st.lists(
        st.builds(Taint, st.sampled_from(KEYS), st.sampled_from(VALUES), st.just(Effect.NO_SCHEDULE)),
        max_size=2,
    ).map(tuple),
    features=st.sampled_from([(), ("F",), ("F", "G")]),
)


@given(st.frozensets(SHAPES, min_size=1, max_size=4), st.lists(NODES, min_size=1, max_size=6))
def test_a_node_for_all_is_a_node_for_each(shapes: frozenset[Shape], nodes: list[NodeChanged]) -> None:
    found = all_of(shapes)
    for node in nodes:
        keeps_off = Obstacle.NONE
        for one in shapes:
            keeps_off |= obstacle(one, node)
        if obstacle(found, node) is Obstacle.NONE:
            assert keeps_off is Obstacle.NONE
        if not keeps_off and len({one.tolerations for one in shapes}) == 1:
            assert obstacle(found, node) is Obstacle.NONE, "no other node is excluded"
    for one in shapes:
        assert all(amount <= dict(found.requests)[resource] for resource, amount in one.requests)


def test_a_taint_is_tolerated_if_all_tolerate_it() -> None:
    both, one = (OWN, replace(OWN, key="y")), (OWN,)
    shapes = [Shape((), tolerations=each) for each in (both, one)]
    assert all_of(frozenset(shapes)).tolerations == one
    assert all_of(frozenset([*shapes, Shape(())])).tolerations == ()


@given(SHAPES)
def test_one_shape_stays_as_it_is(shape: Shape) -> None:
    assert all_of(frozenset({shape})) == shape


def test_a_whole_device_and_a_share_of_one_are_on_no_node() -> None:
    both = all_of(frozenset({Shape(((GPU, 1),)), Shape(((GPU_SHARE, 500),))}))
    assert obstacle(both, NodeChanged(NodeName("n"), ())) is Obstacle.AFFINITY


def test_alternatives_are_combined_up_to_a_number() -> None:
    many = [
        Shape((), affinity=tuple(NodeTerm((Requirement(key, Operator.IN, (str(i),)),)) for i in range(20)))
        for key in KEYS
    ]
    assert all_of(frozenset(many)).affinity == ()


ADDED = tuple(
    Toleration(f"node.kubernetes.io/{state}", None, Effect.NO_EXECUTE)
    for state in ("not-ready", "unreachable")
)
OWN = Toleration("x", None, None)


@pytest.mark.parametrize("template", [Shape(()), Shape((), tolerations=(OWN,)), Shape((), tolerations=ADDED)])
def test_what_every_pod_gets_makes_no_difference(template: Shape) -> None:
    created = replace(template, tolerations=tuple(dict.fromkeys((*template.tolerations, *ADDED))))
    assert as_created(created, template) is template
    other = replace(created, selector=(("a", "1"),))
    assert as_created(other, template) == replace(template, selector=(("a", "1"),))
