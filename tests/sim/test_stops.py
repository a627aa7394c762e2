"""What happens to a running job before its end: checkpoints, failures, lost nodes, growing and shrinking."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign, Decision, Evict, Victim
from muster.core.words.events import Event, GangSubmitted, NodeChanged, NodeRemoved, PodsBound, PodsEnded
from muster.core.words.gang import GangId, NodeName, Place, PodId
from muster.sim.engine import Core, Pass, replay
from muster.sim.metrics import Metrics, Recorder, Stop
from muster.sim.trace import WHOLE, Job, Outage, capacity
from tests.sim.traces import GPU, Puppet, assign, job, machine
from tests.tiers import examples


def play(
    core: Core, gpus: Sequence[int], jobs: Sequence[Job], *outages: Outage, pass_: Pass = Pass.EVENT
) -> tuple[Metrics, Recorder, list[Job]]:
    nodes = machine(*gpus)
    recorder = Recorder(capacity(nodes, GPU))
    left = replay(core, nodes, jobs, recorder, pass_, resource=GPU, outages=outages)
    return recorder.metrics, recorder, left


def down(at: float, node: str = "node-0") -> Outage:
    return Outage(at, NodeName(node), up=False)


def up(at: float, node: str = "node-0") -> Outage:
    return Outage(at, NodeName(node), up=True)


@pytest.mark.parametrize(
    ("checkpoint", "cost", "end", "lost"),
    [
        (None, 0, 60 + 100, 50),  # runs 0–50 in vain, waits until 60, starts over
        (20, 0, 60 + 60, 10),  # 40 of the 50 seconds are saved
        (20, 5, 60 + 5 + 60, 10),
        (50, 0, 60 + 50, 0),
        (70, 0, 60 + 100, 50),
        (None, 5, 60 + 5 + 100, 50),  # nothing is saved, and a restart takes its time all the same
    ],
)
def test_a_preempted_job_goes_on_from_its_last_checkpoint(
    checkpoint: float | None, cost: float, end: float, lost: float
) -> None:
    low = job(1, 0, 100, 8)._replace(checkpoint=checkpoint, restart_cost=cost)
    high = job(2, 50, 10, 8)
    core = Puppet([assign(low)], [Evict((Victim(low.id),), high.id), assign(high)], [assign(low)])
    metrics, recorder, left = play(core, [8], [low, high])
    assert not left
    assert metrics.makespan == end
    assert (metrics.preemptions, metrics.work_lost) == (1, lost * 8)
    assert recorder.stops == {Stop.PREEMPTED: 1}
    resubmitted = core.submitted[-1].gang
    saved = 0 if checkpoint is None else 50 // checkpoint * checkpoint
    assert (resubmitted.id, resubmitted.submitted) == (low.id, 0)
    assert resubmitted.estimate == 100 - saved + cost


@pytest.mark.parametrize("submitted", [0, 1])
def test_a_job_of_the_first_second_may_be_preempted_like_any_other(submitted: float) -> None:
    low = job(1, submitted, 1000, 8)._replace(min_run_time=60)
    high, last = job(2, 10, 50, 8)._replace(priority=1), job(3, 70, 5, 8)
    metrics, recorder, left = play(Scheduler(), [8], [low, high, last])
    assert not left
    assert recorder.stops == {Stop.PREEMPTED: 1}
    assert metrics.work_lost == (70 - submitted) * 8
    assert metrics.makespan == 70 + 50 + 1000 + 5 - submitted


def test_runs_that_fail_start_again_until_one_does_not() -> None:
    flaky = job(1, 0, 100, 2)._replace(failures=(30, 250), checkpoint=20)
    metrics, recorder, left = play(Scheduler(), [8], [flaky])
    assert not left
    # fails at 30 with 20 saved; the second run would fail after 250 seconds, and ends after 80
    assert (metrics.makespan, metrics.work_lost) == (110, 10 * 2)
    assert recorder.stops == {Stop.FAILED: 1}


def test_a_node_that_goes_takes_its_jobs_along_and_they_start_elsewhere() -> None:
    one, two = job(1, 0, 100, 4), job(2, 0, 100, 2, 2)
    metrics, recorder, left = play(Scheduler(), [4, 4, 4], [one, two], down(30), up(500))
    assert not left
    assert recorder.stops == {Stop.NODE_LOST: 1}
    assert (metrics.makespan, metrics.work_lost) == (130, 4 * 30)
    assert metrics.utilisation == pytest.approx((4 * 130 + 4 * 100) / (12 * 30 + 8 * 100))


def test_a_gang_that_waits_for_a_node_starts_when_the_node_returns() -> None:
    told = Puppet()
    core = Scheduler()

    class Both:
        def apply(self, event: Event) -> None:
            core.apply(event)
            told.apply(event)

        def decide(self, now: float) -> list[Decision]:
            return core.decide(now)

    metrics, _, left = play(Both(), [4], [job(1, 0, 10, 4)], down(4), down(5), up(20), up(21))
    assert not left
    assert (metrics.makespan, metrics.wait_mean) == (30, 20)
    kinds = [type(event) for event in told.told]
    assert kinds.count(NodeRemoved) == 1
    assert kinds.count(NodeChanged) == 2


def test_outages_after_the_last_job_are_ignored() -> None:
    metrics, recorder, left = play(Scheduler(), [4], [job(1, 0, 10, 4)], down(100))
    assert (metrics.makespan, left, recorder.stops) == (10, [], {})


def elastic(number: int, submitted: float, run_time: float, pods: int, least: int) -> Job:
    """Pods of one GPU."""
    rigid = job(number, submitted, run_time, *[1] * pods)
    return rigid._replace(pod_sets=(replace(rigid.pod_sets[0], min_count=0),), min_count=least)


def places(job: Job, *indices: int) -> Assign:
    return Assign(job.id, {Place("gpu-1", i): NodeName("node-0") for i in indices})


def test_a_job_with_half_of_its_places_takes_twice_as_long() -> None:
    half = elastic(1, 0, 100, 4, 2)
    metrics, _, _ = play(Puppet([places(half, 0, 1)]), [4], [half])
    assert (metrics.makespan, metrics.utilisation) == (200, 0.5)


def test_and_speeds_up_when_it_grows() -> None:
    grows, other = elastic(1, 0, 100, 4, 2), job(2, 40, 10, 1)
    core = Puppet([places(grows, 0, 1)], [places(grows, 2, 3)])
    metrics, _, left = play(core, [8], [grows, other])
    assert left == [other]
    assert metrics.makespan == 40 + 80  # 20 of the 100 seconds are done by 40
    assert metrics.utilisation == pytest.approx((2 * 40 + 4 * 80) / (8 * 120))


def test_surplus_is_evicted_and_the_rest_goes_on() -> None:
    shrinks, high = elastic(1, 0, 100, 4, 2), job(2, 40, 500, 2)
    surplus = frozenset({PodId("job/001/gpu-1/2/1"), PodId("job/001/gpu-1/3/1")})
    evict = Evict((Victim(shrinks.id, surplus),), high.id)
    core = Puppet([places(shrinks, 0, 1, 2, 3)], [evict, assign(high)])
    metrics, recorder, left = play(core, [4], [shrinks, high])
    assert not left
    (ended,) = [event.pods for event in core.told if isinstance(event, PodsEnded) and event.at == 40]
    assert set(ended) == surplus
    assert (metrics.preemptions, metrics.work_lost, recorder.stops) == (0, 0, {})
    # 60 seconds are left, at half the rate
    assert {event.at for event in core.told if isinstance(event, PodsEnded)} == {40, 160, 540}


def test_a_lost_node_shrinks_jobs_above_their_minimum_and_stops_others() -> None:
    jobs = [elastic(1, 0, 100, 4, 2), elastic(2, 0, 100, 4, 3)]
    core = Puppet(
        [Assign(jobs[0].id, {Place("gpu-1", i): NodeName(f"node-{i // 2}") for i in range(4)})],
        [Assign(jobs[1].id, {Place("gpu-1", i): NodeName(f"node-{i // 2}") for i in range(4)})],
    )
    metrics, recorder, left = play(core, [4, 4], jobs, down(50))
    assert left == [jobs[1]]
    assert recorder.stops == {Stop.NODE_LOST: 1}
    assert (metrics.makespan, metrics.work_lost) == (150, 4 * 50)


def test_an_elastic_job_grows_once_resources_are_free() -> None:
    grows, first = elastic(2, 1, 100, 4, 2), job(1, 0, 51, 2)
    metrics, _, left = play(Scheduler(), [4], [first, grows])
    assert not left
    # half of it from 1 to 51, all of it for the 75 seconds that are left
    assert (metrics.makespan, metrics.wait_mean) == (126, 0)


outages_of = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 2), st.booleans()).map(
        lambda row: Outage(float(row[0]), NodeName(f"node-{row[1]}"), row[2])
    ),
    max_size=8,
).map(lambda found: sorted(found, key=lambda outage: outage.at))
jobs_of = st.lists(
    st.tuples(
        st.integers(0, 30),  # arrival
        st.integers(1, 20),  # run time
        st.integers(1, 6),  # pods
        st.integers(1, 6),  # needed
        st.none() | st.integers(1, 9),  # checkpoint
        st.lists(st.integers(1, 20), max_size=2),  # failures
    ),
    max_size=12,
).map(
    lambda rows: [
        elastic(n, row[0], row[1], row[2], min(row[2], row[3]))._replace(
            checkpoint=row[4],
            failures=tuple(row[5]),
            restart_cost=2.0,
        )
        for n, row in enumerate(sorted(rows, key=lambda row: row[0]))
    ]
)


class Witness:
    """The scheduler, and what is on each node."""

    def __init__(self) -> None:
        self._core = Scheduler()
        self.free: dict[NodeName, int] = {}
        self.pods: dict[PodId, PodsBound] = {}
        self.waiting: set[GangId] = set()

    def apply(self, event: Event) -> None:
        match event:
            case NodeChanged():
                assert event.name not in self.free
                self.free[event.name] = dict(event.capacity)[GPU]
            case NodeRemoved():
                del self.free[event.name]
            case GangSubmitted():
                self.waiting.add(event.gang.id)
            case PodsBound():
                self.pods.update(dict.fromkeys(event.pods, event))
                self.free[event.node] -= len(event.pods) * dict(event.requests)[GPU]
                assert self.free[event.node] >= 0
            case PodsEnded():
                for pod in map(self.pods.pop, event.pods):
                    if pod.node in self.free:
                        self.free[pod.node] += dict(pod.requests)[GPU]
            case _:
                pass
        self._core.apply(event)

    def decide(self, now: float) -> list[Decision]:
        assert {pod.node for pod in self.pods.values()} <= self.free.keys()
        return self._core.decide(now)


@given(st.lists(st.integers(1, 4), min_size=3, max_size=3), jobs_of, outages_of, st.sampled_from(Pass))
@settings(max_examples=examples(60), deadline=None)
def test_whatever_breaks_work_is_done_once_and_nothing_is_left_behind(
    gpus: list[int], jobs: list[Job], outages: list[Outage], pass_: Pass
) -> None:
    core = Witness()
    metrics, recorder, left = play(core, gpus, jobs, *outages, pass_=pass_)
    assert not core.pods
    assert recorder.finished + len(left) == len(jobs)
    assert recorder.allocated == 0
    if not left and metrics.utilisation is not None:
        assert 0 <= metrics.utilisation <= 1
    assert metrics.work_lost >= 0
    assert (recorder.stops[Stop.FAILED] > 0) <= any(each.failures for each in jobs)
    assert sum(each.size for each in left) <= sum(each.places for each in jobs) * WHOLE
