"""Forecasts: the scheduler, run on to the ends that are known."""

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.app.plan.forecast import cycles, starts
from muster.core.cycle import Config, Scheduler
from muster.core.reservations import Backfill
from muster.core.words.decisions import Decision
from muster.core.words.events import GangSubmitted, NodeChanged, PodsBound
from muster.core.words.gang import Gang, GangId, NodeName, Place, PodId, PodSet, Shape
from tests.core import words
from tests.core.preemption.test_preemption import evicts, running
from tests.tiers import examples


def gang(name: str, cpus: int, seconds: float | None, *, submitted: float = 0, priority: int = 0) -> Gang:
    sets = (PodSet("main", Shape((("cpu", cpus),)), 1, 1),)
    return Gang(GangId(name), sets, 1, submitted, priority=priority, estimate=seconds)


def scheduler(*gangs: Gang, config: Config | None = None) -> Scheduler:
    core = Scheduler(config)
    core.apply(NodeChanged(NodeName("n"), (("cpu", 4),)))
    for each in gangs:
        core.apply(GangSubmitted(each))
    return core


def forecast(core: Scheduler, now: float, *wanted: str) -> dict[str, float]:
    found = starts(core, core.decide(now), now, {GangId(each) for each in wanted})
    return {str(gang): at for gang, at in found.items()}


def test_gangs_start_when_others_end() -> None:
    core = scheduler(gang("a", 3, 70), gang("b", 3, 50, submitted=1), gang("c", 4, 10, submitted=2))
    assert forecast(core, 100, "a", "b", "c") == {"a": 100, "b": 170, "c": 220}


def test_a_running_gang_counts_from_its_start() -> None:
    core = scheduler(gang("a", 4, 70), gang("b", 4, 50, submitted=1))
    core.apply(PodsBound({PodId("p"): Place("main", 0)}, NodeName("n"), (("cpu", 4),), GangId("a"), at=60))
    assert forecast(core, 100, "b") == {"b": 130}


def test_a_gang_that_waits_for_an_unknown_completion_has_no_forecast() -> None:
    core = scheduler(gang("a", 4, None), gang("b", 4, 50, submitted=1))
    assert forecast(core, 100, "a", "b") == {"a": 100}


def test_victims_wait_again_and_may_start_again() -> None:
    core = scheduler(gang("low", 4, 100))
    core.apply(PodsBound({PodId("p"): Place("main", 0)}, NodeName("n"), (("cpu", 4),), GangId("low"), at=60))
    core.decide(90)
    core.apply(GangSubmitted(gang("high", 3, 40, priority=5, submitted=95)))
    assert forecast(core, 100, "high", "low") == {"high": 100, "low": 140}


def test_gangs_that_end_together_make_room_together() -> None:
    running = (gang("a", 1, 10), gang("b", 1, 10, submitted=1), gang("c", 2, None, submitted=2))
    core = scheduler(
        *running,
        gang("d", 2, None, submitted=3),
        gang("e", 1, None, submitted=4),
        config=Config(backfill=Backfill.NONE),
    )
    assert forecast(core, 100, "d", "e") == {"d": 110}, "the room is for d, which is first"


def test_a_forecast_covers_a_bounded_number_of_completions() -> None:
    gangs = [gang(f"g{i:04}", 4, 1, submitted=i) for i in range(1200)]
    found = forecast(scheduler(*gangs), 2000, *(str(each.id) for each in gangs))
    assert len(found) == 1000


@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([None, 10, 30, 50, 70])), min_size=2, max_size=8),
    st.sampled_from(list(Backfill)),
)
@settings(max_examples=examples(60), deadline=None)
def test_the_last_waiting_gang_gets_the_same_forecast(
    sizes: list[tuple[int, int | None]], backfill: Backfill
) -> None:
    gangs = [gang(f"g{i}", cpus, seconds, submitted=i) for i, (cpus, seconds) in enumerate(sizes)]
    last = gangs[-1].id

    def filled() -> tuple[Scheduler, list[Decision]]:
        core = scheduler(*gangs, config=Config(backfill=backfill))
        return core, core.decide(100)

    asked, _ = filled()
    told = asked.asked(last)
    core, decided = filled()
    expected = starts(core, decided, 100, {last})
    if told is None:
        assert expected == {last: 100}
    else:
        assert told.expected_start is not None
        assert told.expected_start.at == expected.get(last)


def test_surplus_is_evicted_for_each_gang_that_needs_an_exact_search() -> None:
    """More gangs than searches of a cycle. Each wants 3 + 3 + 2 GPUs where 4 and 4 are free."""
    pairs = [(f"a{i}", f"b{i}") for i in range(6)]
    core = words.scheduler(
        words.node(host, gpu=gpus, labels={"host": host, "pair": both[0]})
        for both in pairs
        for host, gpus in zip(both, (5, 6), strict=True)
    )
    for both in pairs:
        shapes = [words.shape(gpu=n, selector={"host": host}) for n, host in enumerate(both, 1)]
        sets = [PodSet(f"on-{n}", one, 1, 0) for n, one in enumerate(shapes, 1)]
        running(core, words.gang(f"low-{both[0]}", *sets, minimum=1))
    for pair, _ in pairs:
        shapes = [words.shape(gpu=n, selector={"pair": pair}) for n in (3, 2)]
        sets = [PodSet("threes", shapes[0], 2, 2), PodSet("two", shapes[1], 1, 1)]
        core.apply(GangSubmitted(words.gang(f"high-{pair}", *sets, priority=1)))
    found = [evict for cycle in cycles(core, 10.0) for evict in evicts(cycle)]
    assert {evict.beneficiary: [victim.pods for victim in evict.victims] for evict in found} == {
        GangId(f"high-{pair}"): [{PodId(f"low-{pair}:on-1/0")}] for pair, _ in pairs
    }
