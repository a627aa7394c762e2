"""Metrics, worked out by hand."""

from dataclasses import asdict

import pytest

from muster.core.cycle import Scheduler
from muster.core.words.decisions import Assign
from muster.core.words.gang import NodeName, Place
from muster.sim.metrics import UNITS, Metrics, Recorder
from muster.sim.report import Result, summary
from tests.sim.traces import Puppet, assign, job, machine, play


def test_the_names_are_those_of_the_command_line() -> None:
    assert tuple(asdict(Recorder(1).metrics)) == tuple(UNITS)


def test_the_metrics_of_a_small_trace_equal_those_computed_by_hand() -> None:
    """8 GPUs: a takes 6 from 0 to 20; b wants 4 at 5 and waits until 20, then runs to 24."""
    metrics, _ = play(Scheduler(), machine(8), [job(1, 0, 20, 6), job(2, 5, 4, 4)])
    assert asdict(metrics) == pytest.approx(
        {
            "utilisation": (6 * 20 + 4 * 4) / (8 * 24),
            "allocation_ratio": 6 / 8,  # more is asked than there is from 5 to 20
            "fragmentation": 0,  # 2 are free then, but b wants 4: not enough, rather than badly placed
            "wait_mean": 7.5,
            "wait_p95": 0.95 * 15,
            "avg_bounded_slowdown": (1 + (15 + 4) / 10) / 2,
            "makespan": 24,
            "preemptions": 0,
            "work_lost": 0,
        }
    )


def test_free_gpus_that_a_waiting_gang_cannot_use_are_fragmented() -> None:
    """Two nodes of 4 with 2 free each: a pod of 4 waits from 10 until 30 beside 4 free GPUs."""
    a, b, c = job(1, 0, 30, 2), job(2, 0, 40, 2), job(3, 10, 10, 4)
    core = Puppet([assign(a, "node-0")], [assign(b, "node-1")], [], [assign(c, "node-0")])
    metrics, _ = play(core, machine(4, 4), [a, b, c])
    assert metrics.makespan == 40
    assert metrics.fragmentation == pytest.approx(4 * 20 / (8 * 40))
    assert metrics.allocation_ratio == pytest.approx(4 / 8)  # asked for: exactly 8 from 10 to 30
    assert metrics.utilisation == pytest.approx((4 * 30 + 6 * 10) / (8 * 40))


def test_waiting_gangs_too_large_for_what_is_free_do_not_hide_smaller_ones() -> None:
    a, big, small = job(1, 0, 10, 5), job(2, 0, 10, 8), job(3, 0, 10, 2)
    core = Puppet([assign(a)], [], [], [assign(small)], [assign(big)])
    metrics, _ = play(core, machine(8), [a, big, small])
    # 3 are free until 10 and small, wanting 2, waits; then big does not fit the 6 that are free
    assert metrics.fragmentation == pytest.approx(3 * 10 / (8 * 30))


def test_a_short_job_counts_as_ten_seconds_and_none_is_faster_than_alone() -> None:
    metrics, _ = play(Scheduler(), machine(1), [job(1, 0, 2, 1), job(2, 0, 2, 1), job(3, 0, 40, 1)])
    # waits 0, 2, 4: max(1, 2/10), max(1, 4/10), 44/40
    assert metrics.avg_bounded_slowdown == pytest.approx((1 + 1 + 1.1) / 3)


def test_a_replay_in_which_nothing_ran_has_no_means() -> None:
    metrics, left = play(Scheduler(), machine(1), [job(1, 0, 2, 2)])
    assert len(left) == 1
    assert metrics == Metrics(None, None, None, None, None, None, None, 0, 0)


def test_time_begins_with_the_first_submission() -> None:
    metrics, _ = play(Scheduler(), machine(1), [job(1, 1e9, 2, 1)])
    assert (metrics.makespan, metrics.utilisation) == (2, 1)


def test_sizes_count_over_all_pod_sets() -> None:
    two = job(1, 0, 10, 4, 2)
    nodes = {Place("gpu-4", 0): NodeName("node-0"), Place("gpu-2", 0): NodeName("node-1")}
    metrics, _ = play(Puppet([Assign(two.id, nodes)]), machine(4, 4), [two])
    assert metrics.utilisation == 6 / 8


def test_figures_over_seeds() -> None:
    def metrics(wait: float | None) -> Metrics:
        return Metrics(None, 0.5, 0, wait, wait, 1, 10, 0, 0)

    figures = summary("pack", [1, 2, 3], [Result(metrics(w)) for w in (1, None, 4)]).metrics
    assert list(figures) == list(UNITS)
    assert (figures["wait_mean"].mean, figures["wait_mean"].per_seed) == (2.5, [1, None, 4])
    assert figures["wait_mean"].std == pytest.approx(4.5**0.5)
    assert (figures["allocation_ratio"].mean, figures["allocation_ratio"].std) == (None, None)
    assert (figures["utilisation"].mean, figures["utilisation"].std) == (0.5, 0)


def test_a_size_that_waited_before_counts_when_it_waits_again() -> None:
    """2 of 8 run at once; from 10 on two more wait until 30, though 6 are free."""
    first, other, again = job(1, 0, 30, 2), job(2, 5, 1, 1), job(3, 10, 30, 2)
    core = Puppet([assign(first)], [assign(other)], [], [], [assign(again)])
    metrics, _ = play(core, machine(8), [first, other, again])
    assert metrics.makespan == 60
    assert metrics.fragmentation == pytest.approx(6 * 20 / (8 * 60))


def test_the_wait_of_a_job_that_never_starts_ends_with_the_makespan() -> None:
    """Beside a job that ends at 10, two of 8 GPUs wait for ever, and another comes after the end."""
    never, later = job(2, 0, 1, 2), job(3, 90, 1, 2)
    core = Puppet([assign(runs := job(1, 0, 10, 4))], [], [], [])
    metrics, left = play(core, machine(8), [runs, never, later])
    assert left == [never, later]
    assert metrics.makespan == 10
    assert metrics.fragmentation == pytest.approx(4 * 10 / (8 * 10))
