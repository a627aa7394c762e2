"""What the program of a pod reports about its training, and the rules by which a report is judged.

A report is one line, such as `step=1200 loss=0.31`. On a pod (`muster.dev/progress`) it also has the median
of earlier losses, and the time of the first report of this step: `… median=0.3 at=2026-01-31T12:00:00Z`. A
program may also report the time that is left, `left=25m`.
Rules are one line on a Job or JobSet (`muster.dev/progress-rules`): `stalledAfter=15m lossFinite=true
lossFactor=3 action=notify`. Fields are separated by spaces or commas.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from typing import Final

from muster.api import duration, times
from muster.api.natural import natural

#: Characters of a report and of rules at most.
LONGEST: Final = 256
#: What muster may do with a job whose reports break a rule; the first is the default.
ACTIONS: Final = ("notify", "checkpointAndMove", "none")
#: Most earlier losses of which the median is computed, and the fewest.
REMEMBERED: Final = 100
_FEWEST: Final = 5
_MOST_STEPS: Final = 10**18
_RULES: Final = ("stalledAfter", "lossFinite", "lossFactor", "action")


@dataclass(frozen=True, slots=True)
class Report:
    step: int
    #: may be NaN or infinite
    loss: float | None = None
    #: of earlier losses
    median: float | None = None
    #: time of the first report of this step
    at: datetime | None = None
    #: seconds until the program expects to end
    left: int | None = None

    def __str__(self) -> str:
        told = {"step": self.step, "loss": self.loss, "median": self.median}
        words = [f"{field}={value}" for field, value in told.items() if value is not None]
        if self.left is not None:
            words.append(f"left={duration.show(self.left)}")
        if self.at is not None:
            words.append(f"at={times.written(self.at)}")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Rules:
    """When a report counts as wrong. None or False: the job does not have this rule."""

    #: seconds without a new step
    stalled_after: int | None = None
    #: whether every loss has to be a finite number
    loss_finite: bool = False
    #: a loss may be at most this many times the median of earlier losses
    loss_factor: float | None = None
    action: str = ACTIONS[0]

    def __str__(self) -> str:
        words = [f"action={self.action}"]
        if self.loss_factor is not None:
            words.insert(0, f"lossFactor={self.loss_factor:g}")
        if self.loss_finite:
            words.insert(0, "lossFinite=true")
        if self.stalled_after is not None:
            words.insert(0, f"stalledAfter={duration.show(self.stalled_after)}")
        return " ".join(words)


def report(text: str) -> Report | None:
    """The report in a line; None if the line has no step, or a known field that cannot be read."""
    try:
        said = _fields(text)
        step = natural(said["step"], _MOST_STEPS)
        at = times.read(said["at"]) if "at" in said else None
        loss, middle = (float(said[each]) if each in said else None for each in ("loss", "median"))
    except (KeyError, OverflowError, ValueError):
        return None
    return Report(step, loss, middle, at, _left(said.get("left"))) if step is not None else None


def _left(text: str | None) -> int | None:
    """The time left. One that cannot be read is ignored: the rules judge by the other fields."""
    try:
        return duration.parse(text) if text is not None else None
    except ValueError:
        return None


def last(lines: Sequence[str]) -> Report | None:
    """The last report of a program's lines, with the median of the finite losses before it."""
    reports = [each for line in lines if (each := report(line)) is not None]
    if not reports:
        return None
    losses = [each.loss for each in reports[:-1] if each.loss is not None and math.isfinite(each.loss)]
    newest = losses[-REMEMBERED:]
    middle = float(f"{median(newest):.6g}") if len(newest) >= _FEWEST else None
    return replace(reports[-1], median=middle, at=None)


def rules(text: str) -> Rules:
    """The rules of a line. Raises ValueError, whose message says what to write instead."""
    said = _fields(text)
    if unknown := sorted(said.keys() - set(_RULES)):
        raise ValueError(f"there is no rule {unknown[0]!r}; rules: {', '.join(_RULES)}")
    finite, action = said.get("lossFinite", "false"), said.get("action", ACTIONS[0])
    if finite not in ("true", "false"):
        raise ValueError(f"lossFinite is {finite!r}; write true or false")
    if action not in ACTIONS:
        raise ValueError(f"action is {action!r}; write {', '.join(ACTIONS[:-1])} or {ACTIONS[-1]}")
    stalled = duration.parse(said["stalledAfter"]) if "stalledAfter" in said else None
    if stalled is not None and stalled < 1:
        raise ValueError("stalledAfter must be a time above 0, such as 15m")
    return Rules(stalled, finite == "true", _factor(said.get("lossFactor")), action)


def wrong_loss(rules: Rules, report: Report) -> tuple[str, str] | None:
    """The rule that the loss of a report breaks, as (reason, message); None if it breaks no rule."""
    loss, middle = report.loss, report.median
    if loss is None:
        return None
    if not math.isfinite(loss):
        return ("LossNotFinite", f"its loss is {loss}") if rules.loss_finite else None
    if rules.loss_factor is None or middle is None or not 0 < middle < math.inf:
        return None  # NaN fails both comparisons
    if loss <= rules.loss_factor * middle:
        return None
    factor = f"{rules.loss_factor:g}"
    told = f"its loss is {loss:g}, more than {factor} times the median of earlier losses, {middle:g}"
    return "LossTooHigh", told


def _factor(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1 < factor <= 1e9:
        raise ValueError(f"lossFactor is {text!r}; write a number above 1, such as 3")
    return factor


def _fields(text: str) -> dict[str, str]:
    if len(text) > LONGEST:
        raise ValueError(f"is longer than {LONGEST} characters")
    words = text.replace(",", " ").split()
    pairs = [word.partition("=") for word in words]
    for word, (_, equals, _) in zip(words, pairs, strict=True):
        if not equals:
            raise ValueError(f"{word!r} is not FIELD=VALUE")
    return {name: value for name, _, value in pairs}
