"""Real traces, where they are: KTH-SP2 and lublin_256 (SWF), Philly, openb.

`MUSTER_TRACES` names a folder with `swf/`, `philly/` and `openb/`; the traces are not ours to hand on.
"""

import os
from itertools import islice
from pathlib import Path

import pytest
from bench.reproduce import openb

from muster.core.words.events import NodeChanged
from muster.core.words.gang import GangId, NodeName
from muster.sim.engine import Pass, replay
from muster.sim.metrics import Recorder
from muster.sim.policies import policy
from muster.sim.policies.fgd import typical_pods
from muster.sim.readers.openb import Openb
from muster.sim.readers.philly import Philly
from muster.sim.readers.swf import Swf
from muster.sim.trace import WHOLE, Estimates, Job, Tally, TraceError, capacity, survey
from tests.sim.reference import easy
from tests.sim.test_properties import greedy

#: Back-filling order, estimates and passes of the published figures.
PUBLISHED = [
    (False, Estimates.USER, Pass.EVENT),
    (True, Estimates.USER, Pass.INSTANT),
    (False, Estimates.EXACT, Pass.INSTANT),
    (True, Estimates.EXACT, Pass.INSTANT),
]

ROOT = os.environ.get("MUSTER_TRACES")
pytestmark = pytest.mark.skipif(ROOT is None, reason="$MUSTER_TRACES is not set: no real traces here")


def trace(name: str) -> Path:
    path = Path(ROOT or "") / name
    if not path.exists():
        pytest.skip(f"$MUSTER_TRACES has no {name}")
    return path


def test_kth_has_the_jobs_that_the_published_experiment_kept() -> None:
    kth = Swf(trace("swf/KTH-SP2-1996-2.swf.gz"))
    found = survey(kth)
    assert capacity(kth.nodes, "cpu") == 100 * WHOLE
    assert (found.jobs, dict(found.tally.filtered)) == (28_481, {"no run time": 8})


def test_lublin_has_no_estimates_and_runs_with_exact_ones() -> None:
    path = trace("swf/lublin_256.swf.gz")
    assert survey(Swf(path, estimates=Estimates.EXACT)).jobs == 10_000
    assert capacity(Swf(path).nodes, "cpu") == 256 * WHOLE
    with pytest.raises(TraceError, match="10000 × no requested time"):
        survey(Swf(path))


def test_philly_is_sorted() -> None:
    nodes = [NodeChanged(NodeName(f"n{i}"), (("nvidia.com/gpu", 8),)) for i in range(60)]
    tally = Tally()
    times = [job.submitted for job in Philly(trace("philly/philly.csv"), nodes).jobs(tally)]
    assert (len(times), tally) == (82_247, Tally())
    assert times == sorted(times)


class Witness(Recorder):
    """Notes when each job starts."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.starts: dict[GangId, float] = {}

    def job_started(self, job: Job, held: int, now: float) -> None:
        super().job_started(job, held, now)
        self.starts[job.id] = now


@pytest.mark.parametrize("pass_", Pass)
def test_the_first_jobs_of_kth_start_as_an_independent_greedy_scheduler_starts_them(pass_: Pass) -> None:
    kth = Swf(trace("swf/KTH-SP2-1996-2.swf.gz"))
    jobs = list(islice(kth.jobs(Tally()), 500))
    witness = Witness(100 * WHOLE)
    assert not replay(policy("pack")(), kth.nodes, jobs, witness, pass_, resource=kth.resource)
    assert witness.starts == greedy(100, jobs, pass_)


@pytest.mark.parametrize(("shortest_first", "estimates", "pass_"), PUBLISHED)
def test_the_first_jobs_of_kth_start_as_an_independent_easy_scheduler_starts_them(
    shortest_first: bool, estimates: Estimates, pass_: Pass
) -> None:
    kth = Swf(trace("swf/KTH-SP2-1996-2.swf.gz"), estimates=estimates)
    jobs = list(islice(kth.jobs(Tally()), 1500))
    witness = Witness(100 * WHOLE)
    assert not replay(
        policy("easy", shortest_first=shortest_first)(),
        kth.nodes,
        jobs,
        witness,
        pass_,
        resource=kth.resource,
    )
    assert witness.starts == easy(100, jobs, pass_, shortest_first)


def test_easy_on_kth_is_as_published() -> None:
    """Gaussier et al., SC'15: 92.577."""
    kth = Swf(trace("swf/KTH-SP2-1996-2.swf.gz"))
    recorder = Recorder(100 * WHOLE)
    assert not replay(
        policy("easy")(), kth.nodes, kth.jobs(Tally()), recorder, Pass.EVENT, resource=kth.resource
    )
    assert recorder.metrics.avg_bounded_slowdown == pytest.approx(92.577, rel=0.0005)


@pytest.mark.parametrize("variant", openb.PUBLISHED)
@pytest.mark.parametrize("name", [*openb.WITHIN, openb.PACK])
def test_a_seed_of_openb_is_near_the_published_mean(variant: str, name: str) -> None:
    """One seed in ten: those of one policy differ by up to two points."""
    path = trace(f"openb/openb_pod_list_{variant}.csv")
    _, allocated = openb.allocation(path.parents[1], openb.Run(variant, name, 42))
    published = openb.PUBLISHED[variant]
    if name == openb.PACK:
        assert allocated > published["fgd"][1]
    else:
        assert allocated == pytest.approx(published[name][1], abs=1.5)


def test_openb_is_what_the_paper_says() -> None:
    found = Openb([trace("openb/openb_pod_list_default.csv")])
    assert (len(found.nodes), capacity(found.nodes, found.resource)) == (1213, 6_212_000)
    shapes = [job.pod_sets[0].shape for job in found.jobs(Tally())]
    assert len(shapes) == 8152
    assert len(typical_pods(shapes).shapes) == 35
