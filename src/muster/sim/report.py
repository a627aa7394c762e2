"""The figures of an experiment, over its seeds."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from statistics import fmean, stdev

from muster.sim.history import History
from muster.sim.metrics import UNITS, Metrics, Stop
from muster.sim.trace import WHOLE, Survey, Trace, capacity
from muster.sim.units import pieces, scale


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric over all seeds.

    Attributes:
        mean: None if there is nothing to average.
        std: The sample's standard deviation, 0 for one seed.
        per_seed: The values, in the order of the seeds.
    """

    mean: float | None
    std: float | None
    per_seed: list[float | None]


@dataclass(frozen=True, slots=True)
class Result:
    """The result for one seed."""

    metrics: Metrics
    #: jobs that arrived, and of those the ones that were dropped or never started
    submitted: int = 0
    stranded: int = 0
    #: runs that were stopped before their end, by reason
    stops: Mapping[Stop, int] = field(default_factory=dict)
    #: if it was asked for
    history: History | None = None
    #: why jobs never started: how many of them, the reason, and one of them
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `muster replay` and `muster.replay`.

    Attributes:
        policy: Its name.
        seeds: The seeds, in order.
        metrics: By name (docs/guides/replay.md): seconds, or ratios from 0 to 1.
        results: One for each seed, in their order.
        drawn: Whether the seeds made a difference.
    """

    policy: str
    seeds: list[int]
    metrics: dict[str, Figure]
    results: list[Result]
    drawn: bool = False

    @property
    def worst(self) -> Result:
        """Return the result of the seed with the most jobs that did not start."""
        return max(self.results, key=lambda result: result.stranded)

    @property
    def stops(self) -> Counter[Stop]:
        """Count runs that were stopped before their end, over all seeds that were computed."""
        return sum((Counter(result.stops) for result in self.results[: None if self.drawn else 1]), Counter())


def summary(policy: str, seeds: Sequence[int], results: Sequence[Result], *, drawn: bool = True) -> Report:
    rows = [asdict(result.metrics) for result in results]
    figures = {name: _figure([row[name] for row in rows]) for name in UNITS}
    return Report(policy, list(seeds), figures, list(results), drawn)


def readable(report: Report, resource: str) -> list[tuple[str, str, str, str]]:
    """Return name, mean, standard deviation and unit of each metric in readable form, or `-`."""

    def row(name: str, figure: Figure) -> tuple[str, str, str, str]:
        size, unit = scale(UNITS[name], figure.mean or 0.0, resource)
        mean, std = (_number(value, size) for value in (figure.mean, figure.std))
        return name, mean, std, unit if figure.mean is not None else ""

    return [row(name, figure) for name, figure in report.metrics.items()]


def compared(first: Report, second: Report, resource: str) -> list[tuple[str, str, str, str, str]]:
    """Return name, both means, unit and change of each metric that two replays of one trace have."""
    rows = []
    for name, figure in first.metrics.items():
        before, after = figure.mean, second.metrics[name].mean
        if before is None and after is None:
            continue
        size, unit = scale(UNITS[name], max(before or 0.0, after or 0.0), resource)
        change = "" if not before or after is None else f"{(after - before) / before:+.1%}".replace("%", " %")
        change = "same" if before == after else change
        rows.append((name, _number(before, size), _number(after, size), unit, change))
    return rows


def headline(trace: Trace, survey: Survey, load: float | None, report: Report) -> str:
    """Return what was replayed: `28,481 jobs on 1 node, 100 CPUs, offered load 0.686`."""
    total = capacity(trace.nodes, trace.resource)
    jobs = _counted(survey.jobs, "job")
    if (drawn := report.results[0].submitted) != survey.jobs:  # drawn to reach the load
        jobs = f"{_counted(drawn, 'job')} drawn from {survey.jobs:,}"
    offered = survey.offered(total) if load is None else load
    said = f", offered load {offered:.3f}" if isfinite(offered) else ""  # infinite if all arrive at once
    nodes = _counted(len(trace.nodes), "node")
    return f"{jobs} on {nodes}, {total / WHOLE:,g} {pieces(trace.resource)}{said}"


def left_out(survey: Survey, report: Report) -> Iterator[str]:
    """Yield what no figure counts, and what stopped runs."""
    tally = survey.tally
    for reason, count in sorted(tally.filtered.items()):
        yield f"left out: {count} × {reason}"
    if tally.bad:
        yield f"left out: {tally.bad} × unreadable; the first: {tally.first_bad}"
    if worst := report.worst.stranded:
        yield f"never started: {worst:,} of {report.worst.submitted:,}; they are not in the means"
        yield from (f"  {why}" for why in report.worst.why)
    stopped = [f"{count} × {why.value}" for why, count in report.stops.items() if why.value != "preempted"]
    if stopped:
        yield f"stopped and restarted: {', '.join(sorted(stopped))}"
    if len(report.seeds) > 1 and not report.drawn:
        yield "this replay draws no random numbers, so all seeds have the same result"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _number(value: float | None, size: float) -> str:
    return "-" if value is None else f"{value / size:,.4f}".rstrip("0").rstrip(".")


def _figure(values: list[float | None]) -> Figure:
    known = [value for value in values if value is not None]
    if not known:
        return Figure(None, None, values)
    return Figure(fmean(known), stdev(known) if len(known) > 1 else 0.0, values)
