import pytest

from muster.core.words.gang import Effect, NodeName, NodeTerm, Operator, Requirement, Shape, Taint, Toleration
from muster.core.world.eligibility import Eligibility, Obstacle, obstacle
from muster.core.world.nodes import Nodes
from tests.core.words import node, shape

LABELS = {"zone": "a", "rank": "7", "empty": ""}


def label(key: str, operator: Operator, *values: str) -> tuple[NodeTerm, ...]:
    return (NodeTerm(labels=(Requirement(key, operator, values),)),)


@pytest.mark.parametrize(
    ("affinity", "holds"),
    [
        (label("zone", Operator.IN, "a", "b"), True),
        (label("zone", Operator.IN, "b"), False),
        (label("absent", Operator.IN, "b"), False),
        (label("zone", Operator.NOT_IN, "a"), False),
        (label("zone", Operator.NOT_IN, "b"), True),
        (label("absent", Operator.NOT_IN, "b"), True),
        (label("empty", Operator.EXISTS), True),
        (label("absent", Operator.EXISTS), False),
        (label("absent", Operator.DOES_NOT_EXIST), True),
        (label("empty", Operator.DOES_NOT_EXIST), False),
        (label("rank", Operator.GT, "6"), True),
        (label("rank", Operator.GT, "7"), False),
        (label("rank", Operator.LT, "8"), True),
        (label("rank", Operator.LT, "7"), False),
        (label("zone", Operator.GT, "1"), False),
        (label("rank", Operator.GT, "one"), False),
        (label("absent", Operator.LT, "1"), False),
        (label("zone", Operator.IN, "b") + label("rank", Operator.EXISTS), True),
        ((NodeTerm(fields=(Requirement("metadata.name", Operator.IN, ("n1",)),)),), True),
        ((NodeTerm(fields=(Requirement("metadata.name", Operator.NOT_IN, ("n1",)),)),), False),
        ((NodeTerm(),), False),
        ((), False),
    ],
)
def test_required_node_affinity(affinity: tuple[NodeTerm, ...], holds: bool) -> None:
    found = obstacle(Shape((), affinity=affinity), node("n1", labels=LABELS))
    assert found == (Obstacle.NONE if holds else Obstacle.AFFINITY)


def test_all_requirements_of_a_term_hold_together() -> None:
    both = NodeTerm(
        labels=(Requirement("zone", Operator.IN, ("a",)), Requirement("rank", Operator.IN, ("8",)))
    )
    assert obstacle(Shape((), affinity=(both,)), node("n1", labels=LABELS))


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(), True),
        (Toleration("dedicated"), True),
        (Toleration("dedicated", "ml"), True),
        (Toleration("dedicated", "web"), False),
        (Toleration("other"), False),
        (Toleration("dedicated", "ml", Effect.NO_SCHEDULE), True),
        (Toleration("dedicated", "ml", Effect.NO_EXECUTE), False),
    ],
)
def test_taints_and_tolerations(toleration: Toleration, tolerated: bool) -> None:
    tainted = node("n1", taints=(Taint("dedicated", "ml", Effect.NO_SCHEDULE),))
    assert obstacle(shape(), tainted) == Obstacle.TAINT
    assert (obstacle(shape(tolerations=(toleration,)), tainted) == Obstacle.NONE) is tolerated


def test_every_taint_needs_a_toleration_except_preferences() -> None:
    taints = (Taint("a", "", Effect.NO_EXECUTE), Taint("b", "", Effect.PREFER_NO_SCHEDULE))
    assert obstacle(shape(), node("n1", taints=taints)) == Obstacle.TAINT
    assert not obstacle(shape(tolerations=(Toleration("a"),)), node("n1", taints=taints))


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration(), True),
        (Toleration("node.kubernetes.io/unschedulable"), True),
        (Toleration("node.kubernetes.io/unschedulable", None, Effect.NO_SCHEDULE), True),
        (Toleration("node.kubernetes.io/unschedulable", None, Effect.NO_EXECUTE), False),
        (Toleration("dedicated"), False),
    ],
)
def test_a_pod_may_tolerate_a_cordon(toleration: Toleration, tolerated: bool) -> None:
    found = obstacle(shape(tolerations=(toleration,)), node("n1", cordoned=True))
    assert found == (Obstacle.NONE if tolerated else Obstacle.CORDON)


def test_all_obstacles_are_reported() -> None:
    found = obstacle(shape(selector={"zone": "b"}), node("n1", labels=LABELS, cordoned=True, ready=False))
    assert found == Obstacle.SELECTOR | Obstacle.CORDON | Obstacle.NOT_READY


def test_a_mask_follows_its_nodes() -> None:
    nodes = Nodes()
    for name in "abc":
        nodes.change(node(name))
    nodes.settle()
    eligibility = Eligibility(nodes)
    assert eligibility.of(shape()).eligible.tolist() == [True, True, True]
    nodes.change(node("b", cordoned=True))
    nodes.remove(NodeName("c"))
    assert eligibility.of(shape()).eligible.tolist() == [True, False, False]
    assert eligibility.of(shape()).matching.tolist() == [True, True, False]
    nodes.change(node("b"))
    nodes.change(node("aa", ready=False))
    nodes.settle()
    assert nodes.names == ["a", "aa", "b"]
    assert eligibility.of(shape()).eligible.tolist() == [True, False, True]
