"""Backfilling: decision by decision as published on one machine, and what holds on any."""

from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Config, Scheduler
from muster.core.demand import Request
from muster.core.reservations import Backfill
from muster.core.reservations.answer import Reservation
from muster.core.reservations.calendar import Calendar
from muster.core.reservations.start_search import StartSearch
from muster.core.words.decisions import Decision, Reserve
from muster.core.words.gang import GangId
from muster.core.world.nodes import Longs
from muster.sim.engine import Core, Pass, replay
from muster.sim.metrics import Recorder
from muster.sim.policies import policy
from muster.sim.trace import WHOLE, Job
from tests.sim.reference import easy, fcfs
from tests.sim.traces import GPU, job, machine
from tests.tiers import examples

#: arrival, run time, how much longer it was thought to be, processors
singles = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 20), st.integers(0, 10), st.integers(1, 8)), max_size=25
).map(
    lambda rows: [
        job(n, arrival, run, *[1] * size)._replace(estimate=float(run + more))
        for n, (arrival, run, more, size) in enumerate(sorted(rows))
    ]
)
#: the same, of several pods of several sizes
gangs = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(1, 20),
        st.integers(0, 10),
        st.lists(st.integers(1, 8), min_size=1, max_size=4),
    ),
    max_size=25,
).map(
    lambda rows: [
        job(n, arrival, run, *sizes)._replace(estimate=float(run + more))
        for n, (arrival, run, more, sizes) in enumerate(sorted(rows))
    ]
)
passes = st.sampled_from(Pass)


class Starts(Recorder):
    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.at: dict[GangId, float] = {}

    def job_started(self, job: Job, held: int, now: float) -> None:
        super().job_started(job, held, now)
        self.at[job.id] = now


def starts(core: Core, nodes: list[int], jobs: list[Job], pass_: Pass) -> dict[GangId, float]:
    recorder = Starts(sum(nodes) * WHOLE)
    replay(core, machine(*nodes), jobs, recorder, pass_, resource=GPU)
    return recorder.at


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(8, 12), singles, passes, st.booleans())
def test_on_one_machine_easy_is_as_published(
    capacity: int, jobs: list[Job], pass_: Pass, shortest_first: bool
) -> None:
    core = policy("easy", shortest_first=shortest_first)()
    assert starts(core, [capacity], jobs, pass_) == easy(capacity, jobs, pass_, shortest_first)


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(8, 12), singles, passes)
def test_fcfs_lets_no_job_pass(capacity: int, jobs: list[Job], pass_: Pass) -> None:
    assert starts(policy("fcfs")(), [capacity], jobs, pass_) == fcfs(capacity, jobs, pass_)


class Promises(Scheduler):
    """Notes when gangs were to start, as of each cycle."""

    def __init__(self, backfill: Backfill) -> None:
        super().__init__(Config(backfill=backfill))
        self.promised: dict[GangId, float] = {}
        self.reserved: list[Reserve] = []

    def decide(self, now: float) -> list[Decision]:
        decisions = super().decide(now)
        self.reserved += [decision for decision in decisions if isinstance(decision, Reserve)]
        for head in self.reservations.made:
            assert head.at <= self.promised.get(head.gang, head.at)
            self.promised[head.gang] = head.at
        return decisions


@settings(max_examples=examples(80), deadline=None)
@given(
    st.sampled_from([Backfill.EASY, Backfill.CONSERVATIVE]),
    st.lists(st.integers(1, 8), min_size=1, max_size=4),
    gangs,
    passes,
)
def test_promises_never_move_later(
    backfill: Backfill, nodes: list[int], jobs: list[Job], pass_: Pass
) -> None:
    """Several nodes, gangs of several shapes, some of which end before their limits.

    A gang with a promised time starts by then.
    """
    core = Promises(backfill)
    at = starts(core, nodes, jobs, pass_)
    for gang, promised in core.promised.items():
        assert at[gang] <= promised
    assert {reserve.gang for reserve in core.reserved} == set(core.promised)
    assert all(reserve.nodes for reserve in core.reserved)


def test_a_promise_is_kept_where_its_nodes_are_taken_and_left_between_two_proofs() -> None:
    rows: list[tuple[int, int, list[int]]] = [
        *((0, 1, [1]), (0, 1, [1, 1]), (0, 14, [1, 1, 1]), (10, 1, [1]), (11, 15, [2, 2, 1]), (15, 1, [1])),
        *((15, 20, [1, 5, 4, 4]), (21, 1, [1]), (21, 12, [3, 3, 1, 1]), (23, 1, [1, 5, 4]), (26, 1, [1])),
        *((26, 1, [4, 4, 6]), (27, 20, [4, 1, 1]), (30, 1, [1])),
    ]
    jobs = [job(number, at, time, *sizes) for number, (at, time, sizes) in enumerate(rows)]
    core = Promises(Backfill.EASY)
    at = starts(core, [8, 4, 1, 5], jobs, Pass.EVENT)
    gang = GangId("job/009")
    assert at[gang] == core.promised[gang] == 58


class SearchedAgain(Scheduler):
    """Looks after each cycle for the head's time once more, from nothing."""

    def decide(self, now: float) -> list[Decision]:
        decisions = super().decide(now)
        for head in self.reservations.made:
            empty = Calendar(self.world.ledger, self.world.completions)
            search = StartSearch(self.world, self.fit, empty)
            request = Request(head.demand, [range(part.count) for part in head.demand.parts])
            found = search.find(head.gang, request, inf, now)
            assert found is not None
            assert found.start == max(head.at, now)
            assert (self.left_beside(head) == head.spare).all()
        return decisions

    def left_beside(self, head: Reservation) -> Longs:
        """By resource and node of the head's: what is left once it has begun, counted from nothing."""
        world = self.world
        tried = world.ledger.log.trial()
        world.completions.give(state for end, state in world.completions.after(-inf) if end <= head.at)
        left: Longs = world.nodes.capacities(head.columns) - world.nodes.used[:, head.columns] - head.use
        tried.undo()
        return left


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=4), singles, passes)
def test_a_reservation_that_is_kept_is_at_the_time_that_a_search_would_find_and_knows_what_is_left_beside_it(
    nodes: list[int], jobs: list[Job], pass_: Pass
) -> None:
    starts(SearchedAgain(), nodes, jobs, pass_)


def test_explanations_change_nothing() -> None:
    jobs = [job(n, n % 7, 3 + n % 5, *[1] * (1 + n * 5 % 8)) for n in range(60)]
    quiet = starts(policy("easy")(), [8], sorted(jobs, key=lambda j: (j.submitted, j.id)), Pass.EVENT)
    told = policy("easy", explain=True)()
    assert starts(told, [8], sorted(jobs, key=lambda j: (j.submitted, j.id)), Pass.EVENT) == quiet
