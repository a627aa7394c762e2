"""One figure: what was published, what comes out here, and how near it should be."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final


@dataclass(frozen=True, slots=True)
class Figure:
    #: what is measured, and its unit; figures of one table stand together
    table: str
    name: str
    #: None: there is nothing in print
    published: float | None
    #: one per seed
    ours: Sequence[float]
    #: how far off it may be; None: no goal
    within: float | None = None
    #: the least that it should be, where nothing is in print
    least: float | None = None

    @property
    def mean(self) -> float:
        return fmean(self.ours)

    @property
    def difference(self) -> float | None:
        return None if self.published is None else self.mean - self.published

    @property
    def missed(self) -> bool:
        if self.within is not None and self.difference is not None:
            return abs(self.difference) > self.within
        return self.least is not None and self.mean <= self.least

    @property
    def goal(self) -> str:
        if self.within is not None:
            text = f"±{self.within:g}"
        elif self.least is not None:
            text = f"> {self.least:g}"
        else:
            return ""
        return f"{text} {'missed' if self.missed else 'met'}"


HEADINGS: Final = ("", "published", "ours", "std", "difference", "goal")


def row(figure: Figure) -> tuple[str, ...]:
    """Cells under HEADINGS."""
    published, difference = figure.published, figure.difference
    return (
        figure.name,
        "" if published is None else f"{published:.2f}",
        f"{figure.mean:.2f}",
        f"{stdev(figure.ours):.2f}" if len(figure.ours) > 1 else "",
        "" if difference is None else f"{difference:+.2f}",
        figure.goal,
    )
