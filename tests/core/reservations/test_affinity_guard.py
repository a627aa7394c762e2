"""A gang passes a reserved one unless its pods would break the affinity rules of the reserved gang."""

from dataclasses import replace
from math import inf

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.core.reservations.calendar import Calendar
from muster.core.reservations.start_search import StartSearch
from muster.core.words.decisions import Decision
from muster.core.words.events import LayersChanged, QueueChanged
from muster.core.words.gang import (
    Code,
    Gang,
    GangId,
    Layer,
    Operator,
    PodSet,
    PodTerm,
    Queue,
    Requirement,
    Shape,
)
from muster.core.world.lacking import Demands
from muster.names import GPU
from tests.core.reservations.test_backfill import Cluster, lasting, reserves, told
from tests.core.words import assigns, node, shape, started, where
from tests.tiers import examples

HOST = "host"
ONE, WIDE = shape(gpu=1), shape(gpu=3)


def labelled(app: str) -> tuple[Requirement, ...]:
    return (Requirement("app", Operator.IN, (app,)),)


def apart(from_: str, of: Shape) -> Shape:
    return replace(of, pod_anti_affinity=(PodTerm(HOST, labelled(from_), ("ns",)),))


def app(name: str, seconds: float, of: Shape) -> Gang:
    """A gang of one pod with its name as label."""
    made = PodSet("main", of, 1, 1, labels=(("app", name),))
    return replace(lasting(name, 1, seconds, at=1.0), pod_sets=(made,), namespace="ns")


def halls(*ends: float) -> Cluster:
    """Nodes a, b, …, of 4 GPUs, each a hall. a is taken until 100, and 3 GPUs of each other until these."""
    cluster = Cluster(*(node(name, gpu=4, labels={HOST: name}) for name in "abc"[: 1 + len(ends)]))
    cluster.core.apply(LayersChanged((Layer("Hall", (HOST,)),)))
    runs = [lasting("on-a", 1, 100.0, gpu=4)]
    runs += [lasting(f"on-{name}", 1, end, gpu=3) for name, end in zip("bc", ends, strict=False)]
    cluster.submit(*runs)
    assert [(one.gang, where(one)) for one in assigns(cluster.decide(0.0))] == [
        (run.id, [run.id[-1]]) for run in runs
    ]
    return cluster


PAIRS = {
    "anti-affinity of the head": (app("head", 10.0, apart("web", WIDE)), app("web", 500.0, ONE)),
    "anti-affinity of the other": (app("head", 10.0, WIDE), app("web", 500.0, apart("head", ONE))),
    "exclusive domain of the head": (
        replace(app("head", 10.0, WIDE), exclusive="Hall"),
        app("web", 500.0, ONE),
    ),
}


def pass_(cluster: Cluster, head: Gang, web: Gang) -> list[Decision]:
    cluster.submit(head)
    assert reserves(cluster.decide(1.0)) == [("head", 50.0, {"b"})]
    cluster.submit(replace(web, submitted=2.0))
    return cluster.decide(2.0)


@pytest.mark.parametrize(("head", "web"), PAIRS.values(), ids=[*PAIRS])
def test_no_gang_passes_beside_which_the_head_could_not_start_in_time(head: Gang, web: Gang) -> None:
    cluster = halls(50.0)
    assert started(pass_(cluster, head, web)) == []
    assert told(cluster, "web") == (
        Code.HELD_FOR_RESERVATION,
        "would fit, but head waits for longer and is expected to start at 1970-01-01 00:00:50 UTC",
    )
    cluster.end("on-b", 50.0)
    assert started(cluster.decide(50.0)) == ["head"]


@pytest.mark.parametrize(("head", "web"), PAIRS.values(), ids=[*PAIRS])
def test_they_pass_elsewhere(head: Gang, web: Gang) -> None:
    cluster = halls(50.0, 500.0)
    assert [(one.gang, where(one)) for one in assigns(pass_(cluster, head, web))] == [("web", ["c"])]
    cluster.end("on-b", 50.0)
    assert started(cluster.decide(50.0)) == ["head"]


@pytest.mark.parametrize(("head", "web"), PAIRS.values(), ids=[*PAIRS])
def test_they_pass_as_long_as_it_fits_elsewhere(head: Gang, web: Gang) -> None:
    cluster = halls(50.0, 50.0)
    assert [(one.gang, where(one)) for one in assigns(pass_(cluster, head, web))] == [("web", ["b"])]
    cluster.submit(replace(web, id=GangId("another"), submitted=3.0))
    assert started(cluster.decide(3.0)) == []
    cluster.end("on-b", 50.0)
    cluster.end("on-c", 50.0)
    assert started(cluster.decide(50.0))[0] == "head"


def test_no_gang_gets_an_exclusive_domain_of_which_a_reservation_needs_a_part() -> None:
    cluster = Cluster(*(node(name, gpu=4, labels={HOST: name}) for name in "ab"))
    cluster.core.apply(LayersChanged((Layer("Hall", (HOST,)),)))
    cluster.submit(lasting("long", 4, 100.0), lasting("head", 6, 10.0, at=1.0))
    assert reserves(cluster.decide(1.0)) == [("head", 101.0, {"a", "b"})]
    cluster.submit(replace(lasting("alone", 1, 500.0, at=2.0), exclusive="Hall"))
    assert started(cluster.decide(2.0)) == []
    assert (told(cluster, "alone") or ("",))[0] is Code.HELD_FOR_RESERVATION
    cluster.submit(lasting("other", 1, 500.0, at=3.0))
    assert started(cluster.decide(3.0)) == ["other"]


def test_nodes_that_its_queue_excludes_stay_excluded_for_the_reserved_gang() -> None:
    cluster = halls(50.0, 50.0)
    cluster.core.apply(QueueChanged(Queue("p", capability=((GPU, 3),))))
    head, web = PAIRS["anti-affinity of the other"]
    more = PodSet("more", ONE, 4, 0, labels=(("app", "head"),))
    head = replace(head, pod_sets=(*head.pod_sets, more), queue="p", preempts=False)
    assert [(one.gang, where(one)) for one in assigns(pass_(cluster, head, web))] == [("web", ["b"])]
    cluster.end("on-c", 50.0)
    assert started(cluster.decide(50.0)) == ["head"]


class Bearable(Cluster):
    """Checks after each cycle that the head could still start in time, with all gangs that passed it."""

    def decide(self, now: float) -> list[Decision]:
        decisions, there = super().decide(now), self.core
        for head in self.core.reservations.made:
            world = there.world
            demands = Demands(world.ledger.footprints, world.failed_starts, world.nodes.claims)
            request = demands.in_trial(head.request)
            empty = Calendar(there.world.ledger, there.world.completions)
            search = StartSearch(there.world, there.fit, empty)
            found = search.find(head.gang, request, inf, now)
            assert found is not None
            assert found.start <= max(head.at, now)
        return decisions


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from([3, 9, 40]),
            st.sampled_from([1, 3]),
            st.sampled_from(["a", "b"]),
            st.sampled_from(["", "a", "b"]),
            st.sampled_from(["", "", "", "Hall"]),
        ),
        min_size=5,
        max_size=20,
    )
)
@example(  # a dry run learns that a gang excludes the head, and must leave no trace of that
    [
        (0, 3, 1, "a", "", ""),
        (0, 3, 1, "a", "", ""),
        (0, 40, 1, "a", "", "Hall"),
        (1, 40, 1, "b", "", ""),
        (0, 3, 1, "a", "", "Hall"),
        (0, 3, 1, "a", "b", ""),
        (0, 40, 1, "a", "a", ""),
    ]
)
def test_gangs_that_passed_the_head_do_not_delay_it(rows: list[tuple[int, int, int, str, str, str]]) -> None:
    cluster = Bearable(*(node(name, gpu=4, labels={HOST: name}) for name in "ab"))
    cluster.core.apply(LayersChanged((Layer("Hall", (HOST,)),)))
    now, ends = 0.0, dict[str, float]()

    def pass_time(until: float) -> None:
        while ends and (end := min(ends.values())) <= until:
            for name in [name for name, at in ends.items() if at == end]:
                del ends[name]
                cluster.end(name, end)
            start(end)

    def start(at: float) -> None:
        for name in started(cluster.decide(at)):
            ends[name] = at + durations[name]

    durations = {f"{number}": float(row[1]) for number, row in enumerate(rows)}
    for number, (gap, seconds, gpu, label, from_, alone) in enumerate(rows):
        now += gap
        pass_time(now)
        of = shape(gpu=gpu)
        made = app(f"{number}", float(seconds), apart(from_, of) if from_ else of)
        pods = replace(made.pod_sets[0], labels=(("app", label),))
        cluster.submit(replace(made, pod_sets=(pods,), exclusive=alone, submitted=now))
        start(now)
    pass_time(inf)
    assert not cluster.places, "all gangs have started, and ended"
