"""The figures of an experiment, over its seeds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, stdev

from muster.sim.history import History
from muster.sim.metrics import NAMES, Metrics, Stop


@dataclass(frozen=True, slots=True)
class Figure:
    """One metric over all seeds; `std` is the sample's, 0 for one seed."""

    mean: float | None
    std: float | None
    per_seed: list[float | None]


@dataclass(frozen=True, slots=True)
class Result:
    """What came out for one seed."""

    metrics: Metrics
    #: jobs that came, and of those the ones that were dropped or never started
    submitted: int = 0
    stranded: int = 0
    #: runs that were stopped before theirs, by why
    stops: Mapping[Stop, int] = field(default_factory=dict)
    #: if it was asked for
    history: History | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What `muster replay` and `muster.replay` give; `metrics` by name, with the units of `metrics.py`."""

    policy: str
    seeds: list[int]
    metrics: dict[str, Figure]
    #: one for each seed, in their order
    results: list[Result]
    #: whether the seeds made a difference
    drawn: bool = False

    @property
    def worst(self) -> Result:
        """Of the seed under which most jobs did not start."""
        return max(self.results, key=lambda result: result.stranded)

    @property
    def stops(self) -> Counter[Stop]:
        """Runs that were stopped before their end, over all seeds that were computed."""
        return sum((Counter(result.stops) for result in self.results[: None if self.drawn else 1]), Counter())


def summary(policy: str, seeds: Sequence[int], results: Sequence[Result], *, drawn: bool = True) -> Report:
    rows = [asdict(result.metrics) for result in results]
    figures = {name: _figure([row[name] for row in rows]) for name in NAMES}
    return Report(policy, list(seeds), figures, list(results), drawn)


def _figure(values: list[float | None]) -> Figure:
    known = [value for value in values if value is not None]
    if not known:
        return Figure(None, None, values)
    return Figure(fmean(known), stdev(known) if len(known) > 1 else 0.0, values)
