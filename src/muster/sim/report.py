"""A replay from its trace to its figures, once per seed."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev

from muster.sim.engine import Core, Pass, replay
from muster.sim.metrics import NAMES, Metrics, Recorder
from muster.sim.trace import Survey, Tally, Trace, capacity, stretch


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric over all seeds; `std` is the sample's, 0 for one seed."""

    mean: float | None
    std: float | None
    per_seed: list[float | None]


@dataclass(frozen=True, slots=True)
class Report:
    policy: str
    seeds: list[int]
    metrics: dict[str, Figure]
    #: jobs that never started
    stranded: int


def run(
    trace: Trace,
    survey: Survey,
    make: Callable[[], Core],
    *,
    policy: str,
    seeds: Sequence[int],
    load: float | None = None,
    pass_: Pass = Pass.EVENT,
    turn: Callable[[Recorder], None] = lambda recorder: None,
) -> Report:
    """Replays a trace whose survey has been made. Raises TraceError.

    Nothing is drawn yet, by no policy and no reader: all seeds have one result, computed once.

    load    the offered load to reach, by stretching the time between arrivals; None: as it was
    turn    called once for each decision cycle
    """
    total = capacity(trace.nodes, trace.resource)
    recorder = Recorder(total)
    jobs = trace.jobs(Tally())  # counted by the survey
    if load is not None:
        jobs = stretch(jobs, survey.first, survey.offered(total) / load)
    stranded = replay(
        make(),
        trace.nodes,
        jobs,
        recorder,
        pass_,
        lambda: turn(recorder),
        resource=trace.resource,
        outages=trace.outages,
        rules=trace.rules,
    )
    return summary(policy, seeds, [recorder.metrics] * len(seeds), len(stranded))


def summary(policy: str, seeds: Sequence[int], results: Sequence[Metrics], stranded: int) -> Report:
    rows = [asdict(result) for result in results]
    figures = {name: _figure([row[name] for row in rows]) for name in NAMES}
    return Report(policy, list(seeds), figures, stranded)


def _figure(values: list[float | None]) -> Figure:
    known = [value for value in values if value is not None]
    if not known:
        return Figure(None, None, values)
    return Figure(fmean(known), stdev(known) if len(known) > 1 else 0.0, values)
