"""Gangs keep off nodes on which their pods, or those of many, have failed at their start."""

from dataclasses import replace
from typing import Final

import pytest

from muster.core.cycle import Scheduler
from muster.core.saved import restored, saved
from muster.core.words.events import AvoidanceChanged, GangRemoved, GangSubmitted, PodsEnded, StartFailed
from muster.core.words.gang import Avoidance, Code, Effect, Gang, GangId, NodeName, Place, PodSet, Toleration
from tests.core.words import assigns, bind, gang, node, pod, releases, scheduler, shape, started, waits, where

FIRST: Final = Avoidance().first


def fail(made: Scheduler, node: str, of: str = "x", at: float = 0.0, tenant: str = "") -> None:
    """The first pod of a gang has ended, because its node rejected it."""
    made.apply(PodsEnded((pod(of, Place("main", 0)),), at))
    known = made.world.gangs.get(GangId(of))
    origin = (known.gang.origin if known is not None and known.gang is not None else "") or of
    made.apply(StartFailed(NodeName(node), origin, tenant, at, f"{node} failed pod p at its start: OutOfcpu"))


def test_the_replacement_of_a_rejected_pod_goes_to_another_node_each_time() -> None:
    made = scheduler([node(n, gpu=1) for n in ("a", "b", "c")], gang("x"))
    seen = []
    for at in (0.0, 10.0, 30.0):
        (assign,) = assigns(made.decide(at))
        bind(made, assign)
        made.decide(at)
        seen += where(assign)
        fail(made, seen[-1], at=at)
    assert seen == ["a", "b", "c"]


@pytest.mark.parametrize("tenant", ["ml", "other", "third"])
def test_a_gang_hears_only_of_pods_of_its_namespaces(tenant: str) -> None:
    """PodGroups of two namespaces may have been one gang of this name, and no longer be."""
    made = scheduler([node("a", gpu=1)])
    sets = PodSet("main", shape(gpu=1), 1, 1), PodSet("more", shape(gpu=1), 1, 0, namespace="third")
    fail(made, "a", tenant=tenant)
    made.apply(GangSubmitted(replace(gang("x", *sets, minimum=1), namespace="ml")))
    (wait,) = waits(made.decide(1.0))
    own = "a failed pod p at its start: OutOfcpu; nothing else fits"
    all_ = "node a is avoided: pods failed there at their start; nothing else fits"
    assert wait.explanation.code is Code.COMMIT_FAILED
    assert wait.explanation.message == (all_ if tenant == "other" else own)


def test_its_place_is_not_held_there_and_it_waits_by_name_if_no_other_node_will_do() -> None:
    made = scheduler([node("a", gpu=1)], gang("x", priority=1))
    (assign,) = assigns(made.decide(0.0))
    bind(made, assign)
    made.apply(GangSubmitted(gang("good")))
    made.decide(1.0)
    fail(made, "a", at=2.0)
    decisions = made.decide(2.0)
    assert started(decisions) == ["good"], "what was held for the failing gang"
    (told,) = [each.explanation for each in waits(decisions) if each.gang == "x"]
    assert told.code is Code.INSUFFICIENT_CAPACITY
    assert told.message.endswith(
        "no matching node is ready and uncordoned beside those that are avoided because pods failed there"
    )
    made.apply(GangRemoved(GangId("good")))
    (wait,) = waits(made.decide(3.0))
    assert wait.explanation.code is Code.COMMIT_FAILED
    assert wait.explanation.message == "a failed pod p at its start: OutOfcpu; nothing else fits"
    assert wait.explanation.pod_sets[0].limited_by == {"avoided": 1}
    assert made.wake_at() == 2.0 + FIRST
    assert not assigns(made.decide(1.0 + FIRST))
    assert where(assigns(made.decide(2.0 + FIRST))[0]) == ["a"]


def test_places_that_are_promised_on_the_node_are_given_up() -> None:
    made = scheduler([node("a", gpu=2)], gang("x", count=2))
    (assign,) = assigns(made.decide(0.0))
    made.apply(node("b", gpu=1))
    assert where(assign) == ["a", "a"]
    bind(made, assign, only=[Place("main", 0)])
    made.decide(0.0)
    fail(made, "a")
    (release,) = releases(made.decide(1.0))
    assert release.places == {Place("main", 1)}


def test_siblings_keep_off_the_node_too_and_later_ones() -> None:
    def sibling(name: str) -> Gang:
        return replace(gang(name), origin="Job ns/sweep")

    made = scheduler([node("a", gpu=1), node("b", gpu=0)], sibling("x-0"))
    bind(made, assigns(made.decide(0.0))[0])
    for name in ("x-1", "y"):
        made.apply(GangSubmitted(sibling(name) if name == "x-1" else gang(name)))
    made.decide(0.0)
    fail(made, "a", of="x-0", at=1.0)
    made.apply(GangRemoved(GangId("x-0")))
    made.apply(GangSubmitted(sibling("x-2")))
    assert started(made.decide(1.0)) == ["y"]
    made.apply(GangRemoved(GangId("y")))
    decisions = made.decide(2.0)
    assert not assigns(decisions)
    assert {wait.explanation.code for wait in waits(decisions)} == {Code.COMMIT_FAILED}
    assert started(made.decide(1.0 + FIRST)) == ["x-1"]


def accused(nodes: int, rules: Avoidance | None = None) -> Scheduler:
    """A cluster in which pods of three gangs of two tenants have failed on n-000, the first."""
    made = scheduler([node(f"n-{number:03}", gpu=1) for number in range(nodes)])
    if rules is not None:
        made.apply(AvoidanceChanged(rules))
    for name in "uvw":
        fail(made, "n-000", of=name, tenant="one" if name == "u" else "two")
    return made


@pytest.mark.parametrize("later", [False, True])
def test_all_keep_off_a_node_on_which_gangs_of_several_tenants_have_failed(later: bool) -> None:
    made = accused(20)
    if later:
        made.decide(0.0)
        made = restored(saved(made))
    made.apply(GangSubmitted(gang("x", count=20)))
    (wait,) = waits(made.decide(1.0))
    assert wait.explanation.code is Code.COMMIT_FAILED
    assert wait.explanation.message == (
        "node n-000 is avoided: pods of 3 jobs of 2 namespaces failed there at their start; nothing else fits"
    )
    made.apply(GangSubmitted(gang("y", count=19)))
    assert started(made.decide(2.0)) == ["y"]
    made.apply(GangRemoved(GangId("y")))
    assert started(made.decide(Avoidance().lasts)) == ["x"]


def test_on_a_small_cluster_a_suspect_is_used_last() -> None:
    made = accused(3)
    made.apply(GangSubmitted(gang("x", count=2)))
    assert where(assigns(made.decide(1.0))[0]) == ["n-001", "n-002"]
    made.apply(GangSubmitted(gang("y")))
    assert where(assigns(made.decide(2.0))[0]) == ["n-000"]


def test_a_pod_that_tolerates_it_uses_a_node_that_is_avoided() -> None:
    made = accused(20)
    tolerant = replace(
        shape(gpu=1), tolerations=(Toleration("muster.dev/avoided", effect=Effect.NO_SCHEDULE),)
    )
    made.apply(GangSubmitted(gang("x", PodSet("main", tolerant, 20, 20))))
    assert started(made.decide(1.0)) == ["x"]


def test_a_node_that_was_cordoned_and_is_no_longer_is_not_avoided() -> None:
    made = accused(20)
    made.apply(GangSubmitted(gang("x", count=20)))
    made.apply(node("n-000", gpu=1, cordoned=True))
    assert not assigns(made.decide(1.0))
    made.apply(node("n-000", gpu=1))
    assert started(made.decide(2.0)) == ["x"]


def test_the_rules_are_a_setting() -> None:
    made = accused(3, Avoidance(share=0.5))
    made.apply(GangSubmitted(gang("x", count=3)))
    assert not assigns(made.decide(1.0))
    made.apply(AvoidanceChanged(Avoidance(share=0.0)))
    assert started(made.decide(2.0)) == ["x"]
