"""Reports of programs about their training, and the rules by which they are judged."""

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api import progress
from muster.api.progress import Report, Rules
from muster.api.times import FIRST, LAST

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)

REPORTS = {
    "step=12": Report(12),
    "step=12 loss=0.5": Report(12, 0.5),
    "epoch=3, step=12, loss=0.5": Report(12, 0.5),
    "step=0 loss=inf": Report(0, math.inf),
    "step=12 left=1h30m": Report(12, left=5400),
    "step=12 left=soon": Report(12),
    "step=12 loss=0.5 median=0.4 at=2026-01-31T13:00:00+01:00": Report(12, 0.5, 0.4, NOON),
    "step=12 at=2026-01-31T12:00:00": Report(12, at=NOON),
    "": None,
    "loss=0.5": None,
    "step=-1": None,
    "step=1.5": None,
    "step=" + "9" * 30: None,
    "step=12 loss=low": None,
    "step=12 at=noon": None,
    "step=12 at=0001-01-01T00:00:00+14:00": Report(12, at=FIRST),
    "step=12 and more": None,
    "step=12 " + "x=y " * 100: None,
}


@pytest.mark.parametrize(("line", "expected"), REPORTS.items())
def test_reports(line: str, expected: Report | None) -> None:
    assert progress.report(line) == expected


@given(st.text(max_size=300))
def test_no_text_harms_a_reader(line: str) -> None:
    progress.report(line)
    progress.last(line.split("\n"))


@given(
    st.integers(0, 10**18),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.floats(allow_nan=False),
    st.none() | st.datetimes(FIRST.replace(tzinfo=None), LAST.replace(tzinfo=None), timezones=st.just(UTC)),
)
def test_a_progress_report_is_read_back_as_it_was_written(
    step: int, loss: float | None, middle: float | None, at: datetime | None
) -> None:
    told = Report(step, loss, middle, at)
    assert progress.report(str(told)) == told


def test_the_median_is_that_of_the_finite_losses_before_the_last_report() -> None:
    lines = [f"step={step} loss={loss}" for step, loss in enumerate([9, 1, 3, "nan", "inf", 2, 4, 100])]
    assert progress.last(lines) == Report(7, 100.0, 3.0)
    assert progress.last(lines[:5]) == Report(4, math.inf), "three losses are too few"
    assert progress.last(["", "no report"]) is None


RULES = {
    "": Rules(),
    "stalledAfter=15m lossFinite=true lossFactor=3 action=checkpointAndMove": Rules(
        900, True, 3.0, "checkpointAndMove"
    ),
    "lossFactor=1.5,action=none": Rules(None, False, 1.5, "none"),
}


@pytest.mark.parametrize(("line", "expected"), RULES.items())
def test_rules(line: str, expected: Rules) -> None:
    assert progress.rules(line) == expected
    assert progress.rules(str(expected)) == expected


WRONG = {
    "stalled=15m": "there is no rule 'stalled'; rules: stalledAfter",
    "stalledAfter=soon": "write for example 90s",
    "stalledAfter=0s": "above 0",
    "lossFinite=yes": "write true or false",
    "lossFactor=1": "above 1",
    "lossFactor=nan": "above 1",
    "lossFactor=inf": "above 1",
    "lossFactor=three": "above 1",
    "action=restart": "write notify, checkpointAndMove or none",
    "15m": "'15m' is not FIELD=VALUE",
    "x" * 300: "longer than 256",
}


@pytest.mark.parametrize(("line", "told"), WRONG.items())
def test_wrong_rules_say_what_to_write(line: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        progress.rules(line)


ALL = Rules(None, True, 3.0)
LOSSES = {
    "no loss": (ALL, Report(1), None),
    "fine": (ALL, Report(1, 1.5, 0.5), None),
    "not a number": (ALL, Report(1, math.nan, 0.3), "LossNotFinite"),
    "infinite": (ALL, Report(1, -math.inf), "LossNotFinite"),
    "too high": (ALL, Report(1, 1.51, 0.5), "LossTooHigh"),
    "no median yet": (ALL, Report(1, 99.0), None),
    "a median that says nothing": (ALL, Report(1, 99.0, math.nan), None),
    "a median below zero": (ALL, Report(1, 99.0, -1.0), None),
    "not finite, and no such rule": (Rules(None, False, 3.0), Report(1, math.nan, 0.3), None),
    "high, and no such rule": (Rules(900, True), Report(1, 99.0, 0.3), None),
}


@pytest.mark.parametrize(("rules", "report", "expected"), LOSSES.values(), ids=LOSSES)
def test_losses(rules: Rules, report: Report, expected: str | None) -> None:
    found = progress.wrong_loss(rules, report)
    assert (found and found[0]) == expected
