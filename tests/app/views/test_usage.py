"""How use, waits and preemptions are added up."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.base import ObjectMeta
from muster.api.muster_v1alpha1 import Preemption, PreemptionSpec
from muster.api.rates import Rates
from muster.app.views.usage import BY, Owner, Use, Waited, added_up, priced, summary, weeks

ANN = Owner("team-a", "ml", "ann@pc", "train-1", "1")
BOB = Owner("team-b", "ml", "bob@pc", "sweep-1", "2")
#: a Sunday, an hour before the week ends
SUNDAY = datetime(2026, 3, 1, 23, tzinfo=UTC).timestamp()
HOUR = 3600.0
PRICES = Rates({"gpu": Decimal(3), "cpu": Decimal("0.5")})


def test_a_run_counts_in_each_week_for_its_time_there() -> None:
    use = Use(ANN, SUNDAY, SUNDAY + 3 * HOUR, gpus=2, cpus=4)
    first, second = added_up((), [use], [Waited(ANN, SUNDAY - HOUR, HOUR)], PRICES)
    assert (first.week, first.used_gpu_hours, first.waited) == ("2026-W10", Decimal(4), 0.0)
    assert (second.week, second.used_gpu_hours, second.waited) == ("2026-W09", Decimal(2), HOUR)
    assert priced(first, PRICES) == Decimal("16.00")
    assert summary(first, PRICES) == {
        "week": "2026-W10",
        "queue": "team-a",
        "namespace": "ml",
        "jobs": 1,
        "gpuHours": "4",
        "cpuHours": "8",
        "cost": "16.00",
        "waitedSeconds": 0,
        "preemptions": 0,
        "gpuHoursLost": "0",
        "costLost": None,
        "unpriced": 0,
    }


def test_use_without_a_price_has_no_cost() -> None:
    known = Rates({"A100": Decimal(3)})
    for use, rates, cost in (
        (Use(ANN, SUNDAY, SUNDAY + 1, gpus=1, product="L4"), known, None),
        (Use(ANN, SUNDAY, SUNDAY + HOUR, gpus=1, product="A100"), known, Decimal("3.00")),
        (Use(ANN, SUNDAY, SUNDAY + HOUR, gpus=1), known, Decimal("3.00")),
        (Use(ANN, SUNDAY, SUNDAY + HOUR, cpus=1), known, Decimal("0.00")),
        (Use(ANN, SUNDAY, SUNDAY + HOUR, cpus=1), Rates(), None),
    ):
        [line] = added_up((), [use], (), rates)
        assert priced(line, rates) == cost


@pytest.mark.parametrize(
    ("by", "lines"),
    [
        (["queue"], [("team-a", 2), ("team-b", 1)]),
        (["user", "job"], [("", 2), ("", 1)]),
        ([], [("", 3)]),
    ],
)
def test_it_is_added_up_by_what_is_asked(by: Sequence[str], lines: list[tuple[str, int]]) -> None:
    uses = [Use(ANN, SUNDAY, SUNDAY + HOUR, gpus=2), Use(BOB, SUNDAY, SUNDAY + HOUR, gpus=1)]
    found = added_up((), uses, by=by)
    assert sorted((each.queue, int(each.used_gpu_hours)) for each in found) == sorted(lines)


def test_a_preemption_is_that_of_the_job_s_user() -> None:
    at = datetime.fromtimestamp(SUNDAY, UTC)
    spec = PreemptionSpec(job="JobSet train-1", queue="team-a", at=at, gpu_hours_lost="1.5")
    record = Preemption(metadata=ObjectMeta(name="x", namespace="ml"), spec=spec)
    [line] = added_up([record], [Use(ANN, SUNDAY, SUNDAY + HOUR, gpus=2)], by=BY)
    assert (line.user, line.job, line.preemptions, line.gpu_hours) == ("ann@pc", "train-1", 1, Decimal("1.5"))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([ANN, BOB]),
            st.integers(0, 10**9),
            st.integers(0, 10**7),
            st.integers(0, 8),
        ),
        max_size=6,
    ),
    st.sets(st.sampled_from(BY)),
)
def test_whatever_it_is_added_up_by_the_sum_is_the_same(
    held: list[tuple[Owner, int, int, int]], by: set[str]
) -> None:
    uses = [Use(owner, begin, begin + span, gpus=gpus) for owner, begin, span, gpus in held if begin]
    waits = [Waited(use.owner, use.begin, use.end - use.begin) for use in uses]
    found = added_up((), uses, waits, PRICES, [each for each in BY if each in by])
    seconds = sum(int((use.end - use.begin) * use.gpus) for use in uses)
    assert abs(sum(each.used_gpu_hours for each in found) - Decimal(seconds) / 3600) < Decimal("1e-9")
    assert abs(sum(each.waited for each in found) - sum(wait.seconds for wait in waits)) < 1e-3
    for use in uses:
        parts = [*weeks(use.begin, use.end)]
        assert len({week for week, _ in parts}) == len(parts)
        assert all(0 < part <= 7 * 24 * HOUR for _, part in parts)


@pytest.mark.parametrize(("begin", "end"), [(5.0, 5.0), (6.0, 5.0), (-1e14, 1e14), (0.0, 1e300)])
def test_what_is_no_time_is_in_no_week(begin: float, end: float) -> None:
    assert [*weeks(begin, end)] == []
