"""Gaussier et al., "Improving backfilling by using machine learning to predict running times", SC'15, on the
KTH-SP2 trace.

One machine with 100 processors; a job is a gang of places of one. EASY back-filling: jobs that may pass are
served in their order or by rising estimate (SJBF), and estimates are the users' or, clairvoyant, exact. The
figure is the average bounded slowdown. When the original decides is not in print: after each event gives its
EASY, and once per instant the other three, to a fiftieth of a per cent.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bench.reproduce.figure import Figure
from muster.sim.engine import Pass, replay
from muster.sim.metrics import Recorder
from muster.sim.policies import policy
from muster.sim.readers.swf import Swf
from muster.sim.trace import Estimates, Tally, capacity

TABLE: Final = "KTH-SP2, average bounded slowdown"
#: name, shortest first, estimates, pass, published
PUBLISHED: Final = (
    ("EASY", False, Estimates.USER, Pass.EVENT, 92.577),
    ("EASY-SJBF", True, Estimates.USER, Pass.INSTANT, 69.405),
    ("EASY, clairvoyant", False, Estimates.EXACT, Pass.INSTANT, 71.722),
    ("EASY-SJBF, clairvoyant", True, Estimates.EXACT, Pass.INSTANT, 49.848),
)
#: part of the published figure by which ours may differ
WITHIN: Final = 0.0005


def figures(
    traces: Path, jobs: int = 1, turn: Callable[[int, int], None] = lambda done, all: None
) -> Iterator[Figure]:
    """`turn` is told how many replays are done, and of how many. Nothing is drawn: one process, one seed."""
    for done, (name, shortest_first, estimates, pass_, published) in enumerate(PUBLISHED, 1):
        trace = Swf(traces / "swf" / "KTH-SP2-1996-2.swf.gz", estimates=estimates)
        recorder = Recorder(capacity(trace.nodes, trace.resource))
        core = policy("easy", shortest_first=shortest_first)()
        replay(core, trace.nodes, trace.jobs(Tally()), recorder, pass_, resource=trace.resource)
        slowdown = recorder.metrics.avg_bounded_slowdown
        assert slowdown is not None
        turn(done, len(PUBLISHED))
        yield Figure(TABLE, name, published, [slowdown], published * WITHIN)
