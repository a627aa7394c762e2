"""What would start a gang: each row is a cluster, what runs there, a gang, and what is said and true."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.explain import question
from muster.core.explain.question import NOT
from muster.core.reservations import Backfill
from muster.core.words.decisions import ExpectedStart, Explanation, Remedy
from muster.core.words.events import (
    BudgetChanged,
    Footprint,
    GangSubmitted,
    LayersChanged,
    NodeChanged,
    PodsBound,
    QueueChanged,
    QuotaChanged,
)
from muster.core.words.gang import (
    Code,
    Gang,
    GangId,
    Gate,
    Gather,
    Layer,
    NodeName,
    Operator,
    Place,
    PodId,
    PodSet,
    PodTerm,
    Queue,
    Requirement,
    Strategy,
)
from tests.core.words import GPU, amounts, assigns, bind, gang, node, scheduler, shape, started, waits
from tests.tiers import examples


def free(*gpus: int) -> list[NodeChanged]:
    return [node(f"n{i}", gpu=g) for i, g in enumerate(gpus)]


def running(made: Scheduler, name: str, **gpus: int) -> None:
    """A gang that stands, with a pod of so many GPUs on each of these nodes."""
    sets = tuple(PodSet(f"on-{n}", shape(gpu=g), 1, 1) for n, g in sorted(gpus.items()))
    made.apply(GangSubmitted(Gang(GangId(name), sets, len(sets), 0.0)))
    for n, g in sorted(gpus.items()):
        pod = PodId(f"{name}-{n}")
        made.apply(PodsBound({pod: Place(f"on-{n}", 0)}, NodeName(n), amounts({GPU: g}), GangId(name)))


def told(made: Scheduler, wanted: Gang) -> tuple[Remedy, ...]:
    made.apply(GangSubmitted(wanted))
    (wait,) = waits(made.decide(0.0))
    assert wait.gang == wanted.id
    return starting(wait.explanation)


def starting(explanation: Explanation) -> tuple[Remedy, ...]:
    """What would start it, without what would not."""
    return tuple(remedy for remedy in explanation.remedies if remedy.effect != NOT)


@pytest.mark.parametrize(
    ("nodes", "wanted", "changes"),
    [
        (
            free(4, 4, 5, 3, 3),
            gang("x", count=4, of=shape(gpu=4)),
            ["with 12 GPUs (3 × 4)", "with 8 × 2 GPUs instead of 4 × 4"],
        ),
        (free(4, 4), gang("x", count=9, of=shape(gpu=1)), ["with 8 GPUs (8 × 1)"]),
        (free(4, 4), gang("x", count=12, minimum=9), ["with a minimum of 8 GPUs (8 × 1)"]),
        (free(8, 8), gang("x", count=1, of=shape(gpu=16)), ["with 2 × 8 GPUs instead of 1 × 16"]),
        (free(4, 4), gang("x", count=1, of=shape(gpu=16)), []),
        (
            free(4, 4),
            gang("x", PodSet("d", shape(gpu=1), 1, 1), PodSet("w", shape(gpu=4), 2, 2)),
            ["with 1 instead of 2 pods of w"],
        ),
        (
            free(7, 7),
            gang("x", PodSet("d", shape(gpu=1), 2, 2), PodSet("w", shape(gpu=4), 3, 3)),
            ["with 2 instead of 3 pods of w", "with w as 6 × 2 GPUs instead of 3 × 4"],
        ),
        ([], gang("x"), []),
    ],
)
def test_changes_of_its_own_demand(nodes: list[NodeChanged], wanted: Gang, changes: list[str]) -> None:
    found = told(scheduler(nodes), wanted)
    assert [remedy.change for remedy in found] == changes
    assert {remedy.effect for remedy in found} <= {"would start now"}


def test_the_smallest_gang_whose_completion_suffices_is_named() -> None:
    made = scheduler(free(8, 8, 8))
    running(made, "small", n0=4)
    running(made, "middle", n0=4, n1=4)
    running(made, "large", n1=4, n2=8)
    found = told(made, gang("x", count=2, of=shape(gpu=4)))
    assert found[-1] == Remedy("when middle ends", "would start")


def test_a_started_gang_is_not_advised_to_shrink() -> None:
    made = scheduler(free(4))
    made.apply(GangSubmitted(gang("x", count=6)))
    made.apply(PodsBound({PodId("p"): Place("main", 0)}, NodeName("n0"), amounts({GPU: 1}), GangId("x")))
    (wait,) = waits(made.decide(0.0))
    assert starting(wait.explanation) == ()


def test_only_the_first_gangs_of_a_queue_get_remedies() -> None:
    made = Scheduler(Config(remedies=2))
    for fact in free(4):
        made.apply(fact)
    for i in range(4):
        made.apply(GangSubmitted(gang(f"g{i}", count=5 + i, submitted=float(i))))
    assert [len(wait.explanation.remedies) for wait in waits(made.decide(0.0))] == [1, 1, 0, 0]


def test_a_cycle_makes_a_bounded_number_of_trials() -> None:
    made = Scheduler(Config(remedies=10, trials=1))
    for fact in free(4):
        made.apply(fact)
    for i in range(3):
        made.apply(GangSubmitted(gang(f"g{i}", count=5 + i, submitted=float(i))))
    assert [len(wait.explanation.remedies) for wait in waits(made.decide(0.0))] == [1, 0, 0]


def submit(made: Scheduler, wanted: Gang, at: float = 0.0) -> Explanation:
    made.apply(GangSubmitted(wanted))
    found = [wait.explanation for wait in waits(made.decide(at)) if wait.gang == wanted.id]
    return replace(found[0], remedies=starting(found[0]))


def runs(made: Scheduler, one: Gang, at: float = 0.0) -> None:
    made.apply(GangSubmitted(one))
    for assign in assigns(made.decide(at)):
        for event in bind(made, assign):
            made.apply(replace(event, at=at))


def racks(*gpus: int) -> Scheduler:
    made = scheduler(node(f"n{i}", gpu=g, labels={"rack": f"r{i}"}) for i, g in enumerate(gpus))
    made.apply(LayersChanged((Layer("rack", ("rack",)),)))
    return made


def test_without_a_layer() -> None:
    asked = replace(gang("x", count=6), gather=(Gather("rack", Strategy.MUST_GATHER),))
    explanation = submit(racks(4, 4), asked)
    assert explanation.code is Code.TOPOLOGY_UNSATISFIED
    assert [r.change for r in explanation.remedies] == [
        "with 4 GPUs (4 × 1)",
        "without having to be in one rack",
    ]


def test_without_multiples() -> None:
    asked = replace(gang("x", count=6), gather=(Gather("rack", None, 4),))
    assert "without multiples of 4 per rack" in [r.change for r in submit(racks(4, 4), asked).remedies]


def test_another_queue() -> None:
    made = scheduler(free(4))
    for name, closed in (("a", True), ("b", False), ("shut", True)):
        made.apply(QueueChanged(Queue(name, closed=closed)))
    explanation = submit(made, replace(gang("x", count=2), queue="shut"))
    assert explanation.code is Code.QUEUE_CLOSED
    assert explanation.remedies == (Remedy("in queue b", "would start now"),)


def test_the_victims_it_would_have_if_it_might_preempt() -> None:
    made = scheduler(free(4))
    runs(made, gang("low", count=4), 1.0)
    explanation = submit(made, replace(gang("x", count=2, priority=1), preempts=False), 10.0)
    assert explanation.remedies[-1] == Remedy(
        "if it might preempt (MayNotPreempt): low would end, 36 resource-seconds of work lost", "would start"
    )
    assert made.decide(11.0) == []


def test_a_gang_with_a_reservation_is_expected_at_its_time() -> None:
    made = scheduler(free(4))
    runs(made, replace(gang("first", count=3), limit=100.0))
    explanation = submit(made, gang("x", count=4), 10.0)
    assert explanation.expected_start == ExpectedStart(100.0, "when first ends on n0 (its limit)")
    behind = submit(made, gang("y", count=4, submitted=1.0), 10.0)
    assert behind.expected_start == ExpectedStart(None, "x gives no run time")


@pytest.mark.parametrize("backfill", [Backfill.NONE, Backfill.EASY, Backfill.CONSERVATIVE])
@pytest.mark.parametrize("estimate", [200.0, None])
def test_a_gang_that_lacks_a_pod_does_not_wait_for_its_own_end(
    backfill: Backfill, estimate: float | None
) -> None:
    made = Scheduler(Config(backfill=backfill))
    for each in free(4, 4):
        made.apply(each)
    part = replace(gang("part", count=2, of=shape(gpu=4)), estimate=100.0)
    made.apply(GangSubmitted(part))
    one = {PodId("part-0"): Place("main", 0)}
    made.apply(PodsBound(one, NodeName("n0"), amounts({GPU: 4}), part.id, at=1.0))
    other = replace(gang("other", of=shape(gpu=4)), estimate=estimate)
    made.apply(GangSubmitted(other))
    two = {PodId("other-0"): Place("main", 0)}
    made.apply(PodsBound(two, NodeName("n1"), amounts({GPU: 4}), other.id, at=2.0))
    behind = submit(made, gang("behind", of=shape(gpu=4), submitted=3.0), 5.0)
    known = made.world.gangs[part.id].explanation
    assert known is not None
    if estimate is None:
        assert known.expected_start == ExpectedStart(None, "other gives no run time")
    else:
        assert known.expected_start == ExpectedStart(202.0, "when other ends on n1 (its run time)")
    assert behind.expected_start == ExpectedStart(101.0, "when part ends on n0 (its run time)")


def test_when_explaining_whether_completions_at_unknown_times_would_help_is_tried() -> None:
    made = scheduler(free(4))
    runs(made, gang("first", count=3))
    submit(made, gang("all", count=4), 10.0)
    submit(made, gang("behind", count=4, submitted=1.0), 10.0)
    never = submit(made, gang("pair", count=2, of=shape(gpu=3), submitted=2.0), 10.0)
    assert never.expected_start == ExpectedStart(None, "first gives no run time")

    def expected(name: str) -> ExpectedStart | None:
        asked = made.asked(GangId(name))
        assert asked is not None
        return asked.expected_start

    assert expected("all") == ExpectedStart(None, "first gives no run time")
    assert expected("behind") == ExpectedStart(None, "first and all give no run time")
    assert expected("pair") == ExpectedStart(None, "no room was found for it even once all others have ended")


def test_an_overdue_start_is_not_announced_again() -> None:
    made = scheduler(free(4))
    runs(made, replace(gang("first", count=3), estimate=5.0))
    told = submit(made, gang("x", count=4), 10.0).expected_start
    assert told == ExpectedStart(10.0, "when first ends on n0 (its run time)")
    assert waits(made.decide(20.0)) == []


def test_no_remedy_delays_the_first_waiting_gang() -> None:
    made = scheduler(free(4))
    runs(made, replace(gang("first", count=2), limit=100.0))
    submit(made, gang("head", count=4), 10.0)
    explanation = submit(made, replace(gang("x", count=3, submitted=1.0), limit=500.0), 10.0)
    assert explanation.remedies == (), "two GPUs are free, but it would outlive the reservation"
    short = submit(made, replace(gang("y", count=3, submitted=1.0), limit=50.0), 10.0)
    assert [r.change for r in short.remedies] == ["with 2 GPUs (2 × 1)"], "when first ends, head starts"


SETS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=2)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=5), SETS)
@settings(max_examples=examples(80), deadline=None)
def test_fewer_pods_is_true_and_for_one_shape_the_most(gpus: list[int], sizes: list[tuple[int, int]]) -> None:
    sets = [PodSet(f"s{i}", shape(gpu=g), n, n) for i, (g, n) in enumerate(sizes)]
    made = scheduler(free(*gpus))
    made.apply(GangSubmitted(gang("x", *sets)))
    decided = waits(made.decide(0.0))
    if not decided:
        return
    assert not made.world.nodes.used.any()
    for remedy in decided[0].explanation.remedies:
        if "(" in remedy.change:
            count = int(remedy.change.split("(")[1].split(" ")[0])
            most = sum(g // sizes[0][0] for g in gpus)
            assert count == most
            smaller = gang("y", PodSet("s0", sets[0].shape, count, count))
            assert started(scheduler(free(*gpus), smaller).decide(0.0)) == ["y"]
        elif " of s" in remedy.change:
            counts = dict(enumerate(n for _, n in sizes))
            for change in remedy.change.removeprefix("with ").split(" and "):
                words = change.split(" ")
                counts[int(words[-1][1:])] = int(words[0])
            smaller_sets = [PodSet(s.name, s.shape, counts[i], counts[i]) for i, s in enumerate(sets)]
            assert started(scheduler(free(*gpus), gang("y", *smaller_sets)).decide(0.0)) == ["y"]


def test_a_full_queue_names_the_victims_it_would_have_if_it_might_preempt() -> None:
    made = scheduler(free(8, 8))
    made.apply(QueueChanged(Queue("q", capability=amounts({GPU: 4}))))
    runs(made, replace(gang("low", count=4), queue="q"), at=1.0)
    wanted = replace(gang("x", count=4, priority=1), queue="q", preempts=False)
    explanation = submit(made, wanted, at=10.0)
    assert explanation.code is Code.QUOTA_EXCEEDED
    assert explanation.remedies[-1].change == (
        "if it might preempt (MayNotPreempt): low would end, 36 resource-seconds of work lost"
    )


def test_the_gang_in_front_is_served_first_when_a_gang_ends() -> None:
    made = scheduler(free(4))
    runs(made, gang("first", count=4))
    front = submit(made, gang("second", count=4, submitted=1.0))
    assert Remedy("when first ends", "would start") in front.remedies
    behind = submit(made, gang("third", count=4, submitted=2.0))
    assert behind.remedies == (), "second takes that room"


def test_the_gang_in_front_is_not_delayed_when_a_gang_ends() -> None:
    made = scheduler(free(8))
    runs(made, replace(gang("first", count=4), limit=100.0))
    runs(made, replace(gang("other", count=4), limit=500.0))
    submit(made, gang("head", count=8, submitted=1.0), 10.0)
    behind = submit(made, replace(gang("x", count=2, submitted=2.0), limit=1000.0), 10.0)
    assert behind.remedies == (), "it would fit, and be there still when other ends"
    short = submit(made, replace(gang("y", count=2, submitted=3.0), limit=300.0), 10.0)
    assert short.remedies == (Remedy("when first ends", "would start"),)


def test_two_gangs_may_start_when_one_ends() -> None:
    made = scheduler(free(4))
    runs(made, gang("first", count=4))
    submit(made, gang("second", count=2, submitted=1.0))
    behind = submit(made, gang("third", count=2, submitted=2.0))
    assert behind.remedies == (Remedy("when first ends", "would start"),)


def test_a_gang_behind_others_is_expected_after_their_run_times() -> None:
    made = scheduler(free(4))
    runs(made, replace(gang("first", count=4), limit=100.0))
    for i, name in enumerate(("second", "third")):
        made.apply(GangSubmitted(replace(gang(name, count=4, submitted=1.0 + i), estimate=50.0)))
    explanation = submit(made, gang("fourth", count=4, submitted=9.0), 10.0)
    assert explanation.expected_start == ExpectedStart(200.0, "when first, second and third have ended")
    unknown = submit(made, gang("fifth", count=4, submitted=10.0), 10.0)
    assert unknown.expected_start is None, "the first three of a queue are told"


def test_gangs_behind_one_with_the_same_demand_are_not_visited() -> None:
    made = scheduler(free(8))
    runs(made, replace(gang("brief", count=4), limit=100.0))
    runs(made, replace(gang("lengthy", count=4), limit=300.0))
    made.apply(GangSubmitted(replace(gang("all", count=8, submitted=1.0), limit=50.0)))
    for i, name in enumerate(("most", "other")):
        made.apply(GangSubmitted(replace(gang(name, count=6, submitted=2.0 + i), limit=50.0)))
    told = {wait.gang: wait.explanation for wait in waits(made.decide(10.0))}
    made.apply(GangSubmitted(replace(gang("passes", count=4, submitted=9.0), limit=20.0)))
    told |= {wait.gang: wait.explanation for wait in waits(made.decide(10.0))}
    assert {gang: explanation.expected_start for gang, explanation in sorted(told.items())} == {
        "all": ExpectedStart(300.0, "when brief and lengthy have ended"),
        "most": ExpectedStart(350.0, "when brief, lengthy and all have ended"),
        "other": ExpectedStart(400.0, "when 1 other, lengthy, all and most have ended"),
        "passes": None,
    }


def test_a_gang_in_front_that_may_have_nothing_more_is_skipped() -> None:
    made = scheduler([node("a", gpu=5, labels={"rack": "r"})])
    made.apply(LayersChanged((Layer("Rack", ("rack",)),)))
    made.apply(QuotaChanged("ml", "compute", (("pods", 2),)))
    pods = PodSet("main", shape(gpu=1), 4, 2, uncreated=4, quotas=(("compute", (("pods", 1),)),))
    gathered = replace(
        gang("grows", pods, minimum=2), namespace="ml", gather=(Gather("Rack", Strategy.MUST_GATHER),)
    )
    made.apply(GangSubmitted(gathered))
    made.apply(GangSubmitted(replace(gang("brief", of=shape(gpu=1)), limit=10.0)))
    assert started(made.decide(0.0)) == ["brief", "grows"]
    made.apply(GangSubmitted(gang("wide", count=1, of=shape(gpu=3), submitted=1.0)))
    (wait,) = waits(made.decide(1.0))
    assert wait.explanation.expected_start == ExpectedStart(10.0, "when brief ends on a (its limit)")


def test_of_what_takes_too_many_trials_the_next_cycle_has_more() -> None:
    made = Scheduler(Config(remedies=10, trials=1))
    for fact in free(4):
        made.apply(fact)
    for i in range(3):
        made.apply(GangSubmitted(gang(f"g{i}", count=5 + i, submitted=float(i))))
    made.decide(0.0)
    told = []
    while (due := made.wake_at()) is not None:
        told += [wait.gang for wait in waits(made.decide(due))]
    assert told == ["g1", "g2"]
    assert made.decide(9.0) == []


def reasons(made: Scheduler, wanted: Gang, at: float = 10.0) -> list[str]:
    """Why it would not start by preemption."""
    made.apply(GangSubmitted(wanted))
    (told,) = [wait.explanation for wait in waits(made.decide(at)) if wait.gang == wanted.id]
    return [remedy.change for remedy in told.remedies if remedy.effect == NOT]


def test_why_no_gang_is_preempted_for_it() -> None:
    made = scheduler(free(4))
    assert reasons(made, gang("empty", count=5)) == [], "no gang is in its way"
    runs(made, gang("equal", count=2), 1.0)
    assert reasons(made, gang("x", count=4)) == ["no gang of lower priority runs"]
    made.apply(QueueChanged(Queue("a")))
    assert reasons(made, gang("y", count=4)) == [
        "no gang of lower priority runs in queue default, and other queues need not give way"
    ]


def test_gangs_of_lower_rank_may_be_protected_or_too_small() -> None:
    made = scheduler(free(4))
    runs(made, replace(gang("kept", count=2), preemptible=False), 1.0)
    assert reasons(made, gang("x", count=4, priority=1)) == [
        "1 gang of lower rank is protected: not preemptible, starting, or within a minimum run time"
    ]
    runs(made, gang("small", count=1), 11.0)
    assert reasons(made, gang("y", count=4, priority=2), 20.0) == [
        "it would not fit even without the 1 gang that it may end"
    ]


def test_what_a_budget_keeps() -> None:
    made = scheduler(free(2))
    made.apply(GangSubmitted(replace(gang("low", count=2), namespace="ml")))
    for event in bind(made, assigns(made.decide(1.0))[0]):
        made.apply(replace(event, at=1.0, footprint=Footprint("ml")))
    made.apply(BudgetChanged("ml", "b", (), 0))
    assert reasons(made, gang("x", count=2, priority=1)) == [
        "budgets or entitlements protect too much of the 1 gang of lower rank"
    ]


def test_a_gang_that_its_queue_refuses_gets_the_numbers_as_well() -> None:
    made = scheduler(free(8))
    made.apply(QueueChanged(Queue("a", capability=amounts({GPU: 4}))))
    runs(made, replace(gang("first", count=2), queue="a"))
    explanation = submit(made, replace(gang("x", count=3), queue="a"))
    assert explanation.code is Code.QUOTA_EXCEEDED
    (told,) = explanation.pod_sets
    assert (told.wanted, told.fits, told.limited_by) == (3, 2, {"quota": 1})
    assert explanation.blockers == ("first",)
    assert explanation.remedies == (
        Remedy("with 2 GPUs (2 × 1)", "would start now"),
        Remedy("in queue default", "would start now"),
        Remedy("when first ends", "would start"),
    )


def test_a_gang_over_its_share_learns_which_gangs_have_the_rest() -> None:
    made = scheduler(free(8, 8))
    for name, weight in (("a", 3), ("b", 1)):
        made.apply(QueueChanged(Queue(name, weight=weight)))
    made.apply(GangSubmitted(replace(gang("x", count=16), queue="a")))
    runs(made, replace(gang("small", count=4), queue="b"))
    explanation = made.world.gangs[GangId("x")].explanation
    assert explanation is not None
    assert explanation.code is Code.OVER_SHARE
    (told,) = explanation.pod_sets
    assert (told.wanted, told.fits, told.limited_by) == (16, 12, {"quota": 2})
    assert explanation.blockers == ("small",)


def test_a_gang_that_starts_first_may_exclude_it() -> None:
    made = scheduler([node("n", gpu=4, labels={"rack": "r"})])
    running(made, "first", n=4)
    alike = PodTerm("rack", (Requirement("app", Operator.IN, ("x",)),), None)
    lone = gang("lone", of=replace(shape(gpu=2), pod_anti_affinity=(alike,)))
    kept_off = gang("other", PodSet("main", shape(gpu=2), 1, 1, (("app", "x"),)), submitted=1.0)
    made.apply(GangSubmitted(replace(lone, namespace="ns")))
    made.apply(GangSubmitted(replace(kept_off, namespace="ns")))
    front, behind = (starting(wait.explanation) for wait in waits(made.decide(1.0)))
    assert front == (Remedy("when first ends", "would start"),)
    assert behind == ()


@pytest.mark.parametrize("protected", [False, True])
def test_a_gang_that_is_being_deleted_is_not_called_protected(protected: bool) -> None:
    made = scheduler(free(4, 4) if protected else free(4))
    old = gang("old", of=shape(gpu=4), priority=-1)
    runs(made, old)
    (pod,) = made.world.gangs[old.id].pods
    if protected:
        runs(made, replace(gang("kept", of=shape(gpu=4), priority=-1, submitted=1.0), preemptible=False))
    left = made.world.pods[pod]
    gone = replace(left, pods={pod: None}, footprint=replace(left.footprint, leaving=True))
    made.apply(GangSubmitted(replace(old, gate=Gate(Code.GATED, "is being deleted"))))
    made.apply(gone)
    made.apply(GangSubmitted(gang("x", of=shape(gpu=4), submitted=2.0)))
    (explanation,) = [wait.explanation for wait in waits(made.decide(10.0)) if wait.gang == "x"]
    (why,) = [remedy.change for remedy in explanation.remedies if remedy.effect == NOT]
    assert explanation.expected_start is not None
    if protected:
        assert why.startswith("1 gang of lower rank is protected: not preemptible")
        assert explanation.expected_start.basis == "kept gives no run time"
    else:
        assert why == "1 gang of lower rank is leaving already"
        assert explanation.expected_start.basis == "when old has left, being deleted"


def charged(name: str, count: int, uncreated: int, **fields: Any) -> Gang:  # Any: of a gang
    pods = PodSet(
        "main", shape(gpu=1), count, count, uncreated=uncreated, quotas=(("q", amounts({"pods": 1})),)
    )
    return Gang(GangId(name), (pods,), count, fields.pop("submitted", 0.0), namespace="ns", **fields)


@pytest.mark.parametrize("estimate", [100.0, None])
def test_a_gang_that_ends_gives_back_what_its_pods_were_charged(estimate: float | None) -> None:
    made = scheduler(free(9))
    made.apply(QuotaChanged("ns", "q", amounts({"pods": 4})))
    runs(made, gang("elsewhere"))
    runs(made, charged("first", 3, 3, estimate=estimate))
    made.apply(GangSubmitted(charged("first", 3, 0, estimate=estimate)))
    made.apply(QuotaChanged("ns", "q", amounts({"pods": 1})))
    explanation = submit(made, charged("second", 3, 3, submitted=1.0), 10.0)
    assert explanation.code is Code.QUOTA_EXCEEDED
    assert "when first ends" in [remedy.change for remedy in explanation.remedies]
    known = ExpectedStart(100.0, "when first ends on n0 (its run time)")
    unknown = ExpectedStart(None, "elsewhere and first give no run time")
    assert explanation.expected_start == (unknown if estimate is None else known)
    larger = submit(made, charged("larger", 5, 5, submitted=2.0), 11.0)
    assert [remedy.change for remedy in larger.remedies] == ["with 1 GPU (1 × 1)"], "no end is enough"
    assert made.decide(12.0) == [], "nothing of it is left"


def test_a_gang_is_asked_about_though_the_question_of_one_in_front_was_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An outlook that ends early tells of its first gang only, and that is the gang that is asked about."""
    monkeypatch.setattr(question, "FAR", 0)
    monkeypatch.setattr(question.Question, "exhausted", property(lambda asked: asked.state.id == "front"))
    made = scheduler(free(4))
    running(made, "small", n0=4)
    for name in ("front", "one", "two"):
        made.apply(GangSubmitted(gang(name, of=shape(gpu=2), submitted=1.0 + (name == "two"))))
    assert {wait.gang for wait in waits(made.decide(2.0))} == {"front", "one", "two"}
