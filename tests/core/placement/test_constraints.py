"""Ports, affinity, anti-affinity and spread: rules one by one, then against a naive oracle."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign, Evict, Wait
from muster.core.words.events import (
    Footprint,
    GangRemoved,
    GangSubmitted,
    NodeChanged,
    NodeRemoved,
    PlanFound,
    PodsBound,
    PodsEnded,
)
from muster.core.words.gang import (
    Code,
    Effect,
    Gang,
    GangId,
    HostPort,
    NodeName,
    NodeTerm,
    Operator,
    Place,
    PodId,
    PodSet,
    PodTerm,
    Requirement,
    Shape,
    Spread,
    Taint,
)
from muster.core.world.footprints import Carrying, Matching, Question, Using
from tests.core import constrained
from tests.tiers import examples

ZONE, HOST = "zone", "host"


def labelled(value: str) -> tuple[Requirement, ...]:
    return (Requirement("app", Operator.IN, (value,)),)


def term(key: str, app: str = "a", namespaces: tuple[str, ...] | None = ("ns",)) -> PodTerm:
    return PodTerm(key, labelled(app), namespaces)


def nodes(
    *zones: str, cpu: int = 4, taints: Mapping[int, tuple[Taint, ...]] | None = None
) -> list[NodeChanged]:
    return [
        NodeChanged(
            NodeName(f"n{i}"),
            (("cpu", cpu),),
            ((HOST, f"n{i}"), (ZONE, zone)) if zone else ((HOST, f"n{i}"),),
            (taints or {}).get(i, ()),
        )
        for i, zone in enumerate(zones)
    ]


def pods(name: str, count: int, app: str = "a", **asked: object) -> PodSet:
    shape = Shape((("cpu", 1),), **asked)  # type: ignore[arg-type]  # any field of Shape
    return PodSet(name, shape, count, count, labels=(("app", app),))


def gang(*sets: PodSet, name: str = "g") -> Gang:
    return Gang(GangId(name), sets, sum(s.min_count for s in sets), 0.0, namespace="ns")


def told(cluster: list[NodeChanged], *gangs: Gang) -> Scheduler:
    made = Scheduler()
    for fact in cluster:
        made.apply(fact)
    for one in gangs:
        made.apply(GangSubmitted(one))
    return made


def there(made: Scheduler, node: str, app: str, namespace: str = "ns", **seen: object) -> PodId:
    pod = PodId(f"{node}-{app}-{len(made.world.pods)}")
    footprint = Footprint(namespace, (("app", app),), **seen)  # type: ignore[arg-type]  # any field of Footprint
    made.apply(PodsBound({pod: None}, NodeName(node), (), footprint=footprint))
    return pod


def where(made: Scheduler, name: str = "g") -> dict[str, int] | None:
    """Pods per node; None if the gang waits."""
    found = [d for d in made.decide(0.0) if isinstance(d, Assign) and d.gang == name]
    return dict(Counter(found[0].nodes.values())) if found else None


PORT = HostPort(8080)

COLLISIONS = {
    "the same": (HostPort(80), HostPort(80), True),
    "another number": (HostPort(80), HostPort(81), False),
    "another protocol": (HostPort(80), HostPort(80, "UDP"), False),
    "another address": (HostPort(80, address="1.1.1.1"), HostPort(80, address="2.2.2.2"), False),
    "every address": (HostPort(80, address="1.1.1.1"), HostPort(80), True),
    "every address, written out": (HostPort(80, address="0.0.0.0"), HostPort(80, address="2.2.2.2"), True),
}


@pytest.mark.parametrize(("mine", "theirs", "collide"), COLLISIONS.values(), ids=COLLISIONS.keys())
def test_host_ports_collide(mine: HostPort, theirs: HostPort, collide: bool) -> None:
    made = told(nodes("z"), gang(pods("p", 1, ports=(mine,))))
    there(made, "n0", "x", ports=(theirs,))
    assert where(made) == (None if collide else {"n0": 1})


def test_one_pod_with_a_host_port_per_node() -> None:
    assert where(told(nodes("z", "z", "z"), gang(pods("p", 3, ports=(PORT,))))) == {"n0": 1, "n1": 1, "n2": 1}
    assert where(told(nodes("z", "z"), gang(pods("p", 3, ports=(PORT,))))) is None


def test_a_port_that_is_promised_is_taken() -> None:
    made = told(nodes("z"), gang(pods("p", 1, ports=(PORT,))), gang(pods("p", 1, ports=(PORT,)), name="h"))
    assert where(made) == {"n0": 1}
    assert where(made, "h") is None


def test_a_port_is_free_once_its_pod_has_ended() -> None:
    made = told(nodes("z"), gang(pods("p", 1, ports=(PORT,))))
    pod = there(made, "n0", "x", ports=(PORT,))
    assert where(made) is None
    made.apply(PodsEnded((pod,), 0.0))
    assert where(made) == {"n0": 1}


def test_pods_that_keep_each_other_off_take_one_domain_each() -> None:
    apart = pods("p", 2, pod_anti_affinity=(term(ZONE),))
    assert where(told(nodes("a", "a", "b"), gang(apart))) == {"n0": 1, "n2": 1}
    assert where(told(nodes("a", "a"), gang(apart))) is None


def test_nodes_without_the_label_are_in_no_domain() -> None:
    assert where(told(nodes("", ""), gang(pods("p", 8, pod_anti_affinity=(term(ZONE),))))) == {
        "n0": 4,
        "n1": 4,
    }


def test_anti_affinity_holds_towards_and_from_pods_that_are_there() -> None:
    mine = told(nodes("a", "b"), gang(pods("p", 1, pod_anti_affinity=(term(ZONE, "x"),))))
    there(mine, "n0", "x")
    assert where(mine) == {"n1": 1}
    theirs = told(nodes("a", "b"), gang(pods("p", 1)))
    there(theirs, "n0", "x", pod_anti_affinity=(term(ZONE),))
    assert where(theirs) == {"n1": 1}


def test_anti_affinity_within_a_cycle_and_between_sets() -> None:
    lonely = gang(pods("p", 1, "x", pod_anti_affinity=(term(HOST),)), name="f")
    made = told(nodes("a", "b"), lonely, gang(pods("p", 4)))
    starts = {d.gang: Counter(d.nodes.values()) for d in made.decide(0.0) if isinstance(d, Assign)}
    assert starts == {"f": {"n0": 1}, "g": {"n1": 4}}
    both = gang(pods("p", 1, "x", pod_anti_affinity=(term(HOST),)), pods("q", 4))
    assert where(told(nodes("a", "b"), both)) == {"n0": 1, "n1": 4}


def test_terms_of_other_namespaces() -> None:
    made = told(nodes("a", "b"), gang(pods("p", 1, pod_anti_affinity=(term(ZONE, "x", ("other",)),))))
    there(made, "n0", "x", "elsewhere")
    there(made, "n1", "x", "other")
    assert where(made) == {"n0": 1}


def test_affinity_joins_pods_that_are_there() -> None:
    made = told(nodes("a", "b", "b"), gang(pods("p", 6, pod_affinity=(term(ZONE, "x"),))))
    assert where(made) is None
    there(made, "n1", "x")
    assert where(made) == {"n1": 4, "n2": 2}


def test_the_first_of_its_kind_opens_the_tightest_domain_that_holds_all() -> None:
    near = gang(pods("p", 6, pod_affinity=(term(ZONE),)))
    assert where(told(nodes("a", "a", "a", "b", "b", "c"), near)) == {"n3": 4, "n4": 2}
    assert where(told(nodes("a", "b", "c"), near)) is None


def test_a_pod_set_is_placed_after_the_one_that_it_has_affinity_to() -> None:
    follows = pods("p", 4, "a", pod_affinity=(term(HOST, "x"),))
    assert where(told(nodes("a", "b"), gang(follows, pods("q", 1, "x")))) is None
    assert where(told(nodes("a", "b", cpu=5), gang(follows, pods("q", 1, "x")))) == {"n0": 5}


def test_pods_spread_within_the_skew() -> None:
    spread = Spread(ZONE, 1, labelled("a"))
    made = told(nodes("a", "a", "a", "b", "b", "b"), gang(pods("p", 7, spread=(spread,))))
    there(made, "n0", "a")
    assert where(made) == {"n0": 3, "n3": 4}


def test_a_spread_needs_its_domains_filled() -> None:
    spread = Spread(ZONE, 1, labelled("a"))
    assert where(told(nodes("a", "b", cpu=2), gang(pods("p", 4, spread=(spread,))))) == {"n0": 2, "n1": 2}
    full = told(nodes("a", "a", "b", cpu=2), gang(pods("p", 4, spread=(spread,))))
    full.apply(PodsBound({PodId("f"): None}, NodeName("n2"), (("cpu", 1),)))
    assert where(full) is None  # at most 2 + 1


def test_a_spread_over_fewer_domains_than_it_asks_for() -> None:
    spread = Spread(ZONE, 2, labelled("a"), min_domains=3)
    assert where(told(nodes("a", "b"), gang(pods("p", 4, spread=(spread,))))) == {"n0": 2, "n1": 2}
    assert where(told(nodes("a", "b"), gang(pods("p", 5, spread=(spread,))))) is None


NO = Taint("t", "", Effect.NO_SCHEDULE)


def test_domains_that_pods_cannot_use_count_as_the_spread_says() -> None:
    cluster = nodes("a", "b", taints={1: (NO,)})
    ignoring = gang(pods("p", 2, spread=(Spread(ZONE, 1, labelled("a")),)))
    honouring = gang(pods("p", 2, spread=(Spread(ZONE, 1, labelled("a"), honor_taints=True),)))
    assert where(told(cluster, ignoring)) is None
    assert where(told(cluster, honouring)) == {"n0": 2}


def test_a_pod_that_leaves_is_not_counted_by_spreads() -> None:
    made = told(nodes("a", "b", cpu=1), gang(pods("p", 2, spread=(Spread(ZONE, 1, labelled("a")),))))
    there(made, "n0", "a")
    there(made, "n0", "a", leaving=True)
    assert where(made) == {"n0": 1, "n1": 1}


def test_preferences_order_nodes_and_exclude_none() -> None:
    evenly = gang(pods("p", 4, spread=(Spread(ZONE, 1, labelled("a"), required=False),)))
    assert where(told(nodes("a", "b"), evenly)) == {"n0": 2, "n1": 2}
    assert where(told(nodes("a"), evenly)) == {"n0": 4}
    drawn = told(nodes("a", "b"), gang(pods("p", 2, preferred_pod_affinity=((10, term(ZONE, "x")),))))
    there(drawn, "n1", "x")
    assert where(drawn) == {"n1": 2}
    repelled = told(nodes("a", "b"), gang(pods("p", 2, preferred_pod_affinity=((-10, term(ZONE, "x")),))))
    there(repelled, "n0", "x")
    assert where(repelled) == {"n1": 2}


def test_preferred_node_affinity_and_taints_rank_nodes() -> None:
    rather_not = Taint("t", "", Effect.PREFER_NO_SCHEDULE)
    in_b = NodeTerm((Requirement(ZONE, Operator.IN, ("b",)),))
    cluster = nodes("a", "b", "b", taints={1: (rather_not,)})
    assert where(told(cluster, gang(pods("p", 1)))) == {"n0": 1}
    assert where(told(cluster, gang(pods("p", 5, preferred=((1, in_b),))))) == {"n0": 1, "n2": 4}
    assert where(told(cluster, gang(pods("p", 9)))) == {"n0": 4, "n1": 1, "n2": 4}


def test_a_volume_binds_to_its_nodes() -> None:
    in_b = NodeTerm((Requirement(ZONE, Operator.IN, ("b",)),))
    assert where(told(nodes("a", "b"), gang(pods("p", 1, volumes=((in_b,),))))) == {"n1": 1}
    assert where(told(nodes("a"), gang(pods("p", 1, volumes=((in_b,),))))) is None


def test_equal_gangs_with_different_labels_share_an_answer_unless_a_rule_selects_by_label() -> None:
    made = told(nodes("a"), gang(pods("p", 9)), gang(pods("p", 9, "b"), name="h"))
    made.decide(0.0)
    states = [made.world.gangs[GangId(name)] for name in "gh"]
    assert states[0].demand is states[1].demand
    there(made, "n0", "x", pod_anti_affinity=(term(HOST),))
    made.decide(1.0)
    assert states[0].demand is not states[1].demand


def test_a_gang_that_waits_for_affinity_starts_once_a_matching_pod_is_there() -> None:
    made = told(nodes("a"), gang(pods("p", 1, pod_affinity=(term(HOST, "x"),))))
    assert where(made) is None
    made.apply(GangSubmitted(gang(pods("p", 1, "x"), name="h")))
    assert where(made, "h") == {"n0": 1}
    assert made.wake_at() is not None
    assert where(made) == {"n0": 1}
    assert made.wake_at() is None


@settings(max_examples=examples(250), deadline=None)
@given(st.integers(0, 10**6))
def test_placements_satisfy_all_constraints_and_none_is_missed(seed: int) -> None:
    case = constrained.draw(seed)
    found = constrained.placed(case)
    assert found is None or constrained.satisfied(case, found)
    assert (found is not None) == constrained.possible(case)


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 10**6))
def test_growth_replacements_and_gathering_satisfy_everything_too(seed: int) -> None:
    for case, new in constrained.stories(seed):
        assert constrained.satisfied(case, new)
        assert constrained.gathered(case, new)


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10**6))
def test_undone_trials_leave_the_affinity_counts_of_a_fresh_scheduler(seed: int) -> None:
    """Whatever is tried and undone: the answers are those of a scheduler that was told the facts alone."""
    case = constrained.draw(seed)
    tried = constrained.scheduler(case)
    tried.decide(0.0)
    fresh = Scheduler()
    for fact in case.nodes:
        fresh.apply(fact)
    for event in tried.world.pods.values():
        fresh.apply(event)
    for place, promise in tried.world.gangs[GangId("g")].holds.items():
        fresh.apply(PodsBound({PodId(str(place)): None}, promise.node, (), footprint=promise.footprint))
    fresh.decide(0.0)
    for question in list(tried.world.ledger.footprints._answers):
        mine, theirs = (s.world.ledger.footprints.count(question).tolist() for s in (tried, fresh))
        assert mine == theirs


EXPLAINED: dict[str, tuple[list[str], PodSet, str, dict[str, int]]] = {
    "ports": (
        ["a", "b"],
        pods("p", 3, ports=(PORT,)),
        "3 pods asked with host port 8080; 2 of 3 fit",
        {"ports": 2},
    ),
    "anti-affinity": (
        ["a", "a", "b"],
        pods("p", 3, pod_anti_affinity=(term(ZONE),)),
        "3 pods asked with anti-affinity by zone; 2 of 3 fit",
        {"podAntiAffinity": 3},
    ),
    "affinity": (
        ["a", "b"],
        pods("p", 1, pod_affinity=(term(ZONE, "x"),)),
        "1 pod asked with affinity by zone; 0 of 1 fit",
        {"podAffinity": 2},
    ),
    "spread": (
        ["a", "a", "b"],
        pods("p", 10, spread=(Spread(ZONE, 1, labelled("a")),)),
        "10 pods asked with spread over zone; 9 of 10 fit",
        {"cpu": 2, "spread": 1},
    ),
}


@pytest.mark.parametrize(("zones", "asked", "message", "limits"), EXPLAINED.values(), ids=EXPLAINED.keys())
def test_why_it_waits(zones: list[str], asked: PodSet, message: str, limits: dict[str, int]) -> None:
    made = told(nodes(*zones), gang(asked))
    waits = [d for d in made.decide(0.0) if isinstance(d, Wait)]
    assert waits[0].explanation.code is Code.CONSTRAINT_UNSATISFIED
    rest = "; an exhaustive search found none; without that they would"
    assert waits[0].explanation.message == message + rest
    (about,) = waits[0].explanation.pod_sets
    assert about.limited_by == limits


def test_no_room_is_no_matter_of_constraints() -> None:
    made = told(nodes("a", cpu=2), gang(pods("p", 3, ports=(PORT,))))
    waits = [d for d in made.decide(0.0) if isinstance(d, Wait)]
    assert waits[0].explanation.code is Code.INSUFFICIENT_CAPACITY


def test_a_victim_gives_its_port_free() -> None:
    low = gang(pods("p", 1, ports=(PORT,)), name="low")
    made = told(nodes("a", cpu=1), low)
    (assign,) = [d for d in made.decide(1.0) if isinstance(d, Assign)]
    footprint = Footprint("ns", (("app", "a"),), (PORT,))
    for place, node in assign.nodes.items():
        made.apply(PodsBound({PodId("l"): place}, node, (("cpu", 1),), assign.gang, footprint, 1.0))
    high = gang(pods("p", 1, ports=(PORT,)), name="high")
    made.apply(GangSubmitted(replace(high, priority=1)))
    told_now = made.decide(2.0)
    assert [d.victims[0].gang for d in told_now if isinstance(d, Evict)] == ["low"]
    assert [d.gang for d in told_now if isinstance(d, Assign)] == ["high"]
    made.apply(PodsEnded((PodId("l"),), 3.0))
    made.decide(3.0)
    using = made.world.ledger.footprints.count(Using((PORT,))).tolist()
    assert using == [1], "that of the newcomer"


def test_a_pod_set_in_another_namespace_than_its_gang() -> None:
    elsewhere = replace(pods("q", 1), namespace="other")
    made = told(nodes("a", "b"), gang(pods("p", 1), elsewhere))
    there(made, "n0", "x", pod_anti_affinity=(term(HOST, "a", ("other",)),))
    assert where(made) == {"n0": 1, "n1": 1}
    assert made.world.gangs[GangId("g")].holds[Place("q", 0)].node == "n1"


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(0, 10**6))
def test_footprints_always_count_exactly_the_pods_that_are_there(seed: int) -> None:
    """Gangs come, run, are ended for others and go; nodes too. The account is that of pods and promises."""
    rng = random.Random(seed)
    made = told(nodes("a", "a", "b", "b", cpu=3))
    questions: list[Question] = [
        Matching((term(ZONE, "a"),)),
        Matching((term(ZONE, "b"), term(HOST, "b"))),
        Carrying(term(HOST)),
        Using((PORT,)),
    ]
    for step in range(30):
        now = float(step)
        match rng.choice(["gang", "gang", "pod", "end", "go", "node", "label"]):
            case "gang":
                apart = (term(HOST),) if rng.random() < 0.5 else ()
                ports = (PORT,) if rng.random() < 0.3 else ()
                sets = pods("p", rng.randint(1, 4), rng.choice("ab"), pod_anti_affinity=apart, ports=ports)
                one = gang(sets, name=f"g{rng.randint(0, 5)}")
                made.apply(GangSubmitted(replace(one, priority=rng.randint(0, 2))))
            case "pod":
                there(made, f"n{rng.randint(0, 4)}", rng.choice("ab"))
            case "end" if made.world.pods:
                made.apply(PodsEnded((rng.choice(sorted(made.world.pods)),), now))
            case "go":
                made.apply(GangRemoved(GangId(f"g{rng.randint(0, 5)}")))
            case "node":
                name = NodeName(f"n{rng.randint(0, 3)}")
                if name in made.world.nodes.facts:
                    made.apply(NodeRemoved(name))
                else:
                    made.apply(nodes(*"aabb", cpu=3)[int(name[1])])
            case "label" if made.world.pods:
                bound = made.world.pods[rng.choice(sorted(made.world.pods))]
                changed = replace(bound.footprint, labels=(("app", rng.choice("ab")),))
                made.apply(replace(bound, footprint=changed))
        for decision in made.decide(now):
            if isinstance(decision, Assign) and rng.random() < 0.7:
                for place, node in decision.nodes.items():
                    promise = made.world.gangs[decision.gang].holds[place]
                    labels = (*promise.footprint.labels, ("index", str(place.index)))
                    made.apply(
                        PodsBound(
                            {PodId(f"{decision.gang}/{place}/{step}"): place},
                            node,
                            promise.requests,
                            decision.gang,
                            replace(promise.footprint, labels=labels),
                            now,
                        )
                    )
        leaving = {
            charged for departure in made.world.pending_evictions.values() for charged in departure.promised
        }
        seen = [(pod.node, pod.footprint) for pod in made.world.pods.values()]
        seen += [(hold.node, hold.footprint) for s in made.world.gangs.values() for hold in s.holds.values()]
        seen += [(node, footprint) for node, _, _, footprint in leaving]
        for question in questions:
            expected = Counter(node for node, footprint in seen if question.answers(footprint))
            counted = made.world.ledger.footprints.count(question).tolist()
            assert counted == [expected[name] for name in made.world.nodes.names]


@pytest.mark.parametrize("names", [("p", "q"), ("q", "p")])
def test_a_plan_that_holds_only_in_one_order_is_kept(names: tuple[str, str]) -> None:
    """The friends have affinity to each other; the loner comes last, since they would match it as well."""
    friends = pods(names[0], 2, pod_affinity=(term(ZONE),))
    loner = pods(names[1], 1, pod_anti_affinity=(term(HOST),))
    plan = {Place(names[0], 0): "n1", Place(names[0], 1): "n2", Place(names[1], 0): "n0"}
    one = gang(*sorted((friends, loner), key=lambda each: each.name))
    made = told(nodes("a", "b", "b", "c"), one)
    made.apply(PlanFound(one.id, {place: NodeName(node) for place, node in plan.items()}))
    (assign,) = (each for each in made.decide(0.0) if isinstance(each, Assign))
    assert assign.nodes == plan


def test_labels_that_no_rule_selects_do_not_tell_gangs_apart() -> None:
    lonely = pods("p", 9, pod_anti_affinity=(term(HOST),))
    other = replace(lonely, labels=(*lonely.labels, ("job", "2")))
    made = told(nodes("a"), gang(lonely), gang(other, name="h"))
    made.decide(0.0)
    states = [made.world.gangs[GangId(name)] for name in "gh"]
    assert states[0].demand is states[1].demand
