"""Experiments: one replay per seed, where seeds matter, side by side if wanted."""

import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from muster.sim.experiment import Experiment, prepare, processes, run
from muster.sim.metrics import UNITS, Recorder
from muster.sim.trace import Job, Tally, Trace, TraceError
from tests.sim.traces import GPU, job, machine


class Plain(Trace):
    resource = GPU
    nodes = machine(4)

    def jobs(self, tally: Tally) -> Iterator[Job]:
        yield from (job(1, 0, 10, 4), job(2, 1, 10, 4))


@dataclass
class Drawn(Plain):
    """Run times that a seed draws."""

    draws = True
    seed: int = 0

    def drawn(self, seed: int, load: float | None) -> Trace:
        return replace(self, seed=seed)

    def jobs(self, tally: Tally) -> Iterator[Job]:
        yield job(1, 0, 1 + self.seed + random.Random(self.seed).random(), 4)


def test_an_experiment_without_randomness_is_replayed_once_for_all_seeds() -> None:
    experiment = Experiment(Plain(), seeds=(7, 8, 9))
    done: list[int] = []
    found = run(experiment, prepare(experiment), turn=lambda seeds, recorder: done.append(seeds))
    assert found.seeds == [7, 8, 9]
    assert not found.drawn
    assert found.metrics["makespan"].per_seed == [20, 20, 20]
    assert tuple(found.metrics) == tuple(UNITS)
    assert (done.count(0), done[-1]) == (4, 1)


@pytest.mark.parametrize("jobs", [1, 2])
def test_seeds_are_reported_in_order_however_many_processes_there_are(jobs: int) -> None:
    experiment = Experiment(Drawn(), seeds=(3, 1, 2))
    seen: list[tuple[int, bool]] = []

    def turn(done: int, recorder: Recorder | None) -> None:
        seen.append((done, recorder is None))

    found = run(experiment, prepare(experiment), jobs=jobs, turn=turn)
    assert found.drawn
    assert found.metrics["makespan"].per_seed == [1 + s + random.Random(s).random() for s in (3, 1, 2)]
    assert [done for done, whole in seen if whole] == [1, 2, 3]
    assert found.metrics["makespan"].std is not None
    assert found.metrics["makespan"].std > 0


@pytest.mark.parametrize(
    ("experiment", "said"),
    [
        (Experiment(Plain(), policy="best"), "--policy best: unknown"),
        (Experiment(Plain(), load=0), "--load 0: expected more than 0, at most 1000"),
        (Experiment(Plain(), load=float("nan")), "--load nan"),
        (Experiment(Drawn(), load=1), "--load: all jobs arrive at one time"),
    ],
)
def test_an_impossible_experiment_is_refused_before_it_runs(experiment: Experiment, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        prepare(experiment)


def test_ctrl_c_reaches_no_process_of_a_pool_from_its_start() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with processes(1) as pool:
        assert signal.SIGINT in pool.apply(signal.pthread_sigmask, (signal.SIG_BLOCK, []))
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
