"""The figures of an experiment, over its seeds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev

from muster.sim.history import History
from muster.sim.metrics import UNITS, Metrics, Stop
from muster.sim.units import scale


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


def _number(value: float | None, size: float) -> str:
    return "-" if value is None else f"{value / size:,.4f}".rstrip("0").rstrip(".")


def _figure(values: list[float | None]) -> Figure:
    known = [value for value in values if value is not None]
    if not known:
        return Figure(None, None, values)
    return Figure(fmean(known), stdev(known) if len(known) > 1 else 0.0, values)
