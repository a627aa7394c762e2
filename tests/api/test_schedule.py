"""When schedules fire, also where clocks change."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.schedule import InvalidSchedule, Schedule

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


NEXT: list[tuple[str, str, str]] = [
    ("0 2 * * *", "2026-01-01T01:59:59", "2026-01-01T02:00:00"),
    ("0 2 * * *", "2026-01-01T02:00:00", "2026-01-02T02:00:00"),
    ("@hourly", "2026-01-01T02:30:00", "2026-01-01T03:00:00"),
    ("@weekly", "2026-01-01T00:00:00", "2026-01-04T00:00:00"),
    ("0 0 ? * 1", "2026-01-01T00:00:00", "2026-01-05T00:00:00"),
    ("*/15 9-17 * * 1-5", "2026-01-02T17:50:00", "2026-01-05T09:00:00"),
    ("0 0 1 * 1", "2026-01-02T00:00:00", "2026-01-05T00:00:00"),  # day of month or day of week
    ("0 3 * * 0", "2026-01-01T00:00:00", "2026-01-04T03:00:00"),
    ("*-5 0 * * *", "2026-01-01T00:00:30", "2026-01-01T00:01:00"),
    (",+1,,2 0 * * *", "2026-01-01T00:00:00", "2026-01-01T00:01:00"),
    ("?/5 * ? * ?", "2026-01-01T00:01:00", "2026-01-01T00:05:00"),
    ("0 3 ? jan Sun-MON", "2026-01-01T00:00:00", "2026-01-04T03:00:00"),
    ("@every 1h30m", "2026-01-01T00:10:00", "2026-01-01T01:40:00"),
    ("@every 0.5h", "2026-01-01T00:10:00", "2026-01-01T00:40:00"),
    ("@every 10ms", "2026-01-01T00:10:00", "2026-01-01T00:10:01"),
]


@pytest.mark.parametrize(("expression", "after", "following"), NEXT)
def test_the_next_time(expression: str, after: str, following: str) -> None:
    assert Schedule(expression).next(at(after)) == at(following)


def test_a_time_zone_moves_with_its_clocks() -> None:
    schedule = Schedule("30 2 * * *", "Europe/Berlin")
    gap = datetime(2026, 3, 28, 12, tzinfo=BERLIN)
    assert schedule.next(gap) == datetime(2026, 3, 29, 3, 0, tzinfo=BERLIN)
    fold = datetime(2026, 10, 24, 12, tzinfo=BERLIN)
    first = schedule.next(fold)
    assert first == at("2026-10-25T00:30:00")
    assert schedule.next(first) == datetime(2026, 10, 26, 2, 30, tzinfo=BERLIN)


INVALID = [
    ("0 0 31 2 *", "", "day"),
    ("* * * * * *", "", "6 fields"),
    ("@often", "", "@hourly"),
    ("TZ=UTC 0 2 * * *", "", "timeZone"),
    ("60 * * * *", "", "minute"),
    ("0 0 L * *", "", "'L' is no field"),
    ("0 0 * * 5L", "", "'5L' is no field"),
    ("0 0 * * 1#2", "", "no field"),
    ("0 0 15W * *", "", "no field"),
    ("@every", "", "@every 1h30m"),
    ("@every 2d", "", "@every 1h30m"),
    ("@every", "", "@every 1h30m"),
    ("0 3 * * 7", "", "Sunday is 0 or SUN"),
    ("0 3 * * 1,5-7/2", "", "Sunday is 0 or SUN"),
    (" @hourly", "", "@every 1h30m"),
    ("0 0 30 2 *", "", "a day that never comes"),
    ("@every 1.2.3h", "", "@every 1h30m"),
    ("0 2 * * *", "LOCAL", "not supported"),
    ("0 2 * * *", "Mars/Olympus", "timeZone"),
    ("0 2 * * *", "../../etc/passwd", "timeZone"),
    ("0 2 * * *", "Local", "not supported"),
    ("*" * 1000, "", "the most is 256"),
]


@pytest.mark.parametrize(("expression", "zone", "message"), INVALID)
def test_an_invalid_schedule_is_refused_with_the_reason(expression: str, zone: str, message: str) -> None:
    with pytest.raises(InvalidSchedule, match=message):
        Schedule(expression, zone)


MOMENTS = st.integers(0, 2 * 365 * 24 * 60).map(
    lambda minutes: at("2025-01-01T00:00:00") + timedelta(minutes=minutes)
)


@given(
    expression=st.sampled_from(["*/5 * * * *", "0 2 * * *", "30 2 * * 1-5", "0 0 1 * *"]),
    zone=st.sampled_from(["", "Europe/Berlin", "America/New_York"]),
    until=MOMENTS,
    span=st.integers(1, 10_000),
)
def test_the_latest_missed_time_is_found_as_by_counting(
    expression: str, zone: str, until: datetime, span: int
) -> None:
    schedule = Schedule(expression, zone)
    after = until - timedelta(minutes=span)
    counted, found = after, None
    while (counted := schedule.next(counted)) <= until:
        found = counted
    assert schedule.latest(until, after) == found


@given(st.text(max_size=30), st.text(max_size=20))
def test_any_text_is_a_schedule_or_an_error(expression: str, zone: str) -> None:
    with suppress(InvalidSchedule):
        Schedule(expression, zone).next(at("2026-01-01T00:00:00"))


def test_an_interval_counts_from_the_last_run() -> None:
    schedule = Schedule("@every 1h")
    since = at("2026-01-01T00:10:00")
    assert schedule.next(at("2026-01-01T02:00:00"), since) == at("2026-01-01T02:10:00")
    assert schedule.latest(at("2026-01-01T02:00:00"), since) == at("2026-01-01T01:10:00")
    assert schedule.latest(at("2026-01-01T01:10:00"), since) == at("2026-01-01T01:10:00")
    assert schedule.latest(at("2026-01-01T01:09:59"), since) is None
