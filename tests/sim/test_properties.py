"""What holds for every replay, and an independent scheduler of one machine to compare with."""

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.core.words.decisions import Decision
from muster.core.words.events import Event, GangRemoved, NodeChanged, PodsBound, PodsEnded
from muster.core.words.gang import GangId, NodeName, PodId
from muster.sim.engine import Pass
from muster.sim.policies import policy
from muster.sim.trace import WHOLE, Job
from tests.sim.traces import GPU, job, machine, play
from tests.tiers import examples

nodes_of = st.lists(st.integers(1, 8), min_size=1, max_size=4)
jobs_of = st.lists(
    st.tuples(
        st.integers(0, 30),  # arrival
        st.integers(1, 20),  # run time
        st.lists(st.integers(1, 8), min_size=1, max_size=4),  # pods
    ),
    max_size=25,
).map(lambda rows: [job(n, row[0], row[1], *row[2]) for n, row in enumerate(sorted(rows))])
passes = st.sampled_from(Pass)


class Watched:
    """The scheduler, and a witness: no node holds more than it has, no gang a part of its pods."""

    def __init__(self) -> None:
        self._core = policy("pack")()
        self.log: list[object] = []
        self.free: dict[NodeName, int] = {}
        self.pods: dict[PodId, PodsBound] = {}
        self.members: defaultdict[GangId, int] = defaultdict(int)
        self.started: dict[GangId, float] = {}
        self.now = 0.0

    def apply(self, event: Event) -> None:
        self._core.apply(event)
        self.log.append(event)
        match event:
            case NodeChanged():
                self.free[event.name] = dict(event.capacity)[GPU]
            case PodsBound():
                assert event.gang is not None
                assert self.pods.keys().isdisjoint(event.pods)
                self.pods.update(dict.fromkeys(event.pods, event))
                self.free[event.node] -= len(event.pods) * dict(event.requests)[GPU]
                assert self.free[event.node] >= 0
                self.members[event.gang] += len(event.pods)
                self.started.setdefault(event.gang, self.now)
            case PodsEnded():
                for pod in map(self.pods.pop, event.pods):
                    self.free[pod.node] += dict(pod.requests)[GPU]
            case GangRemoved():
                del self.members[event.gang]
            case _:
                pass

    def decide(self, now: float) -> list[Decision]:
        assert now >= self.now
        self.now = now
        decisions = self._core.decide(now)
        self.log += [now, *decisions]
        return decisions


def watch(nodes: list[int], jobs: list[Job], pass_: Pass) -> Watched:
    core = Watched()
    metrics, left = play(core, machine(*nodes), jobs, pass_)
    places = {each.id: each.places for each in jobs}
    by_id = {each.id: each for each in jobs}
    assert not core.members, "all that started has ended"
    assert not core.pods
    assert core.free == {node.name: dict(node.capacity)[GPU] for node in machine(*nodes)}
    assert len(core.started) + len(left) == len(jobs), "no job is lost, and none occurs twice"
    assert {each.id for each in left}.isdisjoint(core.started)
    bound: defaultdict[GangId, int] = defaultdict(int)
    for event in core.log:
        if isinstance(event, PodsBound) and event.gang is not None:
            bound[event.gang] += len(event.pods)
    assert bound == {gang: places[gang] for gang in core.started}, "all or nothing"
    assert all(start >= by_id[gang].submitted for gang, start in core.started.items())
    done = sum(by_id[gang].size // WHOLE * by_id[gang].run_time for gang in core.started)
    if core.started:
        assert metrics.utilisation is not None
        assert metrics.makespan is not None
        assert abs(metrics.utilisation * sum(nodes) * metrics.makespan - done) < 1e-6 * (done + 1)
        assert 0 < metrics.utilisation <= 1
        assert metrics.fragmentation is not None
        assert 0 <= metrics.fragmentation <= 1 - metrics.utilisation + 1e-9
    return core


@settings(max_examples=examples(60), deadline=None)
@given(nodes_of, jobs_of, passes)
def test_every_job_runs_whole_within_the_capacity_and_ends(
    nodes: list[int], jobs: list[Job], pass_: Pass
) -> None:
    watch(nodes, jobs, pass_)


@settings(max_examples=examples(20), deadline=None)
@given(nodes_of, jobs_of, passes)
def test_the_same_trace_gives_the_same_replay(nodes: list[int], jobs: list[Job], pass_: Pass) -> None:
    assert watch(nodes, jobs, pass_).log == watch(nodes, jobs, pass_).log


def greedy(capacity: int, jobs: list[Job], pass_: Pass) -> dict[GangId, float]:
    """Starts of jobs on one machine: at each pass, oldest first, whatever fits. Slow and plain."""
    events = sorted({each.submitted for each in jobs})
    starts: dict[GangId, float] = {}
    waiting: list[Job] = []
    running: list[tuple[float, Job]] = []

    def serve(now: float) -> None:
        for each in sorted(waiting, key=lambda w: (w.submitted, w.id)):
            if each.places <= capacity - sum(other.places for _, other in running):
                starts[each.id] = now
                waiting.remove(each)
                running.append((now + each.run_time, each))
                events.append(now + each.run_time)

    while events:
        now = min(events)
        events = [time for time in events if time > now]
        for ended in sorted((r for r in running if r[0] == now), key=lambda r: r[1].id):
            running.remove(ended)
            if pass_ is Pass.EVENT:
                serve(now)
        for arrived in (each for each in jobs if each.submitted == now):
            waiting.append(arrived)
            if pass_ is Pass.EVENT:
                serve(now)
        if pass_ is Pass.INSTANT:
            serve(now)
    return starts


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(1, 12), jobs_of, passes)
def test_on_one_machine_pack_is_greedy_in_order_of_age(capacity: int, jobs: list[Job], pass_: Pass) -> None:
    sizes = [each.size // WHOLE for each in jobs]
    singles = [
        job(n, e.submitted, e.run_time, *[1] * size)
        for n, (e, size) in enumerate(zip(jobs, sizes, strict=True))
    ]
    assert watch([capacity], singles, pass_).started == greedy(capacity, singles, pass_)
