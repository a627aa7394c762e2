"""What is cached by shape goes with the gangs that had the shape, and not before."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.core import placement
from muster.core.cycle import Scheduler
from muster.core.placement.slots import Slots, Vector
from muster.core.words.decisions import Decision
from muster.core.words.events import (
    Footprint,
    GangRemoved,
    GangSubmitted,
    LayersChanged,
    PodsEnded,
)
from muster.core.words.gang import Gang, Gather, Layer, Operator, PodTerm, Requirement, Shape, Strategy
from muster.core.world import eligibility
from muster.core.world.eligibility import SPARE
from muster.core.world.footprints import Footprints, Matching
from muster.core.world.nodes import Nodes
from tests.core.words import assigns, bind, gang, node, shape
from tests.tiers import FULL, examples


def cluster() -> Scheduler:
    made = Scheduler()
    for i in range(4):
        made.apply(node(f"n{i}", labels={"rack": f"r{i // 2}", "zone": "a"}))
    made.apply(LayersChanged((Layer("Rack", ("rack",)),)))
    return made


def one(name: str, of: Shape) -> Gang:
    """A gang that gathers, whose pods have a footprint."""
    made = gang(f"ns/{name}", of=of)
    (pod_set,) = made.pod_sets
    labelled = replace(pod_set, labels=(("job", name),))
    return replace(made, pod_sets=(labelled,), gather=(Gather("Rack", Strategy.MUST_GATHER),))


def different(number: int) -> Shape:
    """A shape of its own, with nodes of its own to choose from if the number is even."""
    return shape(cpu=100 + number, selector={"zone": "a" if number % 2 else f"b{number}"})


def comes_and_goes(made: Scheduler, gangs: list[Gang], now: float) -> list[Decision]:
    pods = []
    for each in gangs:
        made.apply(GangSubmitted(each))
    decisions = made.decide(now)
    for assign in assigns(decisions):
        pods += [pod for event in bind(made, assign) for pod in event.pods]
    made.apply(PodsEnded(tuple(sorted(pods)), now))
    for each in gangs:
        made.apply(GangRemoved(each.id))
    return [*decisions, *made.decide(now + 0.5)]


def entries(made: Scheduler) -> dict[str, int]:
    fit = made.fit
    return {
        "slots": len(fit.slots._vectors),
        "masks": len(fit.slots.eligibility._masks),
        "sums": len(fit.topology_placement.totals._kept),
        "footprints": len(made.world.ledger.footprints._footprints),
    }


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[Shape]:
    found, new = list[Shape](), Slots._new

    def counted(self: Slots, of: Shape) -> Vector:
        found.append(of)
        return new(self, of)

    monkeypatch.setattr(Slots, "_new", counted)
    return found


def test_caches_are_as_large_as_what_there_is() -> None:
    made = cluster()
    for number in range(0, 3000 if FULL else 1400, 100):
        comes_and_goes(made, [one(f"g{n}", different(n)) for n in range(number, number + 100)], float(number))
        kept = entries(made)
        assert max(kept["slots"], kept["masks"], kept["sums"]) <= 2 * SPARE + 100
        assert kept["footprints"] <= 1024 + SPARE + 100


def test_what_gangs_that_are_there_have_in_use_stays(computed: list[Shape]) -> None:
    made = cluster()
    waiting = [shape(cpu=10**9 + number) for number in range(3 * SPARE)]
    for number, of in enumerate(waiting):
        made.apply(GangSubmitted(gang(f"ns/w{number}", of=of)))
    made.decide(0.0)
    before = [*computed]
    for number in range(0, 1000 if FULL else 300, 100):
        comes_and_goes(made, [one(f"g{n}", different(n)) for n in range(number, number + 100)], 1.0 + number)
    assert {*waiting} <= made.fit.slots._vectors.keys()
    assert {*waiting}.isdisjoint(computed[len(before) :])
    assert entries(made)["slots"] < 3 * SPARE + 2 * SPARE + len(waiting)


def test_shapes_that_return_are_computed_once(computed: list[Shape]) -> None:
    made = cluster()
    for number in range(3 * SPARE):
        comes_and_goes(made, [one(f"g{number}", different(1 + 2 * (number % SPARE)))], float(number))
    assert len(computed) == SPARE


@given(st.integers(0, 2**32))
@settings(max_examples=examples(40), deadline=None)
def test_decisions_are_the_same_whatever_is_dropped(seed: int) -> None:
    def decisions() -> list[Decision]:
        rng, made, found = Random(seed), cluster(), list[Decision]()
        for turn in range(8):
            if rng.random() < 0.5:
                made.apply(GangSubmitted(one(f"stays{turn}", different(rng.randrange(6)))))
            some = [one(f"g{turn}-{i}", different(rng.randrange(6))) for i in range(rng.randint(0, 4))]
            found += comes_and_goes(made, some, float(turn))
        return found

    kept = decisions()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placement, "SPARE", 1)
        patch.setattr(eligibility, "SPARE", 0)
        patch.setattr("muster.core.world.footprints._SPARE", 0)
        assert decisions() == kept


LABELS = st.sampled_from(["a", "b", "c", "d"])


#: An answer that is in use when footprints before those that it counts are dropped.
RENUMBERED = [
    ("note", "a", 0),
    ("note", "b", 0),
    ("ask", "b", 0),
    ("note", "a", 0),
    ("drop", "a", 0),
    ("note", "b", 1),
    ("ask", "b", 0),
]


@example(RENUMBERED)
@given(st.lists(st.tuples(st.sampled_from(["note", "drop", "ask"]), LABELS, st.integers(0, 1)), max_size=40))
@settings(max_examples=examples(200), deadline=None)
def test_answers_about_pods_are_as_if_computed_afresh(steps: list[tuple[str, str, int]]) -> None:
    nodes = Nodes()
    for name in ("x", "y"):
        nodes.change(node(name))
    nodes.settle()
    footprints, there = Footprints(nodes), dict[tuple[str, int], int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("muster.core.world.footprints._SPARE", 0)
        for what, label, column in steps:
            if what == "note":
                times = -1 if there.get((label, column)) else 1
                footprints.note(column, times, Footprint("ns", (("app", label),)))
                there[label, column] = there.get((label, column), 0) + times
            elif what == "drop":
                footprints.drop_gone(0)
                assert len(footprints._footprints) == len({name for (name, _), n in there.items() if n})
            else:
                labels = (Requirement("app", Operator.NOT_IN if column else Operator.IN, (label,)),)
                want = [0, 0]
                for (name, at), number in there.items():
                    want[at] += number * ((name != label) if column else (name == label))
                assert footprints.count(Matching((PodTerm("host", labels, None),))).tolist() == want
