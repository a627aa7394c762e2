"""The engine: what the core is told and when, and that it is used for nothing else."""

import pytest

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Decision, Evict, Victim
from muster.core.words.events import GangRemoved, GangSubmitted, NodeChanged, PodsBound, PodsEnded
from muster.core.words.gang import Place, PodId
from muster.sim.engine import Pass, Violation
from muster.sim.policies import policy
from muster.sim.trace import TraceError
from tests.sim.traces import Puppet, assign, job, machine, play


class OnlyThese:
    """The scheduler behind a wall with two holes; an object of slots has nothing else to call."""

    __slots__ = ("apply", "decide")

    def __init__(self) -> None:
        scheduler = Scheduler()
        self.apply, self.decide = scheduler.apply, scheduler.decide


@pytest.mark.parametrize("pass_", Pass)
def test_a_replay_calls_nothing_of_the_core_but_apply_and_decide(pass_: Pass) -> None:
    jobs = [job(1, 0, 10, 4, 4), job(2, 1, 5, 8), job(3, 2, 1, 1)]
    metrics, left = play(OnlyThese(), machine(8), jobs, pass_)
    assert not left
    # 1 at once, until 10; 3 and 2 then together do not fit: 2 is older, 3 waits until 15
    assert (metrics.makespan, metrics.wait_mean) == (16, (0 + 9 + 13) / 3)


def test_the_core_gets_the_events_that_a_live_scheduler_would_get() -> None:
    one = job(1, 3, 10, 2, 2)
    core = Puppet([assign(one)])
    play(core, machine(8), [one])
    (gang,) = [event.gang for event in core.submitted]
    assert (gang.id, gang.submitted, gang.min_count, gang.pod_sets) == (one.id, 3, 2, one.pod_sets)
    node, submitted, at, bound, removed, ended, last = core.told
    assert isinstance(node, NodeChanged)
    assert isinstance(submitted, GangSubmitted)
    assert at == 3
    assert isinstance(bound, PodsBound)  # equal pods on one node: in one fact
    assert (bound.node, bound.gang, bound.requests) == ("node-0", one.id, (("nvidia.com/gpu", 2),))
    assert [*bound.pods.values()] == [Place("gpu-2", 0), Place("gpu-2", 1)]
    assert removed == GangRemoved(one.id)  # before its pods: no place stays held for a replacement
    assert ended == PodsEnded(tuple(bound.pods), 13)
    assert last == 13


def kinds(core: Puppet) -> list[str | float]:
    """Submissions and removals of gangs, and times of cycles."""
    shown = {GangSubmitted: "arrives", GangRemoved: "ends"}
    return [
        e if isinstance(e, float | int) else shown[type(e)]
        for e in core.told
        if type(e) in {*shown, int, float}
    ]


@pytest.mark.parametrize(
    ("pass_", "told"),
    [
        (
            Pass.EVENT,
            ["arrives", 0, "arrives", 0, "ends", 5, "ends", 5, "arrives", 5, "arrives", 5, "ends", 9],
        ),
        (Pass.INSTANT, ["arrives", "arrives", 0, "ends", "ends", "arrives", "arrives", 5, "ends", 9]),
    ],
)
def test_ends_come_before_arrivals_and_cycles_follow_each_event_or_each_instant(
    pass_: Pass, told: list[str | float]
) -> None:
    a, b, c, d = job(1, 0, 5, 1), job(2, 0, 5, 1), job(3, 5, 4, 1), job(4, 5, 4, 1)
    starts: dict[Pass, tuple[list[Decision], ...]] = {
        Pass.EVENT: ([assign(a)], [assign(b)], [], [], [assign(c)]),
        Pass.INSTANT: ([assign(a), assign(b)], [assign(c)]),
    }
    core = Puppet(*starts[pass_])
    _, left = play(core, machine(8), [a, b, c, d], pass_)
    assert kinds(core) == told
    assert left == [d]  # it was never assigned


def test_a_job_that_fits_nowhere_is_left_and_delays_no_other() -> None:
    big, small = job(1, 0, 10, 9), job(2, 1, 10, 8)
    metrics, left = play(Scheduler(), machine(8, 8), [big, small])
    assert left == [big]
    assert metrics.makespan == 11


def test_a_victim_is_gone_at_once_and_waits_again_with_its_old_age() -> None:
    low, high = job(1, 0, 10, 8), job(2, 4, 2, 8)
    evict = Evict((Victim(low.id),), high.id)
    core = Puppet([assign(low)], [evict, assign(high)], [assign(low)])
    metrics, left = play(core, machine(8), [low, high])
    assert not left
    assert [event.gang.submitted for event in core.submitted] == [0, 4, 0]
    bound = [pod for event in core.told if isinstance(event, PodsBound) for pod in event.pods]
    assert len(set(bound)) == 3  # a pod that starts again is another pod
    # low runs 0–4 in vain, high 4–6, low 6–16
    assert (metrics.preemptions, metrics.work_lost, metrics.makespan) == (1, 4 * 8, 16)
    assert metrics.wait_mean == (6 + 0) / 2


def test_an_end_of_a_run_that_was_preempted_does_not_end_the_next_run() -> None:
    low, high = job(1, 0, 10, 4), job(2, 4, 100, 4)
    core = Puppet([assign(low)], [Evict((Victim(low.id),), high.id), assign(low), assign(high)])
    metrics, _ = play(core, machine(8), [low, high])
    assert [event for event in core.told if isinstance(event, int | float)] == [0, 4, 14, 104]
    assert metrics.makespan == 104


def test_broken_promises_of_the_core_are_errors() -> None:
    one = job(1, 0, 10, 2, 2)
    half = assign(one)
    half = type(half)(half.gang, dict(list(half.nodes.items())[:1]))
    with pytest.raises(Violation, match="job/001 is assigned 1 of its 2 places"):
        play(Puppet([half]), machine(8), [one])
    with pytest.raises(Violation, match="job/001 is assigned, but does not wait"):
        play(Puppet([assign(one), assign(one)]), machine(8), [one])
    surplus = Evict((Victim(one.id, frozenset({PodId("x")})),), one.id)
    with pytest.raises(Violation, match="job/001 is evicted from pods that do not run"):
        play(Puppet([assign(one), surplus]), machine(8), [one])
    surplus = Evict((Victim(one.id, frozenset({PodId("job/001/gpu-2/0/1")})),), one.id)
    with pytest.raises(Violation, match="job/001 is left with fewer places than it needs"):
        play(Puppet([assign(one), surplus]), machine(8), [one])
    with pytest.raises(Violation, match="job/001 is evicted, but does not run"):
        play(Puppet([Evict((Victim(one.id),), one.id)]), machine(8), [one])


def test_a_job_that_is_there_cannot_come_again() -> None:
    with pytest.raises(TraceError, match="job/001 is submitted again at 1 while it waits or runs"):
        play(Puppet(), machine(8), [job(1, 0, 10, 2), job(1, 1, 10, 2)])


def test_unknown_policies_are_refused_with_those_that_there_are() -> None:
    assert isinstance(policy("pack")(), Scheduler)
    with pytest.raises(TraceError, match="--policy best: unknown; choose from pack"):
        policy("best")
